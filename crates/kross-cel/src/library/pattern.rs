//! Compiles regular expressions in Go's syntax, which CEL prescribes, with the `regex` crate. Both match in linear time; they
//! differ in a few notations, and Go's `\d`, `\w`, `\s` and `\b` match only ASCII.

use std::cell::RefCell;
use std::collections::HashMap;
use std::iter::Peekable;
use std::str::Chars;
use std::sync::Arc;

use kross_value::Text;
use regex::{Regex, RegexBuilder};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};

use super::Call;
use crate::error::{Fault, sized};

/// The number of compiled patterns that a thread caches, because expressions use the same ones repeatedly. The cache is
/// cleared when it is full.
const CACHE_SIZE: usize = 64;
/// The number of states that the patterns in the cache of a thread may have together.
const CACHED_STATES: usize = 100_000;
/// What it costs to compile a pattern, however simple it is.
const COMPILATION: usize = 2_000;
/// What each state of a pattern adds to that. Together this is about ten nanoseconds for each unit.
const STATE: usize = 10;
/// How many states the classes of Unicode have, such as `\pL`: the largest ones.
const UNICODE_CLASS: usize = 3_000;
/// Characters are searched for in patterns with more states than this in more than constant time, in the worst case.
const SMALL: usize = 256;
/// How deeply groups may be nested.
const MAX_DEPTH: u32 = 100;
/// The largest compiled pattern, in bytes.
const MAX_COMPILED_SIZE: usize = 1 << 20;
/// The longest pattern, in bytes.
const MAX_LENGTH: usize = 16 << 10;
/// The largest repetition count in Go.
const MAX_REPEAT: u32 = 1_000;

thread_local! {
    static COMPILED: RefCell<Compiled> = RefCell::default();
}

/// The patterns that a thread has compiled, with the number of their states.
#[derive(Default)]
struct Compiled {
    patterns: HashMap<Text, (Arc<Regex>, usize)>,
    states: usize,
}

impl Compiled {
    fn insert(&mut self, pattern: &Text, regex: &Arc<Regex>, states: usize) {
        if self.patterns.len() >= CACHE_SIZE || self.states + states > CACHED_STATES {
            *self = Self::default();
        }
        self.states += states;
        self.patterns.insert(pattern.clone(), (Arc::clone(regex), states));
    }
}

/// Compiles a pattern in Go's syntax to search a text with it, or returns it from the thread's cache. A pattern with few
/// characters can be expensive: `\pL{100}` has more than a hundred thousand states.
///
/// # Errors
/// If the pattern is invalid or too large, or the budget is exhausted.
pub fn compile(call: &mut Call<'_>, subject: &str, pattern: &Text) -> Result<Arc<Regex>, Fault> {
    let known = COMPILED.with_borrow(|known| known.patterns.get(pattern).cloned());
    let (regex, states) = match known {
        Some(known) => known,
        None => {
            let (regex, states) = build(call, pattern)?;
            // Share the regex instead of cloning it: a clone loses the caches that matching has filled.
            let regex = Arc::new(regex);
            COMPILED.with_borrow_mut(|known| known.insert(pattern, &regex, states));
            (regex, states)
        }
    };
    call.charge((subject.len() / 10).saturating_mul(states / SMALL))?;
    Ok(regex)
}

/// Compiles a pattern in Go's syntax, without the cache. Returns how many states it has as well.
fn build(call: &mut Call<'_>, pattern: &str) -> Result<(Regex, usize), Fault> {
    if pattern.len() > MAX_LENGTH {
        return Err(Fault::invalid(format!("the regular expression is longer than {MAX_LENGTH} bytes")));
    }
    let invalid = |reason: &str| {
        Fault::invalid(format!("{} is not a valid regular expression: {reason}", sized(pattern)))
    };
    let translated = translate(pattern).map_err(|reason| invalid(&reason))?;
    charge_parsing(call, &translated)?;
    // Mistakes are reported by the compilation below.
    let parsed = ParserBuilder::new().nest_limit(MAX_DEPTH).build().parse(&translated);
    let states = parsed.map_or(0, |parsed| states(&parsed));
    call.charge(states.saturating_mul(STATE).saturating_add(COMPILATION))?;
    let regex = RegexBuilder::new(&translated)
        .size_limit(MAX_COMPILED_SIZE)
        .dfa_size_limit(MAX_COMPILED_SIZE)
        .nest_limit(MAX_DEPTH)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => invalid("it is too large"),
            // The error shows the pattern in several lines; the reason is in the last one.
            other => invalid(
                other.to_string().lines().last().unwrap_or_default().trim().trim_start_matches("error: "),
            ),
        })?;
    Ok((regex, states))
}

/// Charges for parsing a pattern: classes of Unicode are expanded, and several times so where case is ignored.
fn charge_parsing(call: &mut Call<'_>, pattern: &str) -> Result<(), Fault> {
    let classes = pattern.matches("\\p").count() + pattern.matches("\\P").count();
    let times = if pattern.contains("(?") { 4 } else { 1 };
    call.charge(pattern.len() * 20 + classes * UNICODE_CLASS * times)
}

/// About how many states a pattern has, and so how long it takes to compile.
fn states(pattern: &Hir) -> usize {
    match pattern.kind() {
        HirKind::Empty | HirKind::Look(_) => 1,
        HirKind::Literal(literal) => literal.0.len(),
        // A range of characters is up to four ranges of bytes, or more.
        HirKind::Class(Class::Unicode(class)) => class.ranges().len() * 4,
        HirKind::Class(Class::Bytes(class)) => class.ranges().len(),
        HirKind::Repetition(repeated) => {
            let times = repeated.max.unwrap_or(repeated.min.saturating_add(1)).max(1);
            states(&repeated.sub).saturating_mul(times as usize)
        }
        HirKind::Capture(group) => states(&group.sub).saturating_add(2),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().fold(1, |sum: usize, part| sum.saturating_add(states(part)))
        }
    }
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

    fn unlimited(pattern: &str) -> Result<Regex, Fault> {
        build(&mut Call::new(&mut u64::MAX.clone()), pattern).map(|(regex, _)| regex)
    }

    fn found(pattern: &str, text: &str) -> Vec<String> {
        unlimited(pattern).unwrap().find_iter(text).map(|found| found.as_str().to_owned()).collect()
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
            assert!(unlimited(pattern).is_err(), "{pattern}");
        }
        assert!(unlimited(&"a".repeat(20_000)).is_err());
        assert!(unlimited(&"(".repeat(2_000)).is_err());
        assert!(unlimited("((a{500}){500}){500}").unwrap_err().to_string().contains("too large"));
    }

    #[test]
    fn a_thread_caches_a_limited_number_of_patterns() {
        let mut budget = 10_000_000;
        for n in 0..1_000 {
            compile(&mut Call::new(&mut budget), "", &format!("a{n}").into()).unwrap();
        }
        assert!(COMPILED.with_borrow(|known| known.patterns.len()) <= CACHE_SIZE);
        for n in 0..100 {
            let mut budget = 10_000_000;
            compile(&mut Call::new(&mut budget), "", &format!(r"\pL{{10}}{n}").into()).unwrap();
            let states = COMPILED.with_borrow(|known| known.states);
            assert!(states <= CACHED_STATES, "{states}");
        }
    }

    #[test]
    fn compiling_a_pattern_costs_what_it_takes() {
        let cost = |pattern: &str| {
            let mut budget = u64::MAX;
            build(&mut Call::new(&mut budget), pattern).unwrap();
            u64::MAX - budget
        };
        assert!(
            cost("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$") < 10_000,
            "{}",
            cost("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
        );
        assert!(cost(r"\pL{20}") > 300_000, "{}", cost(r"\pL{20}"));
        assert!(cost("(a{100}){100}") > 90_000, "{}", cost("(a{100}){100}"));
        // Nothing is compiled that the budget does not allow.
        let mut budget = 100_000;
        let start = std::time::Instant::now();
        for n in 0..1_000 {
            let fault = build(&mut Call::new(&mut budget), &format!(r"\pL{{20}}{n}")).unwrap_err();
            assert_eq!(fault, Fault::BudgetExceeded);
        }
        assert!(start.elapsed().as_secs() < 5, "{:?}", start.elapsed());
    }

    #[test]
    fn a_search_with_many_states_costs_more() {
        let text = "a".repeat(100_000);
        let cost = |pattern: &str| {
            let mut budget = u64::MAX;
            compile(&mut Call::new(&mut budget), "", &pattern.into()).unwrap();
            let compiled = budget;
            compile(&mut Call::new(&mut budget), &text, &pattern.into()).unwrap();
            compiled - budget
        };
        assert_eq!(cost("^a+$"), 0);
        assert!(cost("(a|b)*a(a|b){900}") > 30_000, "{}", cost("(a|b)*a(a|b){900}"));
    }
}
