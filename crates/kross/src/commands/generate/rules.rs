//! The CEL rules of a schema that a generated instance does not satisfy: no general way finds values that do.

use kross_api::yaml::{self, Limits};
use kross_cel::types::Type;
use kross_cel::value::Value as CelValue;
use kross_cel::{Budget, Env, Program};
use kross_diagnostics::{Diagnostics, Sources};
use serde_json::Value as Json;

use super::Api;
use super::describe::validations;

/// What the instance breaks, one sentence for each.
pub(super) fn broken(api: &Api, instance: &str) -> Vec<String> {
    let mut found = Vec::new();
    let documents =
        yaml::parse(&mut Sources::new(), "instance", instance, &Limits::default(), &mut Diagnostics::new());
    for document in &documents {
        visit(api.schema(), &Json::from(document.value()), "", &mut found);
    }
    found
}

fn visit(schema: &Json, value: &Json, path: &str, found: &mut Vec<String>) {
    for (rule, message) in validations(schema) {
        if holds(rule, value) == Some(false) {
            found.push(format!("`{}`: {}", path.trim_start_matches('.'), message.unwrap_or(rule)));
        }
    }
    match value {
        Json::Object(entries) => {
            for (key, entry) in entries {
                let field = schema["properties"].get(key).unwrap_or(&schema["additionalProperties"]);
                visit(field, entry, &format!("{path}.{key}"), found);
            }
        }
        Json::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                visit(&schema["items"], item, &format!("{path}[{at}]"), found);
            }
        }
        _ => {}
    }
}

/// Whether a rule holds; none if that cannot be said, as for rules about changes.
fn holds(rule: &str, value: &Json) -> Option<bool> {
    let env = Env::standard().with_variables([("self", Type::Dyn)]);
    let program = Program::new(&env.compile(rule).ok()?).ok()?;
    let value = kross_value::Value::from(value.clone());
    match program.evaluate(&[Some(CelValue::from(&value))], &mut Budget::default()) {
        Ok(CelValue::Bool(holds)) => Some(holds),
        _ => None,
    }
}
