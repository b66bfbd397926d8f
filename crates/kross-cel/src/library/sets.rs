//! Functions for lists as sets: order and duplicates are ignored, equality is that of `==`.

use super::arguments::{functions, items};
use super::{Call, Library};
use crate::error::Fault;
use crate::value::Value;

/// Functions for lists as sets.
pub static LIBRARY: Library = Library {
    name: "sets",
    functions: functions! {
        "sets.contains": "Returns whether the first list contains every element of the second." {
            "sets.contains(list(T), list(T)) -> bool" => contains,
        }
        "sets.equivalent": "Returns whether each list contains every element of the other." {
            "sets.equivalent(list(T), list(T)) -> bool" => equivalent,
        }
        "sets.intersects": "Returns whether the lists have an element in common." {
            "sets.intersects(list(T), list(T)) -> bool" => intersects,
        }
    },
};

fn pair(call: &mut Call<'_>, arguments: &[Value]) -> Result<(Vec<Value>, Vec<Value>), Fault> {
    let (first, second) = (items(call, arguments, 0)?, items(call, arguments, 1)?);
    Ok((first, second))
}

pub(in crate::library) fn has(call: &mut Call<'_>, set: &[Value], item: &Value) -> Result<bool, Fault> {
    for other in set {
        call.charge(1)?;
        if call.equal(other, item)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn has_all(call: &mut Call<'_>, set: &[Value], items: &[Value]) -> Result<bool, Fault> {
    for item in items {
        if !has(call, set, item)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn contains(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let (set, subset) = pair(call, arguments)?;
    has_all(call, &set, &subset).map(Value::Bool)
}

fn equivalent(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let (first, second) = pair(call, arguments)?;
    Ok(Value::Bool(has_all(call, &first, &second)? && has_all(call, &second, &first)?))
}

fn intersects(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let (first, second) = pair(call, arguments)?;
    for item in &first {
        if has(call, &second, item)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}

#[cfg(test)]
mod tests {
    use super::super::arguments::testing::{ints, ok, run, strings};
    use super::*;

    #[test]
    fn order_and_duplicates_are_ignored() {
        assert_eq!(ok(equivalent, [ints([1, 2, 2]), ints([2, 1])]), "true");
        assert_eq!(ok(equivalent, [ints([1, 2]), ints([1])]), "false");
        assert_eq!(ok(equivalent, [ints([]), ints([])]), "true");
        assert_eq!(ok(contains, [ints([1, 2]), ints([2, 2])]), "true");
        assert_eq!(ok(contains, [ints([1, 2]), ints([3])]), "false");
        assert_eq!(ok(contains, [ints([1]), ints([])]), "true");
        assert_eq!(ok(intersects, [ints([1]), ints([])]), "false");
        assert_eq!(ok(intersects, [strings(["a", "b"]), strings(["b"])]), "true");
    }

    #[test]
    fn numbers_are_equal_across_types() {
        let mixed = Value::list(vec![Value::UInt(1), Value::Double(2.0)]);
        assert_eq!(ok(equivalent, [ints([1, 2]), mixed]), "true");
    }

    #[test]
    fn comparing_all_elements_is_charged() {
        let large = Value::list((0..4_000).map(Value::Int).collect());
        let other = Value::list((4_000..8_000).map(Value::Int).collect());
        assert_eq!(run(intersects, &[large, other]).unwrap_err(), Fault::BudgetExceeded);
    }
}
