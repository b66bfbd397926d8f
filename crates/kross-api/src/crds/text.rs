//! Writes YAML in block style with sorted keys, so that generated files are reproducible.

use std::fmt::Write;

use serde_json::{Number, Value as Json};

/// Serializes one document, with a trailing newline.
#[must_use]
pub fn to_yaml(value: &Json) -> String {
    let mut text = String::new();
    write_block(&mut text, value, 0);
    text
}

/// Writes a value whose first line starts at the current column, which is `indent`.
fn write_block(text: &mut String, value: &Json, indent: usize) {
    match value {
        Json::Object(map) if !map.is_empty() => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            for (at, (key, value)) in entries.into_iter().enumerate() {
                if at > 0 {
                    pad(text, indent);
                }
                text.push_str(&scalar(key));
                text.push(':');
                write_entry(text, value, indent);
            }
        }
        Json::Array(items) if !items.is_empty() => {
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    pad(text, indent);
                }
                text.push_str("- ");
                write_block(text, item, indent + 2);
            }
        }
        Json::String(string) if string.contains('\n') => write_literal(text, string, indent),
        other => {
            text.push_str(&inline(other));
            text.push('\n');
        }
    }
}

/// Writes what follows after `key:`. Lists have the indentation of their key, as kubectl writes them.
fn write_entry(text: &mut String, value: &Json, indent: usize) {
    match value {
        Json::Object(map) if !map.is_empty() => {
            text.push('\n');
            pad(text, indent + 2);
            write_block(text, value, indent + 2);
        }
        Json::Array(items) if !items.is_empty() => {
            text.push('\n');
            pad(text, indent);
            write_block(text, value, indent);
        }
        _ => {
            text.push(' ');
            write_block(text, value, indent);
        }
    }
}

/// Writes a multi-line string as a literal block scalar if possible, otherwise quoted.
fn write_literal(text: &mut String, string: &str, indent: usize) {
    let plain =
        !string.starts_with([' ', '\n', '\t']) && !string.chars().any(|c| c.is_control() && c != '\n');
    if !plain || string.trim_end_matches('\n').is_empty() {
        text.push_str(&quoted(string));
        text.push('\n');
        return;
    }
    let body = string.strip_suffix('\n');
    text.push_str(match body {
        None => "|-\n",
        Some(body) if body.ends_with('\n') => "|+\n",
        Some(_) => "|\n",
    });
    for line in body.unwrap_or(string).split('\n') {
        if !line.is_empty() {
            pad(text, indent + 2);
            text.push_str(line);
        }
        text.push('\n');
    }
}

fn pad(text: &mut String, indent: usize) {
    text.extend(std::iter::repeat_n(' ', indent));
}

fn inline(value: &Json) -> String {
    match value {
        Json::String(string) => scalar(string),
        Json::Object(_) => "{}".to_owned(),
        Json::Array(_) => "[]".to_owned(),
        Json::Number(number) => whole(number),
        other => other.to_string(),
    }
}

/// Formats a number. Bounds in a schema are floats in Rust, but are conventionally written as `minimum: 1`.
fn whole(number: &Number) -> String {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < EXACT => {
            format!("{float:.0}")
        }
        _ => number.to_string(),
    }
}

/// A string, without quotes if every YAML parser reads it as a string.
fn scalar(string: &str) -> String {
    if is_plain(string) { string.to_owned() } else { quoted(string) }
}

fn is_plain(string: &str) -> bool {
    const WORDS: [&str; 9] = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];
    let safe_start =
        string.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '.' | '$' | '^' | '('));
    let number_like = string.starts_with('.') && string.chars().nth(1).is_some_and(|c| c.is_ascii_digit())
        || matches!(string.to_ascii_lowercase().as_str(), ".inf" | ".nan");
    safe_start
        && !number_like
        && !WORDS.contains(&string.to_ascii_lowercase().as_str())
        && !string.contains(": ")
        && !string.contains(" #")
        && !string.ends_with([':', ' '])
        && !string.chars().any(char::is_control)
}

/// Uses double quotes if escapes are needed, otherwise single quotes, in which backslashes need no escaping.
fn quoted(string: &str) -> String {
    if !string.chars().any(char::is_control) {
        return format!("'{}'", string.replace('\'', "''"));
    }
    let mut text = String::from("\"");
    for character in string.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            '\r' => text.push_str("\\r"),
            // Writing to a `String` does not fail.
            other if other.is_control() => drop(write!(text, "\\u{:04x}", u32::from(other))),
            other => text.push(other),
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_value_round_trips() {
        let values = [
            json!({"a": {}, "b": [], "c": [[1, 2], [{"x": null}]], "d": {"e": {"f": true}}}),
            json!({"text": "one\ntwo\n\nfour", "kept": "one\n", "many": "one\n\n", "led": " one\ntwo", "only": "\n"}),
            json!([
                "yes", "No", "null", "1", "1.5", "-", "- a", "a: b", "a:", "a #b", "#a", "", " ", "it's",
                "\u{7}", "é"
            ]),
            json!({"true": 1, "1": 2, "a b": 3, "~": 4, "{": 5, "kro.run/x": 6, "y": 7}),
            json!([
                "^v[0-9]+$",
                "self == oldSelf",
                "!has(self.x)",
                "`a`",
                "@b",
                "%c",
                "&d",
                "*e",
                ".5",
                ".inf",
                "0x1f",
                "a\tb"
            ]),
            json!({"nested": [{"text": "x\ny"}, {"list": [{"a": 1, "b": [2]}]}]}),
            json!([-1, 1.5, 1e300, 9_007_199_254_740_993_i64, false]),
        ];
        for value in values {
            let text = to_yaml(&value);
            assert_eq!(serde_saphyr::from_str::<Json>(&text).expect(&text), value, "{text}");
        }
    }

    #[test]
    fn whole_numbers_have_no_fraction() {
        assert_eq!(to_yaml(&json!([1.0, -0.5, 2])), "- 1\n- -0.5\n- 2\n");
    }

    #[test]
    fn keys_are_sorted_and_lists_stay_at_their_key() {
        let text = to_yaml(&json!({"b": [{"z": 1, "x": [true]}], "a": "one\ntwo"}));
        assert_eq!(text, "a: |-\n  one\n  two\nb:\n- x:\n  - true\n  z: 1\n");
    }
}
