//! Evaluates `readyWhen`.

use kross_cel::value::Value as CelValue;
use kross_graph::{Expression, Node, Scope};

use super::{Walk, not_evaluated, value_of};
use crate::observed::ObservedObject;
use crate::progress::Progress;
use crate::settings::Settings;

impl Walk<'_> {
    /// Whether an object of a node is ready, be it a single object or an item.
    pub(crate) fn readiness(&self, node: &Node, object: &ObservedObject, scope: &Scope<'_>) -> Progress {
        if node.is_list() {
            self.item_readiness(node, object, scope)
        } else {
            self.object_readiness(node, object, scope)
        }
    }

    /// Whether a single object is ready.
    pub(super) fn object_readiness(
        &self,
        node: &Node,
        object: &ObservedObject,
        scope: &Scope<'_>,
    ) -> Progress {
        if node.ready_when.is_empty() {
            return Progress::Ready;
        }
        let mut own = Scope::over(scope);
        if let Some(value) = value_of(node, [object]) {
            own.set(node.id.clone(), value);
        }
        readiness(&node.ready_when, &own, self.input.settings)
    }

    /// Whether one item of a list is ready.
    pub(super) fn item_readiness(&self, node: &Node, item: &ObservedObject, scope: &Scope<'_>) -> Progress {
        if node.ready_when.is_empty() {
            return Progress::Ready;
        }
        let mut own = Scope::over(scope);
        if scope.hides_keys(&node.id) {
            own.hide_keys("each");
        }
        if item.withheld.is_none() {
            own.set("each", CelValue::from_data(&item.value, Some(&node.object_type)));
        }
        readiness(&node.ready_when, &own, self.input.settings)
    }
}

/// Whether all conditions hold. One that cannot read its data yet waits.
pub(super) fn readiness(conditions: &[Expression], scope: &Scope<'_>, settings: &Settings) -> Progress {
    for condition in conditions {
        let outcome = condition.evaluate_bool(scope);
        if let Ok(outcome) = outcome {
            settings.record(&condition.path, outcome);
        }
        match outcome {
            Ok(true) => {}
            Ok(false) => {
                return Progress::Waiting(format!("`readyWhen` is false: `{}`", condition.source).into());
            }
            Err(error) => match not_evaluated(condition, &error) {
                Progress::Unresolved(_) => {
                    let message = format!("`readyWhen` waits for data: `{}`: {error}", condition.source);
                    return Progress::Waiting(message.into());
                }
                failed => return failed,
            },
        }
    }
    Progress::Ready
}
