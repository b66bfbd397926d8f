//! `<` at run time: numbers of any types are ordered, and bools, strings, bytes and times of the same type.

use std::cmp::Ordering;

use super::Value;
use crate::error::Fault;

impl Value {
    /// The order of two values in the sense of `<`.
    ///
    /// # Errors
    /// If the values have no order: types without order, different types, or NaN.
    #[inline]
    pub fn compare(&self, other: &Self) -> Result<Ordering, Fault> {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => Ok(a.cmp(b)),
            (Self::Bool(a), Self::Bool(b)) => Ok(a.cmp(b)),
            (Self::String(a), Self::String(b)) => Ok(a.cmp(b)),
            (Self::Bytes(a), Self::Bytes(b)) => Ok(a.cmp(b)),
            (Self::Timestamp(a), Self::Timestamp(b)) => Ok(a.cmp(b)),
            (Self::Duration(a), Self::Duration(b)) => Ok(a.cmp(b)),
            (a, b) => match numbers(a, b) {
                Some(Some(order)) => Ok(order),
                Some(None) => Err(Fault::invalid("NaN values cannot be ordered")),
                None => Err(Fault::NoSuchOverload {
                    function: "<".into(),
                    arguments: vec![a.type_name().into(), b.type_name().into()],
                }),
            },
        }
    }
}

/// The order of two numbers, compared as doubles if one is a double, as in cel-go. The inner `None` is for NaN, the outer
/// for values that are not numbers.
pub(super) fn numbers(left: &Value, right: &Value) -> Option<Option<Ordering>> {
    Some(match (left, right) {
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::UInt(a), Value::UInt(b)) => Some(a.cmp(b)),
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
        (Value::Int(a), Value::UInt(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Value::UInt(a), Value::Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Value::Int(a), Value::Double(b)) => (*a as f64).partial_cmp(b),
        (Value::UInt(a), Value::Double(b)) => (*a as f64).partial_cmp(b),
        (Value::Double(a), Value::Int(b)) => a.partial_cmp(&(*b as f64)),
        (Value::Double(a), Value::UInt(b)) => a.partial_cmp(&(*b as f64)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_ordered_across_their_types() {
        let order = |a: Value, b: Value| a.compare(&b);
        assert_eq!(order(Value::Int(1), Value::Double(1.5)), Ok(Ordering::Less));
        assert_eq!(order(Value::Int(-2), Value::Double(-1.5)), Ok(Ordering::Less));
        assert_eq!(order(Value::Double(-1.5), Value::Int(-2)), Ok(Ordering::Greater));
        assert_eq!(
            order(Value::Int(i64::MAX), Value::Double(9_223_372_036_854_775_808.0)),
            Ok(Ordering::Equal)
        );
        assert_eq!(order(Value::Int(-1), Value::UInt(0)), Ok(Ordering::Less));
        assert_eq!(order(Value::UInt(3), Value::Double(f64::INFINITY)), Ok(Ordering::Less));
        assert!(order(Value::Double(f64::NAN), Value::Int(0)).is_err());
        assert!(order(Value::string("a"), Value::Int(0)).is_err());
    }
}
