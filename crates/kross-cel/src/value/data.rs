//! Converts values to JSON as kro does: times in Kubernetes' format, empty optionals as null, and `omit()` values left
//! out.

use kross_value::{Key, Object, Value as Data};

use super::{List, MAX_DEPTH, Map, Value};
use crate::error::Fault;

/// More than fits into any object; a small value with shared parts can have this many nodes in JSON.
const MAX_NODES: usize = 2_000_000;

/// The JSON of a value, or none if it is `omit()`, which also omits its map entry or list element.
///
/// # Errors
/// If JSON cannot represent the value: bytes, a uint that exceeds int, NaN and infinity, a map whose keys are not
/// strings, an opaque value without a text, or a value that is too large or too deep.
pub fn to_data(value: &Value) -> Result<Option<Data>, Fault> {
    to_data_within(value, MAX_NODES).map(|(data, _)| data)
}

/// The same for a value that has at most this many nodes in JSON, and how many it has.
pub(crate) fn to_data_within(value: &Value, nodes: usize) -> Result<(Option<Data>, usize), Fault> {
    let most = nodes.min(MAX_NODES);
    let mut limit = SizeLimit { nodes: most };
    match convert(value, &mut limit, 0) {
        Ok(data) => Ok((data, most - limit.nodes)),
        Err(_) if limit.nodes == 0 && most < MAX_NODES => Err(Fault::BudgetExceeded),
        Err(fault) => Err(fault),
    }
}

/// How many more nodes a value may have.
struct SizeLimit {
    nodes: usize,
}

impl SizeLimit {
    fn take(&mut self, depth: usize) -> Result<(), Fault> {
        if depth > MAX_DEPTH {
            return Err(Fault::invalid(format!("the result is nested more than {MAX_DEPTH} levels deep")));
        }
        match self.nodes.checked_sub(1) {
            Some(left) => {
                self.nodes = left;
                Ok(())
            }
            None => Err(Fault::invalid(format!("the result has more than {MAX_NODES} values"))),
        }
    }
}

fn convert(value: &Value, limit: &mut SizeLimit, depth: usize) -> Result<Option<Data>, Fault> {
    limit.take(depth)?;
    Ok(Some(match value {
        Value::Null | Value::Optional(None) => Data::Null,
        Value::Bool(value) => Data::Bool(*value),
        Value::Int(value) => Data::Int(*value),
        Value::UInt(value) => i64::try_from(*value)
            .map(Data::Int)
            .map_err(|_| Fault::Overflow("the conversion of uint to int".into()))?,
        Value::Double(value) if value.is_finite() => number(*value),
        Value::Double(_) => {
            return Err(Fault::invalid("NaN and infinity cannot be represented in JSON"));
        }
        Value::String(text) => Data::String(text.clone()),
        Value::Bytes(_) => {
            return Err(Fault::invalid(
                "bytes cannot be written to an object, convert them with `base64.encode`",
            ));
        }
        Value::Timestamp(time) => Data::from(time.to_seconds_text()),
        Value::Duration(duration) => Data::from(duration.to_go_text()),
        Value::List(list) => list_data(list, limit, depth)?,
        Value::Map(map) => map_data(map, limit, depth)?,
        Value::Optional(Some(inner)) => return convert(inner, limit, depth + 1),
        Value::Type(name) => Data::String(name.clone()),
        Value::Opaque(_) if value.is_omit() => return Ok(None),
        Value::Opaque(opaque) => match opaque.text() {
            Some(text) => Data::from(text),
            None => {
                return Err(Fault::invalid(format!(
                    "a value of type `{}` cannot be written to an object",
                    opaque.type_name()
                )));
            }
        },
    }))
}

/// An integral double is written without a fraction, as in Go: an integer field does not accept `3.0`.
fn number(value: f64) -> Data {
    #[expect(clippy::cast_possible_truncation, reason = "compared with the original right after")]
    let whole = value as i64;
    if whole as f64 == value && whole != i64::MAX { Data::Int(whole) } else { Data::Float(value) }
}

fn list_data(list: &List, limit: &mut SizeLimit, depth: usize) -> Result<Data, Fault> {
    match list {
        List::Data(items) => Ok(Data::List(items.clone())),
        // Converting to a type and back does not change raw JSON.
        List::Typed(typed) => Ok(Data::List(typed.items.clone())),
        List::Built(items) => {
            let mut written = Vec::with_capacity(items.len());
            for item in items.iter() {
                written.extend(convert(item, limit, depth + 1)?);
            }
            Ok(Data::from(written))
        }
    }
}

fn map_data(map: &Map, limit: &mut SizeLimit, depth: usize) -> Result<Data, Fault> {
    let built = match map {
        Map::Data(object) => return Ok(Data::Object(object.clone())),
        Map::Typed(typed) => return Ok(Data::Object(typed.object.clone())),
        Map::Built(built) => built,
    };
    let mut written: Vec<(Key, Data)> = Vec::with_capacity(built.entries().len());
    for (key, value) in built.entries() {
        let Value::String(name) = key else {
            return Err(Fault::invalid(format!(
                "a key has type `{}`, but the keys of an object must be strings",
                key.type_name()
            )));
        };
        if let Some(data) = convert(value, limit, depth + 1)? {
            written.push((Key::new(name), data));
        }
    }
    Ok(Data::Object(written.into_iter().collect::<Object>()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{Duration, Timestamp};

    fn json(value: &Value) -> String {
        to_data(value).unwrap().map_or_else(|| "omitted".into(), |data| data.to_string())
    }

    #[test]
    fn times_are_written_as_kubernetes_writes_them() {
        let time = Timestamp::parse("2024-01-02T03:04:05.678Z").unwrap();
        assert_eq!(json(&Value::Timestamp(time)), r#""2024-01-02T03:04:05Z""#);
        assert_eq!(json(&Value::Duration(Duration { nanoseconds: 90_000_000_000 })), r#""1m30s""#);
    }

    #[test]
    fn omit_removes_entries_and_elements_at_any_depth() {
        let inner = Value::map(vec![
            (Value::string("gone"), Value::omit()),
            (Value::string("kept"), Value::list(vec![Value::omit(), Value::Int(1), Value::Optional(None)])),
        ]);
        let value = Value::map(vec![(Value::string("x"), Value::some(inner))]);
        assert_eq!(json(&value), r#"{"x":{"kept":[1,null]}}"#);
        assert_eq!(json(&Value::omit()), "omitted");
    }

    #[test]
    fn integral_doubles_are_written_without_a_fraction() {
        assert_eq!(
            json(&Value::list([3.0, 0.5, -0.0, 1e15].map(Value::Double).to_vec())),
            "[3,0.5,0,1000000000000000]"
        );
        assert_eq!(json(&Value::Double(1e19)), "1e+19");
    }

    #[test]
    fn values_that_json_cannot_represent_are_rejected_with_a_reason() {
        assert!(to_data(&Value::Bytes((*b"x").into())).unwrap_err().to_string().contains("base64.encode"));
        assert!(to_data(&Value::UInt(u64::MAX)).is_err());
        assert_eq!(json(&Value::UInt(7)), "7");
        assert!(to_data(&Value::Double(f64::NAN)).is_err());
        assert!(to_data(&Value::map(vec![(Value::Int(1), Value::Null)])).is_err());
    }

    #[test]
    fn values_with_shared_parts_are_limited_in_size() {
        let mut value = Value::list(vec![Value::Int(1)]);
        for _ in 0..60 {
            value = Value::list(vec![value.clone(), value.clone()]);
        }
        assert!(to_data(&value).is_err());
    }
}
