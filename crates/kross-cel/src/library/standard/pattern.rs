//! Turns RE2's notation into that of the `regex` crate, which matches in linear time too. Compiled patterns are
//! kept, a bounded number of them, because expressions ask with the same pattern again and again.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use regex::{Regex, RegexBuilder};

use crate::error::Fault;

/// Patterns that are kept; when there are more, all are forgotten.
const KEPT: usize = 256;
/// Of a compiled pattern, in bytes.
const LARGEST: usize = 1 << 20;
/// Of a pattern's text, in bytes.
const LONGEST: usize = 16 << 10;

static PATTERNS: LazyLock<RwLock<HashMap<Box<str>, Arc<Regex>>>> = LazyLock::new(RwLock::default);

/// The compiled form of a pattern in RE2's notation, from the few hundred last used where it is among them.
///
/// # Errors
/// When the pattern is no regular expression, or too large a one.
pub fn compile(pattern: &str) -> Result<Arc<Regex>, Fault> {
    if let Some(known) = PATTERNS.read().unwrap_or_else(PoisonError::into_inner).get(pattern) {
        return Ok(known.clone());
    }
    if pattern.len() > LONGEST {
        return Err(Fault::invalid(format!("the regular expression is longer than {LONGEST} bytes")));
    }
    let compiled = RegexBuilder::new(&translate(pattern))
        .size_limit(LARGEST)
        .dfa_size_limit(LARGEST)
        .nest_limit(100)
        .build()
        .map_err(|error| Fault::invalid(explain(pattern, &error)))?;
    let compiled = Arc::new(compiled);
    let mut patterns = PATTERNS.write().unwrap_or_else(PoisonError::into_inner);
    if patterns.len() >= KEPT {
        patterns.clear();
    }
    patterns.insert(pattern.into(), compiled.clone());
    Ok(compiled)
}

fn explain(pattern: &str, error: &regex::Error) -> String {
    let reason = match error {
        regex::Error::CompiledTooBig(_) => "it is too large".to_owned(),
        other => other
            .to_string()
            .lines()
            .last()
            .unwrap_or_default()
            .trim()
            .trim_start_matches("error: ")
            .to_owned(),
    };
    format!("`{pattern}` is no regular expression: {reason}")
}

/// RE2's classes are ASCII, its brackets do not nest, and it knows `\Q…\E`.
fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern;
    let mut in_class = false;
    while let Some(letter) = rest.chars().next() {
        let (token, left) = rest.split_at(letter.len_utf8());
        rest = left;
        match letter {
            '\\' => rest = escape(rest, in_class, &mut out),
            '[' if in_class => rest = bracket_in_class(rest, &mut out),
            '[' => {
                in_class = true;
                rest = open_class(rest, &mut out);
            }
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            '&' | '~' if in_class => {
                out.push('\\');
                out.push(letter);
            }
            // Two in a row would be a difference of sets; one between two letters is a range.
            '-' if in_class && rest.starts_with('-') => out.push_str("\\-"),
            _ => out.push_str(token),
        }
    }
    out
}

/// After `[`: a leading `^` negates, and a `]` right there is a letter.
fn open_class<'a>(rest: &'a str, out: &mut String) -> &'a str {
    out.push('[');
    let rest = match rest.strip_prefix('^') {
        Some(left) => {
            out.push('^');
            left
        }
        None => rest,
    };
    match rest.strip_prefix(']') {
        Some(left) => {
            out.push_str("\\]");
            left
        }
        None => rest,
    }
}

/// After `[` inside a class: `[:alpha:]`, or just a letter.
fn bracket_in_class<'a>(rest: &'a str, out: &mut String) -> &'a str {
    if rest.starts_with(':')
        && let Some(end) = rest.find(":]")
        && let (Some(name), Some(left)) = (rest.get(..end + 2), rest.get(end + 2..))
    {
        out.push('[');
        out.push_str(name);
        return left;
    }
    out.push_str("\\[");
    rest
}

/// After a backslash.
fn escape<'a>(rest: &'a str, in_class: bool, out: &mut String) -> &'a str {
    let Some(letter) = rest.chars().next() else {
        out.push('\\');
        return rest;
    };
    let (token, left) = rest.split_at(letter.len_utf8());
    let replacement = match (letter, in_class) {
        ('d', false) => "[0-9]",
        ('d', true) => "0-9",
        ('D', _) => "[^0-9]",
        ('w', false) => "[0-9A-Za-z_]",
        ('w', true) => "0-9A-Za-z_",
        ('W', _) => "[^0-9A-Za-z_]",
        ('s', false) => "[\\t\\n\\f\\r ]",
        ('s', true) => "\\t\\n\\f\\r ",
        ('S', _) => "[^\\t\\n\\f\\r ]",
        ('b', false) => "(?-u:\\b)",
        ('Q', false) => return quoted(left, out),
        _ => {
            out.push('\\');
            token
        }
    };
    out.push_str(replacement);
    left
}

/// After `\Q`: letters as they are, up to `\E` or the end.
fn quoted<'a>(rest: &'a str, out: &mut String) -> &'a str {
    let (text, left) = rest.split_once("\\E").unwrap_or((rest, ""));
    out.push_str(&regex::escape(text));
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(pattern: &str, text: &str) -> bool {
        compile(pattern).unwrap().is_match(text)
    }

    #[test]
    fn classes_are_those_of_re2() {
        assert!(fits(r"^\d+$", "123"));
        assert!(!fits(r"^\d+$", "१२३"));
        assert!(!fits(r"^\w+$", "é"));
        assert!(fits(r"^[\w.-]+$", "a_b-c.d"));
        assert!(fits(r"^[^\d]$", "x"));
        assert!(fits(r"^[[:alpha:]]+$", "abc"));
        assert!(fits(r"^[[a]+$", "[a"));
        assert!(fits(r"^[a&&b]+$", "&a"));
        assert!(fits(r"^[]a]+$", "]a"));
        assert!(fits(r"\Qa.b\E+", "a.bb"));
        assert!(!fits(r"\Qa.b\E", "axb"));
        assert!(fits(r"\bfoo\b", "a foo b"));
        assert!(fits(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "my-name-1"));
    }

    #[test]
    fn what_is_no_pattern_is_refused_with_a_reason() {
        for pattern in ["(", "[", "\\", "a{2,1}", "(?=x)", "\\1", "*", "[z-a]"] {
            let fault = compile(pattern).unwrap_err().to_string();
            assert!(fault.contains("is no regular expression"), "{fault}");
        }
        assert!(compile("((((a{100}){100}){100}){100})").is_err());
        assert!(compile(&"(".repeat(2_000)).is_err());
        assert!(compile(&"a".repeat(20_000)).is_err());
    }
}
