//! Sums, extremes, order and positions in lists, as in Kubernetes.

use std::cmp::Ordering;

use super::super::arguments::{any, duration, functions, items};
use super::super::{Call, Library};
use crate::error::Fault;
use crate::value::{Duration, Value};

/// Kubernetes' functions for lists.
pub static LIBRARY: Library = Library {
    name: "kubernetes.lists",
    functions: functions! {
        "indexOf": "Returns the index of the first element that equals the argument; -1 if there is none." {
            "(list(A)).indexOf(A) -> int" => index_of,
        }
        "isSorted": "Returns whether the elements are in ascending order." {
            "(list(int)).isSorted() -> bool" => is_sorted,
            "(list(uint)).isSorted() -> bool" => is_sorted,
            "(list(double)).isSorted() -> bool" => is_sorted,
            "(list(bool)).isSorted() -> bool" => is_sorted,
            "(list(duration)).isSorted() -> bool" => is_sorted,
            "(list(timestamp)).isSorted() -> bool" => is_sorted,
            "(list(string)).isSorted() -> bool" => is_sorted,
            "(list(bytes)).isSorted() -> bool" => is_sorted,
        }
        "lastIndexOf": "Returns the index of the last element that equals the argument; -1 if there is none." {
            "(list(A)).lastIndexOf(A) -> int" => last_index_of,
        }
        "max": "Returns the largest element." {
            "(list(int)).max() -> int" => max,
            "(list(uint)).max() -> uint" => max,
            "(list(double)).max() -> double" => max,
            "(list(bool)).max() -> bool" => max,
            "(list(duration)).max() -> duration" => max,
            "(list(timestamp)).max() -> timestamp" => max,
            "(list(string)).max() -> string" => max,
            "(list(bytes)).max() -> bytes" => max,
        }
        "min": "Returns the smallest element." {
            "(list(int)).min() -> int" => min,
            "(list(uint)).min() -> uint" => min,
            "(list(double)).min() -> double" => min,
            "(list(bool)).min() -> bool" => min,
            "(list(duration)).min() -> duration" => min,
            "(list(timestamp)).min() -> timestamp" => min,
            "(list(string)).min() -> string" => min,
            "(list(bytes)).min() -> bytes" => min,
        }
        "sum": "Returns the sum of the elements; zero for an empty list." {
            "(list(int)).sum() -> int" => |call, a| sum(call, a, Value::Int(0)),
            "(list(uint)).sum() -> uint" => |call, a| sum(call, a, Value::UInt(0)),
            "(list(double)).sum() -> double" => |call, a| sum(call, a, Value::Double(0.0)),
            "(list(duration)).sum() -> duration" => |call, a| sum(call, a, Value::Duration(Duration { nanoseconds: 0 })),
        }
    },
};

fn position(at: Option<usize>) -> Value {
    Value::Int(at.and_then(|at| i64::try_from(at).ok()).unwrap_or(-1))
}

fn index_of(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let (items, wanted) = (items(call, arguments, 0)?, any(arguments, 1)?);
    for (at, item) in items.iter().enumerate() {
        if call.equal(item, wanted)? {
            return Ok(position(Some(at)));
        }
    }
    Ok(position(None))
}

fn last_index_of(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let (items, wanted) = (items(call, arguments, 0)?, any(arguments, 1)?);
    for (at, item) in items.iter().enumerate().rev() {
        if call.equal(item, wanted)? {
            return Ok(position(Some(at)));
        }
    }
    Ok(position(None))
}

/// The order of two elements. Elements of different types have none, such as a number and a string in a list of `dyn`;
/// Kubernetes accepts them as long as each has an ordered type.
fn order(a: &Value, b: &Value) -> Result<Option<Ordering>, Fault> {
    for value in [a, b] {
        if let Err(fault @ Fault::NoSuchOverload { .. }) = value.compare(value) {
            return Err(fault);
        }
    }
    Ok(a.compare(b).ok())
}

fn is_sorted(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let items = items(call, arguments, 0)?;
    for (a, b) in items.iter().zip(items.iter().skip(1)) {
        if order(a, b)? == Some(Ordering::Greater) {
            return Ok(Value::Bool(false));
        }
    }
    Ok(Value::Bool(true))
}

fn max(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    extreme(call, arguments, "max", Ordering::Less)
}

fn min(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    extreme(call, arguments, "min", Ordering::Greater)
}

fn extreme(
    call: &mut Call<'_>,
    arguments: &[Value],
    function: &str,
    replaces: Ordering,
) -> Result<Value, Fault> {
    let items = items(call, arguments, 0)?;
    let (first, rest) =
        items.split_first().ok_or_else(|| Fault::invalid(format!("{function} called on empty list")))?;
    let mut best = first;
    for item in rest {
        if order(best, item)? == Some(replaces) {
            best = item;
        }
    }
    // The type of a single element must be ordered too.
    order(best, best)?;
    Ok(best.clone())
}

fn sum(call: &mut Call<'_>, arguments: &[Value], zero: Value) -> Result<Value, Fault> {
    let items = items(call, arguments, 0)?;
    // A list of `dyn` uses the zero of the first overload, so take it from the first element.
    let zero = match items.first() {
        Some(Value::UInt(_)) => Value::UInt(0),
        Some(Value::Double(_)) => Value::Double(0.0),
        Some(Value::Duration(_)) => Value::Duration(Duration { nanoseconds: 0 }),
        _ => zero,
    };
    items.iter().try_fold(zero, |sum, item| add(&sum, item))
}

fn add(a: &Value, b: &Value) -> Result<Value, Fault> {
    let overflow = |kind: &str| Fault::Overflow(format!("the sum of {kind}s"));
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => a.checked_add(*b).map(Value::Int).ok_or_else(|| overflow("int")),
        (Value::UInt(a), Value::UInt(b)) => {
            a.checked_add(*b).map(Value::UInt).ok_or_else(|| overflow("uint"))
        }
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a + b)),
        (Value::Duration(a), b) => a.plus(duration(b)?).map(Value::Duration),
        (a, b) => Err(Fault::NoSuchOverload {
            function: "sum".to_owned(),
            arguments: vec![a.type_name().to_owned(), b.type_name().to_owned()],
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::arguments::testing::{err, ints, ok, strings};
    use super::*;

    fn sum_int(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
        sum(call, arguments, Value::Int(0))
    }

    #[test]
    fn sums_keep_the_type_of_the_elements() {
        assert_eq!(ok(sum_int, [ints([1, 3])]), "4");
        assert_eq!(ok(sum_int, [ints([])]), "0");
        assert_eq!(ok(sum_int, [Value::list(vec![Value::Double(1.5), Value::Double(3.0)])]), "4.5");
        let minute = Value::Duration(Duration { nanoseconds: 60_000_000_000 });
        assert_eq!(ok(sum_int, [Value::list(vec![minute.clone(), minute])]), "120000000000ns");
        assert!(err(sum_int, [ints([i64::MAX, 1])]).contains("overflows"));
        assert!(err(sum_int, [strings(["a"])]).contains("no such overload"));
    }

    #[test]
    fn extremes_need_an_element() {
        assert_eq!((ok(min, [ints([3, 1, 2])]), ok(max, [ints([3, 1, 2])])), ("1".into(), "3".into()));
        assert_eq!(err(min, [ints([])]), "min called on empty list");
        assert!(err(max, [Value::list(vec![ints([1])])]).contains("no such overload"));
        assert_eq!(ok(max, [strings(["a", "c", "b"])]), "\"c\"");
    }

    #[test]
    fn order_and_positions_are_determined() {
        assert_eq!(ok(is_sorted, [ints([1, 2, 2])]), "true");
        assert_eq!(ok(is_sorted, [ints([2, 1])]), "false");
        assert_eq!(ok(is_sorted, [ints([])]), "true");
        assert_eq!(ok(index_of, [ints([1, 2, 2]), Value::Double(2.0)]), "1");
        assert_eq!(ok(last_index_of, [ints([1, 2, 2]), Value::Int(2)]), "2");
        assert_eq!(ok(index_of, [ints([1]), Value::string("1")]), "-1");
    }
}
