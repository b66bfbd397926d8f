//! Regular expressions: extraction of matches, and replacement with references to groups.

use std::sync::Arc;

use regex::{Captures, Regex};

use super::arguments::{MAX_OUTPUT, any, charge_bytes, functions, grow, int, text};
use super::pattern::compile;
use super::{Call, Library};
use crate::error::Fault;
use crate::value::Value;

/// Functions for regular expressions.
pub static LIBRARY: Library = Library {
    name: "regex",
    functions: functions! {
        "regex.extract": "Returns the first match of a pattern, or of its only capturing group." {
            "regex.extract(string, string) -> optional(string)" => extract,
        }
        "regex.extractAll": "Returns all matches of a pattern, or of its only capturing group." {
            "regex.extractAll(string, string) -> list(string)" => extract_all,
        }
        "regex.replace": "Replaces all matches of a pattern, or at most as many as given. `\\1` in the replacement refers to the first group." {
            "regex.replace(string, string, string) -> string" => replace,
            "regex.replace(string, string, string, int) -> string" => replace,
        }
    },
};

fn single_group(call: &mut Call<'_>, arguments: &[Value]) -> Result<Arc<Regex>, Fault> {
    let (subject, pattern) = (text(arguments, 0)?, text(arguments, 1)?);
    charge_search(call, subject, pattern)?;
    let regex = compile(call, subject, pattern)?;
    if regex.captures_len() > 2 {
        return Err(Fault::invalid("the regular expression has more than one capturing group"));
    }
    Ok(regex)
}

/// Charges for a search: in the worst case the length of the text times that of the pattern.
pub(in crate::library) fn charge_search(call: &mut Call<'_>, text: &str, pattern: &str) -> Result<(), Fault> {
    charge_bytes(call, text.len().saturating_mul(pattern.len() / 4 + 1))
}

/// The match of the group if the pattern has one, else the whole match. None if the group matched nothing.
fn piece(captures: &Captures<'_>) -> Option<Value> {
    let group = captures.len().saturating_sub(1);
    let found = captures.get(group).map_or("", |found| found.as_str());
    (group == 0 || !found.is_empty()).then(|| Value::string(found))
}

fn extract(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let regex = single_group(call, arguments)?;
    let found = regex.captures(text(arguments, 0)?);
    Ok(found.as_ref().and_then(piece).map_or(Value::Optional(None), Value::some))
}

fn extract_all(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let regex = single_group(call, arguments)?;
    let mut pieces = Vec::new();
    for found in regex.captures_iter(text(arguments, 0)?) {
        call.charge(1)?;
        pieces.extend(piece(&found));
    }
    Ok(Value::list(pieces))
}

fn replace(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let (subject, pattern, replacement) = (text(arguments, 0)?, text(arguments, 1)?, text(arguments, 2)?);
    let limit = if arguments.len() > 3 { int(arguments, 3)? } else { -1 };
    if limit == 0 {
        return any(arguments, 0).cloned();
    }
    charge_search(call, subject, pattern)?;
    let regex = compile(call, subject, pattern)?;
    let mut out = String::with_capacity(subject.len());
    let mut copied = 0;
    for captures in regex.captures_iter(subject).take(usize::try_from(limit).unwrap_or(usize::MAX)) {
        let Some(whole) = captures.get(0) else { continue };
        out.push_str(subject.get(copied..whole.start()).unwrap_or_default());
        expand(&mut out, &captures, replacement)?;
        copied = whole.end();
        call.charge(1)?;
        if out.len() > MAX_OUTPUT {
            break;
        }
    }
    out.push_str(subject.get(copied..).unwrap_or_default());
    grow(call, "regex.replace", out.len())?;
    Ok(Value::string(out))
}

fn expand(out: &mut String, captures: &Captures<'_>, replacement: &str) -> Result<(), Fault> {
    let invalid = |why: String| Fault::invalid(format!("the replacement {why}"));
    let mut characters = replacement.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            out.push(character);
            continue;
        }
        match characters.next() {
            None => return Err(invalid("ends with a backslash".to_owned())),
            Some('\\') => out.push('\\'),
            Some(digit) => {
                let group =
                    digit.to_digit(10).and_then(|group| usize::try_from(group).ok()).ok_or_else(|| {
                        invalid("has a backslash that is not followed by a digit or a backslash".to_owned())
                    })?;
                if group >= captures.len() {
                    return Err(invalid(format!(
                        "refers to a group that does not exist, the pattern has {}",
                        captures.len() - 1
                    )));
                }
                out.push_str(captures.get(group).map_or("", |found| found.as_str()));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::arguments::testing::{err, ok};
    use super::*;

    fn texts<const N: usize>(texts: [&str; N]) -> [Value; N] {
        texts.map(Value::string)
    }

    #[test]
    fn the_only_group_is_extracted() {
        assert_eq!(ok(extract, texts(["hello world", "hello(.*)"])), "some(\" world\")");
        assert_eq!(ok(extract, texts(["hello", "l+"])), "some(\"ll\")");
        assert_eq!(ok(extract, texts(["HELLO", "hello"])), "none");
        assert_eq!(ok(extract, texts(["ab", "a(x)?"])), "none");
        assert_eq!(ok(extract_all, texts(["id:123, id:456", r"id:\d+"])), r#"["id:123", "id:456"]"#);
        assert_eq!(ok(extract_all, texts(["id:1, id:, id:2", r"id:(\d*)"])), r#"["1", "2"]"#);
        assert_eq!(ok(extract_all, texts(["a", "b"])), "[]");
        assert!(err(extract, texts(["a@b", "(.*)@([^.]*)"])).contains("more than one"));
        assert!(err(extract, texts(["a", "("])).contains("is not a valid regular expression"));
    }

    #[test]
    fn replacements_refer_to_groups() {
        assert_eq!(ok(replace, texts(["foo bar", "(fo)o (ba)r", r"\2 \1"])), r#""ba fo""#);
        assert_eq!(ok(replace, texts(["ab", "a", r"$1\\"])), r#""$1\\b""#);
        assert!(
            err(replace, texts(["test", "(.)", r"\2"]))
                .contains("a group that does not exist, the pattern has 1")
        );
        assert!(err(replace, texts(["id=1", r"id=(?P<v>\d)", r"\v"])).contains("not followed by a digit"));
        assert!(err(replace, texts(["a", "a", r"\"])).contains("ends with a backslash"));
        let limited = |limit| {
            let [text, pattern, new] = texts(["banana", "a", "x"]);
            ok(replace, [text, pattern, new, Value::Int(limit)])
        };
        assert_eq!([0, 1, 2, -12].map(limited), [r#""banana""#, r#""bxnana""#, r#""bxnxna""#, r#""bxnxnx""#]);
    }
}
