//! Turns arguments as Go's programs take them into flags with texts: one dash or two, `--flag=value` or `--flag value`,
//! booleans alone or with `=true`. The first of two steps: what was typed. What it means comes after.

use std::fmt;

use kross_diagnostics::suggest;

use super::duration::{self, GoDuration};

/// What a flag takes, with its default.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Takes {
    Bool(bool),
    Integer(i64),
    Float(f64),
    Duration(GoDuration),
    Text(&'static str),
}

/// One flag.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flag {
    pub(super) name: &'static str,
    pub(super) takes: Takes,
    pub(super) help: &'static str,
}

/// A value as it was typed, checked against what its flag takes.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Bool(bool),
    Integer(i64),
    Float(f64),
    Duration(GoDuration),
    Text(String),
}

/// What was typed.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Typed {
    /// Somebody asks what can be typed.
    Help,
    /// Values by flag, in the order they were typed; a later one wins.
    Flags(Vec<(&'static str, Value)>),
}

/// Something that cannot be typed, and what can.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Mistake {
    #[error("unknown flag `--{name}`{}", meant(suggestion.as_ref()))]
    Unknown { name: String, suggestion: Option<&'static str> },
    #[error("`--{name}` needs a value: write `--{name}={example}`")]
    Missing { name: &'static str, example: String },
    #[error("`{value}` is no value for `--{name}`: {wanted}")]
    Invalid { name: &'static str, value: String, wanted: &'static str },
    #[error("unexpected argument `{0}`: every argument is a flag, and a value goes behind `=`")]
    Unexpected(String),
}

fn meant(suggestion: Option<&&'static str>) -> String {
    match suggestion {
        Some(name) => format!("; did you mean `--{name}`?"),
        None => "; `kross controller --help` lists all".to_owned(),
    }
}

/// Reads arguments.
pub(super) fn parse(flags: &[Flag], arguments: impl IntoIterator<Item = String>) -> Result<Typed, Mistake> {
    let mut typed = Vec::new();
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let Some(named) = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-')) else {
            return Err(Mistake::Unexpected(argument));
        };
        if named.is_empty() {
            // `--` ends the flags, and nothing else is taken.
            return match arguments.next() {
                Some(argument) => Err(Mistake::Unexpected(argument)),
                None => Ok(Typed::Flags(typed)),
            };
        }
        let (name, value) = match named.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (named, None),
        };
        let Some(flag) = flags.iter().find(|flag| flag.name == name) else {
            if matches!(name, "h" | "help") {
                return Ok(Typed::Help);
            }
            let suggestion = suggest(name, flags.iter().map(|flag| flag.name));
            return Err(Mistake::Unknown { name: name.to_owned(), suggestion });
        };
        let value = match (value, flag.takes) {
            (Some(value), _) => value,
            (None, Takes::Bool(_)) => "true".to_owned(),
            (None, _) => arguments
                .next()
                .ok_or_else(|| Mistake::Missing { name: flag.name, example: flag.takes.to_string() })?,
        };
        typed.push((flag.name, flag.read(value)?));
    }
    Ok(Typed::Flags(typed))
}

impl Flag {
    fn read(&self, text: String) -> Result<Value, Mistake> {
        let (value, wanted) = match self.takes {
            Takes::Bool(_) => (boolean(&text).map(Value::Bool), "write `true` or `false`"),
            Takes::Integer(_) => (integer(&text).map(Value::Integer), "write a whole number"),
            Takes::Float(_) => (text.parse().ok().map(Value::Float), "write a number"),
            Takes::Duration(_) => (
                duration::parse(&text).map(Value::Duration),
                "write a duration such as `300ms`, `15s` or `1h30m`",
            ),
            Takes::Text(_) => return Ok(Value::Text(text)),
        };
        value.ok_or(Mistake::Invalid { name: self.name, value: text, wanted })
    }
}

impl Takes {
    /// The default as a value.
    pub(super) fn default(self) -> Value {
        match self {
            Self::Bool(value) => Value::Bool(value),
            Self::Integer(value) => Value::Integer(value),
            Self::Float(value) => Value::Float(value),
            Self::Duration(value) => Value::Duration(value),
            Self::Text(value) => Value::Text(value.to_owned()),
        }
    }

    /// The word for it in the list of flags.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Bool(_) => "",
            Self::Integer(_) => " int",
            Self::Float(_) => " float",
            Self::Duration(_) => " duration",
            Self::Text(_) => " string",
        }
    }
}

impl fmt::Display for Takes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => value.fmt(f),
            Self::Integer(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
            Self::Duration(value) => value.fmt(f),
            Self::Text(value) => value.fmt(f),
        }
    }
}

/// The words that Go takes for a boolean.
pub(super) fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// A whole number, in any base that Go reads off its prefix.
fn integer(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_ascii_lowercase();
    let prefixes = [("0x", 16), ("0o", 8), ("0b", 2)];
    let based = prefixes.iter().find_map(|(prefix, base)| Some((lower.strip_prefix(prefix)?, *base)));
    let (digits, base) = based.unwrap_or((lower.as_str(), 10));
    if digits.starts_with(['+', '-']) {
        return None;
    }
    i64::from_str_radix(&digits.replace('_', ""), base).ok()?.checked_mul(sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLAGS: [Flag; 5] = [
        Flag { name: "leader-elect", takes: Takes::Bool(false), help: "" },
        Flag { name: "client-burst", takes: Takes::Integer(150), help: "" },
        Flag { name: "client-qps", takes: Takes::Float(100.0), help: "" },
        Flag { name: "retry", takes: Takes::Duration(GoDuration::from_millis(200)), help: "" },
        Flag { name: "address", takes: Takes::Text(":8078"), help: "" },
    ];

    fn read(line: &str) -> Result<Typed, Mistake> {
        parse(&FLAGS, line.split_whitespace().map(str::to_owned))
    }

    fn flags(line: &str) -> Vec<(&'static str, Value)> {
        match read(line) {
            Ok(Typed::Flags(flags)) => flags,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn one_dash_and_two_mean_the_same() {
        let expected = vec![("client-burst", Value::Integer(7)), ("leader-elect", Value::Bool(true))];
        assert_eq!(flags("--client-burst=7 --leader-elect"), expected);
        assert_eq!(flags("-client-burst 7 -leader-elect"), expected);
    }

    #[test]
    fn values_follow_behind_the_equals_sign_or_the_next_blank() {
        assert_eq!(flags("--address :1"), flags("--address=:1"));
        assert_eq!(flags("--retry 1m30s"), vec![("retry", Value::Duration(GoDuration::from_millis(90_000)))]);
        assert_eq!(flags("--client-qps 0.5"), vec![("client-qps", Value::Float(0.5))]);
        assert_eq!(flags("--address="), vec![("address", Value::Text(String::new()))]);
        assert_eq!(flags("--address --"), vec![("address", Value::Text("--".to_owned()))]);
    }

    #[test]
    fn booleans_take_every_word_that_go_takes() {
        for (word, value) in [("true", true), ("T", true), ("1", true), ("False", false), ("0", false)] {
            assert_eq!(flags(&format!("--leader-elect={word}")), vec![("leader-elect", Value::Bool(value))]);
        }
        let error = read("--leader-elect=yes").unwrap_err().to_string();
        assert_eq!(error, "`yes` is no value for `--leader-elect`: write `true` or `false`");
    }

    #[test]
    fn numbers_may_have_a_base() {
        for (text, value) in [("0x10", 16), ("-3", -3), ("1_000", 1000), ("0b11", 3)] {
            assert_eq!(integer(text), Some(value), "{text}");
        }
        for text in ["", "x", "--3", "1.5", "0x"] {
            assert_eq!(integer(text), None, "{text}");
        }
    }

    #[test]
    fn an_unknown_flag_suggests_the_one_that_was_meant() {
        let error = read("--leader-elct").unwrap_err().to_string();
        assert_eq!(error, "unknown flag `--leader-elct`; did you mean `--leader-elect`?");
        let error = read("--zzz=1").unwrap_err().to_string();
        assert_eq!(error, "unknown flag `--zzz`; `kross controller --help` lists all");
    }

    #[test]
    fn what_go_would_silently_ignore_is_refused() {
        // Go ends the flags at the first argument that is none, so that `--client-burst` would have no effect.
        assert_eq!(read("--leader-elect true --client-burst=1"), Err(Mistake::Unexpected("true".to_owned())));
        assert_eq!(read("-- x"), Err(Mistake::Unexpected("x".to_owned())));
        assert_eq!(read("--"), Ok(Typed::Flags(Vec::new())));
    }

    #[test]
    fn a_missing_value_shows_how_to_write_one() {
        let error = read("--address").unwrap_err().to_string();
        assert_eq!(error, "`--address` needs a value: write `--address=:8078`");
    }

    #[test]
    fn help_is_a_flag_of_its_own() {
        for line in ["-h", "--help", "--client-burst=1 -help"] {
            assert_eq!(read(line), Ok(Typed::Help), "{line}");
        }
    }
}
