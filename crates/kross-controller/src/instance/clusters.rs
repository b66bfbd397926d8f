//! The clusters that a graph names beside that of its instances. The controller reaches none of them so far; an instance
//! that needs one waits and is told why, instead of being told that somebody is dialling.

use jiff::Timestamp;
use kross_api::{FailureReason, SyncMode};
use kross_cluster::StoredObject;
use kross_plan::{ClusterState, Connection, Plan};
use kross_value::Value;

use super::observe::Sight;

const WHY: &str = "this version of the controller works in the cluster of the instance alone";

/// Notes every other cluster of a plan as not connected. Gives whether one of them is new.
pub(super) fn note_unreached(plan: &Plan, sight: &mut Sight, instance: &StoredObject) -> bool {
    let mut news = false;
    for used in plan.clusters.iter().filter(|used| used.state.is_none()) {
        let connection = Connection::NotConnected {
            since: created(instance),
            reason: FailureReason::Unreachable,
            message: WHY.into(),
            identity_changed: false,
        };
        let state = ClusterState {
            id: used.id.clone(),
            uid: None,
            unverified: true,
            mode: SyncMode::Watch,
            connection,
            succeeded: false,
            last_contact: None,
        };
        news |= sight.observed.clusters.insert(used.key.clone(), state).is_none();
    }
    news
}

/// When the instance came to be: the time from which it waits, the same in every pass.
fn created(instance: &StoredObject) -> Timestamp {
    let text = instance.value().at(&["metadata", "creationTimestamp"]).and_then(Value::as_str);
    text.and_then(|text| text.parse().ok()).unwrap_or(Timestamp::UNIX_EPOCH)
}
