//! Parses plain scalars like kubectl does: with the rules of sigs.k8s.io/yaml, followed by a conversion to JSON, which
//! does not distinguish 1 from 1.0.

use kross_value::Value;

/// The parsed form of a plain scalar.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Plain {
    /// A value; a string if it is nothing else.
    Value(Value),
    /// A word that is a boolean only in YAML 1.1.
    Word(bool),
    /// Infinity or NaN.
    NotANumber,
}

/// Parses a plain scalar.
pub(super) fn plain(text: &str) -> Plain {
    let value = match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => return Plain::Word(true),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => return Plain::Word(false),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" | "-.inf" | "-.Inf" | "-.INF" | ".nan"
        | ".NaN" | ".NAN" => return Plain::NotANumber,
        _ => number(text).unwrap_or_else(|| Value::String(text.into())),
    };
    Plain::Value(value)
}

/// Parses a number, if it is one.
pub(super) fn number(text: &str) -> Option<Value> {
    match text.as_bytes().first()? {
        b'0'..=b'9' | b'+' | b'-' => {
            let digits = text.replace('_', "");
            integer(&digits).or_else(|| float(&digits))
        }
        b'.' => float(text),
        _ => None,
    }
}

/// Parses an integer: decimal, `0x`, `0o` or `0`, `0b`, with an optional sign.
fn integer(text: &str) -> Option<Value> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    let prefix = digits.get(..2).unwrap_or_default();
    let (radix, digits) = match prefix {
        "0x" | "0X" => (16, digits.get(2..)?),
        "0o" | "0O" => (8, digits.get(2..)?),
        "0b" | "0B" => (2, digits.get(2..)?),
        _ if prefix.starts_with('0') => (8, digits.get(1..)?),
        _ => (10, digits),
    };
    if digits.is_empty() || !digits.bytes().all(|digit| char::from(digit).is_digit(radix)) {
        return None;
    }
    let magnitude = i128::from_str_radix(digits, radix);
    match magnitude.map(|magnitude| if negative { -magnitude } else { magnitude }) {
        Ok(whole) => i64::try_from(whole).map(Value::Int).ok().or_else(|| finite(to_float(whole))),
        // Beyond 128 bits, only decimal numbers are common enough to be converted to floats.
        Err(_) if radix == 10 => float(text),
        Err(_) => None,
    }
}

#[expect(clippy::cast_precision_loss, reason = "JSON parsers read integers beyond 64 bits as doubles")]
fn to_float(whole: i128) -> f64 {
    whole as f64
}

/// Parses a number with a fraction or an exponent.
fn float(text: &str) -> Option<Value> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let begins = unsigned.bytes().find(|byte| *byte != b'.')?.is_ascii_digit();
    let allowed = unsigned.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
    if !begins || !allowed { None } else { finite(text.parse().ok()?) }
}

/// A finite number as in JSON: without a fraction it is an integer.
pub(super) fn finite(number: f64) -> Option<Value> {
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    if !number.is_finite() {
        return None;
    }
    if number.fract() == 0.0 && (-BEYOND..BEYOND).contains(&number) {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "whole and within the range of i64, as just checked"
        )]
        return Some(Value::Int(number as i64));
    }
    Some(Value::Float(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_parsed_like_in_kubectl() {
        for text in ["", "~", "null", "Null", "NULL"] {
            assert_eq!(plain(text), Plain::Value(Value::Null), "{text}");
        }
        for (text, value) in [("true", true), ("TRUE", true), ("False", false)] {
            assert_eq!(plain(text), Plain::Value(Value::Bool(value)), "{text}");
        }
        for (text, value) in
            [("yes", true), ("On", true), ("y", true), ("no", false), ("OFF", false), ("N", false)]
        {
            assert_eq!(plain(text), Plain::Word(value), "{text}");
        }
        for text in [".inf", "-.INF", "+.Inf", ".nan"] {
            assert_eq!(plain(text), Plain::NotANumber, "{text}");
        }
        for text in ["tRUE", "yEs", "nil", "none", "<<", "=", "inf", "nan", "NaN", "-inf"] {
            assert_eq!(plain(text), Plain::Value(Value::from(text)), "{text}");
        }
    }

    #[test]
    fn integers_have_many_spellings() {
        for (text, value) in [
            ("0", 0),
            ("-0", 0),
            ("12", 12),
            ("+12", 12),
            ("-12", -12),
            ("1_000", 1000),
            ("0o14", 12),
            ("014", 12),
            ("-014", -12),
            ("0644", 420),
            ("0xff", 255),
            ("0XFF", 255),
            ("0b101", 5),
            ("-0b101", -5),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
            // Integers in any spelling: JSON has only one type of number.
            ("1.0", 1),
            ("1.", 1),
            ("1e3", 1000),
            ("08", 8),
            ("-1.5e1", -15),
        ] {
            assert_eq!(number(text), Some(Value::Int(value)), "{text}");
        }
    }

    #[test]
    fn other_numbers_are_floats() {
        for (text, value) in [
            ("1.5", 1.5),
            (".5", 0.5),
            ("-.5", -0.5),
            ("1e-3", 0.001),
            ("1_0.5", 10.5),
            ("9223372036854775808", 9_223_372_036_854_775_808.0),
            ("18446744073709551616", 18_446_744_073_709_551_616.0),
            ("0xffffffffffffffffff", 4_722_366_482_869_645_213_695.0),
            ("1e30", 1e30),
            (
                "1111111111111111111111111111111111111111111",
                1_111_111_111_111_111_111_111_111_111_111_111_111_111_111.0,
            ),
        ] {
            assert_eq!(number(text), Some(Value::Float(value)), "{text}");
        }
    }

    #[test]
    fn strings_that_look_like_numbers_are_not_numbers() {
        for text in [
            "1e400",
            "0x",
            "0o9",
            "0b2",
            "1.2.3",
            "2024-01-02",
            "2024-01-02T03:04:05Z",
            "12:30",
            "1:30:00",
            "+",
            "-",
            ".",
            "..",
            "1e",
            "e3",
            "-e3",
            "1Gi",
            "100m",
            "0x1p3",
            "--1",
            "+-1",
            "1 2",
            "٣",
            "._5",
            ".e5",
            "-.e5",
        ] {
            assert_eq!(number(text), None, "{text}");
        }
    }
}
