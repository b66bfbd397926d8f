//! Compares checker and evaluator with the results of cel-go 0.31 for generated expressions, well-typed and not:
//! `cel_go/answers.txt` has an expression on one line and cel-go's result, indented, on the next.
//!
//! A result is `refused` by the checker, or the type followed by `fails` or by the value. Error messages are not compared.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use kross_cel::types::Type;
use kross_cel::value::{Duration, Timestamp, Value};
use kross_cel::{Budget, Env, Program};

const ANSWERS: &str = include_str!("cel_go/answers.txt");

fn env() -> Env {
    Env::standard().with_variables([
        ("n", Type::Int),
        ("s", Type::String),
        ("l", Type::list(Type::Int)),
        ("ls", Type::list(Type::String)),
        ("m", Type::map(Type::String, Type::Int)),
        ("o", Type::Dyn),
        ("d", Type::Double),
        ("u", Type::UInt),
        ("by", Type::Bytes),
        ("t", Type::Timestamp),
        ("du", Type::Duration),
    ])
}

fn variable(name: &str) -> Option<Value> {
    let json = |text: &str| Value::from(serde_json::from_str::<kross_value::Value>(text).unwrap());
    Some(match name {
        "n" => Value::Int(7),
        "s" => Value::string("héllo"),
        "l" => json("[3, 1, 2]"),
        "ls" => json(r#"["b", "a", "b"]"#),
        "m" => json(r#"{"a": 1, "b": 2}"#),
        "o" => json(r#"{"a": {"b": 5, "c": [1, "x", null, 2.5, true]}, "n": null, "e": {}}"#),
        "d" => Value::Double(2.5),
        "u" => Value::UInt(9),
        "by" => Value::Bytes((*b"xyz").into()),
        "t" => Value::Timestamp(Timestamp::parse("2024-02-29T13:04:05.678Z").unwrap()),
        "du" => Value::Duration(Duration { nanoseconds: 5_400_000_000_000 }),
        _ => return None,
    })
}

fn answer(env: &Env, expression: &str) -> String {
    let Ok(checked) = env.compile(expression) else { return "refused".into() };
    let result = Program::new(&checked)
        .and_then(|program| program.evaluate_with(|name| variable(name), &mut Budget::default()));
    match result {
        Ok(value) => format!("{} = {}", checked.result(), shown(&value)),
        Err(_) => format!("{} fails", checked.result()),
    }
}

/// The whole value, not shortened, with a letter for the type where the digits are ambiguous.
fn shown(value: &Value) -> String {
    match value {
        Value::UInt(number) => format!("{number}u"),
        Value::Double(number) => format!("{}d", double(*number)),
        Value::String(text) => serde_json::to_string(text.as_str()).unwrap(),
        Value::Bytes(bytes) => {
            format!("b{}", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
        }
        Value::Timestamp(time) => format!("t{time}"),
        Value::Duration(length) => format!("d{}", length.nanoseconds),
        Value::Optional(None) => "none".into(),
        Value::Optional(Some(inner)) => format!("some({})", shown(inner)),
        Value::Type(name) => format!("type {name}"),
        Value::List(list) => {
            format!("[{}]", list.iter().map(|item| shown(&item)).collect::<Vec<_>>().join(", "))
        }
        Value::Map(map) => {
            let mut entries: Vec<String> =
                map.iter().map(|(key, value)| format!("{}: {}", shown(&key), shown(&value))).collect();
            entries.sort();
            format!("{{{}}}", entries.join(", "))
        }
        other => other.to_string(),
    }
}

/// The result of `string()`, which is the format in the file.
fn double(number: f64) -> String {
    let checked = Env::standard().with_variables([("d", Type::Double)]).compile("string(d)").unwrap();
    let program = Program::new(&checked).unwrap();
    match program.evaluate(&[Some(Value::Double(number))], &mut Budget::default()).unwrap() {
        Value::String(text) => text.to_string(),
        other => panic!("{other}"),
    }
}

#[test]
fn results_are_those_of_cel_go() {
    let env = env();
    let mut lines = ANSWERS.lines();
    let (mut count, mut wrong) = (0, Vec::new());
    while let (Some(expression), Some(expected)) = (lines.next(), lines.next()) {
        let found = answer(&env, expression);
        count += 1;
        if found != expected.trim_start() {
            wrong.push(format!("{expression}\n  expected {}\n  found    {found}", expected.trim_start()));
        }
    }
    assert!(count >= 2_000, "only {count} results");
    assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong.join("\n"));
}
