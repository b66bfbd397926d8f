//! Evaluates the lifecycle of nodes. The result is kept in an annotation of each object, so that a deletion needs neither graph nor
//! expressions.

use std::time::Duration;

use kross_api::{DeletePolicy, LifecyclePhase, annotations, parse_duration};
use kross_cel::value::Value as CelValue;
use kross_graph::{Expression, Graph, Lifecycle, Node, NodeIndex, Order, Policy, Scope};
use serde::{Deserialize, Serialize};

use crate::observed::ObservedObject;

/// The lifecycle of one object, with its expressions evaluated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EvaluatedLifecycle {
    /// Whether the object exists only while its instance is being deleted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub deletion: bool,
    /// Whether it is deleted or retained.
    #[serde(skip_serializing_if = "is_delete")]
    pub policy: DeletePolicy,
    /// Place in the order of deletion, where the author gives one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<i64>,
    /// Nodes whose objects must be deleted before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// Deletion hooks that must be ready before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub awaits: Vec<String>,
    /// How long to wait for its deletion.
    #[serde(skip_serializing_if = "Option::is_none")]
    force_after: Option<String>,
    /// Whether the wait may end, where the author gives a condition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force_when: Option<bool>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_delete(policy: &DeletePolicy) -> bool {
    *policy == DeletePolicy::Delete
}

impl EvaluatedLifecycle {
    /// The lifecycle kept in an object's annotation.
    #[must_use]
    pub fn of(object: &ObservedObject) -> Self {
        let kept = object.annotation(annotations::LIFECYCLE);
        kept.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// How long to wait for the object's deletion; none is without a limit.
    #[must_use]
    pub fn force_after(&self) -> Option<Duration> {
        let limit = self.force_after.as_deref().and_then(parse_duration);
        // A condition without a limit does not wait at all.
        limit.or_else(|| self.force_when.map(|_| Duration::ZERO))
    }

    /// The value of the annotation; none if everything is the default.
    #[must_use]
    pub(crate) fn annotation(&self) -> Option<String> {
        if *self == Self::default() { None } else { serde_json::to_string(self).ok() }
    }
}

/// Evaluates the lifecycle of a node. Where an expression fails, the last known value counts; without one the object is retained,
/// since a deletion by mistake cannot be undone.
pub(crate) fn evaluate(
    graph: &Graph,
    node: &Node,
    scope: &Scope<'_>,
    kept: Option<&EvaluatedLifecycle>,
) -> EvaluatedLifecycle {
    let Lifecycle { phase, adopt: _, policy, force_after, force_when, after, order } = &node.lifecycle;
    let is_hook = |index: &NodeIndex| graph.node(*index).is_some_and(is_hook);
    let id = |index: NodeIndex| graph.node(index).map(|node| node.id.to_string());
    EvaluatedLifecycle {
        deletion: *phase == LifecyclePhase::Deletion,
        policy: match policy {
            Policy::Fixed(policy) => *policy,
            Policy::Computed(expression) => {
                let given = expression.evaluate_string(scope).ok();
                let given = given.and_then(|text| DeletePolicy::parse(&text));
                given.or(kept.map(|kept| kept.policy)).unwrap_or(DeletePolicy::Retain)
            }
        },
        order: match order {
            None => None,
            Some(Order::Fixed(order)) => Some(*order),
            Some(Order::Computed(expression)) => match expression.evaluate(scope) {
                Ok(CelValue::Int(order)) => Some(order),
                _ => kept.and_then(|kept| kept.order),
            },
        },
        after: after.iter().filter(|index| !is_hook(index)).filter_map(|index| id(*index)).collect(),
        awaits: awaited(graph, node).into_iter().filter_map(id).collect(),
        force_after: force_after.map(|limit| format!("{}s", limit.as_secs_f64())),
        force_when: (!force_when.is_empty()).then(|| holds(force_when, scope, kept)),
    }
}

/// Whether a node is a deletion hook.
pub(crate) fn is_hook(node: &Node) -> bool {
    node.lifecycle.phase == LifecyclePhase::Deletion
}

/// The deletion hooks that must be ready before the objects of a node are deleted: those that it names, and those that read it.
fn awaited(graph: &Graph, node: &Node) -> Vec<NodeIndex> {
    let hooks = graph.nodes.iter().enumerate().filter(|(_, hook)| is_hook(hook) && hook.id != node.id);
    let named = |index: NodeIndex| node.lifecycle.after.contains(&index);
    let Some((own, _)) = graph.find(&node.id) else { return Vec::new() };
    hooks
        .map(|(at, hook)| (NodeIndex(at), hook))
        .filter(|(index, hook)| named(*index) || (!is_hook(node) && needs(graph, hook, own)))
        .map(|(index, _)| index)
        .collect()
}

/// Whether a node depends on another one, directly or through others.
fn needs(graph: &Graph, node: &Node, other: NodeIndex) -> bool {
    // A compiled graph has no cycles.
    let mut dependencies = node.dependencies.iter().map(|dependency| dependency.node);
    dependencies
        .any(|index| index == other || graph.node(index).is_some_and(|needed| needs(graph, needed, other)))
}

fn holds(conditions: &[Expression], scope: &Scope<'_>, kept: Option<&EvaluatedLifecycle>) -> bool {
    let results: Result<Vec<bool>, _> =
        conditions.iter().map(|condition| condition.evaluate_bool(scope)).collect();
    match results {
        Ok(results) => results.into_iter().all(|holds| holds),
        Err(_) => kept.and_then(|kept| kept.force_when).unwrap_or(false),
    }
}

/// The expressions of a lifecycle, to find what they read.
pub(crate) fn expressions(lifecycle: &Lifecycle) -> Vec<&Expression> {
    let mut found: Vec<&Expression> = lifecycle.force_when.iter().collect();
    if let Policy::Computed(expression) = &lifecycle.policy {
        found.push(expression);
    }
    if let Some(Order::Computed(expression)) = &lifecycle.order {
        found.push(expression);
    }
    found
}
