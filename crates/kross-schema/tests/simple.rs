//! Tests and snapshots of the translation of SimpleSchema to OpenAPI and of its diagnostics, and property tests.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::fmt::Write as _;

use kross_diagnostics::{Part, Path, PathSegment, Problem};
use kross_schema::simple;
use kross_value::Value;
use proptest::prelude::*;

fn parse(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{error} in {json}"))
}

fn at() -> Path {
    "spec.schema".parse().unwrap()
}

fn translate(spec: &str, types: &str) -> simple::Translation {
    simple::translate(Some(&parse(spec)), Some(&parse(types)), &at())
}

/// The schema of a valid spec, as compact JSON.
fn schema(spec: &str, types: &str) -> String {
    let translation = translate(spec, types);
    assert_eq!(translation.problems, [], "{spec}");
    translation.schema.to_value().to_string()
}

/// The schema of one field.
fn field(text: &str) -> String {
    let spec = Value::object([("field", Value::from(text))]);
    let translation = simple::translate(Some(&spec), None, &at());
    assert_eq!(translation.problems, [], "{text}");
    translation.schema.properties.get("field").unwrap().to_value().to_string()
}

fn shown(problems: &[Problem], texts: &[&Value]) -> String {
    let mut lines = String::new();
    for problem in problems {
        let place = match &problem.place.part {
            Part::Value => String::new(),
            Part::Key => " (key)".to_owned(),
            Part::Within(range) => {
                let text = texts.iter().find_map(|root| find(root, problem)).expect("a string at the path");
                let part = text.get(range.clone()).expect("the range lies within the text");
                format!(" «{part}»")
            }
        };
        writeln!(lines, "{} {}{place}: {}", problem.code, problem.place.path, problem.message).unwrap();
        if let Some(help) = &problem.help {
            writeln!(lines, "    help: {help}").unwrap();
        }
        if let Some(replacement) = &problem.replacement {
            writeln!(lines, "    fix: {replacement}").unwrap();
        }
    }
    lines
}

fn find(root: &Value, problem: &Problem) -> Option<String> {
    let mut value = root;
    for segment in problem.place.path.segments().iter().skip(2) {
        let PathSegment::Key(key) = segment else { return None };
        value = value.get(key)?;
    }
    value.as_str().map(str::to_owned)
}

fn problems(spec: &str, types: &str) -> String {
    let (spec, types) = (parse(spec), parse(types));
    let translation = simple::translate(Some(&spec), Some(&types), &at());
    let root = Value::object([("spec", spec), ("types", types)]);
    shown(&translation.problems, &[&root])
}

fn field_problems(texts: &[&str]) -> String {
    let mut all = String::new();
    for text in texts {
        let spec = Value::object([("field", Value::from(*text))]);
        let root = Value::object([("spec", spec.clone())]);
        let translation = simple::translate(Some(&spec), None, &at());
        assert!(!translation.problems.is_empty(), "no problem is reported for {text:?}");
        writeln!(all, "{text:?}\n{}", shown(&translation.problems, &[&root])).unwrap();
    }
    all
}

#[test]
fn types_are_translated_to_openapi() {
    for (text, expected) in [
        ("string", r#"{"type":"string"}"#),
        ("  integer  ", r#"{"type":"integer"}"#),
        ("boolean", r#"{"type":"boolean"}"#),
        ("float", r#"{"type":"number"}"#),
        ("object", r#"{"type":"object","x-kubernetes-preserve-unknown-fields":true}"#),
        ("map", r#"{"type":"object","x-kubernetes-preserve-unknown-fields":true}"#),
        ("[]string", r#"{"items":{"type":"string"},"type":"array"}"#),
        ("[] string", r#"{"items":{"type":"string"},"type":"array"}"#),
        ("list<string>", r#"{"items":{"type":"string"},"type":"array"}"#),
        ("map[string]integer", r#"{"additionalProperties":{"type":"integer"},"type":"object"}"#),
        (
            "[]map[string]list<float>",
            r#"{"items":{"additionalProperties":{"items":{"type":"number"},"type":"array"},"type":"object"},"type":"array"}"#,
        ),
    ] {
        assert_eq!(field(text), expected, "{text}");
    }
    // As in an example of kro.
    assert_eq!(field("list<map>"), field("[]object"));
}

#[test]
fn markers_are_translated_to_openapi() {
    for (text, expected) in [
        ("integer | default=3", r#"{"default":3,"type":"integer"}"#),
        ("string | default=kubeconfig", r#"{"default":"kubeconfig","type":"string"}"#),
        ("string | default=", r#"{"default":"","type":"string"}"#),
        ("string | default=\"\"", r#"{"default":"","type":"string"}"#),
        ("string | default=3", r#"{"default":"3","type":"string"}"#),
        ("string | default=\"a \\\"b\\\" \\\\ c\"", r#"{"default":"a \"b\" \\ c","type":"string"}"#),
        (r#"string | default="a\n\tb""#, r#"{"default":"a\n\tb","type":"string"}"#),
        (r#"string | default="a\d+""#, r#"{"default":"a\\d+","type":"string"}"#),
        ("string | default=it's", r#"{"default":"it's","type":"string"}"#),
        ("float | default=1.5", r#"{"default":1.5,"type":"number"}"#),
        (
            "float | default=2 minimum=0.5 maximum=10",
            r#"{"default":2,"maximum":10,"minimum":0.5,"type":"number"}"#,
        ),
        ("boolean | default=True", r#"{"default":true,"type":"boolean"}"#),
        ("boolean | default=0", r#"{"default":false,"type":"boolean"}"#),
        (
            "[]string | default=[\"a b\", \"c\"] minItems=1 maxItems=3",
            r#"{"default":["a b","c"],"items":{"type":"string"},"maxItems":3,"minItems":1,"type":"array"}"#,
        ),
        (
            "map[string]string | default={\"a\": \"b c\", \"d\": \"}\"}",
            r#"{"additionalProperties":{"type":"string"},"default":{"a":"b c","d":"}"},"type":"object"}"#,
        ),
        ("string | enum=a,b,c", r#"{"enum":["a","b","c"],"type":"string"}"#),
        ("string | enum=\"a b, c\"", r#"{"enum":["a b","c"],"type":"string"}"#),
        ("integer | enum=1,2", r#"{"enum":[1,2],"type":"integer"}"#),
        ("string | pattern=\"^\\d+(a|b)$\"", r#"{"pattern":"^\\d+(a|b)$","type":"string"}"#),
        ("string | pattern=^(a|b)$ required=true", r#"{"pattern":"^(a|b)$","type":"string"}"#),
        ("string | minLength=1 maxLength=63", r#"{"maxLength":63,"minLength":1,"type":"string"}"#),
        (
            "string | description=\"the name = a | b\"",
            r#"{"description":"the name = a | b","type":"string"}"#,
        ),
        (
            "[]string | uniqueItems=true",
            r#"{"items":{"type":"string"},"type":"array","x-kubernetes-list-type":"set"}"#,
        ),
        ("[]string | uniqueItems=false", r#"{"items":{"type":"string"},"type":"array"}"#),
        (
            "[]object | listType=map listMapKey=name listMapKey=port",
            r#"{"items":{"type":"object","x-kubernetes-preserve-unknown-fields":true},"type":"array","x-kubernetes-list-map-keys":["name","port"],"x-kubernetes-list-type":"map"}"#,
        ),
        (
            "string | immutable=true validation=\"self != 'a'\" validation=\"self != 'b'\"",
            r#"{"type":"string","x-kubernetes-validations":[{"message":"field is immutable","rule":"self == oldSelf"},{"message":"validation failed","rule":"self != 'a'"},{"message":"validation failed","rule":"self != 'b'"}]}"#,
        ),
        ("string | immutable=false", r#"{"type":"string"}"#),
        (
            "[]string | validation=\"self.all(x, x != '' && size(self) >= size(oldSelf))\"",
            r#"{"items":{"type":"string"},"type":"array","x-kubernetes-validations":[{"message":"validation failed","rule":"self.all(x, x != '' && size(self) >= size(oldSelf))"}]}"#,
        ),
        (
            "object | validation=\"has(self.a) && self.__namespace__ == 'x'\"",
            r#"{"type":"object","x-kubernetes-preserve-unknown-fields":true,"x-kubernetes-validations":[{"message":"validation failed","rule":"has(self.a) && self.__namespace__ == 'x'"}]}"#,
        ),
    ] {
        assert_eq!(field(text), expected, "{text}");
    }
}

#[test]
fn markers_may_be_separated_by_pipes_and_followed_by_spaces() {
    let expected = field("integer | default=3 minimum=1 maximum=9");
    for text in [
        "integer | default=3 | minimum=1 | maximum=9",
        "integer|default=3|minimum=1|maximum=9",
        "integer | default=3 |minimum=1   maximum=9  ",
        "integer | default =3 minimum=1\tmaximum=9\n",
    ] {
        assert_eq!(field(text), expected, "{text}");
    }
}

#[test]
fn required_fields_are_sorted_and_structs_with_defaults_get_a_default() {
    insta::assert_json_snapshot!(
        translate(
            r#"{
            "zebra": "string | required=true",
            "apple": "string | required=true",
            "mango": "string | required=false",
            "withDefaults": {"size": "integer | default=3", "name": "string"},
            "withRequired": {"size": "integer | default=3", "name": "string | required=true"},
            "outer": {"inner": {"size": "integer | default=3"}},
            "empty": {}
        }"#,
            "{}",
        )
        .schema
    );
}

#[test]
fn the_spec_itself_gets_a_default_like_any_struct() {
    assert_eq!(
        schema(r#"{"size": "integer | default=3"}"#, "{}"),
        r#"{"default":{},"properties":{"size":{"default":3,"type":"integer"}},"type":"object"}"#
    );
    assert_eq!(schema("{}", "{}"), r#"{"type":"object"}"#);
}

#[test]
fn custom_types_are_expanded() {
    insta::assert_json_snapshot!(
        translate(
            r#"{
            "port": "Port",
            "named": "Name | description=\"its name\" validation=\"self != 'x'\"",
            "ports": "[]Port",
            "byName": "map[string]Endpoint",
            "endpoint": "Endpoint | description=\"where\""
        }"#,
            r#"{
            "Port": "integer | default=8080 minimum=1",
            "Name": "string | required=true immutable=true",
            "Endpoint": {"host": "Name", "port": "Port", "tags": "Tags"},
            "Tags": "[]string"
        }"#,
        )
        .schema
    );
}

#[test]
fn errors_in_types_are_reported() {
    insta::assert_snapshot!(field_problems(&[
        "",
        "  | default=3",
        "int",
        "strnig",
        "number",
        "Whatever",
        "string default=3",
        "[]",
        "list<>",
        "list<string",
        "map[string]",
        "map[]string",
        "map[string",
        "map[integer]string",
        "[]map[int]string",
        "[][][][][][][][][][][][][][][][][]string",
    ]));
}

#[test]
fn errors_in_markers_are_reported() {
    insta::assert_snapshot!(field_problems(&[
        "string |",
        "string | required=true |",
        "string | required",
        "string | =3",
        "string | min=1",
        "string | requird=true",
        "string | zzz=true",
        "string | description=the name",
        "string | description=\"the name",
        "object | default={\"a\": 1",
        "[]string | default=a]",
        "integer | default=1 default=2",
        "string | required=yes",
        "integer | minimum=low",
        "string | minLength=-1",
        "integer | minLength=1",
        "string | minItems=1",
        "boolean | enum=true,false",
        "string | pattern=",
        "string | pattern=\"[a-z\"",
        "string | pattern=\"(?=a)\"",
        "string | enum=a,,b",
        "integer | enum=1,two",
        "integer | default=three",
        "integer | default=1.5",
        "float | default=NaN",
        "boolean | default=yes",
        "[]string | default=eu",
        "object | default={a: 1}",
        "string | validation=\" \"",
        "[]string | listType=bag",
        "[]string | listType=atomic uniqueItems=true",
        "[]object | listMapKey=name",
        "[]object | listType=map",
        "[]string | listType=map listMapKey=name",
        "[]object | listType=map listMapKey=name listMapKey=name",
        "[]object | uniqueItems=true",
        "integer | minimum=3 maximum=1",
        "string | enum=small,large default=medium",
        "integer | minimum=1 default=0",
        "[]string | default=[1]",
        "map[string]integer | default={\"a\": \"b\"}",
        "string | pattern=\"^v\" default=x",
        "integer | validation=\"self > \"",
        "integer | validation=\"self.size() > 0\"",
        "integer | validation=\"self + 1\"",
        "string | validation=self!=othr",
        "string | validation=\"self != \\\"a\\\" && slef\"",
    ]));
}

#[test]
fn every_error_is_reported_once_without_follow_up_errors() {
    insta::assert_snapshot!(problems(
        r#"{
            "number": 3,
            "flag": true,
            "list": ["string"],
            "nothing": null,
            "tags": {"type": "object", "additionalProperties": {"type": "string"}, "default": {"auto-delete": "no"}},
            "type": {"type": "string", "name": "string"},
            "nested": {"deep": {"wrong": "sting | required=maybe"}},
            "usesBroken": "Broken | minLength=3",
            "usesCircle": "A",
            "ports": "[]Port | listType=map listMapKey=nam",
            "otherPorts": "[]Port | listType=map listMapKey=number"
        }"#,
        r#"{
            "A": {"b": "B"},
            "B": {"c": "[]C"},
            "C": "map[string]A",
            "Self": "Self",
            "Broken": "strng | default=1",
            "Port": {"name": "string | required=true", "number": "integer"},
            "string": "integer",
            "Bad": 7
        }"#,
    ));
}

#[test]
fn a_schema_that_is_not_a_map_is_reported() {
    insta::assert_snapshot!(problems("\"string\"", "[]"));
}

#[test]
fn exponentially_growing_types_are_reported() {
    let mut types = vec![r#""T0": {"x": "string", "y": "string"}"#.to_owned()];
    for n in 1..40 {
        types.push(
            format!(r#""T{n:02}": {{"x": "T{:02}", "y": "T{:02}"}}"#, n - 1, n - 1).replace("T00", "T0"),
        );
    }
    let types = format!("{{{}}}", types.join(","));
    let translation = translate(r#"{"a": "T39"}"#, &types);
    assert!(
        translation.problems.iter().any(|problem| problem.code == kross_diagnostics::Code::SchemaTooLarge)
    );
    assert!(translation.schema.to_value().to_string().len() < 5_000_000);
}

#[test]
fn a_long_chain_of_types_does_not_overflow_the_stack() {
    let types: Vec<String> = (0..5_000).map(|n| format!(r#""T{n}": {{"x": "T{}"}}"#, n + 1)).collect();
    let translation = translate("{}", &format!("{{{}, \"T5000\": \"string\"}}", types.join(",")));
    assert!(
        translation.problems.iter().all(|problem| problem.code == kross_diagnostics::Code::SchemaTooLarge)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_text_breaks_the_translation(text in "\\PC{0,60}", name in "\\PC{0,8}", alias in "\\PC{0,30}") {
        let spec = Value::object([(name.as_str(), Value::from(text))]);
        let types = Value::object([(name.as_str(), Value::from(alias))]);
        let translation = simple::translate(Some(&spec), Some(&types), &Path::root());
        let _ = translation.schema.to_value().to_string();
    }

    #[test]
    fn no_combination_of_tokens_breaks_the_translation(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "string", "integer", "[]", "map[string]", "list<", ">", "|", " ", "=", "\"", "\\", "{", "}",
                "[", "]", "default", "required", "enum", "pattern", "true", "1", ",", "T", "é", "listType",
            ]),
            0..14,
        )
    ) {
        let text = parts.concat();
        let spec = Value::object([("field", Value::from(text.as_str()))]);
        let types = Value::object([("T", Value::from(text.as_str()))]);
        let translation = simple::translate(Some(&spec), Some(&types), &Path::root());
        for problem in &translation.problems {
            if let Part::Within(range) = &problem.place.part {
                prop_assert!(text.get(range.clone()).is_some(), "{range:?} is not within {text:?}");
            }
        }
    }
}
