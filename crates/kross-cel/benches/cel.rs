//! Measures the evaluator on the expressions of `cel-go/main.go` and prints a line "name nanoseconds" for each, which
//! `cargo xtask bench cel` reads.

#![allow(
    clippy::print_stdout,
    clippy::expect_used,
    missing_docs,
    reason = "a benchmark is a program, not a library"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use kross_cel::types::Type;
use kross_cel::value::Value;
use kross_cel::{Budget, Env, Program};

const FIELD: &str = r#"schema.spec.name + "-" + string(schema.spec.replicas)"#;
const EXPRESSIONS: &[(&str, &str)] = &[
    ("field", FIELD),
    ("map", "items.map(x, x * 2)"),
    ("filter_map_size", "items.filter(x, x % 2 == 0).map(x, x * 2).size()"),
    ("all", "items.all(x, x >= 0)"),
];

fn main() {
    let env = Env::standard()
        .with_variables([("schema", Type::map(Type::String, Type::Dyn)), ("items", Type::list(Type::Int))]);
    let schema: kross_value::Value =
        serde_json::from_str(r#"{"spec": {"name": "web", "replicas": 3}}"#).expect("it is JSON");
    let items = kross_value::Value::list((0..1000).map(kross_value::Value::Int));
    for (name, expression) in EXPRESSIONS {
        let program =
            Program::new(&env.compile(*expression).expect("it is well-typed")).expect("it is small");
        let slots: Vec<Option<Value>> = program
            .variables()
            .iter()
            .map(|variable| match variable.as_str() {
                "schema" => Some(Value::from(&schema)),
                _ => Some(Value::from_data(&items, Some(&Type::list(Type::Int)))),
            })
            .collect();
        let nanoseconds = measure(|| {
            black_box(program.evaluate(black_box(&slots), &mut Budget::default())).expect("it evaluates");
        });
        println!("{name} {nanoseconds}");
    }
    let nanoseconds = measure(|| {
        black_box(env.compile(black_box(FIELD))).expect("it is well-typed");
    });
    println!("parse_check {nanoseconds}");
}

/// The best mean of many batches, in nanoseconds. Batches are short, so that some of them run undisturbed.
fn measure(mut work: impl FnMut()) -> f64 {
    let start = Instant::now();
    let mut warm = 0_u32;
    while start.elapsed() < Duration::from_millis(100) {
        work();
        warm += 1;
    }
    let batch = (warm / 25).max(1);
    let mut best = f64::INFINITY;
    for _ in 0..150 {
        let start = Instant::now();
        (0..batch).for_each(|_| work());
        best = best.min(start.elapsed().as_secs_f64() * 1e9 / f64::from(batch));
    }
    best
}
