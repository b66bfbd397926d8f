//! Evaluates generated expressions with kross-cel and with the `cel` crate: both return the same value, or both fail.
//!
//! The `cel` crate differs in a few places, which the generator avoids:
//! * it iterates over maps in random order, so macros over maps only test (`all`, `exists`) or count;
//! * it has no checker, so `1 + 1u` fails there at run time and here before; every generated expression is well-typed and
//!   must be accepted;
//! * it takes the last of duplicate map keys, which are an error in CEL, so keys are distinct;
//! * it has neither `cel.bind` nor macros with two variables.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::sync::Arc;

use kross_cel::syntax::{Limits, parse};
use kross_cel::types::Type;
use kross_cel::value::Value;
use kross_cel::{Budget, Env, Program};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

/// Generates an expression from a list of choices; shorter lists and smaller numbers give simpler ones, so that failures
/// shrink.
struct Generator<'a> {
    choices: std::slice::Iter<'a, u16>,
    /// The number of macro variables in scope, all of type int.
    scope: usize,
}

impl Generator<'_> {
    /// The next choice; 0, the simplest form, once they are exhausted.
    fn choose(&mut self, options: u16) -> u16 {
        self.choices.next().map_or(0, |choice| choice % options)
    }

    fn int(&mut self) -> String {
        match self.choose(22) {
            0 => ["0", "1", "2", "-1", "7", "9223372036854775807", "-9223372036854775808"]
                [self.choose(7) as usize]
                .into(),
            1 => "number".into(),
            2 if self.scope > 0 => format!("v{}", self.choose(self.scope as u16)),
            3 | 4 => format!("({} + {})", self.int(), self.int()),
            5 => format!("({} - {})", self.int(), self.int()),
            6 => format!("({} * {})", self.int(), self.int()),
            7 => format!("({} / {})", self.int(), self.int()),
            8 => format!("({} % {})", self.int(), self.int()),
            9 => format!("-({})", self.int()),
            10 => format!("({} ? {} : {})", self.bool(), self.int(), self.int()),
            11 => format!("size({})", self.text()),
            12 => format!("{}.size()", self.list()),
            13 => format!("{}[{}]", self.list(), self.int()),
            14 => format!("{}[{}]", self.map(), self.text()),
            15 => format!("{}.a", self.map()),
            16 => format!("int({})", self.text()),
            17 => format!("int({})", self.double()),
            18 => "object.spec.replicas".into(),
            19 => "object.spec.missing.deeper".into(),
            20 => format!("{}.size()", self.map()),
            _ => format!("int({})", self.uint()),
        }
    }

    fn uint(&mut self) -> String {
        match self.choose(6) {
            0 => ["0u", "1u", "2u", "18446744073709551615u"][self.choose(4) as usize].into(),
            1 => format!("({} + {})", self.uint(), self.uint()),
            2 => format!("({} - {})", self.uint(), self.uint()),
            3 => format!("({} * {})", self.uint(), self.uint()),
            4 => format!("({} % {})", self.uint(), self.uint()),
            _ => format!("uint({})", self.int()),
        }
    }

    fn double(&mut self) -> String {
        match self.choose(8) {
            0 => ["0.0", "1.0", "-2.5", "1e10", "0.1"][self.choose(5) as usize].into(),
            1 => format!("({} + {})", self.double(), self.double()),
            2 => format!("({} - {})", self.double(), self.double()),
            3 => format!("({} * {})", self.double(), self.double()),
            4 => format!("({} / {})", self.double(), self.double()),
            5 => format!("-({})", self.double()),
            6 => format!("double({})", self.uint()),
            _ => format!("double({})", self.int()),
        }
    }

    fn bool(&mut self) -> String {
        match self.choose(26) {
            0 => "true".into(),
            1 => "false".into(),
            2 => format!("({} && {})", self.bool(), self.bool()),
            3 => format!("({} || {})", self.bool(), self.bool()),
            4 => format!("!({})", self.bool()),
            5 => format!("({} {} {})", self.int(), self.comparison(), self.int()),
            6 => format!("({} {} {})", self.text(), self.comparison(), self.text()),
            // No order: the `cel` crate rejects NaN.
            7 => format!("({} == {})", self.double(), self.double()),
            8 => format!("({} {} {})", self.uint(), self.comparison(), self.uint()),
            9 => format!("({} == {})", self.list(), self.list()),
            10 => format!("({} != {})", self.map(), self.map()),
            11 => format!("({} in {})", self.int(), self.list()),
            12 => format!("({} in {})", self.text(), self.map()),
            13 => format!("has({}.b)", self.map()),
            14 => "has(object.spec.replicas)".into(),
            15 => "has(object.status)".into(),
            16 => format!("{}.contains({})", self.text(), self.text()),
            17 => format!("{}.startsWith({})", self.text(), self.text()),
            18 => format!("{}.endsWith({})", self.text(), self.text()),
            19 => self.over_list("all", Self::bool),
            20 => self.over_list("exists", Self::bool),
            21 => self.over_list("exists_one", Self::bool),
            22 => format!("{}.exists(k, k == {})", self.map(), self.text()),
            23 => format!("{}.all(k, k != {})", self.map(), self.text()),
            24 => format!("(dyn({}) == dyn({}))", self.int(), self.double()),
            _ => format!("(dyn({}) < dyn({}))", self.int(), self.uint()),
        }
    }

    fn comparison(&mut self) -> &'static str {
        ["==", "!=", "<", "<=", ">", ">="][self.choose(6) as usize]
    }

    fn text(&mut self) -> String {
        match self.choose(8) {
            0 => ["''", "'a'", "'b'", "'abc'", "'é😀'", "'12'", "\"q\\n\""][self.choose(7) as usize].into(),
            1 => "name".into(),
            2 | 3 => format!("({} + {})", self.text(), self.text()),
            4 => format!("string({})", self.int()),
            5 => format!("({} ? {} : {})", self.bool(), self.text(), self.text()),
            6 => "object.metadata.name".into(),
            _ => format!("string({})", self.uint()),
        }
    }

    fn list(&mut self) -> String {
        match self.choose(9) {
            0 => "[1, 2, 3]".into(),
            1 => "numbers".into(),
            2 => format!("[{}, {}]", self.int(), self.int()),
            3 => format!("({} + {})", self.list(), self.list()),
            4 => self.over_list("map", Self::int),
            5 => self.over_list("filter", Self::bool),
            6 => format!("({} ? {} : {})", self.bool(), self.list(), self.list()),
            7 => "object.spec.ports".into(),
            // Not `[]`, whose elements can have any type.
            _ => "[1].filter(none, false)".into(),
        }
    }

    fn map(&mut self) -> String {
        match self.choose(5) {
            0 => "{'a': 1, 'b': 2}".into(),
            1 => format!("{{'a': {}, 'abc': {}}}", self.int(), self.int()),
            2 => format!("({} ? {} : {})", self.bool(), self.map(), self.map()),
            // Not `{}`, for the same reason.
            3 => "{'c': 3}".into(),
            _ => "counts".into(),
        }
    }

    fn over_list(&mut self, name: &str, body: fn(&mut Self) -> String) -> String {
        let range = self.list();
        self.scope += 1;
        let body = body(self);
        self.scope -= 1;
        format!("{range}.{name}(v{}, {body})", self.scope)
    }

    fn any(&mut self) -> String {
        match self.choose(7) {
            0 | 1 => self.int(),
            2 => self.bool(),
            3 => self.text(),
            4 => self.list(),
            5 => self.double(),
            _ => self.map(),
        }
    }
}

const OBJECT: &str = r#"{"metadata": {"name": "web"}, "spec": {"replicas": 3, "ports": [80, 443]}}"#;

/// The result of kross-cel, checked or unchecked.
fn ours(text: &str, checked: bool) -> Option<Value> {
    let int_list = Type::list(Type::Int);
    let env = Env::standard().with_variables([
        ("number", Type::Int),
        ("name", Type::String),
        ("numbers", int_list.clone()),
        ("counts", Type::map(Type::String, Type::Int)),
        ("object", Type::Dyn),
    ]);
    let checked = if checked {
        env.compile(text).unwrap_or_else(|issues| panic!("`{text}` is rejected: {issues:?}"))
    } else {
        env.resolve(parse(text, &Limits::default()).ast)
    };
    let object: kross_value::Value = serde_json::from_str(OBJECT).unwrap();
    let numbers: kross_value::Value = serde_json::from_str("[5, 0, -3, 4]").unwrap();
    let counts: kross_value::Value = serde_json::from_str(r#"{"a": 10, "c": 0}"#).unwrap();
    Program::new(&checked)
        .unwrap()
        .evaluate_with(
            |variable| {
                Some(match variable.as_str() {
                    "number" => Value::Int(42),
                    "name" => Value::string("abc"),
                    "numbers" => Value::from_data(&numbers, Some(&int_list)),
                    "counts" => Value::from(&counts),
                    _ => Value::from(&object),
                })
            },
            &mut Budget::default(),
        )
        .ok()
}

/// The result of the `cel` crate.
fn theirs(text: &str) -> Option<Value> {
    let program =
        cel::Program::compile(text).unwrap_or_else(|error| panic!("`{text}` does not parse: {error}"));
    let mut context = cel::Context::default();
    let ints =
        |items: &[i64]| cel::Value::List(Arc::new(items.iter().map(|item| cel::Value::Int(*item)).collect()));
    let map = |entries: Vec<(&str, cel::Value)>| {
        let entries: std::collections::HashMap<cel::objects::Key, cel::Value> =
            entries.into_iter().map(|(key, value)| (key.into(), value)).collect();
        cel::Value::Map(cel::objects::Map { map: Arc::new(entries) })
    };
    context.add_variable_from_value("number", 42_i64);
    context.add_variable_from_value("name", "abc");
    context.add_variable_from_value("numbers", ints(&[5, 0, -3, 4]));
    context.add_variable_from_value("counts", map(vec![("a", 10_i64.into()), ("c", 0_i64.into())]));
    let spec = map(vec![("replicas", 3_i64.into()), ("ports", ints(&[80, 443]))]);
    let object = map(vec![("metadata", map(vec![("name", "web".into())])), ("spec", spec)]);
    context.add_variable_from_value("object", object);
    program.execute(&context).ok().map(|value| converted(&value))
}

fn converted(value: &cel::Value) -> Value {
    match value {
        cel::Value::Null => Value::Null,
        cel::Value::Bool(value) => Value::Bool(*value),
        cel::Value::Int(value) => Value::Int(*value),
        cel::Value::UInt(value) => Value::UInt(*value),
        cel::Value::Float(value) => Value::Double(*value),
        cel::Value::String(text) => Value::string(text.as_str()),
        cel::Value::Bytes(bytes) => Value::Bytes(bytes.as_slice().into()),
        cel::Value::List(items) => Value::list(items.iter().map(converted).collect()),
        cel::Value::Map(map) => {
            let key = |key: &cel::objects::Key| match key {
                cel::objects::Key::Int(value) => Value::Int(*value),
                cel::objects::Key::Uint(value) => Value::UInt(*value),
                cel::objects::Key::Bool(value) => Value::Bool(*value),
                cel::objects::Key::String(text) => Value::string(text.as_str()),
            };
            Value::map(map.map.iter().map(|(name, value)| (key(name), converted(value))).collect())
        }
        other => panic!("a value that no generated expression returns: {other:?}"),
    }
}

/// Whether both have the same value and type, or both failed.
fn same(left: Option<&Value>, right: Option<&Value>) -> bool {
    match (left, right) {
        (None, None) => true,
        (Some(Value::Double(left)), Some(Value::Double(right))) => {
            left == right || left.is_nan() && right.is_nan()
        }
        (Some(left), Some(right)) => left.type_name() == right.type_name() && left.equals(right),
        _ => false,
    }
}

fn agree(choices: &[u16]) -> Result<(), TestCaseError> {
    let text = Generator { choices: choices.iter(), scope: 0 }.any();
    let (here, unchecked, there) = (ours(&text, true), ours(&text, false), theirs(&text));
    prop_assert!(
        same(here.as_ref(), unchecked.as_ref()),
        "`{text}`: checked {here:?}, unchecked {unchecked:?}"
    );
    prop_assert!(same(here.as_ref(), there.as_ref()), "`{text}`: here {here:?}, there {there:?}");
    Ok(())
}

#[test]
fn results_are_those_of_the_cel_crate() {
    let run = || {
        let config = ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() };
        let choices = prop::collection::vec(any::<u16>(), 1..60);
        TestRunner::new(config).run(&choices, |choices| agree(&choices))
    };
    // The `cel` crate needs more stack than a test thread has.
    let thread = std::thread::Builder::new().stack_size(256 << 20).spawn(run).unwrap();
    thread.join().unwrap().unwrap_or_else(|error| panic!("{error}"));
}
