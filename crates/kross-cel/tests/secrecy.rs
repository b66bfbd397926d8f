//! Errors of evaluations contain no values: what was read from a Secret must not reach status, Events or logs.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use kross_cel::types::Type;
use kross_cel::value::Value;
use kross_cel::{Budget, Env, Program};

const CANARY: &str = "hunter2canary";

/// Expressions that fail with the canary in `s`.
const FAILING: &[&str] = &[
    "int(s)",
    "uint(s)",
    "uint('+' + s)",
    "double(s)",
    "bool(s)",
    "duration(s)",
    "timestamp(s)",
    "url(s)",
    "url('https://user:' + s)",
    "url('https://' + s + '%zz')",
    "url('https://[' + s)",
    "url('https://[::1]' + s)",
    "ip(s)",
    "ip('fe80::1%' + s)",
    "cidr(s)",
    "cidr(s + '/8')",
    "cidr('10.0.0.0/' + s)",
    "semver(s)",
    "semver(s + '-1', true)",
    "semver('1.2.' + s)",
    "quantity(s)",
    "base64.decode(s + '%')",
    "json.unmarshal(s)",
    "'x'.matches('(' + s)",
    "'x'.matches(s + '[')",
    "'x'.matches(s + '(?x)')",
    "regex.extract('x', '(' + s + ')(x)')",
    "regex.replace('x', 'x', s + '\\\\')",
    "regex.replace('x', 'x', s + '\\\\9')",
    "'x'.find('(' + s)",
    "('%' + s).format([1])",
    "('%.' + s).format([1])",
    "timestamp('2024-01-02T03:04:05Z').getHours(s)",
    "{s: 1, s + '': 2}",
    "dyn(s) + 1",
    "[1][dyn(s)]",
    "dyn({'a': 1})[[s]]",
    "[dyn(s), 1].sort()",
    "s.charAt(1000)",
];

/// Expressions that fail with the number 734291 in `n`, `-n` or `n` as a double.
const FAILING_NUMBERS: &[&str] = &[
    "'x'.charAt(n)",
    "'x'.substring(n)",
    "'xy'.substring(2, 1 - n)",
    "uint(-n)",
    "n * 9223372036854775807",
    "lists.setAtIndex([1], n, 2)",
    "[1].slice(n, n + 1)",
    "[1].flatten(-n)",
    "math.bitShiftLeft(1, -n)",
    "int(double(n) * 1e300)",
    "[1][dyn(double(n) + 0.5)]",
    "timestamp(n * 1000000000)",
];

fn message(expression: &str) -> String {
    let env = Env::standard().with_variables([("s", Type::String), ("n", Type::Int)]);
    let checked = env.compile(expression).unwrap_or_else(|issues| panic!("{expression}: {issues:?}"));
    let lookup = |name: &kross_value::Text| match name.as_str() {
        "s" => Some(Value::string(CANARY)),
        _ => Some(Value::Int(734_291)),
    };
    let result = Program::new(&checked).unwrap().evaluate_with(lookup, &mut Budget::default());
    match result {
        Ok(value) => panic!("{expression} does not fail: {value}"),
        Err(error) => format!("{error} {error:?}"),
    }
}

#[test]
fn errors_of_conversions_and_functions_do_not_quote_strings() {
    for expression in FAILING {
        let message = message(expression);
        assert!(!message.contains("hunter2") && !message.contains("canary"), "{expression}: {message}");
    }
}

#[test]
fn errors_of_functions_and_operators_do_not_quote_numbers() {
    for expression in FAILING_NUMBERS {
        let message = message(expression);
        assert!(!message.contains("734291") && !message.contains("7.34"), "{expression}: {message}");
    }
}

#[test]
fn a_missing_key_is_named_unless_the_caller_hides_keys() {
    let env = Env::standard().with_variables([("s", Type::String), ("n", Type::Int)]);
    for (expression, named, hidden) in [
        ("{'existing': 1}[s]", "no such key: hunter2canary (available: existing)", "no such key"),
        ("[1][n]", "index out of bounds: 734291 (list length: 1)", "index out of bounds (list length: 1)"),
    ] {
        let checked = env.compile(expression).unwrap();
        let lookup = |name: &kross_value::Text| match name.as_str() {
            "s" => Some(Value::string(CANARY)),
            _ => Some(Value::Int(734_291)),
        };
        let error =
            Program::new(&checked).unwrap().evaluate_with(lookup, &mut Budget::default()).unwrap_err();
        assert_eq!(error.to_string(), named);
        assert_eq!(error.fault.without_keys().to_string(), hidden);
    }
}
