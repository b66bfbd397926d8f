//! Parses flags as Go's `flag` package does: one dash or two, `--flag=value` or `--flag value`, booleans alone or with
//! `=true`. The first of two steps; the second is [`super::configuration`].

use std::fmt;

use kross_diagnostics::suggest;

use super::duration::{self, GoDuration};

/// The default of a flag, which also decides the type of its value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum FlagDefault {
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
    pub(super) default: FlagDefault,
    pub(super) help: &'static str,
}

/// The value of a flag, of the type of its default.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Bool(bool),
    Integer(i64),
    Float(f64),
    Duration(GoDuration),
    Text(String),
}

/// Parsed arguments.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Parsed {
    /// `--help` was given.
    Help,
    /// Names and values in the order of the arguments; a later value wins.
    Flags(Vec<(&'static str, Value)>),
}

/// An argument that cannot be parsed, and what to use instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FlagError {
    #[error("unknown flag `--{name}`{}", did_you_mean(suggestion.as_ref()))]
    Unknown { name: String, suggestion: Option<&'static str> },
    #[error("`--{name}` needs a value: use `--{name}={example}`")]
    Missing { name: &'static str, example: String },
    #[error("invalid value `{value}` for `--{name}`: use {expected}")]
    Invalid { name: &'static str, value: String, expected: &'static str },
    #[error("unexpected argument `{0}`: use `--flag=value`")]
    Unexpected(String),
}

fn did_you_mean(suggestion: Option<&&'static str>) -> String {
    match suggestion {
        Some(name) => format!("; did you mean `--{name}`?"),
        None => "; run `kross controller --help` to list all flags".to_owned(),
    }
}

/// Parses arguments.
pub(super) fn parse(
    flags: &[Flag],
    arguments: impl IntoIterator<Item = String>,
) -> Result<Parsed, FlagError> {
    let mut parsed = Vec::new();
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let Some(named) = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-')) else {
            return Err(FlagError::Unexpected(argument));
        };
        if named.is_empty() {
            // `--` ends the flags, and there are no other arguments.
            return match arguments.next() {
                Some(argument) => Err(FlagError::Unexpected(argument)),
                None => Ok(Parsed::Flags(parsed)),
            };
        }
        let (name, value) = match named.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (named, None),
        };
        let Some(flag) = flags.iter().find(|flag| flag.name == name) else {
            if matches!(name, "h" | "help") {
                return Ok(Parsed::Help);
            }
            let suggestion = suggest(name, flags.iter().map(|flag| flag.name));
            return Err(FlagError::Unknown { name: name.to_owned(), suggestion });
        };
        let value = match (value, flag.default) {
            (Some(value), _) => value,
            (None, FlagDefault::Bool(_)) => "true".to_owned(),
            (None, _) => arguments
                .next()
                .ok_or_else(|| FlagError::Missing { name: flag.name, example: flag.default.example() })?,
        };
        parsed.push((flag.name, flag.parse(value)?));
    }
    Ok(Parsed::Flags(parsed))
}

impl Flag {
    fn parse(&self, text: String) -> Result<Value, FlagError> {
        let (value, expected) = match self.default {
            FlagDefault::Bool(_) => (boolean(&text).map(Value::Bool), "`true` or `false`"),
            FlagDefault::Integer(_) => (integer(&text).map(Value::Integer), "a whole number"),
            FlagDefault::Float(_) => (text.parse().ok().map(Value::Float), "a number"),
            FlagDefault::Duration(_) => {
                (duration::parse(&text).map(Value::Duration), "a duration such as `300ms`, `15s` or `1h30m`")
            }
            FlagDefault::Text(_) => return Ok(Value::Text(text)),
        };
        value.ok_or(FlagError::Invalid { name: self.name, value: text, expected })
    }
}

impl FlagDefault {
    /// The default as a value.
    pub(super) fn value(self) -> Value {
        match self {
            Self::Bool(value) => Value::Bool(value),
            Self::Integer(value) => Value::Integer(value),
            Self::Float(value) => Value::Float(value),
            Self::Duration(value) => Value::Duration(value),
            Self::Text(value) => Value::Text(value.to_owned()),
        }
    }

    /// The type of the value in the list of flags.
    pub(super) fn type_name(self) -> &'static str {
        match self {
            Self::Bool(_) => "",
            Self::Integer(_) => " int",
            Self::Float(_) => " float",
            Self::Duration(_) => " duration",
            Self::Text(_) => " string",
        }
    }
}

impl FlagDefault {
    /// A value for error messages: the default, or a placeholder where it is empty.
    fn example(self) -> String {
        match self {
            Self::Text("") => "VALUE".to_owned(),
            default => default.to_string(),
        }
    }
}

impl fmt::Display for FlagDefault {
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

/// Parses a boolean as Go does.
pub(super) fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Parses a whole number as Go does, with an optional base prefix.
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
        Flag { name: "leader-elect", default: FlagDefault::Bool(false), help: "" },
        Flag { name: "client-burst", default: FlagDefault::Integer(150), help: "" },
        Flag { name: "client-qps", default: FlagDefault::Float(100.0), help: "" },
        Flag { name: "retry", default: FlagDefault::Duration(GoDuration::from_millis(200)), help: "" },
        Flag { name: "address", default: FlagDefault::Text(":8078"), help: "" },
    ];

    fn parsed(line: &str) -> Result<Parsed, FlagError> {
        parse(&FLAGS, line.split_whitespace().map(str::to_owned))
    }

    fn flags(line: &str) -> Vec<(&'static str, Value)> {
        match parsed(line) {
            Ok(Parsed::Flags(flags)) => flags,
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
    fn values_follow_an_equals_sign_or_a_space() {
        assert_eq!(flags("--address :1"), flags("--address=:1"));
        assert_eq!(flags("--retry 1m30s"), vec![("retry", Value::Duration(GoDuration::from_millis(90_000)))]);
        assert_eq!(flags("--client-qps 0.5"), vec![("client-qps", Value::Float(0.5))]);
        assert_eq!(flags("--address="), vec![("address", Value::Text(String::new()))]);
        assert_eq!(flags("--address --"), vec![("address", Value::Text("--".to_owned()))]);
    }

    #[test]
    fn booleans_accept_every_word_that_go_accepts() {
        for (word, value) in [("true", true), ("T", true), ("1", true), ("False", false), ("0", false)] {
            assert_eq!(flags(&format!("--leader-elect={word}")), vec![("leader-elect", Value::Bool(value))]);
        }
        let error = parsed("--leader-elect=yes").unwrap_err().to_string();
        assert_eq!(error, "invalid value `yes` for `--leader-elect`: use `true` or `false`");
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
    fn an_unknown_flag_suggests_a_similar_one() {
        let error = parsed("--leader-elct").unwrap_err().to_string();
        assert_eq!(error, "unknown flag `--leader-elct`; did you mean `--leader-elect`?");
        let error = parsed("--zzz=1").unwrap_err().to_string();
        assert_eq!(error, "unknown flag `--zzz`; run `kross controller --help` to list all flags");
    }

    #[test]
    fn arguments_that_go_would_silently_ignore_are_rejected() {
        // Go stops parsing at the first argument that is not a flag, so `--client-burst` would have no effect.
        assert_eq!(
            parsed("--leader-elect true --client-burst=1"),
            Err(FlagError::Unexpected("true".to_owned()))
        );
        assert_eq!(parsed("-- x"), Err(FlagError::Unexpected("x".to_owned())));
        assert_eq!(parsed("--"), Ok(Parsed::Flags(Vec::new())));
    }

    #[test]
    fn a_missing_value_is_reported_with_an_example() {
        let error = parsed("--address").unwrap_err().to_string();
        assert_eq!(error, "`--address` needs a value: use `--address=:8078`");
    }

    #[test]
    fn help_is_recognised_among_other_flags() {
        for line in ["-h", "--help", "--client-burst=1 -help"] {
            assert_eq!(parsed(line), Ok(Parsed::Help), "{line}");
        }
    }
}
