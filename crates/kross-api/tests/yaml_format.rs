//! Formatting YAML: what is written how, that comments stay where they belong, that nothing else changes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use kross_api::yaml::format::{Plain, format};
use kross_api::yaml::{self, Limits};
use kross_diagnostics::render::Format;
use kross_diagnostics::{Diagnostics, Sources};
use kross_value::Value;
use proptest::prelude::*;

fn formatted(text: &str) -> String {
    match format("a.yaml", text, &Plain) {
        Ok(formatted) => formatted,
        Err(error) => panic!("{}\n{text}", Format::Plain.render(&error.diagnostics, &error.sources)),
    }
}

fn values(text: &str) -> Vec<Value> {
    let documents =
        yaml::parse(&mut Sources::new(), "a.yaml", text, &Limits::default(), &mut Diagnostics::new());
    documents.iter().map(|document| document.value().clone()).collect()
}

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(formatted(text), expected);
    assert_eq!(formatted(expected), expected);
}

#[test]
fn indentation_and_spaces_are_those_of_kubernetes_files() {
    check("a:\n- 1\n-   b:   2\n    c:\n        - d\n", "a:\n  - 1\n  - b: 2\n    c:\n      - d\n");
    check("a : {x: 1,y: [1,2 , 3]}   \n", "a: {x: 1, y: [1, 2, 3]}\n");
    check("- - a\n  - b\n-\n  - c\n", "- - a\n  - b\n- - c\n");
    check("a:\n\n\n\n  b: 1\n\n\n\n  c: 2\n\n\n", "a:\n  b: 1\n\n  c: 2\n");
    check("a:\r\n  b: 1\r\n", "a:\n  b: 1\n");
    check("a:\n  - \n  - ~\nb:\n", "a:\n  -\n  - ~\nb:\n");
    check("---\na: 1\n---\nb: 1\n", "---\na: 1\n---\nb: 1\n");
    check("a: 1\n---\n---\nb: 1\n---\n", "a: 1\n---\nb: 1\n");
    check("a: &x\n    b: 1\nc: *x\nd:\n  <<: *x\n", "a: &x\n  b: 1\nc: *x\nd:\n  <<: *x\n");
    check("a: !!str 1\n", "a: !!str 1\n");
    check("a: {}\nb: []\nc: { }\n", "a: {}\nb: []\nc: {}\n");
    check("[a: 1, b]\n", "[{a: 1}, b]\n");
    check("text\n", "text\n");
    check("\u{feff}a: 1\n", "a: 1\n");
}

#[test]
fn brackets_stay_on_several_lines_if_the_author_wrote_them_so() {
    check("a: [\n1,\n  2]\n", "a: [\n  1,\n  2,\n]\n");
    check("a: {b: 1,\n    c: 2}\n", "a: {b: 1, c: 2}\n");
    check("a: {\n  b: {\n c: 1 }, # why\n}\n", "a: {\n  b: {\n    c: 1,\n  }, # why\n}\n");
    check("a: [ # why\n  1\n  # end\n  ]\n", "a: [\n  # why\n  1,\n  # end\n]\n");
}

#[test]
fn comments_stay_with_what_they_explain() {
    check("# head\n\n# a\na: 1   # beside\n", "# head\n\n# a\na: 1 # beside\n");
    check("a: # beside\n- x\n# before z\n- z\n", "a: # beside\n  - x\n  # before z\n  - z\n");
    check(
        "a:\n- b: 1\n  # end of the first\n- c: 2\n  # end of the second\n# end\n",
        "a:\n  - b: 1\n    # end of the first\n  - c: 2\n    # end of the second\n# end\n",
    );
    check("a:\n    b: 1\n\n    # about c\n    c: 2\n", "a:\n  b: 1\n\n  # about c\n  c: 2\n");
    check("a: | # beside\n   x\n  # not text\nb: 1\n", "a: | # beside\n  x\n# not text\nb: 1\n");
    check("-   # dash\n  a: 1\n", "- # dash\n  a: 1\n");
    check("- # dash\n  # above\n  a: 1\n", "- # dash\n  # above\n  a: 1\n");
    check("a:\n  # about the value\n  value\n", "# about the value\na: value\n");
    check("# license\n---\n# one\na: 1\n--- # two\nb: 1\n", "# license\n---\n# one\na: 1\n--- # two\nb: 1\n");
    check("a: {b: 1} # beside\nc: [1] # too\n", "a: {b: 1} # beside\nc: [1] # too\n");
    check("a: \"x\n  y\" # beside\n", "a: \"x\n  y\" # beside\n");
    check("a: x#y\nb: 'z # z'\n", "a: x#y\nb: 'z # z'\n");
}

#[test]
fn block_scalars_keep_their_text() {
    check("a: |\n      x\n        y\n\n      z\nb: 1\n", "a: |\n  x\n    y\n\n  z\nb: 1\n");
    check("a: |4-\n      x\n     y\n", "a: |2-\n    x\n   y\n");
    check("a: |+\n   x\n\n\nb: 1\n", "a: |+\n  x\n\n\nb: 1\n");
    check("a: >-\n    one\n    two\n\n    three\n", "a: >-\n  one\n  two\n\n  three\n");
    check("a: >\n    one\n      more\n    two\n", "a: >\n  one\n    more\n  two\n");
    check("a: |\n  x  \n\n\n\nb: 1\n", "a: |\n  x  \n\nb: 1\n");
    check("- |\n    x\n-   - |-\n      y\n", "- |\n  x\n- - |-\n    y\n");
    check("a: |\n\n\nb: 1\n", "a: \"\"\n\nb: 1\n");
}

#[test]
fn strings_that_other_parsers_read_differently_get_quotes_and_words_of_yaml_1_1_are_spelled_out() {
    check(
        "a: 12:30\nb: 2020-01-02\nc: 1:2:3.5\nd: =\n",
        "a: \"12:30\"\nb: \"2020-01-02\"\nc: \"1:2:3.5\"\nd: \"=\"\n",
    );
    check("a: yes\nb: Off\nc: 'no'\nd: True\n", "a: true\nb: false\nc: 'no'\nd: true\n");
    check("a: 0755\nb: 1_000\nc: 2001:db8::1\nd: 10:x\n", "a: 0755\nb: 1_000\nc: 2001:db8::1\nd: 10:x\n");
    check("a: !!str 2020-01-02\n", "a: !!str 2020-01-02\n");
}

#[test]
fn strings_of_several_lines_are_indented() {
    check("a: one\n        two\n\n        three\n", "a: one\n  two\n\n  three\n");
    check("a:\n  b: 'one\n        two'\n", "a:\n  b: 'one\n    two'\n");
    check("a: \"one \\\n      two\"\n", "a: \"one \\\n  two\"\n");
}

#[test]
fn yaml_that_is_not_formatted_is_refused() {
    for text in
        ["%YAML 1.2\n---\na: 1\n", "a: 1\n...\n", "? a\n: 1\n", "? |\n  a\n: 1\n", "a: [1\n", "a: 1\na: 2\n"]
    {
        assert!(format("a.yaml", text, &Plain).is_err(), "{text}");
    }
    let error = format("a.yaml", "%YAML 1.2\n---\na: 1\n", &Plain).unwrap_err();
    insta::assert_snapshot!("not_formatted", Format::Plain.render(&error.diagnostics, &error.sources));
    check("# nothing\n", "# nothing\n");
    check("", "");
}

fn string() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{0,5}",
        "[ a-z:#'\"\\\\{}\\[\\]&*!|>%@`?,é🦀-]{0,12}",
        "[^\\p{C}\u{feff}\u{fffe}\u{ffff}]{0,8}"
    ]
}

fn value() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        string().prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            prop::collection::btree_map("[a-z][a-z0-9]{0,4}", inner, 0..4)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Writes a value as YAML in a way that the choices decide: indentation, brackets, comments, blank lines, blocks.
struct Writer {
    choices: Vec<u8>,
    at: usize,
    comments: usize,
    out: String,
}

impl Writer {
    fn choose(&mut self, among: u8) -> u8 {
        self.at += 1;
        self.choices[self.at % self.choices.len()].wrapping_add(self.at as u8) % among
    }

    fn comment(&mut self) {
        self.comments += 1;
        self.out.push_str(&format!("# comment {}.", self.comments));
    }

    fn end(&mut self) {
        if self.choose(4) == 0 {
            self.out.push_str("  ");
            self.comment();
        }
        self.out.push('\n');
    }

    fn above(&mut self, indent: usize) {
        for _ in 0..self.choose(3) {
            match self.choose(3) {
                0 => self.out.push('\n'),
                1 => {
                    let extra = usize::from(self.choose(4));
                    self.out.push_str(&" ".repeat(indent + extra));
                    self.comment();
                    self.out.push('\n');
                }
                _ => {}
            }
        }
    }

    fn value(&mut self, value: &serde_json::Value, indent: usize) {
        let inner = indent + 1 + usize::from(self.choose(4));
        match value {
            serde_json::Value::Array(items) if !items.is_empty() && self.choose(4) != 0 => {
                self.end();
                for item in items {
                    self.above(inner);
                    self.out.push_str(&format!("{}-", " ".repeat(inner)));
                    self.value(item, inner);
                }
            }
            serde_json::Value::Object(entries) if !entries.is_empty() && self.choose(4) != 0 => {
                self.end();
                for (key, item) in entries {
                    self.above(inner);
                    self.out.push_str(&format!(
                        "{}{}:",
                        " ".repeat(inner),
                        serde_json::to_string(key).unwrap()
                    ));
                    self.value(item, inner);
                }
            }
            serde_json::Value::String(text)
                if text.starts_with(char::is_alphanumeric) && self.choose(2) == 0 =>
            {
                self.out.push_str(" |-");
                self.end();
                self.out.push_str(&format!("{}{text}\n", " ".repeat(inner)));
            }
            other => {
                self.out.push_str(&format!(" {other}"));
                self.end();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn formatting_keeps_values_and_comments_and_is_idempotent(value in value(), choices in prop::collection::vec(any::<u8>(), 8..40)) {
        let mut writer = Writer { choices, at: 0, comments: 0, out: "root:".to_owned() };
        writer.value(&value, 0);
        let text = writer.out;
        prop_assume!(!values(&text).is_empty());
        let once = formatted(&text);
        prop_assert_eq!(values(&text), values(&once), "{}\n{}", text, once);
        prop_assert_eq!(&formatted(&once), &once, "{}", text);
        for number in 1..=writer.comments {
            prop_assert_eq!(once.matches(&format!("# comment {number}.")).count(), 1, "{}\n{}", text, once);
        }
        for line in once.lines() {
            prop_assert!(line.trim_end() == line || text.contains(line.trim_end_matches(' ')), "{:?}", line);
        }
    }

    #[test]
    fn no_text_panics(text in "[a-c:\\-#|>&*!\\[\\]{}, '\"\n?%]{0,40}") {
        if let Ok(once) = format("a.yaml", &text, &Plain) {
            prop_assert_eq!(format("a.yaml", &once, &Plain).ok(), Some(once), "{:?}", text);
        }
    }
}
