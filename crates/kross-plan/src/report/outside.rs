//! What instances say outside a plan: while they are suspended, while they are being deleted, and when there is no graph
//! to plan with. The author's own status fields stay as they were.

use std::cell::RefCell;

use jiff::Timestamp;
use kross_api::{Condition, ConditionSet, ConditionType, InstanceState, ObjectKey, Reason};
use kross_cel::Budget;
use kross_cel::value::Value as CelValue;
use kross_graph::{Graph, Scope};
use kross_value::Value;

use super::{MANAGED, RESOLVED, author, bounded, resources, seconds, since, unknown, wire};
use crate::deletion::{DeletionPlan, Wait};
use crate::instance::Instance;

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
    let instance = Instance::of(instance);
    let mut status = instance.raw_status();
    status.insert("state", Value::from(InstanceState::Error.as_str()));
    if !has_author_conditions(graph, &instance.conditions()) {
        let mut set = unplanned(instance, now);
        let reason = if kind == ConditionType::InstanceManaged {
            Reason::ManagementFailed
        } else {
            set.set_true(ConditionType::InstanceManaged, Reason::Managed, MANAGED, now);
            Reason::ResolutionFailed
        };
        set.set_false(kind, reason, message, now);
        status.insert("conditions", wire(set.conditions()));
    }
    Value::Object(status)
}

/// The status of an instance that is being deleted, with or without a graph.
#[must_use]
pub fn deletion_status(
    graph: Option<&Graph>,
    instance: &Value,
    plan: &DeletionPlan,
    display: &dyn Fn(&ObjectKey) -> Option<String>,
    now: Timestamp,
) -> Value {
    let instance = Instance::of(instance);
    let entries = resources::leaving(plan, LISTED, display);
    let entries = resources::dated(entries, &instance.resources(), &seconds(now));
    let mut status = deleting(graph, instance, &message(plan, display), now);
    let is_authors = graph.is_some_and(|graph| graph.status.get("managedResources").is_some());
    if !is_authors && let Some(status) = status.as_object_mut() {
        status.insert("managedResources", wire(&entries));
    }
    status
}

/// The status of an instance whose deletion cannot begin, such as one whose inventory cannot be trusted.
#[must_use]
pub fn blocked_deletion_status(graph: Option<&Graph>, instance: &Value, why: &str, now: Timestamp) -> Value {
    deleting(graph, Instance::of(instance), &format!("deletion blocked: {why}"), now)
}

fn deleting(graph: Option<&Graph>, instance: Instance<'_>, message: &str, now: Timestamp) -> Value {
    let mut status = instance.raw_status();
    status.insert("state", Value::from(InstanceState::Deleting.as_str()));
    let mut set = match graph {
        Some(graph) => living(instance, graph, now),
        None => unplanned(instance, now),
    };
    unknown(&mut set, ConditionType::ResourcesReady, Reason::UnderDeletion, message, now);
    if graph.is_some() || !has_author_conditions(None, &instance.conditions()) {
        status.insert("conditions", conditions(graph, instance, &set, now));
    }
    Value::Object(status)
}

/// What is being waited for, most serious first.
fn message(plan: &DeletionPlan, display: &dyn Fn(&ObjectKey) -> Option<String>) -> String {
    let weight = |wait: &Wait| match wait {
        Wait::Failed(_) => 4,
        Wait::Closed(_) => 3,
        Wait::For(_) => 2,
        Wait::Gone(_) => 1,
        Wait::Turn => 0,
    };
    let worst = plan
        .waiting
        .iter()
        .rev()
        .max_by_key(|(_, wait)| weight(wait))
        .filter(|(_, wait)| *wait != Wait::Turn);
    let Some((doom, wait)) = worst else {
        return "deleting resources".to_owned();
    };
    let place = display(&doom.key).map_or_else(String::new, |cluster| format!(" in cluster `{cluster}`"));
    let object = format!("{} {}{place}", doom.key.kind, doom.key.namespaced_name());
    let what = match wait {
        Wait::Closed(trouble) | Wait::Failed(trouble) => since(trouble),
        other => other.message().to_string(),
    };
    bounded(&format!("deleting resources: {object}: {what}"), 2_000)
}

/// Our conditions of an instance that is managed and has a graph.
fn living(instance: Instance<'_>, graph: &Graph, now: Timestamp) -> ConditionSet {
    let before = if graph.conditions.is_empty() { instance.conditions() } else { Vec::new() };
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
