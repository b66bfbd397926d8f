//! Evaluates the rules of the CRD on a definition: its CEL rules, and the fields that its schema requires or excludes
//! together. `kross validate` rejects what the API server rejects, from the same source.

use std::collections::HashMap;

use kross_cel::types::Type;
use kross_cel::value::{Value as CelValue, to_data};
use kross_cel::{Budget, Env, Program};
use kross_diagnostics::{Code, Path, Place, Problem};
use kross_value::{Text, Value};
use serde_json::Value as Json;

/// The rules of a CRD.
pub(super) struct Rules {
    schema: Json,
    /// The compiled CEL rules, by their text.
    programs: HashMap<String, Program>,
}

impl Rules {
    /// The rules in the `openAPIV3Schema` of a CRD.
    pub(super) fn new(schema: Json) -> Self {
        let env = Env::standard().with_variables([("self", Type::Dyn)]);
        let mut programs = HashMap::new();
        compile(&schema, &env, &mut programs);
        Self { schema, programs }
    }

    /// Every rule that the value breaks.
    pub(super) fn check(&self, value: &Value) -> Vec<Problem> {
        let mut problems = Vec::new();
        self.visit(value, &self.schema, &Path::root(), &mut problems);
        problems
    }

    fn visit(&self, value: &Value, schema: &Json, path: &Path, problems: &mut Vec<Problem>) {
        let before = problems.len();
        for rule in rules(schema) {
            if let Some(program) = rule["rule"].as_str().and_then(|text| self.programs.get(text))
                && is_broken(program, value)
            {
                let message = rule["message"].as_str().unwrap_or_default();
                let field = rule["fieldPath"].as_str().map(|field| field.trim_start_matches('.'));
                let path = field.map_or_else(|| path.clone(), |field| path.key(field));
                problems.push(Problem::new(Code::InvalidDefinitionField, Place::value(&path), message));
            }
        }
        // A CEL rule has a message of its own, so it is preferred to a schema that says the same.
        if problems.len() == before
            && let Some(message) = combination_error(value, schema)
        {
            problems.push(Problem::new(Code::InvalidDefinitionField, Place::value(path), message));
        }
        match value {
            Value::Object(object) => {
                for (key, value) in object.iter() {
                    let inner = schema["properties"].get(key.as_str());
                    let inner = inner.unwrap_or(&schema["additionalProperties"]);
                    self.visit(value, inner, &path.key(key.as_str()), problems);
                }
            }
            Value::List(items) => {
                for (at, item) in items.iter().enumerate() {
                    self.visit(item, &schema["items"], &path.index(at), problems);
                }
            }
            _ => {}
        }
    }
}

fn rules(schema: &Json) -> impl Iterator<Item = &Json> {
    schema["x-kubernetes-validations"].as_array().into_iter().flatten()
}

/// Compiles the rules of a schema and of the schemas in it.
fn compile(schema: &Json, env: &Env, programs: &mut HashMap<String, Program>) {
    for text in rules(schema).filter_map(|rule| rule["rule"].as_str()) {
        // Rules about changes need the previous version of the object.
        if text.contains("oldSelf") {
            continue;
        }
        // Kubernetes escapes field names that CEL reserves.
        let unescaped = text.replace("__namespace__", "namespace");
        let program = env.compile(unescaped).ok().and_then(|checked| Program::new(&checked).ok());
        programs.extend(program.map(|program| (text.to_owned(), program)));
    }
    for inner in schema["properties"].as_object().into_iter().flat_map(|properties| properties.values()) {
        compile(inner, env, programs);
    }
    for inner in ["items", "additionalProperties"].into_iter().filter_map(|key| schema.get(key)) {
        compile(inner, env, programs);
    }
}

/// Whether a rule is false. It cannot be evaluated on a value of the wrong type, which is reported as such.
fn is_broken(program: &Program, value: &Value) -> bool {
    let lookup = |_: &Text| Some(CelValue::from_data(value, None));
    let result = program.evaluate_with(lookup, &mut Budget::default());
    result.is_ok_and(|result| matches!(to_data(&result), Ok(Some(Value::Bool(false)))))
}

/// The message for fields of an object that `anyOf` requires or `not` excludes.
fn combination_error(value: &Value, schema: &Json) -> Option<String> {
    value.as_object()?;
    if let Some(choices) = schema["anyOf"].as_array().filter(|choices| choices.iter().all(is_combination))
        && !choices.iter().any(|choice| has_fields(value, choice))
    {
        let fields: Vec<String> = choices.iter().map(|choice| fields(choice).join(" and ")).collect();
        return Some(format!("one of {} is required", fields.join(", ")));
    }
    let excluded = schema.get("not").filter(|excluded| is_combination(excluded))?;
    has_fields(value, excluded)
        .then(|| format!("{} are mutually exclusive: remove one of them", fields(excluded).join(" and ")))
}

/// Whether a schema says which fields are required.
fn is_combination(schema: &Json) -> bool {
    schema["required"].is_array()
}

fn required(schema: &Json) -> impl Iterator<Item = &str> {
    schema["required"].as_array().into_iter().flatten().filter_map(Json::as_str)
}

fn has_fields(value: &Value, schema: &Json) -> bool {
    required(schema).all(|field| value.get(field).is_some())
}

/// The required fields, for a message.
fn fields(schema: &Json) -> Vec<String> {
    required(schema).map(|field| format!("`{field}`")).collect()
}
