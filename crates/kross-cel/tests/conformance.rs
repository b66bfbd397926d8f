//! Runs CEL's conformance tests, if the file with the cases exists.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kross_cel::syntax::{Limits, parse};
use kross_cel::types::{OpaqueType, Type};
use kross_cel::value::{Duration, Timestamp, Value};
use kross_cel::{Budget, Env, Program};
use serde_json::Value as Json;

/// The cases from the file in `KROSS_CEL_CONFORMANCE`, relative to here or to the workspace, or else from the one next to the
/// workspace.
fn cases() -> Option<Vec<Json>> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let text = match std::env::var_os("KROSS_CEL_CONFORMANCE") {
        Some(named) => {
            let path = [PathBuf::from(&named), workspace.join(&named)].into_iter().find(|path| path.exists());
            std::fs::read_to_string(path.expect("KROSS_CEL_CONFORMANCE names a file")).unwrap()
        }
        None => {
            let mut folders = workspace.ancestors().skip(1);
            let path = folders.find_map(|folder| {
                let path = folder.join("shared/cel-conformance.json");
                path.exists().then_some(path)
            })?;
            std::fs::read_to_string(path).unwrap()
        }
    };
    Some(serde_json::from_str(&text).expect("the cases are a JSON list"))
}

fn read_type(json: &Json) -> Option<Type> {
    let argument = |key: &str| read_type(&json[key]);
    Some(match json["t"].as_str()? {
        "BOOL" | "bool" => Type::Bool,
        "INT64" | "int" => Type::Int,
        "UINT64" | "uint" => Type::UInt,
        "DOUBLE" | "double" => Type::Double,
        "STRING" | "string" => Type::String,
        "BYTES" | "bytes" => Type::Bytes,
        "TIMESTAMP" | "timestamp" => Type::Timestamp,
        "DURATION" | "duration" => Type::Duration,
        "null" | "NULL" | "NULL_VALUE" => Type::Null,
        "dyn" | "any" | "ANY" => Type::Dyn,
        "list" => Type::list(argument("v")?),
        "map" => Type::map(argument("k")?, argument("v")?),
        "wrapper" => Type::nullable(argument("v")?),
        "type" => Type::Type(Arc::new(json.get("v").and_then(read_type).unwrap_or(Type::Dyn))),
        "abstract" => {
            let mut parameters =
                json["v"].as_array().into_iter().flatten().map(read_type).collect::<Option<Vec<_>>>()?;
            match json["n"].as_str()? {
                "optional_type" => Type::optional(parameters.pop()?),
                name => Type::Opaque(Arc::new(OpaqueType { name: name.into(), parameters })),
            }
        }
        _ => return None,
    })
}

fn environment(case: &Json) -> Env {
    let mut variables: Vec<(String, Type)> = Vec::new();
    if let Some(bindings) = case["bindings"].as_object() {
        variables.extend(bindings.keys().map(|name| (name.clone(), Type::Dyn)));
    }
    for declared in case["type_env"].as_array().into_iter().flatten() {
        let kind = read_type(&declared["ident"]).unwrap_or(Type::Dyn);
        variables.push((declared["name"].as_str().unwrap().to_owned(), kind));
    }
    let mut env = Env::standard().with_variables(variables);
    if let Some(container) = case["container"].as_str() {
        env = env.with_container(container);
    }
    env
}

fn read_value(json: &Json) -> Option<Value> {
    let value = &json["v"];
    let text = || value.as_str().map(str::to_owned).or_else(|| value.is_number().then(|| value.to_string()));
    Some(match json["t"].as_str()? {
        "null" => Value::Null,
        "bool" => Value::Bool(value.as_bool()?),
        "int" => Value::Int(text()?.parse().ok()?),
        "uint" => Value::UInt(text()?.parse().ok()?),
        "double" => Value::Double(text()?.parse().ok()?),
        "string" => Value::string(value.as_str()?),
        "bytes" => {
            let bytes =
                value.as_array()?.iter().map(|byte| byte.as_u64().and_then(|byte| u8::try_from(byte).ok()));
            Value::Bytes(bytes.collect::<Option<Vec<u8>>>()?.into())
        }
        "list" => Value::list(value.as_array()?.iter().map(read_value).collect::<Option<_>>()?),
        "map" => {
            let entries = value.as_array()?.iter();
            let entries = entries.map(|entry| Some((read_value(&entry[0])?, read_value(&entry[1])?)));
            Value::map(entries.collect::<Option<_>>()?)
        }
        "type" => Value::Type(value.as_str()?.into()),
        "timestamp" => Value::Timestamp(Timestamp::parse(value.as_str()?)?),
        "duration" => Value::Duration(Duration::parse(value.as_str()?)?),
        _ => return None,
    })
}

/// Whether value and type are equal, which is stricter than `==`; NaN equals NaN.
fn same(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Double(found), Value::Double(wanted)) => {
            found == wanted && found.is_sign_negative() == wanted.is_sign_negative()
                || found.is_nan() && wanted.is_nan()
        }
        (Value::List(found), Value::List(wanted)) => {
            found.len() == wanted.len()
                && found.iter().zip(wanted.iter()).all(|(found, wanted)| same(&found, &wanted))
        }
        (Value::Map(found), Value::Map(wanted)) => {
            found.len() == wanted.len()
                && wanted.iter().all(|(key, value)| {
                    found.iter().any(|(other, found)| same(&other, &key) && same(&found, &value))
                })
        }
        _ => found.type_name() == wanted.type_name() && found.equals(wanted),
    }
}

/// Runs one case; the error says why it failed.
fn run(case: &Json) -> Result<(), String> {
    let expr = case["expr"].as_str().unwrap();
    let env = environment(case);
    let wants_error = case["error"] == true;
    let parsed = parse(expr, &Limits::default());
    if !parsed.issues.is_empty() {
        return if wants_error { Ok(()) } else { Err(format!("does not parse: {:?}", parsed.issues)) };
    }
    let checked = if case["disable_check"] == true {
        env.resolve(parsed.ast)
    } else {
        let (checked, issues) = env.check(parsed.ast);
        if !issues.is_empty() {
            return if wants_error { Ok(()) } else { Err(format!("does not check: {issues:?}")) };
        }
        checked
    };
    if let Some(deduced) = case.get("deduced") {
        let deduced = read_type(deduced).ok_or("unknown deduced type")?;
        if *checked.result() != deduced {
            return Err(format!("expected type {deduced}, found {}", checked.result()));
        }
    }
    if case["check_only"] == true {
        return Ok(());
    }
    let bindings = &case["bindings"];
    let result = Program::new(&checked).map(Program::strict_presence).and_then(|program| {
        let lookup = |name: &kross_value::Text| bindings.get(name.as_str()).and_then(read_value);
        program.evaluate_with(lookup, &mut Budget::new(Budget::DEFAULT))
    });
    match (result, case.get("value")) {
        (Err(_), None) if wants_error => Ok(()),
        (Ok(found), Some(wanted)) if read_value(wanted).is_some_and(|wanted| same(&found, &wanted)) => Ok(()),
        (Ok(found), Some(wanted)) => Err(format!("expected {wanted}, found {found:?}")),
        (Ok(found), None) => Err(format!("expected an error, found {found:?}")),
        (Err(error), _) => Err(format!("fails: {error}")),
    }
}

#[test]
fn every_conformance_test_passes() {
    let Some(cases) = cases() else {
        println!("skipped: no cel-conformance.json found; set KROSS_CEL_CONFORMANCE to its path");
        return;
    };
    let mut groups: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut failures = Vec::new();
    for case in &cases {
        let group = groups.entry(case["file"].as_str().unwrap()).or_default();
        group.0 += 1;
        if let Err(reason) = run(case) {
            group.1 += 1;
            let name = format!("{}/{}/{}", case["file"], case["section"], case["name"]).replace('"', "");
            failures.push(format!("{name}: `{}`: {reason}", case["expr"].as_str().unwrap()));
        }
    }
    for (group, (all, failed)) in &groups {
        println!("{group:16} {:4} of {all:4}", all - failed);
    }
    println!("{:16} {:4} of {:4}", "all", cases.len() - failures.len(), cases.len());
    assert!(failures.is_empty(), "{} cases fail:\n{}", failures.len(), failures.join("\n"));
}
