//! Copies of a list with one element replaced, inserted or removed.

use super::super::arguments::{any, functions, int, items};
use super::super::{Call, Library};
use crate::error::Fault;
use crate::value::Value;

/// List updates.
pub static LIBRARY: Library = Library {
    name: "kro.lists",
    functions: functions! {
        "lists.insertAtIndex": "Returns the list with the value inserted at an index." {
            "lists.insertAtIndex(list(T), int, T) -> list(T)" => insert,
        }
        "lists.removeAtIndex": "Returns the list without the element at an index." {
            "lists.removeAtIndex(list(T), int) -> list(T)" => remove,
        }
        "lists.setAtIndex": "Returns the list with the element at an index replaced by the value." {
            "lists.setAtIndex(list(T), int, T) -> list(T)" => set,
        }
    },
};

/// The list and the index, which may exceed the last index by `past`.
fn list_and_index(
    call: &mut Call<'_>,
    arguments: &[Value],
    function: &str,
    past: usize,
) -> Result<(Vec<Value>, usize), Fault> {
    let (items, index) = (items(call, arguments, 0)?, int(arguments, 1)?);
    let limit = items.len() + past;
    let at = usize::try_from(index).ok().filter(|at| *at < limit);
    let at = at.ok_or_else(|| {
        // Not `IndexOutOfBounds`, which means that data is only missing so far.
        Fault::invalid(format!("{function}: the index must be at least 0 and less than {limit}"))
    })?;
    Ok((items, at))
}

fn insert(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let (mut items, at) = list_and_index(call, arguments, "lists.insertAtIndex", 1)?;
    items.insert(at, any(arguments, 2)?.clone());
    Ok(Value::list(items))
}

fn remove(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let (mut items, at) = list_and_index(call, arguments, "lists.removeAtIndex", 0)?;
    items.remove(at);
    Ok(Value::list(items))
}

fn set(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let (mut items, at) = list_and_index(call, arguments, "lists.setAtIndex", 0)?;
    if let Some(place) = items.get_mut(at) {
        *place = any(arguments, 2)?.clone();
    }
    Ok(Value::list(items))
}
