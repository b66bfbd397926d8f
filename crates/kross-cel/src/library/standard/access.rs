//! `in` and `[]` on values of any type.

use crate::error::Fault;
use crate::library::Call;
use crate::value::{List, Map, Value, numeric_as_int};

/// The largest number of keys in a message.
const MAX_LISTED: usize = 5;

/// `value in collection`
pub(crate) fn is_in(call: &mut Call<'_>, value: &Value, collection: &Value) -> Result<Value, Fault> {
    match collection {
        Value::List(list) => {
            for item in list {
                call.charge(1)?;
                if call.equal(value, &item)? {
                    return Ok(Value::Bool(true));
                }
            }
            Ok(Value::Bool(false))
        }
        Value::Map(map) => Ok(Value::Bool(map.contains_key(value))),
        _ => Err(Fault::no_such_overload("in", &[value.clone(), collection.clone()])),
    }
}

/// `collection[key]`
pub(crate) fn index(collection: &Value, key: &Value) -> Result<Value, Fault> {
    match collection {
        Value::List(list) => list_index(list, key),
        Value::Map(map) => match map.get(key) {
            Some(value) => Ok(value),
            None => Err(missing_key(map, key)),
        },
        other => Err(missing(other, key)),
    }
}

#[inline]
fn list_index(list: &List, key: &Value) -> Result<Value, Fault> {
    let position = match key {
        Value::Int(position) => *position,
        Value::UInt(_) | Value::Double(_) => numeric_as_int(key)
            .and_then(|position| i64::try_from(position).ok())
            .ok_or_else(|| Fault::invalid(format!("a {} is not a valid list index", key.type_name())))?,
        other => {
            return Err(Fault::WrongType {
                expected: "an int as list index".into(),
                found: other.type_name().into(),
            });
        }
    };
    usize::try_from(position)
        .ok()
        .and_then(|at| list.get(at))
        .ok_or_else(|| Fault::IndexOutOfBounds { index: Some(position), length: list.len() })
}

/// The error of a missing key in any value.
#[cold]
pub(crate) fn missing(value: &Value, key: &Value) -> Fault {
    match value {
        Value::Map(map) => missing_key(map, key),
        // A value without keys is reported as a missing key, as in cel-go: null often means that a map is not set yet.
        _ => Fault::NoSuchKey { key: Some(shown(key)), available: Vec::new() },
    }
}

/// The error of a missing key in a map.
#[cold]
fn missing_key(map: &Map, key: &Value) -> Fault {
    match key {
        Value::Double(_) => {}
        key => {
            if let Err(fault) = crate::value::check_key(key) {
                return fault;
            }
        }
    }
    Fault::NoSuchKey { key: Some(shown(key)), available: some_keys(map) }
}

/// The first keys of a map, for messages.
pub(crate) fn some_keys(map: &Map) -> Vec<String> {
    map.keys().take(MAX_LISTED).map(|key| shown(&key)).collect()
}

/// A key in a message, without quotes.
fn shown(key: &Value) -> String {
    if let Value::String(text) = key { text.to_string() } else { key.to_string() }
}
