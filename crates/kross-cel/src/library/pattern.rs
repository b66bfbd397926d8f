//! Compiles regular expressions written for Go, which the language prescribes, into ours. Both run in linear time; they
//! differ in a few spellings, and in that Go's `\d`, `\w`, `\s` and `\b` know ASCII alone.

use std::cell::RefCell;
use std::collections::HashMap;
use std::iter::Peekable;
use std::str::Chars;
use std::sync::Arc;

use kross_value::Text;
use regex::{Regex, RegexBuilder};

use super::Call;
use crate::error::Fault;

/// How many compiled patterns a thread keeps, because expressions ask with the same ones again and again; when there are
/// more, all are forgotten.
const KEPT: usize = 64;
/// Of a compiled pattern, in bytes.
const LARGEST: usize = 1 << 20;
/// Of a pattern's text, in bytes.
const LONGEST: usize = 16 << 10;
/// The most that Go repeats.
const MAX_REPEAT: u32 = 1_000;

thread_local! {
    static COMPILED: RefCell<HashMap<Text, Arc<Regex>>> = RefCell::default();
}

/// The compiled form of a pattern in Go's notation, made once for each thread while it is in use.
///
/// # Errors
/// When the pattern is no regular expression, or too large a one, or the budget is used up.
pub fn compile(call: &mut Call<'_>, pattern: &Text) -> Result<Arc<Regex>, Fault> {
    if let Some(known) = COMPILED.with_borrow(|known| known.get(pattern).cloned()) {
        return Ok(known);
    }
    call.charge(pattern.len())?;
    // Shared, not cloned: a clone starts without what the original has learned while matching.
    let compiled = Arc::new(build(pattern)?);
    COMPILED.with_borrow_mut(|known| {
        if known.len() >= KEPT {
            known.clear();
        }
        known.insert(pattern.clone(), compiled.clone());
    });
    Ok(compiled)
}

/// Compiles a pattern anew. The checker does so for literal ones.
///
/// # Errors
/// When the pattern is no regular expression, or too large a one.
pub fn build(pattern: &str) -> Result<Regex, Fault> {
    if pattern.len() > LONGEST {
        return Err(Fault::invalid(format!("the regular expression is longer than {LONGEST} bytes")));
    }
    let refused = |reason: &str| Fault::invalid(format!("`{pattern}` is no regular expression: {reason}"));
    RegexBuilder::new(&translate(pattern).map_err(|reason| refused(&reason))?)
        .size_limit(LARGEST)
        .dfa_size_limit(LARGEST)
        .nest_limit(100)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => refused("it is too large"),
            // The library draws the pattern in several lines; what is wrong is in the last.
            other => refused(
                other.to_string().lines().last().unwrap_or_default().trim().trim_start_matches("error: "),
            ),
        })
}

/// Rewrites what Go and we spell differently.
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
            return Err("it repeats a repetition".to_owned());
        }
        repeated = repeats;
        if repeats {
            // A `?` after a repetition makes it lazy and is no repetition of its own.
            if rest.peek() == Some(&'?') {
                out.extend(rest.next());
            }
        }
    }
    Ok(out)
}

/// The opening of a group. Flags that Go does not have are refused: they change what the rest means.
fn group(out: &mut String, rest: &mut Peekable<Chars<'_>>) -> Result<(), String> {
    out.push('(');
    if rest.peek() != Some(&'?') {
        return Ok(());
    }
    out.extend(rest.next());
    while let Some(character) = rest.peek().copied() {
        match character {
            'i' | 'm' | 's' | 'U' | '-' => out.extend(rest.next()),
            'x' | 'u' | 'R' => return Err(format!("the flag `{character}` of a group is not supported")),
            _ => break,
        }
    }
    Ok(())
}

/// `{2}`, `{2,}` and `{2,5}` repeat; any other brace stands for itself. Says whether it repeats.
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
        return Err(format!("`{{{body}}}` repeats more than {MAX_REPEAT} times"));
    }
    out.push('{');
    out.push_str(&body);
    out.push('}');
    rest.by_ref().take(body.chars().count() + 1).for_each(drop);
    Ok(true)
}

/// What follows a backslash.
fn escape(out: &mut String, rest: &mut Peekable<Chars<'_>>, in_class: bool) -> Result<(), String> {
    let Some(character) = rest.next() else {
        return Err("it ends in a backslash".to_owned());
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
            return Err(format!("`\\{character}` means nothing"));
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

/// `\Q` to `\E` or the end: text that stands for itself.
fn quoted(out: &mut String, rest: &mut Peekable<Chars<'_>>) {
    let text: String = rest.clone().collect();
    let (literal, closed) =
        text.split_once("\\E").map_or((text.as_str(), false), |(literal, _)| (literal, true));
    out.push_str(&regex::escape(literal));
    rest.by_ref().take(literal.chars().count() + if closed { 2 } else { 0 }).for_each(drop);
}

/// A character class, up to its closing bracket. Nested classes and set operations are ours alone: escaped.
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

/// `[:alpha:]` and the like, where they are complete.
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
    fn perl_classes_know_ascii_alone() {
        assert_eq!(found(r"\d+", "12 ٣٤"), ["12"]);
        assert_eq!(found(r"[\d_]+", "1_ ٣"), ["1_"]);
        assert_eq!(found(r"\w+", "aé b"), ["a", "b"]);
        assert_eq!(found(r"[^\W]+", "aé b"), ["a", "b"]);
        assert_eq!(found(r"a\sb", "a\u{a0}b a\u{b}b a\tb"), ["a\tb"]);
        assert_eq!(found(r"\bb", "éb"), ["b"]);
        assert_eq!(found(r"\Bb", "ab"), ["b"]);
    }

    #[test]
    fn spellings_of_go_are_understood() {
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
    fn what_go_refuses_is_refused() {
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
    fn a_thread_keeps_a_bounded_number_of_patterns() {
        let mut budget = 100_000;
        for n in 0..1_000 {
            compile(&mut Call::new(&mut budget), &format!("a{n}").into()).unwrap();
        }
        assert!(COMPILED.with_borrow(HashMap::len) <= KEPT);
    }
}
