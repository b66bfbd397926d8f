//! The status of an instance without a plan: while it is suspended, and when there is no graph to plan with. The author's own fields
//! are kept.

use std::cell::RefCell;

use jiff::Timestamp;
use kross_api::{Condition, ConditionSet, ConditionType, FINALIZER, InstanceState, Reason};
use kross_cel::Budget;
use kross_cel::value::Value as CelValue;
use kross_graph::{Graph, Scope};
use kross_value::Value;

use super::{MANAGED, RESOLVED, author, wire};
use crate::instance::Instance;

/// The status of a suspended instance: its state and fields are kept.
#[must_use]
pub fn suspended_status(graph: &Graph, instance: &Value, now: Timestamp) -> Value {
    let instance = Instance::new(graph, instance);
    let mut set = managed_conditions(instance, graph, now);
    let message = "reconciliation suspended via kro.run/reconcile annotation";
    set.set_false(ConditionType::ResourcesReady, Reason::ReconciliationSuspended, message, now);
    let mut status = instance.raw_status();
    status.insert("conditions", written_conditions(graph, instance, &set, now));
    if status.get("state").is_none() {
        status.insert("state", Value::from(InstanceState::InProgress.as_str()));
    }
    Value::Object(status)
}

/// The status of an instance without a plan: `kind`, which is `InstanceManaged` or `GraphResolved`, is False with this message.
#[must_use]
pub fn failed_status(
    graph: Option<&Graph>,
    instance: &Value,
    kind: ConditionType,
    message: &str,
    now: Timestamp,
) -> Value {
    let finalizers = instance.at(&["metadata", "finalizers"]).and_then(Value::as_list).unwrap_or_default();
    let managed = finalizers.iter().any(|finalizer| finalizer.as_str() == Some(FINALIZER));
    let instance = Instance::of(instance);
    let mut status = instance.raw_status();
    status.insert("state", Value::from(InstanceState::Error.as_str()));
    if !has_author_conditions(graph, &instance.conditions()) {
        let mut set = last_conditions(instance, now);
        let reason = if kind == ConditionType::InstanceManaged {
            Reason::ManagementFailed
        } else {
            if managed {
                set.set_true(ConditionType::InstanceManaged, Reason::Managed, MANAGED, now);
            }
            Reason::ResolutionFailed
        };
        set.set_false(kind, reason, message, now);
        status.insert("conditions", wire(set.conditions()));
    }
    Value::Object(status)
}

/// The built-in conditions of an instance that is managed and has a graph.
fn managed_conditions(instance: Instance<'_>, graph: &Graph, now: Timestamp) -> ConditionSet {
    let before = if graph.conditions.is_empty() { instance.built_in() } else { Vec::new() };
    let mut set = ConditionSet::new(kinds(&before), instance.facts(), &before, now);
    set.set_true(ConditionType::InstanceManaged, Reason::Managed, MANAGED, now);
    set.set_true(ConditionType::GraphResolved, Reason::Resolved, RESOLVED, now);
    set
}

/// The conditions as they were last reported.
pub(super) fn last_conditions(instance: Instance<'_>, now: Timestamp) -> ConditionSet {
    let before = instance.conditions();
    ConditionSet::new(kinds(&before), instance.facts(), &before, now)
}

/// The built-in condition types of an instance: those about clusters only where it has them already.
fn kinds(before: &[Condition]) -> impl Iterator<Item = ConditionType> {
    let has = |kind: &&ConditionType| before.iter().any(|condition| condition.type_ == kind.as_str());
    let clusters = ConditionType::INSTANCE_CLUSTERS.iter().filter(has);
    ConditionType::INSTANCE.iter().chain(clusters).copied().collect::<Vec<_>>().into_iter()
}

/// Whether the conditions in the status are the author's.
pub(super) fn has_author_conditions(graph: Option<&Graph>, before: &[Condition]) -> bool {
    match graph {
        Some(graph) => !graph.conditions.is_empty(),
        None => !before.is_empty() && !before.iter().any(|condition| condition.type_ == "InstanceManaged"),
    }
}

/// The conditions to write: the author's, where the graph has them.
fn written_conditions(graph: &Graph, instance: Instance<'_>, set: &ConditionSet, now: Timestamp) -> Value {
    if graph.conditions.is_empty() {
        return wire(set.conditions());
    }
    let budget = RefCell::new(Budget::default());
    let mut scope = Scope::new(&budget);
    let schema = instance.schema(graph.instance.external);
    scope.set("schema", CelValue::from_data(&schema, Some(&graph.schema_type)));
    wire(&author::conditions((graph, instance), set, &scope, now, None).conditions)
}
