//! The status of a target: its conditions from the state of its connection Secret, its connection and its deletion, and what is
//! known of its cluster.

use std::time::Duration;

use jiff::Timestamp;
use kross_api::{
    Condition, ConditionSet, ConditionStatus, ConditionType, KubernetesTargetSpec, KubernetesTargetStatus,
    ObjectFacts, Reason, TargetCluster,
};

use super::connection::copy_name;
use super::managed::{PropagationRefusal, SecretReference};

/// How many users a message names.
const MAX_USERS: usize = 5;

/// Which Secret a target uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetSecret<'a> {
    /// The user's own.
    Local(&'a str),
    /// The copy of the Secret of its managed resource.
    Copy,
}

/// Which Secret a target uses. A reference that equals the name of the copy is the controller's, whoever wrote it: managed fields
/// may be lost in a restore.
#[must_use]
pub fn target_secret<'a>(spec: &'a KubernetesTargetSpec, target: &str) -> TargetSecret<'a> {
    match &spec.connection_secret_ref {
        Some(secret) if spec.cluster_ref.is_none() || secret.name != copy_name(target) => {
            TargetSecret::Local(&secret.name)
        }
        Some(_) | None => TargetSecret::Copy,
    }
}

/// What was observed of a target.
#[derive(Clone, Debug)]
pub struct TargetObservation<'a> {
    /// Name of the target.
    pub name: &'a str,
    /// Whether the connection Secret is in the namespace.
    pub propagation: TargetPropagation,
    /// The connection to the cluster.
    pub connection: TargetConnection,
    /// Set if the target is being deleted.
    pub deletion: Option<TargetDeletion>,
}

/// Whether the connection Secret of a target is in its namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetPropagation {
    /// It is the user's own.
    Local,
    /// It was copied from this Secret.
    Propagated(SecretReference),
    /// It was not copied.
    Refused(PropagationRefusal),
    /// Not known yet: what was reported last stays.
    Unknown,
}

/// The connection of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetConnection {
    /// There is no connection Secret yet.
    NoSecret,
    /// The first attempt is running.
    Connecting,
    /// The cluster is connected.
    Connected {
        /// UID of the cluster, or the URL of its server.
        uid: String,
        /// Whether `uid` is the UID.
        verified: bool,
        /// Kubernetes version.
        version: Option<String>,
        /// Duration of a request.
        round_trip: Option<Duration>,
        /// Warnings about the connection Secret.
        warnings: Vec<String>,
        /// Whether the connection Secret is being deleted.
        deletions_only: bool,
    },
    /// The cluster is not connected.
    NotConnected {
        /// The reason of the condition.
        reason: Reason,
        /// Why not, and what to do.
        message: String,
    },
}

/// How far the deletion of a target is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetDeletion {
    /// It waits for these users: kind and name of each.
    InUse(Vec<String>),
    /// It cannot go on, for this reason.
    Blocked(String),
}

/// The status of a target, as it is to be written.
#[must_use]
pub fn plan_target_status(
    before: &KubernetesTargetStatus,
    facts: ObjectFacts,
    observed: &TargetObservation<'_>,
    now: Timestamp,
) -> KubernetesTargetStatus {
    let mut conditions =
        ConditionSet::new(ConditionType::TARGET.iter().copied(), facts, &before.conditions, now);
    set_propagated(&mut conditions, observed, now);
    set_reachable(&mut conditions, facts, observed, now);
    if let Some(deletion) = &observed.deletion {
        let (reason, message) = match deletion {
            TargetDeletion::InUse(users) => (Reason::InUse, in_use(observed.name, users)),
            TargetDeletion::Blocked(message) => (Reason::Deleting, message.clone()),
        };
        conditions.set_false(ConditionType::Ready, reason, message, now);
    }
    let cluster = cluster(before.cluster.as_ref(), &observed.connection);
    KubernetesTargetStatus { conditions: conditions.into_list(), cluster }
}

fn set_propagated(conditions: &mut ConditionSet, observed: &TargetObservation<'_>, now: Timestamp) {
    let kind = ConditionType::ConnectionSecretPropagated;
    if let TargetConnection::Connected { deletions_only: true, .. } = observed.connection {
        let message = "the connection Secret is being deleted; until then it serves deletions only";
        conditions.set_false(kind, Reason::Deleting, message, now);
        return;
    }
    match &observed.propagation {
        TargetPropagation::Local => conditions.set_true(kind, Reason::LocalSecret, "", now),
        TargetPropagation::Propagated(source) => {
            conditions.set_true(kind, Reason::Propagated, format!("copied from Secret `{source}`"), now)
        }
        TargetPropagation::Refused(refusal) => {
            conditions.set_false(kind, refusal.reason, refusal.message.as_str(), now)
        }
        TargetPropagation::Unknown => false,
    };
}

fn set_reachable(
    conditions: &mut ConditionSet,
    facts: ObjectFacts,
    observed: &TargetObservation<'_>,
    now: Timestamp,
) {
    let kind = ConditionType::Reachable;
    match &observed.connection {
        TargetConnection::NoSecret => {
            conditions.set_unknown(kind, Reason::NotReached, "there is no connection Secret yet", now);
        }
        TargetConnection::Connecting => {
            // After a restart of the controller the cluster is as reachable as it was.
            let is_known = |known: &Condition| {
                known.status != ConditionStatus::Unknown
                    && known.observed_generation.unwrap_or(0) == facts.generation
            };
            if !conditions.get(kind).is_some_and(is_known) {
                conditions.set_unknown(kind, Reason::NotConnected, "connecting to the cluster", now);
            }
        }
        TargetConnection::Connected { warnings, .. } => {
            conditions.set_true(kind, Reason::Connected, warnings.join("; "), now);
        }
        TargetConnection::NotConnected { reason, message } => {
            conditions.set_false(kind, *reason, message.as_str(), now);
        }
    }
}

/// What the message of a target says that is deleted and still used.
fn in_use(name: &str, users: &[String]) -> String {
    let named = users.iter().take(MAX_USERS).cloned().collect::<Vec<_>>().join(", ");
    let more = match users.len().saturating_sub(MAX_USERS) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "target `{name}` is not deleted while it is used by {named}{more}: they have objects in its cluster; delete them or move them to another target, or set the annotation `{}: \"true\"` on the target to give up their objects",
        kross_api::annotations::FORCE_DELETE
    )
}

/// What is known of the cluster: kept while it is not connected.
fn cluster(before: Option<&TargetCluster>, connection: &TargetConnection) -> Option<TargetCluster> {
    let TargetConnection::Connected { uid, verified, version, round_trip, .. } = connection else {
        return before.cloned();
    };
    let known = before.filter(|before| before.uid.as_deref() == Some(uid));
    let round_trip_before = known.and_then(|known| known.round_trip_time.clone());
    Some(TargetCluster {
        uid: Some(uid.clone()),
        unverified: (!verified).then_some(true),
        version: version.clone().or_else(|| known.and_then(|known| known.version.clone())),
        round_trip_time: round_trip_text(round_trip_before, *round_trip),
    })
}

/// The round-trip time in the status: it changes only when it has doubled or halved.
fn round_trip_text(before: Option<String>, now: Option<Duration>) -> Option<String> {
    let Some(now) = now.map(|now| now.as_millis().max(1)) else { return before };
    let known = before.as_deref().and_then(|text| text.strip_suffix("ms")?.parse::<u128>().ok());
    match known {
        Some(known) if now < known.saturating_mul(2) && now.saturating_mul(2) > known => before,
        Some(_) | None => Some(format!("{now}ms")),
    }
}

#[cfg(test)]
mod tests;
