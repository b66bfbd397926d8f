//! Formats values for messages: as CEL literals, shortened if they are long.

use std::fmt::{self, Write};

use super::Value;

/// The largest length of a value in a message.
const MAX_LENGTH: usize = 400;

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Shortened { text: String::new() };
        match write_value(self, &mut text, 0) {
            Ok(()) => f.write_str(&text.text),
            Err(_) => write!(f, "{}…", text.text),
        }
    }
}

/// A writer that fails at the length limit, which also ends the formatting.
struct Shortened {
    text: String,
}

impl Write for Shortened {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let room = MAX_LENGTH.saturating_sub(self.text.len());
        if part.len() <= room {
            self.text.push_str(part);
            return Ok(());
        }
        let end = part.floor_char_boundary(room);
        self.text.push_str(part.get(..end).unwrap_or_default());
        Err(fmt::Error)
    }
}

fn write_value(value: &Value, out: &mut Shortened, depth: usize) -> fmt::Result {
    match value {
        Value::Null => out.write_str("null"),
        Value::Bool(value) => write!(out, "{value}"),
        Value::Int(value) => write!(out, "{value}"),
        Value::UInt(value) => write!(out, "{value}u"),
        Value::Double(value) => write!(out, "{value:?}"),
        Value::String(text) => write_quoted(text, out),
        Value::Bytes(bytes) => {
            out.write_char('b')?;
            write_quoted(&String::from_utf8_lossy(bytes.get(..MAX_LENGTH).unwrap_or(bytes)), out)
        }
        Value::Timestamp(time) => write!(out, "timestamp(\"{time}\")"),
        Value::Duration(duration) => write!(out, "duration(\"{duration}\")"),
        Value::Type(name) => out.write_str(name),
        Value::Opaque(opaque) => match opaque.text() {
            Some(text) => write!(out, "{}({text})", opaque.type_name()),
            None => out.write_str(opaque.type_name()),
        },
        // Deeper values exceed the length limit anyway.
        _ if depth > 64 => out.write_char('…'),
        Value::Optional(None) => out.write_str("optional.none()"),
        Value::Optional(Some(inner)) => {
            out.write_str("optional.of(")?;
            write_value(inner, out, depth + 1)?;
            out.write_char(')')
        }
        Value::List(list) => {
            out.write_char('[')?;
            for (at, item) in list.iter().enumerate() {
                out.write_str(if at == 0 { "" } else { ", " })?;
                write_value(&item, out, depth + 1)?;
            }
            out.write_char(']')
        }
        Value::Map(map) => {
            out.write_char('{')?;
            for (at, (key, item)) in map.iter().enumerate() {
                out.write_str(if at == 0 { "" } else { ", " })?;
                write_value(&key, out, depth + 1)?;
                out.write_str(": ")?;
                write_value(&item, out, depth + 1)?;
            }
            out.write_char('}')
        }
    }
}

fn write_quoted(text: &str, out: &mut Shortened) -> fmt::Result {
    let end = text.floor_char_boundary(MAX_LENGTH);
    write!(out, "{:?}", text.get(..end).unwrap_or_default())?;
    if end < text.len() { Err(fmt::Error) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_as_literals() {
        let value = Value::map(vec![
            (Value::string("a"), Value::list(vec![Value::UInt(1), Value::Double(2.0), Value::Null])),
            (Value::Int(2), Value::some(Value::Bytes((*b"x").into()))),
        ]);
        assert_eq!(value.to_string(), r#"{"a": [1u, 2.0, null], 2: optional.of(b"x")}"#);
    }

    #[test]
    fn long_values_are_shortened() {
        let long = Value::list(vec![Value::string("é".repeat(300)); 1000]);
        let text = long.to_string();
        assert!(text.len() <= MAX_LENGTH + 3 && text.ends_with('…'), "{text}");
    }
}
