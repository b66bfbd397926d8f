//! Serializes values as Go's `encoding/json` does: sorted keys, `<`, `>` and `&` escaped, doubles in their shortest form.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::super::super::Call;
use super::super::super::arguments::MAX_OUTPUT;
use super::super::super::arguments::grow;
use crate::error::Fault;
use crate::value::{Map, Value};

/// The largest nesting depth.
const MAX_DEPTH: usize = 500;

pub(super) fn write(call: &mut Call<'_>, value: &Value) -> Result<String, Fault> {
    let mut out = String::new();
    write_value(call, &mut out, value, 0)?;
    grow(call, "json.marshal", out.len())?;
    Ok(out)
}

fn write_value(call: &mut Call<'_>, out: &mut String, value: &Value, depth: usize) -> Result<(), Fault> {
    call.charge(1)?;
    if depth > MAX_DEPTH {
        return Err(Fault::invalid(format!(
            "json.marshal: the value is nested more than {MAX_DEPTH} levels deep"
        )));
    }
    // Parts can be shared many times, so check the size limit before every value.
    if out.len() > MAX_OUTPUT {
        return grow(call, "json.marshal", out.len());
    }
    match value {
        Value::Null | Value::Optional(None) => out.push_str("null"),
        Value::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
        Value::Int(number) => out.push_str(&number.to_string()),
        Value::UInt(number) => out.push_str(&number.to_string()),
        Value::Double(number) => write_double(out, *number)?,
        Value::String(text) => write_string(out, text),
        Value::Bytes(bytes) => write_string(out, &STANDARD.encode(bytes)),
        Value::Duration(length) => write_string(out, &length.to_go_text()),
        Value::Timestamp(time) => write_string(out, &time.to_seconds_text()),
        Value::Optional(Some(inner)) => write_value(call, out, inner, depth + 1)?,
        Value::List(list) => {
            out.push('[');
            for (at, item) in list.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_value(call, out, &item, depth + 1)?;
            }
            out.push(']');
        }
        Value::Map(map) => write_map(call, out, map, depth)?,
        // How Go serializes kro's sentinel.
        Value::Opaque(_) if value.is_omit() => out.push_str("{}"),
        Value::Type(_) | Value::Opaque(_) => {
            let found = value.type_name();
            return Err(Fault::invalid(format!(
                "json.marshal: a value of type `{found}` cannot be represented in JSON"
            )));
        }
    }
    Ok(())
}

fn write_map(call: &mut Call<'_>, out: &mut String, map: &Map, depth: usize) -> Result<(), Fault> {
    let mut entries = Vec::with_capacity(map.len());
    for (key, value) in map {
        let Value::String(name) = key else {
            let found = key.type_name();
            return Err(Fault::invalid(format!(
                "json.marshal: the keys of a map must be strings, found {found}"
            )));
        };
        entries.push((name, value));
    }
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    out.push('{');
    for (at, (name, value)) in entries.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        write_string(out, name);
        out.push(':');
        write_value(call, out, value, depth + 1)?;
    }
    out.push('}');
    Ok(())
}

fn write_double(out: &mut String, number: f64) -> Result<(), Fault> {
    if !number.is_finite() {
        return Err(Fault::invalid("json.marshal: NaN and infinity cannot be represented in JSON"));
    }
    let size = number.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format!("{number:e}");
        // Go writes the sign of positive exponents too.
        let signed = if text.contains("e-") { text } else { text.replace('e', "e+") };
        out.push_str(&signed);
    } else {
        out.push_str(&number.to_string());
    }
    Ok(())
}

fn write_string(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}
