//! `==` at run time: numbers of different types can be equal, other values of different types are not, lists and maps are
//! compared deeply. The cost is charged, because small values with shared parts can take long to compare.

use super::{List, MAX_DEPTH, Map, Value};
use crate::error::Fault;
use crate::library::Call;

impl Value {
    /// Whether both are equal in the sense of `==`. For callers without a budget: returns false after ten million
    /// elements. Library functions use [`Call::equal`].
    #[must_use]
    pub fn equals(&self, other: &Self) -> bool {
        let mut budget = 10_000_000;
        Call::new(&mut budget).equal(self, other).unwrap_or(false)
    }
}

impl Call<'_> {
    /// Whether both are equal in the sense of `==`; charges for each compared element.
    ///
    /// # Errors
    /// If the budget is exhausted or the values are nested too deeply.
    #[inline]
    pub fn equal(&mut self, left: &Value, right: &Value) -> Result<bool, Fault> {
        match (left, right) {
            (Value::Int(a), Value::Int(b)) => Ok(a == b),
            (Value::Bool(a), Value::Bool(b)) => Ok(a == b),
            (Value::String(a), Value::String(b)) => Ok(a.as_str() == b.as_str()),
            _ => equal_at(self, left, right, 0),
        }
    }
}

fn equal_at(call: &mut Call<'_>, left: &Value, right: &Value, depth: usize) -> Result<bool, Fault> {
    Ok(match (left, right) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::String(a), Value::String(b)) => {
            call.charge(a.len() / 64)?;
            a == b
        }
        (Value::Bytes(a), Value::Bytes(b)) => a == b,
        (Value::Timestamp(a), Value::Timestamp(b)) => a == b,
        (Value::Duration(a), Value::Duration(b)) => a == b,
        (Value::Type(a), Value::Type(b)) => a == b,
        (Value::Opaque(a), Value::Opaque(b)) => a.equals(b.as_ref()),
        (Value::Optional(None), Value::Optional(None)) => true,
        (Value::Optional(Some(a)), Value::Optional(Some(b))) => equal_at(call, a, b, deeper(depth)?)?,
        (Value::List(a), Value::List(b)) => lists(call, a, b, deeper(depth)?)?,
        (Value::Map(a), Value::Map(b)) => maps(call, a, b, deeper(depth)?)?,
        (a, b) => super::order::numbers(a, b).is_some_and(|order| order == Some(std::cmp::Ordering::Equal)),
    })
}

fn deeper(depth: usize) -> Result<usize, Fault> {
    if depth < MAX_DEPTH {
        Ok(depth + 1)
    } else {
        Err(Fault::invalid(format!("cannot compare values nested more than {MAX_DEPTH} levels deep")))
    }
}

fn lists(call: &mut Call<'_>, left: &List, right: &List, depth: usize) -> Result<bool, Fault> {
    if left.len() != right.len() {
        return Ok(false);
    }
    for (a, b) in left.iter().zip(right) {
        call.charge(1)?;
        if !equal_at(call, &a, &b, depth)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn maps(call: &mut Call<'_>, left: &Map, right: &Map, depth: usize) -> Result<bool, Fault> {
    if left.len() != right.len() {
        return Ok(false);
    }
    if let (Map::Data(a), Map::Data(b)) = (left, right)
        && a.same(b)
    {
        return Ok(true);
    }
    for (key, a) in left {
        call.charge(1)?;
        match right.get(&key) {
            Some(b) if equal_at(call, &a, &b, depth)? => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// The integer that is equal to a number of any type, if there is one.
#[inline]
pub(crate) fn numeric_as_int(value: &Value) -> Option<i128> {
    match value {
        Value::Int(value) => Some(i128::from(*value)),
        Value::UInt(value) => Some(i128::from(*value)),
        Value::Double(value) => {
            #[expect(clippy::cast_possible_truncation, reason = "compared with the original right after")]
            let candidate = *value as i128;
            let fits = (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&candidate);
            (fits && candidate as f64 == *value).then_some(candidate)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_equal_across_types_and_nothing_else_is() {
        assert!(Value::Int(1).equals(&Value::Double(1.0)));
        assert!(Value::UInt(1).equals(&Value::Int(1)));
        assert!(!Value::Int(-1).equals(&Value::UInt(u64::MAX)));
        assert!(!Value::Double(f64::NAN).equals(&Value::Double(f64::NAN)));
        assert!(!Value::Int(1).equals(&Value::string("1")));
        assert!(!Value::Null.equals(&Value::Bool(false)));
        assert!(!Value::Optional(None).equals(&Value::some(Value::Null)));
    }

    #[test]
    fn built_maps_and_raw_json_are_equal_in_any_order() {
        let built = Value::map(vec![
            (Value::string("b"), Value::list(vec![Value::Double(1.0)])),
            (Value::string("a"), Value::Null),
        ]);
        let data: kross_value::Value = serde_json::from_str(r#"{"a": null, "b": [1]}"#).unwrap();
        assert!(built.equals(&Value::from(&data)));
    }

    #[test]
    fn comparing_values_with_shared_parts_exhausts_the_budget() {
        let mut value = Value::list(vec![Value::Int(1)]);
        for _ in 0..60 {
            value = Value::list(vec![value.clone(), value.clone()]);
        }
        let mut budget = 10_000;
        let result = Call::new(&mut budget).equal(&value, &value.clone());
        assert_eq!(result, Err(Fault::BudgetExceeded));
    }

    #[test]
    fn deep_values_are_rejected_instead_of_overflowing_the_stack() {
        let mut value = Value::Int(1);
        for _ in 0..2_000 {
            value = Value::list(vec![value]);
        }
        let mut budget = 1_000_000;
        assert!(Call::new(&mut budget).equal(&value, &value.clone()).is_err());
    }
}
