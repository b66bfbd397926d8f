//! Compiles regular expressions in Go's syntax, which CEL prescribes, with the `regex` crate. Both match in linear time; they
//! differ in a few notations, and Go's `\d`, `\w`, `\s` and `\b` match only ASCII.

use std::cell::RefCell;
use std::collections::HashMap;
use std::iter::Peekable;
use std::str::Chars;
use std::sync::Arc;

use kross_value::Text;
use regex::{Regex, RegexBuilder};

use super::Call;
use crate::error::{Fault, sized};

/// The number of compiled patterns that a thread caches, because expressions use the same ones repeatedly. The cache is
/// cleared when it is full.
const CACHE_SIZE: usize = 64;
/// The largest compiled pattern, in bytes.
const MAX_COMPILED_SIZE: usize = 1 << 20;
/// The longest pattern, in bytes.
const MAX_LENGTH: usize = 16 << 10;
/// The largest repetition count in Go.
const MAX_REPEAT: u32 = 1_000;

thread_local! {
    static COMPILED: RefCell<HashMap<Text, Arc<Regex>>> = RefCell::default();
}

/// Compiles a pattern in Go's syntax, or returns it from the thread's cache.
///
/// # Errors
/// If the pattern is invalid or too large, or the budget is exhausted.
pub fn compile(call: &mut Call<'_>, pattern: &Text) -> Result<Arc<Regex>, Fault> {
    if let Some(known) = COMPILED.with_borrow(|known| known.get(pattern).cloned()) {
        return Ok(known);
    }
    call.charge(pattern.len())?;
    // Share the regex instead of cloning it: a clone loses the caches that matching has filled.
    let compiled = Arc::new(build(pattern)?);
    COMPILED.with_borrow_mut(|known| {
        if known.len() >= CACHE_SIZE {
            known.clear();
        }
        known.insert(pattern.clone(), compiled.clone());
    });
    Ok(compiled)
}

/// Compiles a pattern in Go's syntax, without the cache.
fn build(pattern: &str) -> Result<Regex, Fault> {
    if pattern.len() > MAX_LENGTH {
        return Err(Fault::invalid(format!("the regular expression is longer than {MAX_LENGTH} bytes")));
    }
    let invalid = |reason: &str| {
        Fault::invalid(format!("{} is not a valid regular expression: {reason}", sized(pattern)))
    };
    RegexBuilder::new(&translate(pattern).map_err(|reason| invalid(&reason))?)
        .size_limit(MAX_COMPILED_SIZE)
        .dfa_size_limit(MAX_COMPILED_SIZE)
        .nest_limit(100)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => invalid("it is too large"),
            // The error shows the pattern in several lines; the reason is in the last one.
            other => invalid(
                other.to_string().lines().last().unwrap_or_default().trim().trim_start_matches("error: "),
            ),
        })
}

/// Translates Go's syntax to that of the `regex` crate.
fn translate(pattern: &str) -> Result<String, String> {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern.chars().peekable();
    let mut repeated = false;
    while let Some(character) = rest.next() {
        let repeats = match character {
            '\\' => {
                escape(&mut out, &mut rest, false)?;
                false
            }
            '[' => {
                class(&mut out, &mut rest)?;
                false
            }
            '{' => counted(&mut out, &mut rest)?,
            '*' | '+' | '?' => {
                out.push(character);
                true
            }
            '(' => {
                group(&mut out, &mut rest)?;
                false
            }
            other => {
                out.push(other);
                false
            }
        };
        if repeats && repeated {
            return Err("nested repetition operator".to_owned());
        }
        repeated = repeats;
        if repeats {
            // A `?` after a repetition makes it lazy.
            if rest.peek() == Some(&'?') {
                out.extend(rest.next());
            }
        }
    }
    Ok(out)
}

/// The start of a group. Flags that Go does not have are rejected, because they change the meaning of the rest.
fn group(out: &mut String, rest: &mut Peekable<Chars<'_>>) -> Result<(), String> {
    out.push('(');
    if rest.peek() != Some(&'?') {
        return Ok(());
    }
    out.extend(rest.next());
    while let Some(character) = rest.peek().copied() {
        match character {
            'i' | 'm' | 's' | 'U' | '-' => out.extend(rest.next()),
            'x' | 'u' | 'R' => return Err("a flag of a group is not supported".to_owned()),
            _ => break,
        }
    }
    Ok(())
}

/// `{2}`, `{2,}` and `{2,5}` are repetitions; any other brace is literal. Returns whether it is a repetition.
fn counted(out: &mut String, rest: &mut Peekable<Chars<'_>>) -> Result<bool, String> {
    let body: String = rest.clone().take_while(|character| *character != '}').collect();
    let (least, most) = body.split_once(',').unwrap_or((&body, ""));
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let closed = rest.clone().nth(body.chars().count()) == Some('}');
    if !closed || !number(least) || !(most.is_empty() || number(most)) {
        out.push_str("\\{");
        return Ok(false);
    }
    if [least, most].iter().any(|n| !n.is_empty() && !n.parse::<u32>().is_ok_and(|n| n <= MAX_REPEAT)) {
        return Err(format!("a repetition of more than {MAX_REPEAT} times"));
    }
    out.push('{');
    out.push_str(&body);
    out.push('}');
    rest.by_ref().take(body.chars().count() + 1).for_each(drop);
    Ok(true)
}

/// An escape, after its backslash.
fn escape(out: &mut String, rest: &mut Peekable<Chars<'_>>, in_class: bool) -> Result<(), String> {
    let Some(character) = rest.next() else {
        return Err("it ends with a backslash".to_owned());
    };
    let (inside, outside) = match character {
        'd' => ("0-9", "[0-9]"),
        'w' => ("0-9A-Za-z_", "[0-9A-Za-z_]"),
        's' => ("\\t\\n\\x0C\\r\\x20", "[\\t\\n\\x0C\\r\\x20]"),
        'D' => ("[^0-9]", "[^0-9]"),
        'W' => ("[^0-9A-Za-z_]", "[^0-9A-Za-z_]"),
        'S' => ("[^\\t\\n\\x0C\\r\\x20]", "[^\\t\\n\\x0C\\r\\x20]"),
        'b' if !in_class => ("", "(?-u:\\b)"),
        'B' if !in_class => ("", "(?-u:\\B)"),
        'Q' if !in_class => {
            quoted(out, rest);
            return Ok(());
        }
        'p' | 'P' | 'x' if rest.peek() == Some(&'{') => {
            out.extend(['\\', character]);
            for inner in rest.by_ref() {
                out.push(inner);
                if inner == '}' {
                    break;
                }
            }
            return Ok(());
        }
        '<' | '>' | 'u' | 'U' | 'G' | 'K' | 'h' | 'R' | 'X' => {
            return Err("unknown escape".to_owned());
        }
        other => {
            out.push('\\');
            out.push(other);
            return Ok(());
        }
    };
    out.push_str(if in_class { inside } else { outside });
    Ok(())
}

/// Literal text from `\Q` to `\E` or the end.
fn quoted(out: &mut String, rest: &mut Peekable<Chars<'_>>) {
    let text: String = rest.clone().collect();
    let (literal, closed) =
        text.split_once("\\E").map_or((text.as_str(), false), |(literal, _)| (literal, true));
    out.push_str(&regex::escape(literal));
    rest.by_ref().take(literal.chars().count() + if closed { 2 } else { 0 }).for_each(drop);
}

/// A character class, up to its closing bracket. Go has no nested classes and set operations, so their syntax is escaped.
fn class(out: &mut String, rest: &mut Peekable<Chars<'_>>) -> Result<(), String> {
    out.push('[');
    if rest.peek() == Some(&'^') {
        out.extend(rest.next());
    }
    if rest.peek() == Some(&']') {
        rest.next();
        out.push_str("\\]");
    }
    while let Some(character) = rest.next() {
        match character {
            ']' => {
                out.push(']');
                return Ok(());
            }
            '\\' => escape(out, rest, true)?,
            '[' if rest.peek() == Some(&':') => named(out, rest),
            '[' | '&' | '~' => out.extend(['\\', character]),
            other => out.push(other),
        }
    }
    Err("a character class is not closed".to_owned())
}

/// A complete named class such as `[:alpha:]`.
fn named(out: &mut String, rest: &mut Peekable<Chars<'_>>) {
    let text: String = rest.clone().take(16).collect();
    let Some(end) = text.find(":]") else {
        out.push_str("\\[");
        return;
    };
    let name = text.get(..end + 2).unwrap_or_default();
    out.push('[');
    out.push_str(name);
    rest.by_ref().take(name.chars().count()).for_each(drop);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pattern: &str, text: &str) -> Vec<String> {
        build(pattern).unwrap().find_iter(text).map(|found| found.as_str().to_owned()).collect()
    }

    #[test]
    fn perl_classes_match_only_ascii() {
        assert_eq!(found(r"\d+", "12 ٣٤"), ["12"]);
        assert_eq!(found(r"[\d_]+", "1_ ٣"), ["1_"]);
        assert_eq!(found(r"\w+", "aé b"), ["a", "b"]);
        assert_eq!(found(r"[^\W]+", "aé b"), ["a", "b"]);
        assert_eq!(found(r"a\sb", "a\u{a0}b a\u{b}b a\tb"), ["a\tb"]);
        assert_eq!(found(r"\bb", "éb"), ["b"]);
        assert_eq!(found(r"\Bb", "ab"), ["b"]);
    }

    #[test]
    fn go_syntax_is_translated() {
        assert_eq!(found(r"\Qa.b\E+", "a.bb axb"), ["a.bb"]);
        assert_eq!(found(r"\Qa.b", "a.b axb"), ["a.b"]);
        assert_eq!(found(r"a{,2}", "aa a{,2}"), ["a{,2}"]);
        assert_eq!(found("a{", "a{"), ["a{"]);
        assert_eq!(found("a{2}", "aaa"), ["aa"]);
        assert_eq!(found("[a&&b~~]+", "ab&~"), ["ab&~"]);
        assert_eq!(found("[[a]+", "[a]"), ["[a"]);
        assert_eq!(found("[[:alpha:]]+", "ab1"), ["ab"]);
        assert_eq!(found("[]a]+", "a]b"), ["a]"]);
        assert_eq!(found("(?i)AB(?-i:c)", "abc abC"), ["abc"]);
        assert_eq!(found("a+?", "aa"), ["a", "a"]);
    }

    #[test]
    fn patterns_that_go_rejects_are_rejected() {
        for pattern in [
            "(", "a**", "a+*", "a{1001}", "[a", r"\", r"\8", "(?x)a", "(?<", "*a", r"\<a", r"a{2}{3}", r"\Z",
            "[b-a]",
        ] {
            assert!(build(pattern).is_err(), "{pattern}");
        }
        assert!(build(&"a".repeat(20_000)).is_err());
        assert!(build(&"(".repeat(2_000)).is_err());
        assert!(build("((a{500}){500}){500}").unwrap_err().to_string().contains("too large"));
    }

    #[test]
    fn a_thread_caches_a_limited_number_of_patterns() {
        let mut budget = 100_000;
        for n in 0..1_000 {
            compile(&mut Call::new(&mut budget), &format!("a{n}").into()).unwrap();
        }
        assert!(COMPILED.with_borrow(HashMap::len) <= CACHE_SIZE);
    }
}
