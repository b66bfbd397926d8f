//! Property tests: no input panics, values round-trip, and spans point to the text of their values.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use kross_api::yaml::{self, Document, Limits};
use kross_diagnostics::{Diagnostics, Path, PathSegment, Severity, Sources, render::Format};
use kross_value::Value;
use proptest::prelude::*;

fn read(text: &str) -> (Vec<Document>, Diagnostics, Sources) {
    let (mut sources, mut found) = (Sources::new(), Diagnostics::new());
    let documents = yaml::parse(&mut sources, "a.yaml", text, &Limits::default(), &mut found);
    (documents, found, sources)
}

fn string() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{0,5}",
        "[ a-z:#'\"\\\\\n\t{}\\[\\]&*!|>%@`?,é🦀-]{0,12}",
        "[^\\p{C}\u{feff}\u{fffe}\u{ffff}]{0,8}",
        "(true|no|~|1|0x1|1e3|\\.inf|<<|---|- x)"
    ]
}

fn value() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        (-1e6..1e6).prop_map(|number: f64| (number.floor() + 0.5).into()),
        string().prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            prop::collection::btree_map(string(), inner, 0..4)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Writes a value as block YAML, with JSON strings.
fn block(value: &serde_json::Value, indent: usize, out: &mut String) {
    let pad = " ".repeat(indent);
    match value {
        serde_json::Value::Array(items) if !items.is_empty() => {
            for item in items {
                out.push_str(&format!("\n{pad}- # item"));
                nested(item, indent, out);
            }
        }
        serde_json::Value::Object(entries) if !entries.is_empty() => {
            for (key, item) in entries {
                out.push_str(&format!("\n{pad}? {}\n{pad}:", serde_json::to_string(key).unwrap()));
                nested(item, indent, out);
            }
        }
        other => out.push_str(&format!(" {other}")),
    }
}

fn nested(value: &serde_json::Value, indent: usize, out: &mut String) {
    let empty = value.as_array().is_some_and(Vec::is_empty)
        || value.as_object().is_some_and(serde_json::Map::is_empty);
    if (value.is_array() || value.is_object()) && !empty {
        block(value, indent + 2, out);
    } else {
        out.push_str(&format!("\n{}", " ".repeat(indent + 2)));
        block(value, indent + 2, out);
    }
}

/// Every string of a value, with its path.
fn strings(value: &Value, path: &Path, out: &mut Vec<(Path, String)>) {
    match value {
        Value::String(text) => out.push((path.clone(), text.to_string())),
        Value::List(items) => {
            items.iter().enumerate().for_each(|(index, item)| strings(item, &path.index(index), out));
        }
        Value::Object(object) => {
            object
                .iter()
                .for_each(|(key, item)| strings(item, &path.then(PathSegment::Key(key.to_string())), out));
        }
        _ => {}
    }
}

/// The source text at the span of each character is the character itself, an escape or white space.
fn spans_agree(text: &str) -> Result<(), TestCaseError> {
    let (documents, _, sources) = read(text);
    for document in &documents {
        let mut all = Vec::new();
        strings(document.value(), &Path::root(), &mut all);
        for (path, string) in all {
            let whole = document.exact_span(&path).unwrap();
            let mut last = whole.start;
            for (at, letter) in string.char_indices() {
                let span = document.span_within(&path, at..at + letter.len_utf8());
                let source = sources.slice(span);
                prop_assert!(
                    span.start >= last && span.end <= whole.end,
                    "{path} {at} {span:?} in {whole:?}"
                );
                let agrees = source.starts_with(letter)
                    || source.starts_with('\\')
                    || source == "''"
                    || letter.is_whitespace() && source.trim_matches(['\\', '"']).trim().is_empty();
                prop_assert!(
                    agrees,
                    "{path}: {letter:?} at {at} of {string:?} maps to {source:?} in {text:?}"
                );
                last = span.start;
            }
        }
    }
    Ok(())
}

fn same(text: &str, value: &serde_json::Value) -> Result<(), TestCaseError> {
    let (documents, found, sources) = read(text);
    prop_assert!(
        !found.iter().any(|item| item.severity == Severity::Error),
        "{}",
        Format::Plain.render(&found, &sources)
    );
    let expected: Value = serde_json::from_value(value.clone()).unwrap();
    if value.is_null() {
        prop_assert!(documents.is_empty());
    } else {
        prop_assert_eq!(documents.len(), 1);
        prop_assert_eq!(documents[0].value(), &expected, "{}", text);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_panics(text in ".{0,40}|[-a:#&*x!|>'\"%@`?, \n\t\r{}\\[\\]<~.0-9\\\\é\u{feff}]{0,40}|([a-c:&*x<\n ]|- |: |\n  |\n- |<<: |\\| ?\n|> ?\n|---\n|\"|'|\\[|\\{|\\}|\\]){0,40}") {
        let (documents, found, sources) = read(&text);
        let _ = Format::Plain.render(&found, &sources);
        for diagnostic in &found {
            if let Some(label) = &diagnostic.primary {
                prop_assert!(text.get(label.span.start as usize..label.span.end as usize).is_some());
            }
        }
        for document in &documents {
            let span = document.span();
            prop_assert!(text.get(span.start as usize..span.end as usize).is_some());
        }
        spans_agree(&text)?;
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        let (mut sources, mut found) = (Sources::new(), Diagnostics::new());
        yaml::parse_bytes(&mut sources, "a.yaml", &bytes, &Limits::default(), &mut found);
        let _ = Format::Plain.render(&found, &sources);
    }

    #[test]
    fn json_round_trips(value in value()) {
        let text = value.to_string();
        same(&text, &value)?;
        spans_agree(&text)?;
        let text = serde_json::to_string_pretty(&value).unwrap();
        same(&text, &value)?;
    }

    #[test]
    fn block_yaml_round_trips(value in value()) {
        let mut text = String::new();
        block(&value, 0, &mut text);
        same(&text, &value)?;
        spans_agree(&text)?;
    }

    #[test]
    fn literal_blocks_round_trip(lines in prop::collection::vec("[a-z${}'\":#é ]{0,8}", 1..6), indent in 1usize..5, keep in "[-+]?") {
        let content: Vec<String> = lines.iter().map(|line| format!("{}{line}", " ".repeat(indent))).collect();
        let text = format!("key: |{indent}{keep}\n{}\nend: 1\n", content.join("\n"));
        let (documents, found, sources) = read(&text);
        prop_assert!(found.is_empty(), "{}", Format::Plain.render(&found, &sources));
        let body = documents[0].value().get("key").unwrap().as_str().unwrap().to_owned();
        let joined = lines.join("\n");
        prop_assert_eq!(body.trim_end_matches('\n'), joined.trim_end_matches('\n'));
        spans_agree(&text)?;
    }

    #[test]
    fn spans_agree_in_folded_and_quoted_scalars(
        lines in prop::collection::vec("[a-z${}]{0,3} ?[a-z]{1,3} {0,2}|", 1..6),
        style in prop::sample::select(vec![">", ">-", ">+", "\"", "'", ""]),
    ) {
        let mut body = lines.join("\n    ");
        if style.starts_with('>') { body = format!("{style}\n    {body}"); } else { body = format!("{style}{body}{style}"); }
        spans_agree(&format!("key: {body}\nend: 1\n"))?;
    }
}
