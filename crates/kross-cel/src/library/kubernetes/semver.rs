//! Semantic versions, parsed strictly as in Kubernetes, or normalized first.

use std::any::Any;
use std::cmp::Ordering;

use super::super::arguments::{boolean, charge_bytes, functions, opaque, succeeds, text};
use super::super::{Call, Library};
use crate::error::{Fault, sized};
use crate::value::{Opaque, Value};

/// Semantic versions.
pub static LIBRARY: Library = Library {
    name: "kubernetes.semver",
    functions: functions! {
        "compareTo": "Returns -1, 0 or 1 if the version is earlier than, equal to or later than the argument." {
            "(kubernetes.Semver).compareTo(kubernetes.Semver) -> int" => |_, a| Ok(Value::Int(order(a)? as i64)),
        }
        "isGreaterThan": "Returns whether the version is later than the argument." {
            "(kubernetes.Semver).isGreaterThan(kubernetes.Semver) -> bool" => |_, a| Ok(Value::Bool(order(a)?.is_gt())),
        }
        "isLessThan": "Returns whether the version is earlier than the argument." {
            "(kubernetes.Semver).isLessThan(kubernetes.Semver) -> bool" => |_, a| Ok(Value::Bool(order(a)?.is_lt())),
        }
        "isSemver": "Returns whether the string is a semantic version; with `true` it is normalized first: missing numbers, leading zeros and a leading `v` are allowed." {
            "isSemver(string) -> bool" => is_semver,
            "isSemver(string, bool) -> bool" => is_semver,
        }
        "major": "Returns the major version." {
            "(kubernetes.Semver).major() -> int" => |_, a| Ok(Value::Int(version(a, 0)?.major.cast_signed())),
        }
        "minor": "Returns the minor version." {
            "(kubernetes.Semver).minor() -> int" => |_, a| Ok(Value::Int(version(a, 0)?.minor.cast_signed())),
        }
        "patch": "Returns the patch version." {
            "(kubernetes.Semver).patch() -> int" => |_, a| Ok(Value::Int(version(a, 0)?.patch.cast_signed())),
        }
        "semver": "Parses a semantic version; with `true` it is normalized first: missing numbers, leading zeros and a leading `v` are allowed." {
            "semver(string) -> kubernetes.Semver" => semver,
            "semver(string, bool) -> kubernetes.Semver" => semver,
        }
    },
};

/// A semantic version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Semver {
    major: u64,
    minor: u64,
    patch: u64,
    prerelease: Vec<Identifier>,
    build: Vec<String>,
}

/// An identifier of a prerelease. Numbers are ordered before words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Number(u64),
    Word(String),
}

impl Semver {
    fn parse(text: &str) -> Result<Self, Fault> {
        let invalid = |why: &str| Fault::invalid(format!("{} is not a semantic version: {why}", sized(text)));
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(invalid("it needs three numbers"));
        };
        let (rest, build) = rest.split_once('+').map_or((rest, None), |(rest, build)| (rest, Some(build)));
        let (patch, prerelease) =
            rest.split_once('-').map_or((rest, None), |(patch, rest)| (patch, Some(rest)));
        let numbers =
            |text| number(text).ok_or_else(|| invalid("its parts must be numbers without leading zeros"));
        let words =
            |text: Option<&str>| text.map(|text| text.split('.').map(str::to_owned).collect::<Vec<_>>());
        let build = words(build).unwrap_or_default();
        if !build.iter().all(|word| is_word(word)) {
            return Err(invalid("its build metadata must consist of letters, digits and dashes"));
        }
        let prerelease = words(prerelease)
            .unwrap_or_default()
            .into_iter()
            .map(identifier)
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| invalid("its prerelease must consist of letters, digits and dashes"))?;
        Ok(Self { major: numbers(major)?, minor: numbers(minor)?, patch: numbers(patch)?, prerelease, build })
    }

    /// The order of versions, ignoring build metadata.
    fn order(&self, other: &Self) -> Ordering {
        let numbers = |version: &Self| (version.major, version.minor, version.patch);
        let prereleases = match (self.prerelease.is_empty(), other.prerelease.is_empty()) {
            (false, false) => self.prerelease.cmp(&other.prerelease),
            // A release is ordered after its prereleases.
            (mine, theirs) => mine.cmp(&theirs),
        };
        numbers(self).cmp(&numbers(other)).then(prereleases)
    }
}

fn number(text: &str) -> Option<u64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text.len() == 1 || !text.starts_with('0'));
    plain.then(|| text.parse().ok()).flatten()
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn identifier(text: String) -> Option<Identifier> {
    if !is_word(&text) {
        None
    } else if text.bytes().all(|byte| byte.is_ascii_digit()) {
        number(&text).map(Identifier::Number)
    } else {
        Some(Identifier::Word(text))
    }
}

/// Removes a leading `v` and leading zeros, and adds missing numbers.
fn normalized(text: &str) -> Result<String, Fault> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<String> = text.splitn(3, '.').map(without_leading_zeros).collect();
    if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
        return Err(Fault::invalid("a version needs three numbers to have a prerelease or build metadata"));
    }
    parts.resize(3, "0".to_owned());
    Ok(parts.join("."))
}

fn without_leading_zeros(part: &str) -> String {
    if part.len() < 2 {
        return part.to_owned();
    }
    let rest = part.trim_start_matches('0');
    if rest.starts_with(|first: char| first.is_ascii_digit()) { rest.to_owned() } else { format!("0{rest}") }
}

impl Opaque for Semver {
    fn type_name(&self) -> &'static str {
        "kubernetes.Semver"
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.as_any().downcast_ref::<Self>().is_some_and(|other| self.order(other).is_eq())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn text(&self) -> Option<String> {
        let mut text = format!("{}.{}.{}", self.major, self.minor, self.patch);
        for (at, part) in self.prerelease.iter().enumerate() {
            text.push(if at == 0 { '-' } else { '.' });
            match part {
                Identifier::Number(number) => text.push_str(&number.to_string()),
                Identifier::Word(word) => text.push_str(word),
            }
        }
        if !self.build.is_empty() {
            text.push('+');
            text.push_str(&self.build.join("."));
        }
        Some(text)
    }
}

fn version(arguments: &[Value], at: usize) -> Result<&Semver, Fault> {
    opaque(arguments, at, "kubernetes.Semver")
}

fn order(arguments: &[Value]) -> Result<Ordering, Fault> {
    Ok(version(arguments, 0)?.order(version(arguments, 1)?))
}

fn parsed(call: &mut Call<'_>, arguments: &[Value]) -> Result<Semver, Fault> {
    let text = text(arguments, 0)?;
    charge_bytes(call, text.len())?;
    if arguments.len() > 1 && boolean(arguments, 1)? {
        Semver::parse(&normalized(text)?)
    } else {
        Semver::parse(text)
    }
}

fn semver(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    parsed(call, arguments).map(Value::opaque)
}

fn is_semver(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    succeeds(parsed(call, arguments))
}
