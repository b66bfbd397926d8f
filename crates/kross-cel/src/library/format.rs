//! Implements `format`: a format string with clauses such as `%s` or `%.2f`, and a list of arguments.

use std::fmt::Write as _;

use super::Call;
use super::arguments::{any, charge_bytes, grow, items, text};
use crate::error::{Fault, sized};
use crate::value::{List, Map, Value};

/// The default precision of `%f` and `%e`.
const DEFAULT_PRECISION: usize = 6;
/// The largest precision.
const MAX_PRECISION: usize = 100;
/// The largest nesting depth of values in `%s`.
const MAX_DEPTH: usize = 64;

/// One `%…` of a format string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clause {
    /// `%s`
    String,
    /// `%d`
    Decimal,
    /// `%f` with its precision
    Fixed(usize),
    /// `%e` with its precision
    Scientific(usize),
    /// `%b`
    Binary,
    /// `%x`
    Hex,
    /// `%X`
    UpperHex,
    /// `%o`
    Octal,
}

/// A piece of a format string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Literal text.
    Literal(&'a str),
    /// A clause, which is replaced by an argument.
    Clause(Clause),
}

impl Clause {
    /// The types that the clause can format, for messages.
    #[must_use]
    pub fn takes(self) -> &'static str {
        match self {
            Self::String => {
                "strings, bools, bytes, ints, uints, doubles, null, maps, lists, types, durations and timestamps"
            }
            Self::Decimal | Self::Fixed(_) | Self::Scientific(_) => "ints, uints and doubles",
            Self::Binary => "ints, uints and bools",
            Self::Hex | Self::UpperHex => "ints, uints, bytes and strings",
            Self::Octal => "ints and uints",
        }
    }

    /// The clause as text, without precision.
    #[must_use]
    pub fn verb(self) -> &'static str {
        match self {
            Self::String => "%s",
            Self::Decimal => "%d",
            Self::Fixed(_) => "%f",
            Self::Scientific(_) => "%e",
            Self::Binary => "%b",
            Self::Hex => "%x",
            Self::UpperHex => "%X",
            Self::Octal => "%o",
        }
    }
}

/// Splits a format string into pieces. The checker uses it for literal format strings.
///
/// # Errors
/// Why the format string is invalid.
pub fn pieces(format: &str) -> Result<Vec<Piece<'_>>, String> {
    let mut pieces = Vec::new();
    let mut rest = format;
    while let Some((literal, tail)) = rest.split_once('%') {
        if !literal.is_empty() {
            pieces.push(Piece::Literal(literal));
        }
        if let Some(tail) = tail.strip_prefix('%') {
            pieces.push(Piece::Literal("%"));
            rest = tail;
        } else {
            let (clause, tail) = clause(tail)?;
            pieces.push(Piece::Clause(clause));
            rest = tail;
        }
    }
    if !rest.is_empty() {
        pieces.push(Piece::Literal(rest));
    }
    Ok(pieces)
}

fn clause(text: &str) -> Result<(Clause, &str), String> {
    let (precision, text) = precision(text)?;
    let mut characters = text.chars();
    let clause = match characters.next().ok_or("the format string ends within a clause")? {
        's' => Clause::String,
        'd' => Clause::Decimal,
        'f' => Clause::Fixed(precision),
        'e' => Clause::Scientific(precision),
        'b' => Clause::Binary,
        'x' => Clause::Hex,
        'X' => Clause::UpperHex,
        'o' => Clause::Octal,
        other => return Err(format!("unrecognized formatting clause `%{other}`")),
    };
    Ok((clause, characters.as_str()))
}

fn precision(text: &str) -> Result<(usize, &str), String> {
    let Some(text) = text.strip_prefix('.') else { return Ok((DEFAULT_PRECISION, text)) };
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at_checked(digits).unwrap_or((text, ""));
    if rest.is_empty() {
        return Err("the format string ends within a precision".to_owned());
    }
    let precision: usize = number.parse().map_err(|_| format!("`.{number}` is not a valid precision"))?;
    if precision > MAX_PRECISION {
        return Err(format!("the precision {precision} is larger than the limit of {MAX_PRECISION}"));
    }
    Ok((precision, rest))
}

/// The implementation of `format`.
pub(in crate::library) fn format(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let text = text(arguments, 0)?;
    let values = items(call, arguments, 1)?;
    charge_bytes(call, text.len())?;
    let mut written = String::with_capacity(text.len());
    let mut next = 0;
    // The checker says what is wrong with a literal; a computed format string may contain values.
    let invalid = |_| Fault::invalid(format!("{} is not a valid format string", sized(text)));
    for piece in pieces(text).map_err(invalid)? {
        match piece {
            Piece::Literal(literal) => written.push_str(literal),
            Piece::Clause(clause) => {
                let value = any(&values, next).map_err(|_| {
                    Fault::invalid(format!("no argument for clause {next} of the format string"))
                })?;
                next += 1;
                write_clause(call, &mut written, clause, value)?;
            }
        }
        if written.len() > super::arguments::MAX_OUTPUT {
            break;
        }
    }
    grow(call, "format", written.len())?;
    Ok(Value::string(written))
}

fn write_clause(call: &mut Call<'_>, out: &mut String, clause: Clause, value: &Value) -> Result<(), Fault> {
    let done = match clause {
        Clause::String => return write_value(call, out, value, 0),
        Clause::Decimal => write_decimal(out, value),
        Clause::Fixed(precision) => {
            number(value).map(|number| out.push_str(&finite_or(number, |n| format!("{n:.precision$}"))))
        }
        Clause::Scientific(precision) => {
            number(value).map(|number| out.push_str(&finite_or(number, |n| scientific(n, precision))))
        }
        Clause::Binary => write_binary(out, value),
        Clause::Octal => write_octal(out, value),
        Clause::Hex | Clause::UpperHex => write_hex(out, value, clause == Clause::UpperHex),
    };
    done.ok_or_else(|| {
        let (verb, takes, found) = (clause.verb(), clause.takes(), value.type_name());
        Fault::invalid(format!("`{verb}` formats {takes}, found {found}"))
    })
}

fn write_decimal(out: &mut String, value: &Value) -> Option<()> {
    match value {
        Value::Int(number) => out.push_str(&number.to_string()),
        Value::UInt(number) => out.push_str(&number.to_string()),
        Value::Double(number) => out.push_str(&plain(*number)),
        _ => return None,
    }
    Some(())
}

fn write_binary(out: &mut String, value: &Value) -> Option<()> {
    match value {
        Value::Bool(truth) => out.push(if *truth { '1' } else { '0' }),
        Value::Int(number) => signed(out, *number, |size| format!("{size:b}")),
        Value::UInt(number) => out.push_str(&format!("{number:b}")),
        _ => return None,
    }
    Some(())
}

fn write_octal(out: &mut String, value: &Value) -> Option<()> {
    match value {
        Value::Int(number) => signed(out, *number, |size| format!("{size:o}")),
        Value::UInt(number) => out.push_str(&format!("{number:o}")),
        _ => return None,
    }
    Some(())
}

fn write_hex(out: &mut String, value: &Value, upper: bool) -> Option<()> {
    let start = out.len();
    match value {
        Value::Int(number) => signed(out, *number, |size| format!("{size:x}")),
        Value::UInt(number) => out.push_str(&format!("{number:x}")),
        Value::String(text) => hex(out, text.as_bytes()),
        Value::Bytes(bytes) => hex(out, bytes),
        _ => return None,
    }
    if upper {
        let shown = out.split_off(start).to_ascii_uppercase();
        out.push_str(&shown);
    }
    Some(())
}

fn hex(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        let _ = write!(out, "{byte:02x}");
    }
}

/// Writes a minus sign and the digits, not two's complement.
fn signed(out: &mut String, number: i64, digits: impl Fn(u64) -> String) {
    if number < 0 {
        out.push('-');
    }
    out.push_str(&digits(number.unsigned_abs()));
}

fn number(value: &Value) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "the clause formats doubles")]
    match value {
        Value::Int(number) => Some(*number as f64),
        Value::UInt(number) => Some(*number as f64),
        Value::Double(number) => Some(*number),
        _ => None,
    }
}

/// The shortest decimal form that parses to the same double, without an exponent.
pub(in crate::library) fn plain(number: f64) -> String {
    finite_or(number, |number| number.to_string())
}

fn finite_or(number: f64, show: impl Fn(f64) -> String) -> String {
    if number.is_nan() {
        "NaN".to_owned()
    } else if number.is_infinite() {
        if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned()
    } else {
        show(number)
    }
}

/// `1.5e+00`: the exponent has a sign and at least two digits.
fn scientific(number: f64, precision: usize) -> String {
    let shown = format!("{number:.precision$e}");
    let Some((digits, exponent)) = shown.split_once('e') else { return shown };
    let (sign, size) = exponent.strip_prefix('-').map_or(('+', exponent), |size| ('-', size));
    format!("{digits}e{sign}{size:0>2}")
}

/// Writes a value as `%s` formats it. Entries of maps are sorted by the text of their keys.
fn write_value(call: &mut Call<'_>, out: &mut String, value: &Value, depth: usize) -> Result<(), Fault> {
    if depth > MAX_DEPTH {
        return Err(Fault::invalid(format!("format: values are nested more than {MAX_DEPTH} levels deep")));
    }
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
        Value::Int(_) | Value::UInt(_) | Value::Double(_) => drop(write_decimal(out, value)),
        Value::String(text) => out.push_str(text),
        Value::Bytes(bytes) => out.push_str(&String::from_utf8_lossy(bytes)),
        Value::Timestamp(time) => out.push_str(&time.to_string()),
        Value::Duration(length) => out.push_str(&seconds(length.nanoseconds)),
        Value::Type(name) => out.push_str(name),
        Value::List(list) => write_list(call, out, list, depth)?,
        Value::Map(map) => write_map(call, out, map, depth)?,
        Value::Optional(_) | Value::Opaque(_) => {
            let (takes, found) = (Clause::String.takes(), value.type_name());
            return Err(Fault::invalid(format!("`%s` formats {takes}, found {found}")));
        }
    }
    // Elements can be shared many times, so check the size limit after every value.
    if out.len() > super::arguments::MAX_OUTPUT { grow(call, "format", out.len()) } else { call.charge(1) }
}

fn seconds(nanoseconds: i64) -> String {
    const SECOND: i64 = 1_000_000_000;
    #[expect(clippy::cast_precision_loss, reason = "seconds are shown as a double")]
    let seconds = (nanoseconds / SECOND) as f64 + (nanoseconds % SECOND) as f64 / 1e9;
    format!("{seconds}s")
}

fn write_list(call: &mut Call<'_>, out: &mut String, items: &List, depth: usize) -> Result<(), Fault> {
    out.push('[');
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        write_value(call, out, &item, depth + 1)?;
    }
    out.push(']');
    Ok(())
}

fn write_map(call: &mut Call<'_>, out: &mut String, entries: &Map, depth: usize) -> Result<(), Fault> {
    let mut shown = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        let mut name = String::new();
        write_value(call, &mut name, &key, depth + 1)?;
        shown.push((name, value));
    }
    shown.sort_by(|a, b| a.0.cmp(&b.0));
    out.push('{');
    for (at, (name, value)) in shown.iter().enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        out.push_str(name);
        out.push_str(": ");
        write_value(call, out, value, depth + 1)?;
    }
    out.push('}');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::arguments::testing::{err, run, strings};
    use super::*;
    use crate::value::Duration;

    fn shown(text: &str, values: Vec<Value>) -> String {
        match run(format, &[Value::string(text), Value::list(values)]) {
            Ok(Value::String(text)) => text.to_string(),
            other => panic!("{other:?}"),
        }
    }

    fn error(text: &str, value: Value) -> String {
        err(format, [Value::string(text), Value::list(vec![value])])
    }

    #[test]
    fn clauses_format_values_as_in_go() {
        assert_eq!(shown("%% %s%%", vec![Value::string("x")]), "% x%");
        assert_eq!(shown("%x %X %o %b", [-255, 255, -8, -5].map(Value::Int).to_vec()), "-ff FF -10 -101");
        assert_eq!(shown("%x", vec![Value::Int(i64::MIN)]), "-8000000000000000");
        assert_eq!(shown("%X", vec![Value::string("Hi")]), "4869");
        assert_eq!(
            shown("%.3f|%.0f|%f", [123.4994, 2.5, -1.2].map(Value::Double).to_vec()),
            "123.499|2|-1.200000"
        );
        assert_eq!(shown("%e|%.2e", [2.5, 1e-300].map(Value::Double).to_vec()), "2.500000e+00|1.00e-300");
        assert_eq!(shown("%.1e", vec![Value::Int(123_456)]), "1.2e+05");
        assert_eq!(
            shown("%d %s", [1e21, 0.000_001].map(Value::Double).to_vec()),
            "1000000000000000000000 0.000001"
        );
        assert_eq!(
            shown("%d %f", vec![Value::Double(f64::NAN), Value::Double(f64::NEG_INFINITY)]),
            "NaN -Infinity"
        );
        assert_eq!(shown("%b", vec![Value::Bool(true)]), "1");
    }

    #[test]
    fn maps_are_formatted_with_sorted_keys() {
        let map = Value::map(vec![
            (Value::string("strKey"), Value::string("x")),
            (Value::Bool(true), Value::Int(42)),
            (Value::Int(6), Value::Duration(Duration { nanoseconds: 422_500_000_000 })),
        ]);
        assert_eq!(shown("%s", vec![map]), "{6: 422.5s, strKey: x, true: 42}");
        let list = Value::list(vec![Value::Null, strings(["a"]), Value::Type("int".into())]);
        assert_eq!(shown("%s", vec![list]), "[null, [a], int]");
    }

    #[test]
    fn invalid_clauses_and_arguments_are_rejected() {
        assert_eq!(error("%d", Value::Null), "`%d` formats ints, uints and doubles, found null_type");
        assert!(error("%x", Value::Double(0.5)).contains("found double"));
        assert!(error("%o", Value::string("x")).contains("found string"));
        assert!(error("%s", Value::Optional(None)).contains("found optional_type"));
        for (text, why) in [
            ("%a", "unrecognized formatting clause `%a`"),
            ("%", "ends within a clause"),
            ("%.", "ends within a precision"),
            ("%.f", "is not a valid precision"),
            ("%.101f", "larger than"),
        ] {
            assert!(pieces(text).err().unwrap().contains(why), "{text}");
            assert!(error(text, Value::Double(1.0)).ends_with("is not a valid format string"), "{text}");
        }
        assert!(error("%s %s", Value::Null).contains("no argument for clause 1"));
    }

    #[test]
    fn shared_elements_cannot_exceed_the_size_limit() {
        let mut value = strings(["0123456789"]);
        for _ in 0..40 {
            value = Value::list(vec![value.clone(), value]);
        }
        assert!(error("%s", value).contains("larger than"));
    }
}
