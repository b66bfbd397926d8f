//! Reports in Events and in the log what was done to objects without a change of the instance: those that were repaired, and
//! those that were pruned or moved to another cluster.

use std::collections::HashMap;
use std::sync::Arc;

use kross_api::{EventReason, LifecyclePhase};
use kross_cluster::{ObjectKey, StoredObject};
use kross_plan::{PendingDeletion, Plan, PlannedObject};
use kross_value::Value;

use super::pass::Pass;
use super::release_report::{described, listed};
use crate::events;

/// The most fields of an object in a message.
const MAX_FIELDS: usize = 5;

/// An object that is about to be repaired.
pub(super) struct PendingRepair {
    /// The object, with its cluster.
    described: String,
    desired: Option<Value>,
    /// As somebody else left it; none if it was deleted.
    found: Option<Arc<StoredObject>>,
    /// Whether its fields may have values of a Secret.
    is_secret: bool,
}

impl Pass<'_> {
    /// The objects of these that are repaired, and not contested: those are reported otherwise.
    pub(super) fn pending_repairs<'p>(
        &self,
        plan: &Plan,
        objects: impl Iterator<Item = (bool, &'p PlannedObject)>,
    ) -> HashMap<ObjectKey, PendingRepair> {
        if self.phase != LifecyclePhase::Active {
            return HashMap::new();
        }
        let contested = &self.observation.observed.contested;
        let repaired =
            objects.filter(|(_, object)| self.is_repair(&object.key) && !contested.contains_key(&object.key));
        repaired
            .map(|(is_secret, object)| {
                let repair = PendingRepair {
                    described: described(&object.key, cluster_of(plan, &object.key)),
                    desired: object.desired.clone(),
                    found: self.observation.stored.get(&object.key).cloned(),
                    is_secret,
                };
                (object.key.clone(), repair)
            })
            .collect()
    }

    /// Reports that an object was repaired.
    pub(super) fn report_repaired(&self, repair: &PendingRepair, applied: &StoredObject) {
        let PendingRepair { described, desired, found, is_secret } = repair;
        let note = match found {
            None => format!("{described} was deleted and created again"),
            Some(found) => {
                let mut fields = Vec::new();
                if let (Some(desired), false) = (desired, *is_secret) {
                    changed(desired, Some(found.value()), Some(applied.value()), "", &mut fields);
                }
                let more = fields.len().saturating_sub(MAX_FIELDS);
                fields.truncate(MAX_FIELDS);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                match fields.as_slice() {
                    [] => format!("{described} was changed and applied again"),
                    fields => {
                        format!("{described} was changed (`{}`{more}) and applied again", fields.join("`, `"))
                    }
                }
            }
        };
        tracing::info!(instance = %self.key, what = note, "repaired object");
        events::emit(self.context, &*self.instance, EventReason::Repaired, "Reconcile", note);
    }

    /// Reports objects that were deleted because the plan does not desire them, or desires them in another cluster.
    pub(super) fn report_pruned(&self, plan: &Plan, deleted: &[PendingDeletion]) {
        let (mut pruned, mut moved) = (Vec::new(), Vec::new());
        for PendingDeletion { key, hook, .. } in deleted {
            let described = described(key, cluster_of(plan, key));
            match moved_to(plan, key) {
                _ if *hook => {}
                Some(place) => moved.push(format!("{described} was deleted: it is in {place} now")),
                None => pruned.push(described),
            }
        }
        self.report_deleted(EventReason::Moved, moved, "");
        self.report_deleted(
            EventReason::Pruned,
            pruned,
            " was deleted: the graph does not desire it any more",
        );
    }

    fn report_deleted(&self, reason: EventReason, objects: Vec<String>, why: &str) {
        for object in &objects {
            tracing::info!(instance = %self.key, object, %reason, "deleted object");
        }
        let mut objects = objects.into_iter();
        let Some(first) = objects.next() else { return };
        let note = listed(format!("{first}{why}"), objects);
        events::emit(self.context, &*self.instance, reason, "Reconcile", note);
    }
}

/// The name of an object's cluster; none in the hub.
fn cluster_of<'p>(plan: &'p Plan, key: &ObjectKey) -> Option<&'p str> {
    let used = plan.clusters.iter().find(|used| used.id == key.cluster);
    used.map(|used| used.reference.display.as_str())
}

/// Where a plan has an object of the same name in another cluster.
fn moved_to(plan: &Plan, key: &ObjectKey) -> Option<String> {
    let is_same = |object: &&PlannedObject| {
        let other = &object.key;
        other.cluster != key.cluster
            && (&other.group, &other.kind, &other.namespace, &other.name)
                == (&key.group, &key.kind, &key.namespace, &key.name)
    };
    let found = plan.nodes.iter().flat_map(|node| &node.objects).find(is_same)?;
    Some(
        cluster_of(plan, &found.key).map_or_else(|| "the hub".to_owned(), |name| format!("cluster `{name}`")),
    )
}

/// The desired fields that differ before and after an apply.
fn changed(
    desired: &Value,
    before: Option<&Value>,
    after: Option<&Value>,
    path: &str,
    fields: &mut Vec<String>,
) {
    match desired {
        Value::Object(desired) => {
            for (name, desired) in desired.iter() {
                let path = if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
                let part = |whole: Option<&Value>| whole.and_then(|whole| whole.get(name)).cloned();
                changed(desired, part(before).as_ref(), part(after).as_ref(), &path, fields);
            }
        }
        _ if before == after => {}
        _ => fields.push(path.to_owned()),
    }
}
