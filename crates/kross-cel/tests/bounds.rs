//! Small expressions with large results, and unusual arguments: every function respects its budget and the size limits,
//! and none panics.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::time::{Duration, Instant};

use kross_cel::env::Env;
use kross_cel::eval::{Budget, Program};
use kross_cel::library::{Call, GATED, standard};
use kross_cel::types::Type;
use kross_cel::value::{Timestamp, Value};

fn evaluate(expression: &str) -> Result<Value, String> {
    let checked = Env::standard().compile(expression).map_err(|issues| format!("{issues:?}"))?;
    Program::new(&checked)
        .unwrap()
        .evaluate(&[], &mut Budget::new(1_000_000))
        .map_err(|error| error.to_string())
}

#[test]
fn results_that_are_too_large_are_rejected() {
    // Doubles a value thirty times, sharing all parts.
    let doubled = |start: &str, step: &str| {
        (0..30).fold(start.to_owned(), |inner, at| {
            format!("cel.bind(v{at}, {inner}, {})", step.replace('v', &format!("v{at}")))
        })
    };
    let list = doubled("dyn([1, 2])", "dyn([v, v])");
    let map = doubled("dyn({'a': 1})", "dyn({'a': v, 'b': v})");
    let text = doubled("'0123456789'", "v.replace('', '0123456789')");
    for expression in [
        format!("json.marshal({list})"),
        format!("json.marshal({map})"),
        format!("'%s'.format([{list}])"),
        format!("{list}.flatten(100)"),
        format!("{map}.deepMerge({map})"),
        text,
        "random.seededString(1000000000000, 'a')".to_owned(),
        "lists.range(1000000).map(x, 'a').join(random.seededString(1000, 'a'))".to_owned(),
        "regex.replace(random.seededString(100000, 'a'), '', random.seededString(100000, 'a'))".to_owned(),
        "random.seededString(10000, 'a').replace('', random.seededString(10000, 'a'))".to_owned(),
        "quantity('1e1000000').add(1).asApproximateFloat() > 0.0".to_owned(),
        "sets.contains(lists.range(10000), lists.range(10000))".to_owned(),
        "lists.range(10000).distinct()".to_owned(),
    ] {
        let start = Instant::now();
        assert!(evaluate(&expression).is_err(), "{expression}");
        assert!(start.elapsed() < Duration::from_secs(30), "{expression} took {:?}", start.elapsed());
    }
}

#[test]
fn extreme_quantities_are_compared_without_expanding_them() {
    for expression in [
        "quantity('1e1000000').compareTo(quantity('1e999999')) == 1",
        "quantity('1e-1000000') == quantity('1n')",
        "quantity('-1e2000000000').isLessThan(quantity('0'))",
        "!isQuantity('12345678901234567890e1000000')",
        "!isQuantity('1e99999999999999999999')",
    ] {
        let start = Instant::now();
        assert!(evaluate(expression).unwrap().equals(&Value::Bool(true)), "{expression}");
        assert!(start.elapsed() < Duration::from_secs(5), "{expression}");
    }
}

/// Edge cases of all types.
fn edge_cases() -> Vec<Value> {
    let texts = ["", "é", "%", "a\u{0}b", "-", "[", "::", "1e9", "\\", "0.0.0.0/0", "{\"a\":[1]}", "😀%s😀"];
    let mut values: Vec<Value> = texts.map(Value::string).to_vec();
    values.extend([i64::MIN, -1, 0, 1, 63, 64, i64::MAX].map(Value::Int));
    values.extend([0, 1, u64::MAX].map(Value::UInt));
    values.extend([f64::NAN, f64::INFINITY, -0.0, 0.5, f64::MAX].map(Value::Double));
    values.extend([Value::Null, Value::Bool(true), Value::Bytes((*b"\xff\x00").into()), Value::omit()]);
    values.extend([Value::Optional(None), Value::some(Value::Int(1)), Value::Type("int".into())]);
    values.extend(Timestamp::parse("9999-12-31T23:59:59.999999999Z").map(Value::Timestamp));
    values.push(Value::Duration(kross_cel::value::Duration { nanoseconds: i64::MIN }));
    values.push(Value::list(values.clone()));
    values.push(Value::list(Vec::new()));
    values.push(Value::map(vec![(Value::string("status"), Value::Int(1)), (Value::Int(1), Value::Null)]));
    for text in [
        "quantity('-9223372036854775807')",
        "quantity('1e2000000000')",
        "ip('::')",
        "cidr('::/0')",
        "url('*')",
        "semver('0.0.0-a')",
        "format.uri()",
    ] {
        values.push(evaluate(text).unwrap());
    }
    values
}

#[test]
fn no_function_panics_on_any_values() {
    let values = edge_cases();
    for library in standard().chain(GATED.iter().copied()) {
        for function in library.functions {
            for overload in function.overloads {
                let signature =
                    kross_cel::library::Signature::parse(function.name, overload.signature).unwrap();
                for first in &values {
                    for second in &values {
                        let third = values.iter().step_by(5);
                        for third in third {
                            let all = [first.clone(), second.clone(), third.clone(), second.clone()];
                            let count = signature.parameters.len();
                            let mut budget = 100_000;
                            let _ =
                                (overload.implementation)(&mut Call::new(&mut budget), &all[..count.min(4)]);
                            if count < 3 {
                                break;
                            }
                        }
                        if signature.parameters.len() < 2 {
                            break;
                        }
                    }
                }
                // Also with too few arguments, which the checker and the evaluator never pass.
                let mut budget = 100_000;
                let _ = (overload.implementation)(&mut Call::new(&mut budget), &[]);
                assert_ne!(signature.result, Type::Error);
            }
        }
    }
}
