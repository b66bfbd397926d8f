//! Compares the libraries with the results of cel-go, Kubernetes and kro: each row of `tests/golden/*.jsonl` is an
//! expression and its result there, or only an expression if it fails there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::fs;
use std::path::Path;

use kross_cel::env::Env;
use kross_cel::eval::{Budget, Program};
use kross_cel::library::kro::runtime::{Condition, Runtime, VARIABLE, runtime_type};
use kross_cel::library::{GATED, standard};
use kross_cel::value::{Duration, Timestamp, Value};
use serde_json::Value as Json;

/// The expressions whose result differs, and why.
const DIFFERENT: &[(&str, &str)] = &[];

fn env() -> Env {
    let libraries = standard().chain(GATED.iter().copied());
    Env::new(libraries).unwrap().with_variables([(VARIABLE, runtime_type())])
}

fn evaluate(env: &Env, expression: &str) -> Result<Value, String> {
    let checked = env
        .compile(expression)
        .map_err(|issues| issues.iter().map(|issue| issue.message.clone()).collect::<Vec<_>>().join("; "))?;
    let program = Program::new(&checked).map_err(|error| error.to_string())?;
    let slots: Vec<Option<Value>> =
        program.variables().iter().map(|_| Some(Value::opaque(Runtime))).collect();
    program.evaluate(&slots, &mut Budget::new(50_000_000)).map_err(|error| error.to_string())
}

fn expected(json: &Json) -> Value {
    match json {
        Json::String(text) => Value::string(text.as_str()),
        Json::Bool(truth) => Value::Bool(*truth),
        Json::Array(items) => Value::list(items.iter().map(expected).collect()),
        Json::Object(tagged) => {
            let (tag, inner) = tagged.iter().next().unwrap();
            let text = inner.as_str().unwrap_or_default();
            match tag.as_str() {
                "int" => Value::Int(text.parse().unwrap()),
                "uint" => Value::UInt(text.parse().unwrap()),
                "double" => Value::Double(text.parse().unwrap()),
                "bytes" => Value::Bytes(
                    inner
                        .as_array()
                        .unwrap()
                        .iter()
                        .map(|byte| u8::try_from(byte.as_u64().unwrap()).unwrap())
                        .collect(),
                ),
                "duration" => Value::Duration(Duration { nanoseconds: text.parse().unwrap() }),
                "timestamp" => Value::Timestamp(Timestamp::parse(text).unwrap()),
                "some" => Value::some(expected(inner)),
                "none" => Value::Optional(None),
                "null" => Value::Null,
                // Compared by their text.
                "opaque" => Value::string(format!("opaque {text}")),
                "condition" => Value::string(format!("condition {inner}")),
                "map" => Value::map(
                    inner
                        .as_array()
                        .unwrap()
                        .iter()
                        .map(|entry| (expected(&entry[0]), expected(&entry[1])))
                        .collect(),
                ),
                other => panic!("{other}"),
            }
        }
        other => panic!("{other}"),
    }
}

/// The value, with opaque values as text.
fn shown(value: Value) -> Value {
    if let Some(condition) = value.downcast::<Condition>() {
        let fields = [&condition.kind, &condition.status, &condition.reason, &condition.message];
        let json: Vec<Json> = fields.iter().map(|field| field.to_string().into()).collect();
        return Value::string(format!("condition {}", Json::from(json)));
    }
    match value {
        Value::Opaque(opaque) => Value::string(format!("opaque {}", opaque.text().unwrap_or_default())),
        other => other,
    }
}

fn same(a: &Value, b: &Value) -> bool {
    let kinds = a.type_name() == b.type_name();
    let numbers = match (a, b) {
        (Value::Double(a), Value::Double(b)) => a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()),
        (Value::List(a), Value::List(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(&a, &b)),
        (a, b) => a.equals(b),
    };
    kinds && numbers
}

fn check(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.jsonl"));
    let env = env();
    let mut wrong = Vec::new();
    let rows = fs::read_to_string(path).unwrap();
    for row in rows.lines() {
        let row: Vec<Json> = serde_json::from_str(row).unwrap();
        let expression = row[0].as_str().unwrap();
        let found = evaluate(&env, expression).map(shown);
        let fine = match (row.get(1), &found) {
            (None, Err(_)) => true,
            (Some(json), Ok(value)) => same(&expected(json), value),
            _ => false,
        };
        let known = DIFFERENT.iter().any(|(different, _)| *different == expression);
        if fine == known {
            let wanted = row.get(1).map_or_else(|| "an error".to_owned(), ToString::to_string);
            let found = found.map_or_else(|why| format!("the error `{why}`"), |value| value.to_string());
            wrong.push(format!("{expression}\n    expected {wanted}\n    found    {found}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} differ:\n{}",
        wrong.len(),
        rows.lines().count(),
        wrong.iter().take(60).cloned().collect::<Vec<_>>().join("\n")
    );
}

#[test]
fn named_formats_have_the_errors_of_kubernetes() {
    check("formats");
}

#[test]
fn kro_functions_have_the_results_of_kro() {
    check("kro");
}

#[test]
fn list_and_set_functions_have_the_results_of_cel_go_and_kubernetes() {
    check("lists");
}

#[test]
fn math_functions_have_the_results_of_cel_go() {
    check("math");
}

#[test]
fn ip_and_cidr_functions_have_the_results_of_kubernetes() {
    check("net");
}

#[test]
fn quantity_functions_have_the_results_of_kubernetes() {
    check("quantity");
}

#[test]
fn regular_expressions_match_as_in_go() {
    check("regex");
}

#[test]
fn semver_functions_have_the_results_of_kubernetes() {
    check("semver");
}

#[test]
fn string_functions_have_the_results_of_cel_go() {
    check("strings");
}

#[test]
fn urls_are_parsed_as_in_go() {
    check("url");
}

#[test]
fn literal_format_strings_are_rejected_as_in_cel_go() {
    check("literal_formats");
}
