//! Converts raw JSON to values by its schema: bytes from base64, times from strings, doubles from integers. Lists and
//! objects become views, which convert their elements on access.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kross_value::Value as Data;

use super::{Duration, List, Map, Timestamp, TypedList, TypedObject, Value};
use crate::types::Type;

impl Value {
    /// Converts raw JSON to the type `read_as`. JSON that does not match the type is not converted.
    #[inline]
    #[must_use]
    pub fn from_data(data: &Data, read_as: Option<&Type>) -> Self {
        match read_as {
            None | Some(Type::Dyn) => Self::from(data),
            Some(read_as) => typed(data, read_as),
        }
    }
}

impl From<&Data> for Value {
    #[inline]
    fn from(data: &Data) -> Self {
        match data {
            Data::Null => Self::Null,
            Data::Bool(value) => Self::Bool(*value),
            Data::Int(value) => Self::Int(*value),
            Data::Float(value) => Self::Double(*value),
            Data::String(text) => Self::String(text.clone()),
            Data::List(items) => Self::List(List::Data(items.clone())),
            Data::Object(object) => Self::Map(Map::Data(object.clone())),
        }
    }
}

impl From<Data> for Value {
    fn from(data: Data) -> Self {
        Self::from(&data)
    }
}

fn typed(data: &Data, read_as: &Type) -> Value {
    match (data, read_as) {
        (data, Type::Nullable(inner)) => Value::from_data(data, Some(inner)),
        (Data::Int(value), Type::Double) => Value::Double(*value as f64),
        (Data::Float(value), Type::Int) => whole(*value).map_or(Value::Double(*value), Value::Int),
        (Data::Int(value), Type::UInt) => u64::try_from(*value).map_or(Value::Int(*value), Value::UInt),
        (Data::String(text), Type::Bytes | Type::Timestamp | Type::Duration) => {
            from_text(text, read_as).unwrap_or_else(|| Value::String(text.clone()))
        }
        (Data::List(items), Type::List(item)) if item.needs_conversion() => {
            Value::List(List::Typed(Arc::new(TypedList { items: items.clone(), item: (**item).clone() })))
        }
        (Data::Object(object), Type::Map(_) | Type::Object(_)) if read_as.needs_conversion() => {
            Value::Map(Map::Typed(Arc::new(TypedObject {
                object: object.clone(),
                object_type: read_as.clone(),
            })))
        }
        _ => Value::from(data),
    }
}

fn from_text(text: &str, read_as: &Type) -> Option<Value> {
    match read_as {
        Type::Bytes => STANDARD.decode(text).ok().map(|bytes| Value::Bytes(bytes.into())),
        Type::Timestamp => Timestamp::parse(text).or_else(|| midnight(text)).map(Value::Timestamp),
        Type::Duration => Duration::parse(text).map(Value::Duration),
        _ => None,
    }
}

/// Midnight of a date without a time: a schema's format `date`.
fn midnight(date: &str) -> Option<Timestamp> {
    (date.len() == 10).then(|| Timestamp::parse(&format!("{date}T00:00:00Z")))?
}

/// The integer that is equal to a double, if there is one.
fn whole(value: f64) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "compared with the original right after")]
    let candidate = value as i64;
    (candidate as f64 == value && candidate != i64::MAX).then_some(candidate)
}

impl Type {
    /// Whether raw JSON of this type contains values to convert.
    #[must_use]
    pub fn needs_conversion(&self) -> bool {
        match self {
            Self::Int | Self::UInt | Self::Double | Self::Bytes | Self::Timestamp | Self::Duration => true,
            Self::List(inner) | Self::Nullable(inner) => inner.needs_conversion(),
            Self::Map(entry) => entry.1.needs_conversion(),
            Self::Object(object) => object.needs_conversion(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str, read_as: &Type) -> String {
        let data: Data = serde_json::from_str(json).unwrap();
        Value::from_data(&data, Some(read_as)).to_string()
    }

    #[test]
    fn strings_are_converted_by_their_format() {
        assert_eq!(read(r#""aGk=""#, &Type::Bytes), r#"b"hi""#);
        assert_eq!(
            read(r#""2024-01-02T03:04:05Z""#, &Type::Timestamp),
            r#"timestamp("2024-01-02T03:04:05Z")"#
        );
        assert_eq!(read(r#""90m""#, &Type::Duration), r#"duration("5400s")"#);
        assert_eq!(read(r#""not base64!""#, &Type::Bytes), r#""not base64!""#);
        assert_eq!(
            read(r#""2024-02-29""#, &Type::Timestamp),
            read(r#""2024-02-29T00:00:00Z""#, &Type::Timestamp)
        );
    }

    #[test]
    fn numbers_are_converted_by_the_schema() {
        assert_eq!(read("3", &Type::Double), "3.0");
        assert_eq!(read("3.0", &Type::Int), "3");
        assert_eq!(read("3.5", &Type::Int), "3.5");
        assert_eq!(read("3", &Type::UInt), "3u");
        assert_eq!(read("null", &Type::nullable(Type::Int)), "null");
        assert_eq!(read("[1, 2.0]", &Type::list(Type::Int)), "[1, 2]");
        assert_eq!(read(r#"{"a": 1}"#, &Type::map(Type::String, Type::Double)), r#"{"a": 1.0}"#);
    }

    #[test]
    fn views_that_need_no_conversion_drop_the_type() {
        let data: Data = serde_json::from_str(r#"{"a": ["x"]}"#).unwrap();
        let value = Value::from_data(&data, Some(&Type::map(Type::String, Type::list(Type::String))));
        assert!(matches!(value, Value::Map(Map::Data(_))));
    }
}
