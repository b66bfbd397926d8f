//! Fuzzes every parser of user input with random input. Nothing may panic, hang or overflow the stack.
//!
//! `KROSS_FUZZ_INPUTS` sets the number of inputs, `KROSS_FUZZ_SEED` the seed; run with `--release` for millions.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::time::{Duration, Instant};

use kross_diagnostics::{Part, Path};
use kross_schema::compatibility::compare_crds;
use kross_schema::openapi::{Keep, Schema};
use kross_schema::{
    Bundle, CrdSchemas, GroupVersionKind, LiveSchemas, SchemaResolver, SchemaView, assignable,
    check_template, schema_of, simple,
};
use kross_value::Value;

const INPUTS: u64 = 20_000;
/// Time limit for one input, generous enough for a busy machine.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// Parts of SimpleSchema, of schemas and of objects.
const PARTS: &[&str] = &[
    "string",
    "integer",
    "boolean",
    "float",
    "object",
    "map",
    "[]",
    "list<",
    ">",
    "map[string]",
    "map[",
    "]",
    "T",
    "U",
    "|",
    " ",
    "=",
    "\"",
    "\\",
    "{",
    "}",
    "[",
    "(",
    ")",
    ",",
    "'",
    "default",
    "required",
    "description",
    "minimum",
    "maximum",
    "validation",
    "enum",
    "immutable",
    "pattern",
    "uniqueItems",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "listType",
    "listMapKey",
    "true",
    "false",
    "set",
    "atomic",
    "1",
    "-1",
    "1.5",
    "9223372036854775808",
    "1e999",
    "self",
    "self >",
    "^a+$",
    "(a|b)*",
    "é",
    "\u{0}",
    "\n",
    "𝒳",
    "[1]",
    "{\"a\":1}",
    "null",
    "default=",
    "x",
];

const KEYS: &[&str] = &[
    "type",
    "properties",
    "items",
    "additionalProperties",
    "required",
    "enum",
    "default",
    "nullable",
    "format",
    "pattern",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "$ref",
    "minimum",
    "maxLength",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-int-or-string",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-list-type",
    "x-kubernetes-validations",
    "x-kubernetes-list-map-keys",
    "spec",
    "metadata",
    "status",
    "versions",
    "names",
    "kind",
    "group",
    "scope",
    "schema",
    "openAPIV3Schema",
    "name",
    "served",
    "a",
    "b",
    "description",
    "x-kubernetes-group-version-kind",
    "components",
];

const WORDS: &[&str] = &[
    "string",
    "object",
    "array",
    "integer",
    "number",
    "boolean",
    "date-time",
    "byte",
    "int32",
    "a",
    "^a$",
    "set",
    "map",
    "#/components/schemas/a",
    "Namespaced",
    "Cluster",
    "v1",
    "Widget",
    "${a.b}",
    "2024-01-01T00:00:00Z",
    "aGk=",
    "",
];

/// A reproducible random number generator (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.next() % most as u64).unwrap()
    }

    fn pick<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }

    fn text(&mut self) -> String {
        (0..self.below(14)).map(|_| self.pick(PARTS)).collect()
    }

    /// A value with keys and words that are likely to have a meaning.
    fn value(&mut self, depth: usize) -> Value {
        match self.below(if depth == 0 { 6 } else { 12 }) {
            0 => Value::Null,
            1 => Value::Bool(self.below(2) == 0),
            2 => Value::Int(i64::try_from(self.below(9)).unwrap() - 2),
            3 => Value::Float(0.5),
            4 | 5 => Value::from(self.pick(WORDS)),
            6 | 7 => {
                let length = self.below(4);
                Value::list((0..length).map(|_| self.value(depth - 1)).collect::<Vec<_>>())
            }
            _ => self.object(depth),
        }
    }

    fn object(&mut self, depth: usize) -> Value {
        let length = self.below(6);
        let entries: Vec<_> =
            (0..length).map(|_| (self.pick(KEYS), self.value(depth.saturating_sub(1)))).collect();
        Value::object(entries)
    }

    /// A slightly nested SimpleSchema.
    fn spec(&mut self, depth: usize) -> Value {
        let length = self.below(4);
        let entries: Vec<(&str, Value)> = (0..length)
            .map(|_| {
                let value = match self.below(8) {
                    0 if depth > 0 => self.spec(depth - 1),
                    1 => self.value(1),
                    _ => Value::from(self.text()),
                };
                (self.pick(&["T", "U", "a", "string", "type"]), value)
            })
            .collect();
        Value::object(entries)
    }
}

fn translate(random: &mut Random) {
    let (spec, types) = (random.spec(2), random.spec(2));
    let translation = simple::translate(Some(&spec), Some(&types), &Path::root());
    let root = Value::object([("spec", spec), ("types", types)]);
    for problem in &translation.problems {
        if let Part::Within(range) = &problem.place.part {
            let segments: Vec<String> = problem
                .place
                .path
                .segments()
                .iter()
                .map(|segment| match segment {
                    kross_diagnostics::PathSegment::Key(key) => key.clone(),
                    kross_diagnostics::PathSegment::Index(index) => index.to_string(),
                })
                .collect();
            let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
            let text = root.at(&segments).and_then(Value::as_str).expect("a string at the path");
            assert!(text.get(range.clone()).is_some(), "{problem:?} is outside {text:?}");
        }
    }
    // The result is always a valid schema.
    let written = translation.schema.to_value();
    assert_eq!(Schema::from_value(&written, Keep::Everything).unwrap().to_value(), written);
}

fn read(random: &mut Random) {
    let (one, other) = (random.object(5), random.object(5));
    let crds = CrdSchemas::new();
    let _ = crds.insert(&one);
    let _ = compare_crds(&one, &other);
    let _ = LiveSchemas::new().insert("a/v1", "1", one.to_string().as_bytes());
    let schemas = [&one, &other].map(|value| Schema::from_value(value, Keep::Everything).ok());
    for schema in schemas.iter().flatten() {
        let view = SchemaView::of("a", schema.clone());
        let found = view.cel_type();
        let _ = schema_of(&found);
        let texts = &mut |found: kross_schema::FoundText<'_>| found.text.contains("${");
        check_template(&other, &view, &Path::root(), texts, &mut Vec::new());
        for target in schemas.iter().flatten() {
            let _ = assignable(&found, &SchemaView::of("b", target.clone()));
        }
    }
}

fn template(random: &mut Random, bundle: &Bundle, kinds: &[GroupVersionKind]) {
    let kind = &kinds[random.below(kinds.len())];
    let resolved = bundle.resolve(kind).unwrap();
    let texts = &mut |found: kross_schema::FoundText<'_>| found.text.contains("${");
    check_template(&random.object(5), &resolved.schema, &Path::root(), texts, &mut Vec::new());
}

#[test]
fn no_input_breaks_a_parser() {
    let number = |name: &str, default: u64| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let (inputs, seed) = (number("KROSS_FUZZ_INPUTS", INPUTS), number("KROSS_FUZZ_SEED", 1));
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let bundle = Bundle::latest();
    let kinds = bundle.kinds();
    for input in 0..inputs {
        let before = Instant::now();
        match input % 4 {
            0 | 1 => translate(&mut random),
            2 => read(&mut random),
            _ => template(&mut random, &bundle, &kinds),
        }
        assert!(before.elapsed() < TIME_LIMIT, "input {input} of seed {seed} takes too long");
    }
}
