//! Named formats of strings, with Kubernetes' own error messages.

use std::any::Any;

use super::super::arguments::{charge_bytes, functions, opaque, text};
use super::super::{Call, Library};
use super::url::check_request;
use crate::error::Fault;
use crate::value::{Opaque, Value};

/// Named formats.
pub static LIBRARY: Library = Library {
    name: "kubernetes.format",
    functions: functions! {
        "format.byte": "Base64 with padding." { "format.byte() -> kubernetes.NamedFormat" => |_, _| Ok(Value::opaque(Format::Byte)) }
        "format.date": "A date such as `2021-01-31`." { "format.date() -> kubernetes.NamedFormat" => |_, _| Ok(Value::opaque(Format::Date)) }
        "format.datetime": "A date and time such as `2021-01-31T12:00:00Z`." { "format.datetime() -> kubernetes.NamedFormat" => |_, _| Ok(Value::opaque(Format::Datetime)) }
        "format.dns1035Label": "A DNS label that starts with a letter." { "format.dns1035Label() -> kubernetes.NamedFormat" => |_, _| Ok(Value::opaque(Format::Dns1035Label)) }
        "format.dns1035LabelPrefix": "The prefix of a DNS label that starts with a letter; may end with a dash." { "format.dns1035LabelPrefix() -> kubernetes.NamedFormat" => |_, _| Ok(Value::opaque(Format::Dns1035LabelPrefix)) }
        "format.dns1123Label": "A DNS label." { "format.dns1123Label() -> kubernetes.NamedFormat" => |_, _| Ok(Value::opaque(Format::Dns1123Label)) }
        "format.dns1123LabelPrefix": "The prefix of a DNS label; may end with a dash." { "format.dns1123LabelPrefix() -> kubernetes.NamedFormat" => |_, _| Ok(Value::opaque(Format::Dns1123LabelPrefix)) }
        "format.dns1123Subdomain": "A DNS subdomain: labels separated by dots." { "format.dns1123Subdomain() -> kubernetes.NamedFormat" => |_, _| Ok(Value::opaque(Format::Dns1123Subdomain)) }
        "format.dns1123SubdomainPrefix": "The prefix of a DNS subdomain; may end with a dash." { "format.dns1123SubdomainPrefix() -> kubernetes.NamedFormat" => |_, _| Ok(Value::opaque(Format::Dns1123SubdomainPrefix)) }
        "format.labelValue": "The value of a label." { "format.labelValue() -> kubernetes.NamedFormat" => |_, _| Ok(Value::opaque(Format::LabelValue)) }
        "format.named": "Returns the format with the given name, if there is one." { "format.named(string) -> optional(kubernetes.NamedFormat)" => named }
        "format.qualifiedName": "A qualified name such as a label key: a name with an optional DNS subdomain prefix and `/`." { "format.qualifiedName() -> kubernetes.NamedFormat" => |_, _| Ok(Value::opaque(Format::QualifiedName)) }
        "format.uri": "An absolute URL or path, as for `isURL`." { "format.uri() -> kubernetes.NamedFormat" => |_, _| Ok(Value::opaque(Format::Uri)) }
        "format.uuid": "A UUID, with or without dashes." { "format.uuid() -> kubernetes.NamedFormat" => |_, _| Ok(Value::opaque(Format::Uuid)) }
        "validate": "Returns the errors of the string; an empty optional if it has the format." {
            "(kubernetes.NamedFormat).validate(string) -> optional(list(string))" => validate,
        }
    },
};

/// A format by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `byte`
    Byte,
    /// `date`
    Date,
    /// `datetime`
    Datetime,
    /// `dns1035Label`
    Dns1035Label,
    /// `dns1035LabelPrefix`
    Dns1035LabelPrefix,
    /// `dns1123Label`
    Dns1123Label,
    /// `dns1123LabelPrefix`
    Dns1123LabelPrefix,
    /// `dns1123Subdomain`
    Dns1123Subdomain,
    /// `dns1123SubdomainPrefix`
    Dns1123SubdomainPrefix,
    /// `labelValue`
    LabelValue,
    /// `qualifiedName`
    QualifiedName,
    /// `uri`
    Uri,
    /// `uuid`
    Uuid,
}

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const LABEL_1035: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const NAME: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const NAME_OR_EMPTY: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";

impl Format {
    /// The format of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "byte" => Self::Byte,
            "date" => Self::Date,
            "datetime" => Self::Datetime,
            "dns1035Label" => Self::Dns1035Label,
            "dns1035LabelPrefix" => Self::Dns1035LabelPrefix,
            "dns1123Label" => Self::Dns1123Label,
            "dns1123LabelPrefix" => Self::Dns1123LabelPrefix,
            "dns1123Subdomain" => Self::Dns1123Subdomain,
            "dns1123SubdomainPrefix" => Self::Dns1123SubdomainPrefix,
            "labelValue" => Self::LabelValue,
            "qualifiedName" => Self::QualifiedName,
            "uri" => Self::Uri,
            "uuid" => Self::Uuid,
            _ => return None,
        })
    }

    /// The errors of a text that should have this format.
    #[must_use]
    pub fn errors(self, text: &str) -> Vec<String> {
        let unless = |valid: bool, error: &str| if valid { Vec::new() } else { vec![error.to_owned()] };
        match self {
            Self::Byte => unless(is_base64(text), "invalid base64"),
            Self::Date => unless(is_date(text), "invalid date"),
            Self::Datetime => unless(is_datetime(text), "invalid datetime"),
            Self::Dns1035Label => dns1035_label(text),
            Self::Dns1035LabelPrefix => dns1035_label(&masked(text)),
            Self::Dns1123Label => dns1123_label(text),
            Self::Dns1123LabelPrefix => dns1123_label(&masked(text)),
            Self::Dns1123Subdomain => dns1123_subdomain(text, "characters"),
            Self::Dns1123SubdomainPrefix => dns1123_subdomain(&masked(text), "characters"),
            Self::LabelValue => label_value(text),
            Self::QualifiedName => qualified_name(text),
            Self::Uri => {
                check_request(text).err().map(|why| format!("parse {text:?}: {why}")).into_iter().collect()
            }
            Self::Uuid => unless(is_uuid(text), "does not match the UUID format"),
        }
    }
}

impl Opaque for Format {
    fn type_name(&self) -> &'static str {
        "kubernetes.NamedFormat"
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.as_any().downcast_ref() == Some(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn named(_: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let format = Format::named(text(arguments, 0)?);
    Ok(format.map_or(Value::Optional(None), |format| Value::some(Value::opaque(format))))
}

fn validate(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let (format, text) = (opaque::<Format>(arguments, 0, "kubernetes.NamedFormat")?, text(arguments, 1)?);
    charge_bytes(call, text.len())?;
    let errors = format.errors(text);
    if errors.is_empty() {
        return Ok(Value::Optional(None));
    }
    Ok(Value::some(Value::list(errors.into_iter().map(Value::string).collect())))
}

/// A prefix may end with a dash, because more will follow: the last two bytes are replaced by one letter.
fn masked(text: &str) -> String {
    match text.strip_suffix('-') {
        Some(rest) if rest.ends_with(|last: char| last.is_ascii()) => {
            let mut kept = rest.to_owned();
            kept.pop();
            kept.push('a');
            kept
        }
        _ => text.to_owned(),
    }
}

/// Kubernetes' messages say "characters" for names and "bytes" for labels; both count bytes.
fn too_long(length: usize, unit: &str) -> String {
    format!("must be no more than {length} {unit}")
}

fn mismatch(rule: &str, pattern: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{rule} (e.g. {}regex used for validation is '{pattern}')", examples.join(" or "))
}

/// Letters and digits, with dashes between them; `first` checks the first character.
fn is_label(text: &str, first: impl Fn(u8) -> bool) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.bytes().next().is_some_and(first)
        && text.bytes().next_back().is_some_and(inner)
        && text.bytes().all(|byte| inner(byte) || byte == b'-')
}

fn is_label_1123(text: &str) -> bool {
    is_label(text, |byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label_1123)
}

fn dns1123_label(text: &str) -> Vec<String> {
    const RULE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character";
    let mut errors = Vec::new();
    if text.len() > 63 {
        errors.push(too_long(63, "characters"));
    }
    if !is_label_1123(text) {
        errors.push(if is_subdomain(text) {
            "must not contain dots".to_owned()
        } else {
            mismatch(RULE, LABEL, &["my-name", "123-abc"])
        });
    }
    errors
}

fn dns1123_subdomain(text: &str, unit: &str) -> Vec<String> {
    const RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
    let mut errors = Vec::new();
    if text.len() > 253 {
        errors.push(too_long(253, unit));
    }
    if !is_subdomain(text) {
        errors.push(mismatch(RULE, SUBDOMAIN, &["example.com"]));
    }
    errors
}

fn dns1035_label(text: &str) -> Vec<String> {
    const RULE: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character";
    let mut errors = Vec::new();
    if text.len() > 63 {
        errors.push(too_long(63, "characters"));
    }
    if !is_label(text, |byte| byte.is_ascii_lowercase()) {
        errors.push(mismatch(RULE, LABEL_1035, &["my-name", "abc-123"]));
    }
    errors
}

/// Letters and digits, with dashes, underscores and dots between them.
fn is_name(text: &str) -> bool {
    let outer = |byte: u8| byte.is_ascii_alphanumeric();
    text.bytes().next().is_some_and(outer)
        && text.bytes().next_back().is_some_and(outer)
        && text.bytes().all(|byte| outer(byte) || b"-_.".contains(&byte))
}

fn label_value(text: &str) -> Vec<String> {
    const RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
    let mut errors = Vec::new();
    if text.len() > 63 {
        errors.push(too_long(63, "bytes"));
    }
    if !text.is_empty() && !is_name(text) {
        errors.push(mismatch(RULE, NAME_OR_EMPTY, &["MyValue", "my_value", "12345"]));
    }
    errors
}

fn qualified_name(text: &str) -> Vec<String> {
    const RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
    let rule = mismatch(RULE, NAME, &["MyName", "my.name", "123-abc"]);
    let mut errors = Vec::new();
    let name = match text.split('/').collect::<Vec<_>>().as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                errors.extend(
                    dns1123_subdomain(prefix, "bytes").iter().map(|why| format!("prefix part {why}")),
                );
            }
            name
        }
        _ => {
            let suffix = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a valid label key {rule} {suffix}")];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        errors.push(format!("name part {}", too_long(63, "bytes")));
    }
    if !is_name(name) {
        errors.push(format!("name part {rule}"));
    }
    errors
}

fn is_base64(text: &str) -> bool {
    let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
    let plain = text.bytes().take(text.len() - padding);
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && padding <= 2
        && plain.into_iter().all(|byte| byte.is_ascii_alphanumeric() || b"+/".contains(&byte))
}

fn is_uuid(text: &str) -> bool {
    let mut rest = text;
    for (at, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if at > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let Some((group, tail)) = rest.split_at_checked(length) else { return false };
        if !group.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return false;
        }
        rest = tail;
    }
    rest.is_empty()
}

fn is_date(text: &str) -> bool {
    let numbers: Option<Vec<u32>> = [(0, 4), (5, 7), (8, 10)]
        .into_iter()
        .map(|(start, end)| {
            let digits = text.get(start..end)?;
            digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
        })
        .collect();
    let Some([year, month, day]) = numbers.as_deref().and_then(|numbers| <[u32; 3]>::try_from(numbers).ok())
    else {
        return false;
    };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    text.len() == 10
        && text.get(4..5) == Some("-")
        && text.get(7..8) == Some("-")
        && (1..=days).contains(&day)
}

/// A date, a `t`, and a time with a zone. Text after a second `t` is ignored, as in Kubernetes.
fn is_datetime(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    is_date(date) && is_time(time)
}

fn is_time(text: &str) -> bool {
    let two =
        |at: usize| text.get(at..at + 2).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    let (Some(hour), Some(minute), Some(second)) = (two(0), two(3), two(6)) else { return false };
    let colons = text.get(2..3) == Some(":") && text.get(5..6) == Some(":");
    let Some(mut rest) = text.get(8..) else { return false };
    if is_zone(rest) {
        return colons && hour <= "23" && minute <= "59" && second <= "59";
    }
    // The decimal point may be any character, because Kubernetes' pattern does not escape it.
    let mut characters = rest.chars();
    if characters.next().is_none_or(|point| point == '\n') {
        return false;
    }
    rest = characters.as_str();
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let zone = rest.get(digits..).unwrap_or_default();
    // A zone does not start with a digit, so the fraction takes all digits.
    colons && digits > 0 && is_zone(zone) && hour <= "23" && minute <= "59" && second <= "59"
}

fn is_zone(text: &str) -> bool {
    let digits = |text: &str| text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
    let offset = text.strip_prefix(['+', '-']).and_then(|offset| offset.split_once(':'));
    text == "z" || offset.is_some_and(|(hours, minutes)| digits(hours) && digits(minutes))
}
