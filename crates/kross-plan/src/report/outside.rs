//! What instances say outside a plan: while they are suspended, while they are being deleted, and when there is no graph
//! to plan with. The author's own status fields stay as they were.

use std::cell::RefCell;

use jiff::Timestamp;
use kross_api::{
    Condition, ConditionSet, ConditionStatus, ConditionType, FINALIZER, InstanceState, ManagedResource,
    ObjectKey, Reason, ResourceState, whole_seconds,
};
use kross_cel::Budget;
use kross_cel::value::Value as CelValue;
use kross_graph::{Graph, Scope};
use kross_value::Value;

use super::{MANAGED, RESOLVED, author, bounded, clusters, resources, since, unknown, wire};
use crate::deletion::{DeletionPlan, PendingDeletion, Wait};
use crate::instance::Instance;
use crate::lifecycle::is_hook;
use crate::plan::{Plan, UsedCluster};

/// How many leaving objects are listed.
const LISTED: usize = 20;

/// The status of a suspended instance: state and fields stay.
#[must_use]
pub fn suspended_status(graph: &Graph, instance: &Value, now: Timestamp) -> Value {
    let instance = Instance::new(graph, instance);
    let mut set = living(instance, graph, now);
    let message = "reconciliation suspended via kro.run/reconcile annotation";
    set.set_false(ConditionType::ResourcesReady, Reason::ReconciliationSuspended, message, now);
    let mut status = instance.raw_status();
    status.insert("conditions", conditions(Some(graph), instance, &set, now));
    if status.get("state").is_none() {
        status.insert("state", Value::from(InstanceState::InProgress.as_str()));
    }
    Value::Object(status)
}

/// The status of an instance that cannot be planned for: `kind` is `InstanceManaged` or `GraphResolved`.
#[must_use]
pub fn failed_status(
    graph: Option<&Graph>,
    instance: &Value,
    kind: ConditionType,
    message: &str,
    now: Timestamp,
) -> Value {
    let held = instance.at(&["metadata", "finalizers"]).and_then(Value::as_list).unwrap_or_default();
    let held = held.iter().any(|finalizer| finalizer.as_str() == Some(FINALIZER));
    let instance = Instance::of(instance);
    let mut status = instance.raw_status();
    status.insert("state", Value::from(InstanceState::Error.as_str()));
    if !has_author_conditions(graph, &instance.conditions()) {
        let mut set = unplanned(instance, now);
        let reason = if kind == ConditionType::InstanceManaged {
            Reason::ManagementFailed
        } else {
            if held {
                set.set_true(ConditionType::InstanceManaged, Reason::Managed, MANAGED, now);
            }
            Reason::ResolutionFailed
        };
        set.set_false(kind, reason, message, now);
        status.insert("conditions", wire(set.conditions()));
    }
    Value::Object(status)
}

/// How far a deletion is.
#[derive(Clone, Copy, Debug)]
pub struct DeletionProgress<'a> {
    /// What goes and what is waited for.
    pub plan: &'a DeletionPlan,
    /// The plan of the nodes that exist for the deletion, where there is a graph.
    pub hooks: Option<&'a Plan>,
    /// The remote clusters that objects are in.
    pub clusters: &'a [UsedCluster],
}

impl DeletionProgress<'_> {
    /// The name of the cluster that an object is in; none for the local one.
    fn display(&self, key: &ObjectKey) -> Option<String> {
        let used = self.clusters.iter().find(|used| used.id == key.cluster);
        used.map(|used| used.reference.display.clone())
    }

    /// Everything that is still there.
    fn left(&self) -> impl Iterator<Item = &PendingDeletion> {
        let failed =
            |pending: &&PendingDeletion| self.plan.waiting.iter().any(|(other, _)| other == *pending);
        let deleted = self.plan.delete.iter().filter(move |pending| !failed(pending));
        deleted.chain(&self.plan.release).chain(self.plan.waiting.iter().map(|(pending, _)| pending))
    }

    /// Entries of the nodes that exist for the deletion and are not on their way out themselves.
    fn hook_entries(&self, graph: Option<&Graph>) -> Vec<ManagedResource> {
        let is_hook =
            |id: &str| graph.and_then(|graph| graph.find(id)).is_some_and(|(_, node)| is_hook(node));
        let leaves = |entry: &ManagedResource| {
            let going = |pending: &PendingDeletion| {
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
                .any(going)
        };
        let entries = self.hooks.iter().flat_map(|plan| &plan.resources);
        entries
            .filter(|entry| is_hook(&entry.id) && entry.state != ResourceState::Skipped && !leaves(entry))
            .cloned()
            .collect()
    }

    fn entries(&self, graph: Option<&Graph>) -> Vec<ManagedResource> {
        let mut entries = self.hook_entries(graph);
        let known: Vec<(String, Option<String>)> =
            entries.iter().map(|entry| (entry.id.clone(), entry.name.clone())).collect();
        let leaving = resources::leaving(self.plan, LISTED, &|key| self.display(key));
        entries.extend(
            leaving.into_iter().filter(|entry| !known.contains(&(entry.id.clone(), entry.name.clone()))),
        );
        entries
    }

    /// The conditions about clusters, where the instance has them.
    fn conditions(&self, set: &mut ConditionSet, message: &str, now: Timestamp) {
        if set.get(ConditionType::RemoteClusterConnected).is_none() {
            return;
        }
        let holds = |used: &&UsedCluster| self.left().any(|pending| pending.key.cluster == used.id);
        let down = self.clusters.iter().filter(holds).find_map(|used| Some((used, used.closed()?)));
        match down {
            Some((used, closed)) => {
                let message = closed.failure().map_or_else(String::new, since);
                let message = format!("the deletion waits: {message}");
                let reason = clusters::reason(used);
                if unresolved(set) {
                    set.set_false(ConditionType::ClusterResolved, reason, message.clone(), now);
                }
                set.set_false(ConditionType::RemoteClusterConnected, reason, message, now);
            }
            None => {
                if unresolved(set) {
                    set.set_true(ConditionType::ClusterResolved, Reason::Resolved, clusters::RESOLVED, now);
                }
                let message = "every cluster is connected";
                set.set_true(ConditionType::RemoteClusterConnected, Reason::Connected, message, now);
            }
        }
        unknown(set, ConditionType::RemoteResourcesReady, Reason::UnderDeletion, message, now);
    }
}

/// Whether a reference was said to lead nowhere.
fn unresolved(set: &ConditionSet) -> bool {
    set.get(ConditionType::ClusterResolved)
        .is_some_and(|condition| condition.status == ConditionStatus::False)
}

/// The status of an instance that is being deleted, with or without a graph.
#[must_use]
pub fn deletion_status(
    graph: Option<&Graph>,
    instance: &Value,
    leaving: &DeletionProgress<'_>,
    now: Timestamp,
) -> Value {
    let instance = Instance::of(instance);
    let entries = resources::dated(leaving.entries(graph), &instance.resources(), &whole_seconds(now));
    let entries = resources::fitted(entries);
    let message = message(leaving);
    let mut status = deleting(graph, instance, &message, now, |set| leaving.conditions(set, &message, now));
    let is_authors = |field: &str| graph.is_some_and(|graph| graph.status.get(field).is_some());
    let Some(fields) = status.as_object_mut() else { return status };
    if !is_authors("managedResources") {
        fields.insert("managedResources", wire(&entries));
    }
    if !is_authors("clusters") && !leaving.clusters.is_empty() {
        let left =
            |used: &UsedCluster| leaving.left().filter(|pending| pending.key.cluster == used.id).count();
        let clusters = leaving.clusters.iter().map(|used| clusters::entry(used, (0, left(used))));
        let mut entries = clusters::settled(clusters, &instance.clusters());
        // They come by UID; people look for names.
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        fields.insert("clusters", wire(&entries));
    }
    status
}

/// The status of an instance whose deletion cannot begin, such as one whose inventory cannot be trusted.
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
    // What was said of the rest stays, in its order: nothing was found out about it.
    let mut set = unplanned(instance, now);
    if is_unsaid(&set, ConditionType::InstanceManaged) {
        set.set_true(ConditionType::InstanceManaged, Reason::Managed, MANAGED, now);
    }
    if is_unsaid(&set, ConditionType::GraphResolved) {
        unknown(&mut set, ConditionType::GraphResolved, Reason::UnderDeletion, message, now);
    }
    unknown(&mut set, ConditionType::ResourcesReady, Reason::UnderDeletion, message, now);
    more(&mut set);
    let before = instance.conditions();
    let conditions =
        if has_author_conditions(graph, &before) { overlaid(&set, before) } else { wire(set.conditions()) };
    status.insert("conditions", conditions);
    Value::Object(status)
}

/// Whether nothing was ever said of a condition, as of an object of an existing type, whose status is not ours.
fn is_unsaid(set: &ConditionSet, kind: ConditionType) -> bool {
    let reason = set.get(kind).and_then(|condition| condition.reason.as_deref());
    reason == Some(Reason::AwaitingReconciliation.as_str())
}

/// The author's conditions as they were, below ours on the resources: without it nobody would see what is waited for.
fn overlaid(set: &ConditionSet, before: Vec<Condition>) -> Value {
    let ours = ConditionType::ResourcesReady;
    let rest = before.into_iter().filter(|condition| condition.type_ != ours.as_str());
    wire(&set.get(ours).cloned().into_iter().chain(rest).collect::<Vec<_>>())
}

/// What is being waited for, most serious first.
fn message(leaving: &DeletionProgress<'_>) -> String {
    let plan = leaving.plan;
    let weight = |wait: &Wait| match wait {
        Wait::Failed(_) => 4,
        Wait::Connection(_) => 3,
        Wait::Hook(_) => 2,
        Wait::Deletion(_) => 1,
        Wait::Dependents => 0,
    };
    let worst = plan
        .waiting
        .iter()
        .rev()
        .max_by_key(|(pending, wait)| (!pending.stays, weight(wait)))
        .filter(|(_, wait)| *wait != Wait::Dependents);
    let Some((pending, wait)) = worst else {
        return match plan.unfinished_hooks.first() {
            Some((id, why)) => {
                bounded(&format!("deleting resources: waits for `{id}` to be ready: {why}"), 2_000)
            }
            None => "deleting resources".to_owned(),
        };
    };
    let place =
        leaving.display(&pending.key).map_or_else(String::new, |cluster| format!(" in cluster `{cluster}`"));
    let object = format!("{} {}{place}", pending.key.kind, pending.key.namespaced_name());
    format!(
        "deleting resources: {object}: {}{}",
        resources::awaited(pending, wait, 1_500),
        way_out(pending, wait)
    )
}

/// What to do about a cluster that nobody can wait for, where the author sets no limit.
fn way_out(pending: &PendingDeletion, wait: &Wait) -> String {
    let Wait::Connection(failure) = wait else { return String::new() };
    // Where the owner has to decide, the failure's own advice says how.
    let undecided = failure.connection.as_ref().is_some_and(|failure| failure.advice.needs_decision());
    if undecided || pending.until.is_some() {
        return String::new();
    }
    format!(
        "; the deletion goes on by itself when it answers; to let the instance go without that, remove its finalizer `{FINALIZER}`"
    )
}

/// Our conditions of an instance that is managed and has a graph.
fn living(instance: Instance<'_>, graph: &Graph, now: Timestamp) -> ConditionSet {
    let before = if graph.conditions.is_empty() { instance.built_in() } else { Vec::new() };
    let mut set = ConditionSet::new(kinds(&before), instance.facts(), &before, now);
    set.set_true(ConditionType::InstanceManaged, Reason::Managed, MANAGED, now);
    set.set_true(ConditionType::GraphResolved, Reason::Resolved, RESOLVED, now);
    set
}

fn unplanned(instance: Instance<'_>, now: Timestamp) -> ConditionSet {
    let before = instance.conditions();
    ConditionSet::new(kinds(&before), instance.facts(), &before, now)
}

/// The conditions of an instance: those about clusters only where it has them already.
fn kinds(before: &[Condition]) -> impl Iterator<Item = ConditionType> {
    let there = |kind: &&ConditionType| before.iter().any(|condition| condition.type_ == kind.as_str());
    let clusters = ConditionType::INSTANCE_CLUSTERS.iter().filter(there);
    ConditionType::INSTANCE.iter().chain(clusters).copied().collect::<Vec<_>>().into_iter()
}

/// Whether the conditions on the wire are the author's.
fn has_author_conditions(graph: Option<&Graph>, before: &[Condition]) -> bool {
    match graph {
        Some(graph) => !graph.conditions.is_empty(),
        None => !before.is_empty() && !before.iter().any(|condition| condition.type_ == "InstanceManaged"),
    }
}

fn conditions(graph: Option<&Graph>, instance: Instance<'_>, set: &ConditionSet, now: Timestamp) -> Value {
    let Some(graph) = graph.filter(|graph| !graph.conditions.is_empty()) else {
        return wire(set.conditions());
    };
    let budget = RefCell::new(Budget::default());
    let mut scope = Scope::new(&budget);
    let schema = instance.schema(graph.instance.external);
    scope.set("schema", CelValue::from_data(&schema, Some(&graph.schema_type)));
    wire(&author::conditions(graph, instance, set, &scope, now).conditions)
}
