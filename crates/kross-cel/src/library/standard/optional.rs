//! Optionals. The evaluator implements `or` and `orValue` itself, because they do not evaluate their argument if it is not
//! needed.

use super::{functions, one};
use crate::error::Fault;
use crate::library::{Call, Function};
use crate::value::{Timestamp, Value};

pub(super) const FUNCTIONS: &[Function] = functions! {
    "optional.of", "Returns an optional with this value.",
        |_, arguments| one("optional.of", arguments, |value| Ok(Value::some(value.clone()))),
        ["optional.of(A) -> optional(A)"];
    "optional.ofNonZeroValue", "Returns an optional with this value, or an empty optional if it is null, zero, false or empty.",
        |_, arguments| one("optional.ofNonZeroValue", arguments, |value| {
            Ok(if is_zero(value) { Value::Optional(None) } else { Value::some(value.clone()) })
        }),
        ["optional.ofNonZeroValue(A) -> optional(A)"];
    "optional.none", "Returns an empty optional.", |_, _| Ok(Value::Optional(None)),
        ["optional.none() -> optional(A)"];
    "hasValue", "Returns whether the optional has a value.", has_value, ["(optional(A)).hasValue() -> bool"];
    "value", "Returns the value; an error if the optional is empty.", value, ["(optional(A)).value() -> A"];
    "or", "Returns this optional if it has a value, else the argument.", or, ["(optional(A)).or(optional(A)) -> optional(A)"];
    "orValue", "Returns the value if there is one, else the argument.", or_value, ["(optional(A)).orValue(A) -> A"];
    "first", "Returns the first element of a list, if there is one.",
        |_, arguments| end("first", arguments, |list| list.get(0)), ["(list(A)).first() -> optional(A)"];
    "last", "Returns the last element of a list, if there is one.",
        |_, arguments| end("last", arguments, |list| list.get(list.len().checked_sub(1)?)),
        ["(list(A)).last() -> optional(A)"];
    "optional.unwrap", "Returns the values of the optionals that are not empty.", unwrap,
        ["optional.unwrap(list(optional(A))) -> list(A)"];
    "unwrapOpt", "Returns the values of the optionals that are not empty.", unwrap, ["(list(optional(A))).unwrapOpt() -> list(A)"];
};

/// Whether a value is the zero value of its type.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) | Value::Int(0) | Value::UInt(0) => true,
        Value::Double(number) => *number == 0.0,
        Value::String(text) => text.is_empty(),
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::List(list) => list.is_empty(),
        Value::Map(map) => map.is_empty(),
        Value::Duration(length) => length.nanoseconds == 0,
        Value::Timestamp(time) => Timestamp::parse("0001-01-01T00:00:00Z") == Some(*time),
        _ => false,
    }
}

fn has_value(_: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    match arguments {
        [Value::Optional(inner)] => Ok(Value::Bool(inner.is_some())),
        _ => Err(Fault::no_such_overload("hasValue", arguments)),
    }
}

fn value(_: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    match arguments {
        [Value::Optional(Some(inner))] => Ok((**inner).clone()),
        [Value::Optional(None)] => {
            Err(Fault::invalid("the optional has no value, use `orValue` for a default"))
        }
        _ => Err(Fault::no_such_overload("value", arguments)),
    }
}

fn or(_: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    match arguments {
        [Value::Optional(None), other @ Value::Optional(_)] => Ok(other.clone()),
        [some @ Value::Optional(Some(_)), _] => Ok(some.clone()),
        _ => Err(Fault::no_such_overload("or", arguments)),
    }
}

fn or_value(_: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    match arguments {
        [Value::Optional(None), other] => Ok(other.clone()),
        [Value::Optional(Some(inner)), _] => Ok((**inner).clone()),
        _ => Err(Fault::no_such_overload("orValue", arguments)),
    }
}

fn end(
    function: &str,
    arguments: &[Value],
    pick: impl FnOnce(&crate::value::List) -> Option<Value>,
) -> Result<Value, Fault> {
    match arguments {
        [Value::List(list)] => Ok(pick(list).map_or(Value::Optional(None), Value::some)),
        _ => Err(Fault::no_such_overload(function, arguments)),
    }
}

fn unwrap(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let [Value::List(list)] = arguments else { return Err(Fault::no_such_overload("unwrapOpt", arguments)) };
    call.charge(list.len())?;
    let mut items = Vec::new();
    for item in list {
        match item {
            Value::Optional(Some(inner)) => items.push((*inner).clone()),
            Value::Optional(None) => {}
            other => {
                return Err(Fault::WrongType {
                    expected: "optional".into(),
                    found: other.type_name().into(),
                });
            }
        }
    }
    Ok(Value::list(items))
}
