//! The arithmetic operators on values of any type. Overflows are errors.

use std::sync::Arc;

use kross_value::Text;

use crate::error::Fault;
use crate::library::{Call, ELEMENT};
use crate::value::{List, Value};

/// The largest string or bytes, in bytes, and the longest list, in elements. An object has about a megabyte.
const MAX_LENGTH: usize = 10 << 20;

#[cold]
fn no_overload(function: &str, left: &Value, right: &Value) -> Fault {
    Fault::no_such_overload(function, &[left.clone(), right.clone()])
}

#[cold]
fn overflow(kind: &str, operator: &str) -> Fault {
    Fault::Overflow(format!("{kind} `{operator}`"))
}

/// `left + right`
#[inline]
pub(crate) fn add(call: &mut Call<'_>, left: &Value, right: &Value) -> Result<Value, Fault> {
    match (left, right) {
        (Value::Int(a), Value::Int(b)) => {
            a.checked_add(*b).map(Value::Int).ok_or_else(|| overflow("int", "+"))
        }
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a + b)),
        _ => add_other(call, left, right),
    }
}

fn add_other(call: &mut Call<'_>, left: &Value, right: &Value) -> Result<Value, Fault> {
    match (left, right) {
        (Value::String(a), Value::String(b)) => join_text(call, a, b),
        (Value::UInt(a), Value::UInt(b)) => {
            a.checked_add(*b).map(Value::UInt).ok_or_else(|| overflow("uint", "+"))
        }
        (Value::Bytes(a), Value::Bytes(b)) => {
            call.charge((a.len() + b.len()) / 10)?;
            check_length(a.len() + b.len())?;
            call.allocate(a.len() + b.len())?;
            Ok(Value::Bytes([&**a, &**b].concat().into()))
        }
        (Value::List(a), Value::List(b)) => join_lists(call, a, b),
        (Value::Timestamp(time), Value::Duration(length))
        | (Value::Duration(length), Value::Timestamp(time)) => time.plus(*length).map(Value::Timestamp),
        (Value::Duration(a), Value::Duration(b)) => a.plus(*b).map(Value::Duration),
        _ => Err(no_overload("+", left, right)),
    }
}

fn join_text(call: &mut Call<'_>, left: &Text, right: &Text) -> Result<Value, Fault> {
    if left.is_empty() {
        return Ok(Value::String(right.clone()));
    }
    if right.is_empty() {
        return Ok(Value::String(left.clone()));
    }
    let length = left.len() + right.len();
    call.charge(length / 10)?;
    check_length(length)?;
    call.allocate(length)?;
    let mut text = String::with_capacity(length);
    text.push_str(left);
    text.push_str(right);
    Ok(Value::string(text))
}

fn join_lists(call: &mut Call<'_>, left: &List, right: &List) -> Result<Value, Fault> {
    if right.is_empty() {
        return Ok(Value::List(left.clone()));
    }
    if left.is_empty() {
        return Ok(Value::List(right.clone()));
    }
    let length = left.len() + right.len();
    call.charge(length)?;
    check_length(length)?;
    call.allocate(length * ELEMENT)?;
    let mut items = Vec::with_capacity(length);
    items.extend(left.iter());
    items.extend(right.iter());
    Ok(Value::List(List::Built(Arc::new(items))))
}

/// Rejects results that are too long.
pub(crate) fn check_length(length: usize) -> Result<(), Fault> {
    if length <= MAX_LENGTH {
        Ok(())
    } else {
        Err(Fault::invalid(format!("the result is longer than the limit of {MAX_LENGTH}")))
    }
}

/// `left - right`
#[inline]
pub(crate) fn subtract(left: &Value, right: &Value) -> Result<Value, Fault> {
    match (left, right) {
        (Value::Int(a), Value::Int(b)) => {
            a.checked_sub(*b).map(Value::Int).ok_or_else(|| overflow("int", "-"))
        }
        (Value::UInt(a), Value::UInt(b)) => {
            a.checked_sub(*b).map(Value::UInt).ok_or_else(|| overflow("uint", "-"))
        }
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a - b)),
        (Value::Timestamp(a), Value::Timestamp(b)) => a.since(*b).map(Value::Duration),
        (Value::Timestamp(a), Value::Duration(b)) => a.minus(*b).map(Value::Timestamp),
        (Value::Duration(a), Value::Duration(b)) => a.minus(*b).map(Value::Duration),
        _ => Err(no_overload("-", left, right)),
    }
}

/// `left * right`
#[inline]
pub(crate) fn multiply(left: &Value, right: &Value) -> Result<Value, Fault> {
    match (left, right) {
        (Value::Int(a), Value::Int(b)) => {
            a.checked_mul(*b).map(Value::Int).ok_or_else(|| overflow("int", "*"))
        }
        (Value::UInt(a), Value::UInt(b)) => {
            a.checked_mul(*b).map(Value::UInt).ok_or_else(|| overflow("uint", "*"))
        }
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a * b)),
        _ => Err(no_overload("*", left, right)),
    }
}

/// `left / right`
#[inline]
pub(crate) fn divide(left: &Value, right: &Value) -> Result<Value, Fault> {
    match (left, right) {
        (Value::Int(_), Value::Int(0)) | (Value::UInt(_), Value::UInt(0)) => Err(Fault::DivisionByZero),
        (Value::Int(a), Value::Int(b)) => {
            a.checked_div(*b).map(Value::Int).ok_or_else(|| overflow("int", "/"))
        }
        (Value::UInt(a), Value::UInt(b)) => a.checked_div(*b).map(Value::UInt).ok_or(Fault::DivisionByZero),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a / b)),
        _ => Err(no_overload("/", left, right)),
    }
}

/// `left % right`
#[inline]
pub(crate) fn modulo(left: &Value, right: &Value) -> Result<Value, Fault> {
    match (left, right) {
        (Value::Int(_), Value::Int(0)) | (Value::UInt(_), Value::UInt(0)) => Err(Fault::DivisionByZero),
        (Value::Int(a), Value::Int(b)) => {
            a.checked_rem(*b).map(Value::Int).ok_or_else(|| overflow("int", "%"))
        }
        (Value::UInt(a), Value::UInt(b)) => a.checked_rem(*b).map(Value::UInt).ok_or(Fault::DivisionByZero),
        _ => Err(no_overload("%", left, right)),
    }
}

/// `-value`
pub(crate) fn negate(value: &Value) -> Result<Value, Fault> {
    match value {
        Value::Int(number) => number
            .checked_neg()
            .map(Value::Int)
            .ok_or_else(|| Fault::Overflow("the negation of an int".into())),
        Value::Double(number) => Ok(Value::Double(-number)),
        Value::Duration(length) => length
            .nanoseconds
            .checked_neg()
            .map(|nanoseconds| Value::Duration(crate::value::Duration { nanoseconds }))
            .ok_or_else(|| Fault::Overflow("duration".into())),
        other => Err(Fault::no_such_overload("-_", std::slice::from_ref(other))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overflows_are_errors() {
        let (least, most) = (Value::Int(i64::MIN), Value::Int(i64::MAX));
        let minus_one = Value::Int(-1);
        let mut budget = 100;
        let mut call = Call::new(&mut budget);
        assert!(matches!(add(&mut call, &most, &Value::Int(1)), Err(Fault::Overflow(_))));
        assert!(matches!(subtract(&least, &Value::Int(1)), Err(Fault::Overflow(_))));
        assert!(matches!(multiply(&least, &minus_one), Err(Fault::Overflow(_))));
        assert!(matches!(divide(&least, &minus_one), Err(Fault::Overflow(_))));
        assert!(matches!(modulo(&least, &minus_one), Err(Fault::Overflow(_))));
        assert!(matches!(negate(&least), Err(Fault::Overflow(_))));
        assert!(matches!(divide(&least, &Value::Int(0)), Err(Fault::DivisionByZero)));
        assert!(matches!(modulo(&Value::UInt(1), &Value::UInt(0)), Err(Fault::DivisionByZero)));
        assert!(matches!(subtract(&Value::UInt(1), &Value::UInt(2)), Err(Fault::Overflow(_))));
        assert!(matches!(
            modulo(&Value::Double(1.0), &Value::Double(1.0)),
            Err(Fault::NoSuchOverload { .. })
        ));
    }
}
