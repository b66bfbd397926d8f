//! Functions for lists: slices, sorting, duplicates.

use std::cmp::Ordering;

use super::arguments::{MAX_OUTPUT, functions, int, items};
use super::sets::has;
use super::{Call, ELEMENT, Library};
use crate::error::Fault;
use crate::value::Value;

/// The longest list that `lists.range` returns.
const MAX_RANGE: i64 = 1_000_000;
/// The largest depth to which lists are flattened.
const MAX_DEPTH: i64 = 64;

/// Functions for lists. `sortBy` is a macro.
pub static LIBRARY: Library = Library {
    name: "lists",
    functions: functions! {
        "distinct": "Returns the list without duplicates; the first of equal elements is kept." {
            "(list(T)).distinct() -> list(T)" => distinct,
        }
        "flatten": "Flattens nested lists by one level, or by the given number of levels." {
            "(list(list(T))).flatten() -> list(T)" => flatten,
            "(list(dyn)).flatten(int) -> list(dyn)" => flatten,
        }
        "lists.range": "Returns the integers from 0 up to, but not including, the argument." {
            "lists.range(int) -> list(int)" => range,
        }
        "reverse": "Returns the elements in reverse order." {
            "(list(T)).reverse() -> list(T)" => reverse,
        }
        "slice": "Returns the elements from the first index up to, but not including, the second." {
            "(list(T)).slice(int, int) -> list(T)" => slice,
        }
        "sort": "Returns the elements in ascending order; they must have the same type, and it must be ordered." {
            "(list(int)).sort() -> list(int)" => sort,
            "(list(uint)).sort() -> list(uint)" => sort,
            "(list(double)).sort() -> list(double)" => sort,
            "(list(bool)).sort() -> list(bool)" => sort,
            "(list(duration)).sort() -> list(duration)" => sort,
            "(list(timestamp)).sort() -> list(timestamp)" => sort,
            "(list(string)).sort() -> list(string)" => sort,
            "(list(bytes)).sort() -> list(bytes)" => sort,
        }
    },
};

fn distinct(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let items = items(call, arguments, 0)?;
    let mut kept: Vec<Value> = Vec::new();
    for item in items {
        if !has(call, &kept, &item)? {
            kept.push(item);
        }
    }
    Ok(Value::list(kept))
}

fn flatten(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let depth = if arguments.len() > 1 { int(arguments, 1)? } else { 1 };
    if depth < 0 {
        return Err(Fault::invalid("flatten: the depth must not be negative"));
    }
    let mut flat = Vec::new();
    flatten_into(call, &mut flat, arguments.get(..1).unwrap_or_default(), depth.min(MAX_DEPTH))?;
    Ok(Value::list(flat))
}

/// Adds the elements of the only list in `list`; charges for each, because nested lists can share parts.
fn flatten_into(call: &mut Call<'_>, flat: &mut Vec<Value>, list: &[Value], depth: i64) -> Result<(), Fault> {
    for item in items(call, list, 0)? {
        if depth > 0 && matches!(item, Value::List(_)) {
            flatten_into(call, flat, &[item], depth - 1)?;
        } else {
            flat.push(item);
        }
    }
    if flat.len() > MAX_OUTPUT / 8 {
        return Err(Fault::invalid(format!("flatten: the result has more than {} elements", MAX_OUTPUT / 8)));
    }
    Ok(())
}

fn range(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let size = int(arguments, 0)?;
    if !(0..=MAX_RANGE).contains(&size) {
        return Err(Fault::invalid(format!(
            "lists.range: the size must be between 0 and {MAX_RANGE}, got {size}"
        )));
    }
    let length = usize::try_from(size).unwrap_or(usize::MAX);
    call.charge(length)?;
    call.allocate(length.saturating_mul(ELEMENT))?;
    Ok(Value::list((0..size).map(Value::Int).collect()))
}

fn reverse(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let mut items = items(call, arguments, 0)?;
    items.reverse();
    Ok(Value::list(items))
}

fn slice(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let (start, end) = (int(arguments, 1)?, int(arguments, 2)?);
    let items = items(call, arguments, 0)?;
    let invalid = |why: &str| Fault::invalid(format!("slice: {why}"));
    if start < 0 || end < 0 {
        return Err(invalid("indexes must not be negative"));
    }
    if start > end {
        return Err(invalid("the start must not be after the end"));
    }
    let range = usize::try_from(start).unwrap_or(usize::MAX)..usize::try_from(end).unwrap_or(usize::MAX);
    let piece = items.get(range).ok_or_else(|| invalid(&format!("the list has {} elements", items.len())))?;
    Ok(Value::list(piece.to_vec()))
}

fn sort(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let items = items(call, arguments, 0)?;
    sort_by_keys(call, &items, &items).map(Value::list)
}

/// Sorts items by their keys, in ascending and stable order.
fn sort_by_keys(call: &mut Call<'_>, items: &[Value], keys: &[Value]) -> Result<Vec<Value>, Fault> {
    let Some(example) = keys.first() else { return Ok(Vec::new()) };
    if example.compare(example).is_err() && !matches!(example, Value::Double(_)) {
        return Err(Fault::invalid(format!("a list of {} cannot be sorted", example.type_name())));
    }
    let kind = std::mem::discriminant(example);
    if let Some(other) = keys.iter().find(|key| std::mem::discriminant(*key) != kind) {
        let (first, second) = (example.type_name(), other.type_name());
        return Err(Fault::invalid(format!("a list of both {first} and {second} cannot be sorted")));
    }
    let rounds = usize::try_from(keys.len().ilog2()).unwrap_or(1) + 1;
    call.charge(keys.len().saturating_mul(rounds))?;
    let mut order: Vec<(&Value, &Value)> = keys.iter().zip(items).collect();
    order.sort_by(|(a, _), (b, _)| total(a, b));
    Ok(order.into_iter().map(|(_, item)| item.clone()).collect())
}

/// A total order of doubles too: `NaN` comes last.
fn total(a: &Value, b: &Value) -> Ordering {
    a.compare(b).unwrap_or_else(|_| is_nan(a).cmp(&is_nan(b)))
}

fn is_nan(value: &Value) -> bool {
    matches!(value, Value::Double(number) if number.is_nan())
}

#[cfg(test)]
mod tests {
    use super::super::arguments::testing::{err, ints, ok, run, strings};
    use super::*;

    #[test]
    fn lists_are_flattened_to_the_given_depth() {
        let nested = Value::list(vec![Value::Int(1), Value::list(vec![Value::Int(2), ints([3])]), ints([])]);
        assert_eq!(ok(flatten, [nested.clone()]), "[1, 2, [3]]");
        assert_eq!(ok(flatten, [nested.clone(), Value::Int(2)]), "[1, 2, 3]");
        assert_eq!(ok(flatten, [nested.clone(), Value::Int(0)]), "[1, [2, [3]], []]");
        assert_eq!(ok(flatten, [nested.clone(), Value::Int(i64::MAX)]), "[1, 2, 3]");
        assert!(err(flatten, [nested, Value::Int(-1)]).contains("must not be negative"));
    }

    #[test]
    fn flattening_shared_lists_exhausts_the_budget_and_not_the_memory() {
        let mut list = ints([1, 2]);
        for _ in 0..50 {
            list = Value::list(vec![list.clone(), list]);
        }
        let fault = run(flatten, &[list, Value::Int(60)]).unwrap_err();
        assert!(matches!(fault, Fault::BudgetExceeded | Fault::InvalidArgument(_)), "{fault}");
    }

    #[test]
    fn sorting_needs_one_ordered_type() {
        assert_eq!(ok(sort, [ints([3, 1, 2])]), "[1, 2, 3]");
        assert_eq!(ok(sort, [strings(["b", "a"])]), r#"["a", "b"]"#);
        assert_eq!(ok(sort, [ints([])]), "[]");
        assert!(
            err(sort, [Value::list(vec![Value::Int(1), Value::string("b")])]).contains("both int and string")
        );
        assert!(err(sort, [Value::list(vec![Value::Int(1), Value::UInt(1)])]).contains("both int and uint"));
        assert!(err(sort, [Value::list(vec![ints([1])])]).contains("cannot be sorted"));
        let doubles = Value::list([f64::NAN, 2.0, f64::NAN, 1.0].map(Value::Double).to_vec());
        assert_eq!(ok(sort, [doubles]), "[1.0, 2.0, NaN, NaN]");
    }

    #[test]
    fn items_are_sorted_by_their_keys() {
        let (items, keys) = (["a", "b", "c"].map(Value::string), [3, 1, 2].map(Value::Int));
        let mut budget = 1_000;
        let sorted = sort_by_keys(&mut Call::new(&mut budget), &items, &keys).unwrap();
        assert_eq!(
            ok(|_, items| Ok(Value::list(items.to_vec())), <[Value; 3]>::try_from(sorted).unwrap()),
            r#"["b", "c", "a"]"#
        );
    }

    #[test]
    fn slices_stay_within_the_list() {
        let cut = |start, end| [ints([1, 2, 3, 4]), Value::Int(start), Value::Int(end)];
        assert_eq!(ok(slice, cut(1, 3)), "[2, 3]");
        assert_eq!(ok(slice, cut(4, 4)), "[]");
        assert!(err(slice, cut(0, 5)).contains("the list has 4 elements"));
        assert!(err(slice, cut(3, 2)).contains("must not be after"));
        assert!(err(slice, cut(-1, 2)).contains("must not be negative"));
    }

    #[test]
    fn duplicates_are_removed_and_ranges_are_limited() {
        let mixed = Value::list(vec![Value::Int(1), Value::Double(1.0), Value::string("b"), Value::Int(1)]);
        assert_eq!(ok(distinct, [mixed]), r#"[1, "b"]"#);
        assert_eq!(ok(reverse, [ints([1, 2])]), "[2, 1]");
        assert_eq!(ok(range, [Value::Int(3)]), "[0, 1, 2]");
        assert!(err(range, [Value::Int(1_000_001)]).contains("the size must be"));
        assert!(err(range, [Value::Int(-1)]).contains("the size must be"));
    }
}
