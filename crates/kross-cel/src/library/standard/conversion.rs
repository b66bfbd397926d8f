//! Conversions between types, and the names of types.

use std::fmt::Write;

use kross_value::Text;

use super::{functions, identity, one};
use crate::error::{Fault, sized};
use crate::library::{Call, Function};
use crate::value::{Duration, Timestamp, Value};

pub(super) const FUNCTIONS: &[Function] = functions! {
    "dyn", "Returns the value with a type that is known only at run time.", identity, ["dyn(A) -> dyn"];
    "type", "Returns the type of a value.", type_of, ["type(A) -> type(A)"];
    "bool", "Converts a string to a bool: `true`, `True`, `TRUE`, `t`, `T` and `1` are true, their opposites are false.", to_bool,
        ["bool(bool) -> bool", "bool(string) -> bool"];
    "bytes", "Converts a string to its UTF-8 bytes.", to_bytes, ["bytes(bytes) -> bytes", "bytes(string) -> bytes"];
    "double", "Converts a value to a double, rounded to the nearest one.", to_double,
        ["double(double) -> double", "double(int) -> double", "double(string) -> double", "double(uint) -> double"];
    "duration", "Parses a duration, such as `duration('1h30m')`.", to_duration,
        ["duration(duration) -> duration", "duration(string) -> duration"];
    "int", "Converts a value to an int: a double is truncated, a timestamp is in seconds since 1970, a duration in nanoseconds.",
        to_int,
        ["int(int) -> int", "int(double) -> int", "int(duration) -> int", "int(string) -> int", "int(timestamp) -> int",
         "int(uint) -> int"];
    "string", "Converts a value to a string.", to_string,
        ["string(string) -> string", "string(bool) -> string", "string(bytes) -> string", "string(double) -> string",
         "string(duration) -> string", "string(int) -> string", "string(timestamp) -> string", "string(uint) -> string"];
    "timestamp", "Parses a timestamp, such as `timestamp('2024-01-02T03:04:05Z')`, or converts seconds since 1970.", to_timestamp,
        ["timestamp(timestamp) -> timestamp", "timestamp(int) -> timestamp", "timestamp(string) -> timestamp"];
    "uint", "Converts a value to a uint; a double is truncated.", to_uint,
        ["uint(uint) -> uint", "uint(double) -> uint", "uint(int) -> uint", "uint(string) -> uint"];
};

fn type_of(_: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    one("type", arguments, |value| Ok(Value::Type(value.type_name().into())))
}

#[cold]
fn invalid(what: &str, text: &str) -> Fault {
    Fault::invalid(format!("{} is not a valid {what}", sized(text)))
}

fn to_bool(_: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    match arguments {
        [Value::Bool(value)] => Ok(Value::Bool(*value)),
        [Value::String(text)] => match text.as_str() {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(Value::Bool(false)),
            other => Err(invalid("bool", other)),
        },
        _ => Err(Fault::no_such_overload("bool", arguments)),
    }
}

fn to_bytes(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    match arguments {
        [Value::Bytes(bytes)] => Ok(Value::Bytes(bytes.clone())),
        [Value::String(text)] => {
            call.charge(text.len() / 10)?;
            Ok(Value::Bytes(text.as_bytes().into()))
        }
        _ => Err(Fault::no_such_overload("bytes", arguments)),
    }
}

fn to_double(_: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    match arguments {
        [Value::Double(value)] => Ok(Value::Double(*value)),
        [Value::Int(value)] => Ok(Value::Double(*value as f64)),
        [Value::UInt(value)] => Ok(Value::Double(*value as f64)),
        [Value::String(text)] => parse_double(text).map(Value::Double).ok_or_else(|| invalid("double", text)),
        _ => Err(Fault::no_such_overload("double", arguments)),
    }
}

/// Rejects a number that is too large, unless it is written as infinity.
fn parse_double(text: &str) -> Option<f64> {
    let value: f64 =
        if text.contains('_') { without_underscores(text)?.parse() } else { text.parse() }.ok()?;
    (value.is_finite() || !text.bytes().any(|byte| byte.is_ascii_digit())).then_some(value)
}

/// Removes underscores, which are allowed between digits only.
fn without_underscores(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    let separates = |at: usize| digit(at.checked_sub(1)) && digit(Some(at + 1));
    let is_valid = text.match_indices('_').all(|(at, _)| separates(at));
    is_valid.then(|| text.replace('_', ""))
}

fn to_duration(_: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    match arguments {
        [Value::Duration(value)] => Ok(Value::Duration(*value)),
        [Value::String(text)] => Duration::parse(text)
            .map(Value::Duration)
            .ok_or_else(|| invalid("duration such as `1h30m`, of at most 292 years", text)),
        _ => Err(Fault::no_such_overload("duration", arguments)),
    }
}

fn to_int(_: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    match arguments {
        [Value::Int(value)] => Ok(Value::Int(*value)),
        [Value::UInt(value)] => i64::try_from(*value)
            .map(Value::Int)
            .map_err(|_| Fault::Overflow("the conversion of uint to int".into())),
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the range was just checked; the fraction is dropped"
        )]
        [Value::Double(value)] if *value > i64::MIN as f64 && *value < i64::MAX as f64 => {
            Ok(Value::Int(*value as i64))
        }
        [Value::Double(_)] => Err(Fault::Overflow("the conversion of double to int".into())),
        [Value::String(text)] => text.parse().map(Value::Int).map_err(|_| invalid("int", text)),
        [Value::Timestamp(time)] => Ok(Value::Int(time.seconds)),
        [Value::Duration(length)] => Ok(Value::Int(length.nanoseconds)),
        _ => Err(Fault::no_such_overload("int", arguments)),
    }
}

fn to_uint(_: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    match arguments {
        [Value::UInt(value)] => Ok(Value::UInt(*value)),
        [Value::Int(value)] => u64::try_from(*value)
            .map(Value::UInt)
            .map_err(|_| Fault::Overflow("the conversion of int to uint".into())),
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the range was just checked"
        )]
        [Value::Double(value)] if *value >= 0.0 && *value < u64::MAX as f64 => Ok(Value::UInt(*value as u64)),
        [Value::Double(_)] => Err(Fault::Overflow("the conversion of double to uint".into())),
        [Value::String(text)] if !text.starts_with('+') => {
            text.parse().map(Value::UInt).map_err(|_| invalid("uint", text))
        }
        [Value::String(text)] => Err(invalid("uint", text)),
        _ => Err(Fault::no_such_overload("uint", arguments)),
    }
}

fn to_timestamp(_: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    match arguments {
        [Value::Timestamp(value)] => Ok(Value::Timestamp(*value)),
        [Value::Int(seconds)] => Timestamp::new(*seconds, 0)
            .map(Value::Timestamp)
            .ok_or_else(|| Fault::Overflow("timestamp".into())),
        [Value::String(text)] => Timestamp::parse(text).map(Value::Timestamp).ok_or_else(|| {
            invalid("timestamp such as `2024-01-02T03:04:05Z`, between the years 1 and 9999", text)
        }),
        _ => Err(Fault::no_such_overload("timestamp", arguments)),
    }
}

fn to_string(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let [argument] = arguments else { return Err(Fault::no_such_overload("string", arguments)) };
    match argument {
        Value::String(text) => Ok(Value::String(text.clone())),
        Value::Bytes(bytes) => {
            call.charge(bytes.len() / 10)?;
            match std::str::from_utf8(bytes) {
                Ok(text) => Ok(Value::string(text)),
                Err(_) => Err(Fault::invalid("the bytes are not valid UTF-8")),
            }
        }
        other => {
            let mut text = String::new();
            if write_text(other, &mut text) {
                Ok(Value::String(Text::from(text.as_str())))
            } else {
                Err(Fault::no_such_overload("string", arguments))
            }
        }
    }
}

/// Appends the result of `string()` for values that have to be formatted; false for others.
pub(crate) fn write_text(value: &Value, out: &mut String) -> bool {
    let written = match value {
        Value::Bool(value) => write!(out, "{value}"),
        Value::Int(value) => {
            write_int(*value, out);
            Ok(())
        }
        Value::UInt(value) => write!(out, "{value}"),
        Value::Double(value) => {
            write_double(*value, out);
            Ok(())
        }
        Value::Timestamp(time) => write!(out, "{time}"),
        Value::Duration(length) => write!(out, "{length}"),
        Value::Opaque(opaque) => match opaque.text() {
            Some(text) => {
                out.push_str(&text);
                Ok(())
            }
            None => Err(std::fmt::Error),
        },
        _ => Err(std::fmt::Error),
    };
    written.is_ok()
}

/// Appends an integer, three times as fast as `write!`.
fn write_int(value: i64, out: &mut String) {
    let mut digits = [b'0'; 20];
    let mut at = digits.len();
    let mut rest = value.unsigned_abs();
    for digit in digits.iter_mut().rev() {
        *digit += u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
        at -= 1;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        out.push('-');
    }
    out.extend(digits.iter().skip(at).map(|digit| char::from(*digit)));
}

/// Appends a double as Go's `%g` does: the shortest digits, with an exponent below -4 and from 6.
pub(crate) fn write_double(value: f64, out: &mut String) {
    if value.is_nan() {
        out.push_str("NaN");
    } else if value.is_infinite() {
        out.push_str(if value > 0.0 { "+Inf" } else { "-Inf" });
    } else {
        write_finite(value, out);
    }
}

fn write_finite(value: f64, out: &mut String) {
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let written = if (-4..6).contains(&exponent) {
        write!(out, "{value}")
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        write!(out, "{digits}e{sign}{:02}", exponent.unsigned_abs())
    };
    debug_assert!(written.is_ok(), "writing to a string does not fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_formatted_as_in_go() {
        for (value, text) in [
            (1.0, "1"),
            (123_456.0, "123456"),
            (1_234_567.0, "1.234567e+06"),
            (-4.5e-3, "-0.0045"),
            (1e100, "1e+100"),
            (1.5e-7, "1.5e-07"),
            (0.0001, "0.0001"),
            (f64::INFINITY, "+Inf"),
            (-0.0, "-0"),
            (6.02214e23, "6.02214e+23"),
        ] {
            let mut out = String::new();
            write_double(value, &mut out);
            assert_eq!(out, text);
        }
    }

    #[test]
    fn integers_are_formatted() {
        for value in [0, 1, -1, 9, 10, 12_345, -70, i64::MAX, i64::MIN] {
            let mut out = String::new();
            write_int(value, &mut out);
            assert_eq!(out, value.to_string());
        }
    }

    #[test]
    fn doubles_out_of_range_are_rejected() {
        assert_eq!(parse_double("1e400"), None);
        assert_eq!(parse_double("inf"), Some(f64::INFINITY));
        assert_eq!(parse_double("1_000.5"), Some(1000.5));
        assert_eq!(parse_double("_1"), None);
        assert_eq!(parse_double(" 1"), None);
        assert_eq!(parse_double("-0.5e1"), Some(-5.0));
    }
}
