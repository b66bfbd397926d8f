//! The status of an instance that is being deleted. The author's own fields are kept.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use kross_api::{
    ClusterId, Condition, ConditionSet, ConditionStatus, ConditionType, FINALIZER, InstanceState,
    ManagedResource, ObjectKey, Operation, Reason, ResourceState, whole_seconds,
};
use kross_graph::Graph;
use kross_value::Value;

use super::without_plan::{has_author_conditions, last_conditions};
use super::{MANAGED, bounded, cluster_status, resources, set_unknown, since, wire};
use crate::deletion::{DeletionPlan, PendingDeletion, Wait};
use crate::instance::Instance;
use crate::lifecycle::is_hook;
use crate::plan::{Plan, UsedCluster};

/// How many objects that are being deleted are listed.
const LISTED: usize = 20;

/// The progress of a deletion.
#[derive(Clone, Copy, Debug)]
pub struct DeletionProgress<'a> {
    /// What is deleted and what the deletion waits for.
    pub plan: &'a DeletionPlan,
    /// The plan of the deletion hooks, where there is a graph.
    pub hooks: Option<&'a Plan>,
    /// The remote clusters that have objects.
    pub clusters: &'a [UsedCluster],
}

impl DeletionProgress<'_> {
    /// The name of an object's cluster; none for the local one.
    fn display(&self, key: &ObjectKey) -> Option<String> {
        let used = self.clusters.iter().find(|used| used.id == key.cluster);
        used.map(|used| used.reference.display.clone())
    }

    /// How many objects still exist in each cluster.
    fn remaining_by_cluster(&self) -> HashMap<&ClusterId, usize> {
        let DeletionPlan { delete, release, waiting, .. } = self.plan;
        // An object whose deletion failed is also waited for.
        let failed: HashSet<&ObjectKey> = waiting.iter().map(|(pending, _)| &pending.key).collect();
        let deleted = delete.iter().filter(|pending| !failed.contains(&pending.key));
        let awaited = waiting.iter().map(|(pending, _)| pending);
        let mut remaining = HashMap::new();
        for pending in deleted.chain(release).chain(awaited) {
            *remaining.entry(&pending.key.cluster).or_default() += 1;
        }
        remaining
    }

    /// The entries of the hooks that are not being deleted themselves.
    fn hook_entries(&self, graph: Option<&Graph>) -> Vec<ManagedResource> {
        let is_hook =
            |id: &str| graph.and_then(|graph| graph.find(id)).is_some_and(|(_, node)| is_hook(node));
        let is_deleted = |entry: &ManagedResource| {
            let is_same = |pending: &PendingDeletion| {
                pending.node == *entry.id.as_str() && entry.name.as_deref() == Some(&pending.key.name)
            };
            let waits = self
                .plan
                .waiting
                .iter()
                .filter(|(_, wait)| !matches!(wait, Wait::Dependents | Wait::Hook(_)));
            self.plan
                .delete
                .iter()
                .chain(&self.plan.release)
                .chain(waits.map(|(pending, _)| pending))
                .any(is_same)
        };
        let entries = self.hooks.iter().flat_map(|plan| &plan.resources);
        entries
            .filter(|entry| is_hook(&entry.id) && entry.state != ResourceState::Skipped && !is_deleted(entry))
            .cloned()
            .collect()
    }

    fn entries(&self, graph: Option<&Graph>) -> Vec<ManagedResource> {
        let mut entries = self.hook_entries(graph);
        let known: Vec<(String, Option<String>)> =
            entries.iter().map(|entry| (entry.id.clone(), entry.name.clone())).collect();
        let deleted = resources::deletion_entries(self.plan, LISTED, &|key| self.display(key));
        entries.extend(
            deleted.into_iter().filter(|entry| !known.contains(&(entry.id.clone(), entry.name.clone()))),
        );
        entries
    }

    /// Sets the conditions about clusters, where the instance has them.
    fn set_conditions(&self, set: &mut ConditionSet, message: &str, now: Timestamp) {
        if set.get(ConditionType::RemoteClusterConnected).is_none() {
            return;
        }
        let remaining = self.remaining_by_cluster();
        let mut in_use = self.clusters.iter().filter(|used| remaining.contains_key(&used.id));
        match in_use.find_map(|used| Some((used, used.unavailable()?))) {
            Some((used, unavailable)) => {
                let message = unavailable.failure().map_or_else(String::new, since);
                let message = format!("deletion is blocked: {message}");
                let reason = cluster_status::reason(used);
                if unresolved(set) {
                    set.set_false(ConditionType::ClusterResolved, reason, message.clone(), now);
                }
                set.set_false(ConditionType::RemoteClusterConnected, reason, message, now);
            }
            None => {
                if unresolved(set) {
                    set.set_true(
                        ConditionType::ClusterResolved,
                        Reason::Resolved,
                        cluster_status::RESOLVED,
                        now,
                    );
                }
                let message = "every cluster is connected";
                set.set_true(ConditionType::RemoteClusterConnected, Reason::Connected, message, now);
            }
        }
        set_unknown(set, ConditionType::RemoteResourcesReady, Reason::UnderDeletion, message, now);
    }
}

/// Whether a cluster reference was reported as not resolved.
fn unresolved(set: &ConditionSet) -> bool {
    set.get(ConditionType::ClusterResolved)
        .is_some_and(|condition| condition.status == ConditionStatus::False)
}

/// The status of an instance that is being deleted, with or without a graph.
#[must_use]
pub fn deletion_status(
    graph: Option<&Graph>,
    instance: &Value,
    progress: &DeletionProgress<'_>,
    now: Timestamp,
) -> Value {
    let instance = Instance::of(instance);
    let entries = resources::with_times(progress.entries(graph), &instance.resources(), &whole_seconds(now));
    let entries = resources::shortened(entries);
    let message = message(progress);
    let mut status =
        deleting(graph, instance, &message, now, |set| progress.set_conditions(set, &message, now));
    let is_authors = |field: &str| graph.is_some_and(|graph| graph.status.get(field).is_some());
    let Some(fields) = status.as_object_mut() else { return status };
    if !is_authors("managedResources") {
        fields.insert("managedResources", wire(&entries));
    }
    if !is_authors("clusters") && !progress.clusters.is_empty() {
        let remaining = progress.remaining_by_cluster();
        let remaining = |used: &UsedCluster| remaining.get(&used.id).copied().unwrap_or_default();
        // They are sorted by UID; people look for names.
        let mut clusters: Vec<&UsedCluster> = progress.clusters.iter().collect();
        clusters.sort_by(|a, b| a.reference.display.cmp(&b.reference.display));
        let entries = clusters.iter().map(|used| (cluster_status::entry(used, (0, remaining(used))), false));
        let entries = cluster_status::stable(entries, &instance.clusters());
        fields.insert("clusters", wire(&entries));
    }
    status
}

/// The status of an instance whose deletion cannot start, such as one with an invalid inventory.
#[must_use]
pub fn blocked_deletion_status(graph: Option<&Graph>, instance: &Value, why: &str, now: Timestamp) -> Value {
    deleting(graph, Instance::of(instance), &format!("deletion blocked: {why}"), now, |_| ())
}

fn deleting(
    graph: Option<&Graph>,
    instance: Instance<'_>,
    message: &str,
    now: Timestamp,
    more: impl FnOnce(&mut ConditionSet),
) -> Value {
    let mut status = instance.raw_status();
    status.insert("state", Value::from(InstanceState::Deleting.as_str()));
    // The other conditions are kept as last reported: a deletion does not evaluate them.
    let mut set = last_conditions(instance, now);
    if is_unreported(&set, ConditionType::InstanceManaged) {
        set.set_true(ConditionType::InstanceManaged, Reason::Managed, MANAGED, now);
    }
    if is_unreported(&set, ConditionType::GraphResolved) {
        set_unknown(&mut set, ConditionType::GraphResolved, Reason::UnderDeletion, message, now);
    }
    set_unknown(&mut set, ConditionType::ResourcesReady, Reason::UnderDeletion, message, now);
    more(&mut set);
    let before = instance.conditions();
    let conditions =
        if has_author_conditions(graph, &before) { overlaid(&set, before) } else { wire(set.conditions()) };
    status.insert("conditions", conditions);
    Value::Object(status)
}

/// Whether a condition was never reported, as for an object of an existing kind, whose status belongs to somebody else.
fn is_unreported(set: &ConditionSet, kind: ConditionType) -> bool {
    let reason = set.get(kind).and_then(|condition| condition.reason.as_deref());
    reason == Some(Reason::AwaitingReconciliation.as_str())
}

/// The author's conditions as last reported, after the built-in `ResourcesReady`, which says what the deletion waits for.
fn overlaid(set: &ConditionSet, before: Vec<Condition>) -> Value {
    let resources = ConditionType::ResourcesReady;
    let rest = before.into_iter().filter(|condition| condition.type_ != resources.as_str());
    wire(&set.get(resources).cloned().into_iter().chain(rest).collect::<Vec<_>>())
}

/// What the deletion waits for: the most serious wait.
fn message(progress: &DeletionProgress<'_>) -> String {
    let plan = progress.plan;
    let weight = |wait: &Wait| match wait {
        Wait::Failed(_) => 4,
        Wait::Connection(_) => 3,
        Wait::Hook(_) | Wait::Until(_) => 2,
        Wait::Deletion(_) => 1,
        Wait::Dependents => 0,
    };
    let worst = plan
        .waiting
        .iter()
        .rev()
        .max_by_key(|(pending, wait)| (!pending.retained, weight(wait)))
        .filter(|(_, wait)| *wait != Wait::Dependents);
    let Some((pending, wait)) = worst else {
        return match plan.unfinished_hooks.first() {
            Some((id, why)) => {
                bounded(&format!("deleting resources: waiting for `{id}` to be ready: {why}"), 2_000)
            }
            None => "deleting resources".to_owned(),
        };
    };
    let place =
        progress.display(&pending.key).map_or_else(String::new, |cluster| format!(" in cluster `{cluster}`"));
    let object = format!("{} {}{place}", pending.key.kind, pending.key.namespaced_name());
    format!(
        "deleting resources: {object}: {}{}",
        resources::wait_message(pending, wait, 1_500),
        deletion_advice(pending, wait)
    )
}

/// What to do about a cluster that stays unreachable, where the lifecycle sets no limit.
fn deletion_advice(pending: &PendingDeletion, wait: &Wait) -> String {
    let Wait::Connection(failure) = wait else { return String::new() };
    // Where the owner has to decide, the failure's own advice says how.
    let undecided = failure.connection.as_ref().is_some_and(|failure| failure.advice.needs_decision());
    if undecided || pending.until.is_some() {
        return String::new();
    }
    let condition = match failure.operation {
        Some(Operation::Get) => "can be listed",
        _ => "is reachable",
    };
    format!(
        "; deletion resumes once the cluster {condition}; to force deletion, remove the finalizer `{FINALIZER}` (remote objects stay)"
    )
}
