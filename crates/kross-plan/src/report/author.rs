//! Evaluates the author's own conditions. While one of them cannot be evaluated, its last known status is kept.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kross_api::{Condition, ConditionSet, ConditionStatus};
use kross_cel::library::kro::runtime::{Runtime, VARIABLE};
use kross_cel::value::Value as CelValue;
use kross_graph::{Graph, Scope};
use kross_value::{Object, Value};

use super::wire;
use crate::instance::Instance;
use crate::settings::Settings;

/// The author's conditions.
pub(super) struct AuthorConditions {
    pub(super) conditions: Vec<Condition>,
    /// Whether one failed, or two have the same type.
    pub(super) degraded: bool,
}

/// Evaluates the author's conditions. They can read the built-in ones from `schema`.
pub(super) fn conditions(
    (graph, instance): (&Graph, Instance<'_>),
    built_in: &ConditionSet,
    scope: &Scope<'_>,
    now: Timestamp,
    settings: Option<&Settings>,
) -> AuthorConditions {
    let mut variables = Scope::over(scope);
    variables.set(VARIABLE, CelValue::opaque(Runtime));
    variables.set(
        "schema",
        CelValue::from_data(&with_conditions(graph, instance, built_in), Some(&graph.schema_type)),
    );
    let (mut found, mut pending, mut degraded) = (Vec::new(), false, false);
    for expression in &graph.conditions {
        match expression.evaluate(&variables) {
            Ok(value) => {
                let before = found.len();
                degraded |= !collect(&value, &mut found);
                let own = found.get(before..).unwrap_or_default();
                if let (Some(settings), false) = (settings, own.is_empty()) {
                    let all = own.iter().all(|condition| condition.status == ConditionStatus::True);
                    settings.record(&expression.path, all);
                }
            }
            Err(error) if error.fault.is_pending() => pending = true,
            Err(_) => degraded = true,
        }
    }
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for condition in &found {
        *seen.entry(&condition.type_).or_default() += 1;
    }
    let repeated: Vec<String> =
        seen.into_iter().filter(|(_, count)| *count > 1).map(|(name, _)| name.to_owned()).collect();
    degraded |= !repeated.is_empty();
    found.retain(|condition| !repeated.contains(&condition.type_));
    let before = instance.conditions();
    let generation = Some(instance.facts().generation).filter(|generation| *generation != 0);
    let dated = |condition: Condition| {
        let known =
            before.iter().find(|known| known.type_ == condition.type_ && known.status == condition.status);
        let time = known.and_then(|known| known.last_transition_time).unwrap_or(now);
        Condition { last_transition_time: Some(time), observed_generation: generation, ..condition }
    };
    let mut conditions: Vec<Condition> = found.into_iter().map(dated).collect();
    if pending || degraded {
        let missing =
            before.iter().filter(|known| !conditions.iter().any(|condition| condition.type_ == known.type_));
        let missing: Vec<Condition> = missing.cloned().collect();
        conditions.extend(missing);
    }
    AuthorConditions { conditions, degraded }
}

/// The instance with the built-in conditions in its status.
fn with_conditions(graph: &Graph, instance: Instance<'_>, built_in: &ConditionSet) -> Value {
    let mut schema = instance.schema(graph.instance.external);
    let mut status = schema.get("status").and_then(Value::as_object).cloned().unwrap_or_else(Object::new);
    status.insert("conditions", wire(built_in.conditions()));
    if let Some(object) = schema.as_object_mut() {
        object.insert("status", Value::Object(status));
    }
    schema
}

/// Collects the conditions in a value. Returns whether it contained nothing else.
fn collect(value: &CelValue, found: &mut Vec<Condition>) -> bool {
    match value {
        CelValue::List(items) => {
            // Collect the others even after an invalid one.
            let invalid = items.iter().filter(|item| !collect(item, found)).count();
            invalid == 0
        }
        CelValue::Optional(None) => true,
        CelValue::Optional(Some(inner)) => collect(inner, found),
        CelValue::Opaque(opaque) if opaque.type_name() == "kro.run.Condition" => {
            let text = |field: &str| match opaque.field(field) {
                Some(CelValue::String(text)) => text.to_string(),
                _ => String::new(),
            };
            let status = match text("status").as_str() {
                "True" => ConditionStatus::True,
                "False" => ConditionStatus::False,
                "Unknown" => ConditionStatus::Unknown,
                _ => return false,
            };
            let type_ = text("type");
            if type_.is_empty() {
                return false;
            }
            let filled = |field: &str| Some(text(field)).filter(|text| !text.is_empty());
            found.push(Condition {
                type_,
                status,
                last_transition_time: None,
                reason: filled("reason"),
                message: filled("message"),
                observed_generation: None,
            });
            true
        }
        _ => false,
    }
}
