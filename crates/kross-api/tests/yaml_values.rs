//! Tests of the values that YAML is parsed to.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use kross_api::yaml::{self, Document, Limits};
use kross_diagnostics::{Diagnostics, Sources, render};
use kross_value::Value;

fn read(text: &str) -> (Vec<Document>, String) {
    let (mut sources, mut found) = (Sources::new(), Diagnostics::new());
    let documents = yaml::parse(&mut sources, "a.yaml", text, &Limits::default(), &mut found);
    (documents, render::lines(&found, &sources))
}

fn json(text: &str) -> String {
    let (documents, found) = read(text);
    assert_eq!(found, "", "{text}");
    documents.iter().map(|document| document.value().to_string()).collect::<Vec<_>>().join(" ")
}

#[test]
fn values_are_parsed_like_in_kubectl() {
    assert_eq!(
        json("a: 1\nb: 1.5\nc: x\nd: true\ne:\nf: ~\n"),
        r#"{"a":1,"b":1.5,"c":"x","d":true,"e":null,"f":null}"#
    );
    assert_eq!(json("[0644, 0o14, 0xff, 1_000, 1.0, 1e3, 08]"), "[420,12,255,1000,1,1000,8]");
    assert_eq!(json("['1', \"true\", 'no']"), r#"["1","true","no"]"#);
    assert_eq!(json("[2024-01-02, 12:30, 1Gi, 100m]"), r#"["2024-01-02","12:30","1Gi","100m"]"#);
}

#[test]
fn boolean_words_are_booleans_with_a_warning() {
    let (documents, found) = read("a: yes\noff: n\nb: 'no'\n");
    assert_eq!(documents[0].value().to_string(), r#"{"a":true,"b":"no","false":false}"#);
    assert_eq!(
        found,
        "a.yaml:1:4: warning[K0113]: `yes` is parsed as the boolean `true`\n\
         a.yaml:2:1: warning[K0113]: `off` is parsed as the boolean `false`\n\
         a.yaml:2:6: warning[K0113]: `n` is parsed as the boolean `false`\n"
    );
}

#[test]
fn keys_become_strings() {
    assert_eq!(
        json("80: a\ntrue: b\n1.5: c\n'null': d\n0x10: e\n"),
        r#"{"1.5":"c","16":"e","80":"a","null":"d","true":"b"}"#
    );
    assert_eq!(json("? x\n: 1\n"), r#"{"x":1}"#);
}

#[test]
fn tags_determine_the_type_of_a_value() {
    assert_eq!(
        json("a: !!str 12\nb: !!int '12'\nc: !!float 1.5\nd: !!bool yes\ne: !!null ''\nf: ! 12\n"),
        r#"{"a":"12","b":12,"c":1.5,"d":true,"e":null,"f":"12"}"#
    );
    assert_eq!(
        json("a: !!map {b: !!seq [1]}\nc: !!timestamp 2024-01-02\nd: !!str\n"),
        r#"{"a":{"b":[1]},"c":"2024-01-02","d":""}"#
    );
}

#[test]
fn empty_documents_are_omitted() {
    assert_eq!(json(""), "");
    assert_eq!(json("# nothing\n"), "");
    assert_eq!(json("---\n# nothing\n---\na: 1\n...\n---\n---\nb: 2\n---\n"), r#"{"a":1} {"b":2}"#);
    assert_eq!(json("\u{feff}a: 1\n"), r#"{"a":1}"#);
    assert_eq!(json("%YAML 1.2\n---\na: 1\n"), r#"{"a":1}"#);
}

#[test]
fn json_is_parsed_as_yaml() {
    let text = r#"{"a": [1, 2.5, -3e2, "x\n\u00e9\ud83e\udd80\/", null, true], "b": {"c": {}}, "": []}"#;
    let value: Value = serde_json::from_str(text).unwrap();
    let (documents, found) = read(text);
    assert_eq!(found, "");
    assert_eq!(documents[0].value().to_string(), value.to_string().replace("-300.0", "-300"));
}

#[test]
fn block_scalars_keep_or_fold_lines() {
    assert_eq!(
        json("a: |\n  x\n   y\n\n  z\nb: |-\n  x\nc: |+\n  x\n\nd: >\n  x\n  y\n\n  z\n"),
        r#"{"a":"x\n y\n\nz\n","b":"x","c":"x\n\n","d":"x y\nz\n"}"#
    );
}

#[test]
fn windows_line_endings_become_line_feeds() {
    assert_eq!(json("a: |\r\n  x\r\n  y\r\nb: 1\r\n"), r#"{"a":"x\ny\n","b":1}"#);
}

#[test]
fn aliases_repeat_values() {
    assert_eq!(json("a: &x {b: 1}\nc: *x\nd: [*x]\n"), r#"{"a":{"b":1},"c":{"b":1},"d":[{"b":1}]}"#);
    assert_eq!(json("- &k name\n- {*k : 1}\n"), r#"["name",{"name":1}]"#);
    // An anchor may be redefined.
    assert_eq!(json("a: &x 1\nb: *x\nc: &x 2\nd: *x\n"), r#"{"a":1,"b":1,"c":2,"d":2}"#);
}

#[test]
fn merges_do_not_override_existing_keys() {
    assert_eq!(
        json("a: &a {x: 1, w: 2}\nb: {<<: *a, w: 3}\nc:\n  w: 4\n  <<: *a\n"),
        r#"{"a":{"w":2,"x":1},"b":{"w":3,"x":1},"c":{"w":4,"x":1}}"#
    );
    assert_eq!(
        json("- &a {x: 1}\n- &b {x: 2, z: 3}\n- <<: [*a, *b]\n- '<<': 1\n"),
        r#"[{"x":1},{"x":2,"z":3},{"x":1,"z":3},{"<<":1}]"#
    );
}

#[test]
fn the_last_value_of_a_duplicate_key_wins() {
    let (documents, found) = read("a: 1\nb: 2\na: 3\n");
    assert_eq!(documents[0].value().to_string(), r#"{"a":3,"b":2}"#);
    assert_eq!(found, "a.yaml:3:1: error[K0104]: duplicate key `a` in this mapping\n");
}

#[test]
fn the_other_documents_of_an_invalid_file_are_parsed() {
    let (documents, found) = read("a: 1\n---\nb: [1\n---\nc: 3\n---\nd: 'x\n---\ne: 5\n");
    let values: Vec<String> = documents.iter().map(|document| document.value().to_string()).collect();
    assert_eq!(values, [r#"{"a":1}"#, r#"{"c":3}"#, r#"{"e":5}"#]);
    assert_eq!(found.lines().count(), 2, "{found}");
}
