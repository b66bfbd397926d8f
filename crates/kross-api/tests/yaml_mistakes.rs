//! Snapshots of the diagnostics for invalid YAML, and tests of the limits.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use kross_api::yaml::{self, Limits};
use kross_diagnostics::render::{self, Format};
use kross_diagnostics::{Code, Diagnostics, Sources};

fn shown(text: &str) -> String {
    let (mut sources, mut found) = (Sources::new(), Diagnostics::new());
    yaml::parse(&mut sources, "a.yaml", text, &Limits::default(), &mut found);
    format!("{text}\n=====\n{}", Format::Plain.render(&found, &sources))
}

macro_rules! snapshots {
    ($($name:ident: $text:expr,)*) => {
        $(#[test]
        fn $name() {
            insta::assert_snapshot!(shown($text));
        })*
    };
}

snapshots! {
    a_ternary_without_quotes: "value: ${schema.spec.tls ? \"https\" : \"http\"}\n",
    a_line_with_too_much_indentation: "metadata:\n  name: web\n   labels: {}\n",
    a_line_between_two_indentation_levels: "spec:\n    a: 1\n  b: 2\n",
    an_item_between_two_indentation_levels: "- a: 1\n  b: 2\n c: 3\n",
    a_tab: "spec:\n\treplicas: 1\n",
    an_open_quote: "a: \"x\nb: 1\n",
    an_open_quote_before_another_document: "a: 'x\n---\nb: 1\n",
    an_open_list: "args: [serve, --port=80\nname: web\n",
    an_open_list_at_the_end: "args: [serve,\n",
    an_open_mapping: "labels: {app: web\n",
    a_wrong_bracket: "labels: {app: [web}\n",
    an_unmatched_closing_bracket: "labels: ]\n",
    a_reserved_character: "name: @web\nother: `x`\n",
    a_percent_sign: "name: %web # why\n",
    text_after_a_quote: "name: \"web\" app\n",
    an_unknown_escape: "pattern: \"\\d+\"\n",
    a_control_character: "a: x\u{1}y\n",
    two_objects_without_a_separator: "{\"a\": 1}\n{\"b\": 2}\n",
    a_key_without_colon: "a: 1\nb\nc: 3\n",
    a_duplicate_key: "metadata:\n  labels:\n    app: web\n  name: x\n  labels:\n    tier: front\n",
    a_template_of_another_language: "name: {{ .Values.name }}\n",
    an_empty_key: ": value\n",
    a_null_key: "null: 1\n~: 2\n",
    an_unknown_alias: "a: &labels {}\nb: *lables\nc: *x\n",
    an_alias_of_itself: "a: &a\n  b: [*a]\n",
    a_merge_of_a_string: "a: &a x\nb:\n  <<: *a\n",
    a_number_that_json_cannot_represent: "a: .inf\nb: -.Inf\nc: .nan\n",
    a_wrong_tag: "a: !!int many\nb: !!binary aGk=\nc: !!str {}\n",
    an_unknown_tag: "a: !Ref web\nb: !include {x: 1}\n",
    a_boolean_word: "country: no\n",
}

#[test]
fn files_that_exceed_a_limit_or_are_not_utf8() {
    let (mut sources, mut found) = (Sources::new(), Diagnostics::new());
    let small = Limits { bytes: 40, depth: 3, nodes: 5, ..Limits::default() };
    yaml::parse_bytes(&mut sources, "latin.yaml", b"name: caf\xe9\n", &small, &mut found);
    yaml::parse(&mut sources, "long.yaml", "x".repeat(41), &small, &mut found);
    yaml::parse(&mut sources, "many.yaml", "a: &a [1, 2, 3]\nb: [*a]\n", &small, &mut found);
    yaml::parse(&mut sources, "deep.yaml", "a: [[[[]]]]\n", &small, &mut found);
    insta::assert_snapshot!(Format::Plain.render(&found, &sources));
}

fn codes(text: &str, limits: &Limits) -> Vec<Code> {
    let (mut sources, mut found) = (Sources::new(), Diagnostics::new());
    yaml::parse(&mut sources, "a.yaml", text, limits, &mut found);
    found.iter().map(|diagnostic| diagnostic.code).collect()
}

#[test]
fn invalid_utf8_is_reported_at_its_position() {
    let (mut sources, mut found) = (Sources::new(), Diagnostics::new());
    let documents =
        yaml::parse_bytes(&mut sources, "a.yaml", b"a: 1\nb: caf\xe9\n", &Limits::default(), &mut found);
    assert!(documents.is_empty());
    assert_eq!(render::lines(&found, &sources), "a.yaml:2:7: error[K0110]: the file is not valid UTF-8\n");
    yaml::parse_bytes(&mut sources, "b.yaml", b"\xff\xfea\0", &Limits::default(), &mut found);
    assert!(Format::Plain.render(&found, &sources).contains("UTF-16"));
    let documents =
        yaml::parse_bytes(&mut sources, "c.yaml", "é: 1".as_bytes(), &Limits::default(), &mut found);
    assert_eq!(documents.len(), 1);
}

#[test]
fn a_file_that_is_too_large_is_not_parsed() {
    let limits = Limits { bytes: 10, ..Limits::default() };
    assert_eq!(codes("a: 1234567890", &limits), [Code::YamlTooLarge]);
    assert_eq!(codes("a: 1", &limits), []);
}

#[test]
fn nested_aliases_count_towards_the_size_limit() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..30 {
        let last = format!("*a{}, ", level - 1).repeat(10);
        bomb.push_str(&format!("a{level}: &a{level} [{last}]\n"));
    }
    assert_eq!(codes(&bomb, &Limits::default()), [Code::YamlTooLarge]);
    let merges = "a: &a {x: 1, z: 2}\nb: [{<<: *a}, {<<: *a}, {<<: *a}]\n";
    assert_eq!(codes(merges, &Limits { nodes: 10, ..Limits::default() }), [Code::YamlTooLarge]);
    assert_eq!(codes(merges, &Limits { nodes: 20, ..Limits::default() }), []);
}

#[test]
fn nested_aliases_count_towards_the_depth_limit() {
    let mut text = "- &a0 []\n".to_owned();
    for level in 1..200 {
        text.push_str(&format!("- &a{level} [*a{}]\n", level - 1));
    }
    assert_eq!(codes(&text, &Limits::default()), [Code::YamlTooDeep]);
}

#[test]
fn nested_brackets_and_indentation_count_towards_the_depth_limit() {
    for (open, close) in [("[", "]"), ("{a: ", "}")] {
        let text = format!("{}{}", open.repeat(100_000), close.repeat(100_000));
        assert_eq!(codes(&text, &Limits::default()), [Code::YamlTooDeep]);
    }
    assert_eq!(codes(&"- ".repeat(100_000), &Limits::default()), [Code::YamlTooDeep]);
    let deep = (0..1000).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect::<String>();
    assert_eq!(codes(&deep, &Limits::default()), [Code::YamlTooDeep]);
    assert_eq!(codes(&format!("{}{}", "[".repeat(99), "]".repeat(99)), &Limits::default()), []);
}

#[test]
fn parsing_stops_after_too_many_errors() {
    let text = "a: 1\n".repeat(10_000);
    assert_eq!(codes(&text, &Limits::default()).len(), 100);
    let text = "a: [\n---\n".repeat(10_000);
    assert_eq!(codes(&text, &Limits::default()).len(), 100);
}

#[test]
fn parsing_does_not_stop_after_many_warnings() {
    let text =
        format!("{}\nlast: {{a: 1, a: 2}}\n", (0..1000).map(|at| format!("a{at}: on\n")).collect::<String>());
    let found = codes(&text, &Limits::default());
    assert_eq!(found.iter().filter(|code| **code == Code::BooleanWord).count(), 100);
    assert_eq!(found.iter().filter(|code| **code == Code::DuplicateKey).count(), 1);
}

#[test]
fn the_span_of_a_tab_is_at_character_boundaries() {
    let text = "-\ré\n\t*";
    let (mut sources, mut found) = (Sources::new(), Diagnostics::new());
    yaml::parse(&mut sources, "a.yaml", text, &Limits::default(), &mut found);
    let span = found.iter().next().unwrap().primary.as_ref().unwrap().span;
    assert!(text.get(span.start as usize..span.end as usize).is_some(), "{span:?}");
}
