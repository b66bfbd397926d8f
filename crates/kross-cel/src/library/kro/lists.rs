//! Lists with one element changed, added or taken away.

use super::super::arguments::{any, functions, int, items};
use super::super::{Call, Library};
use crate::error::Fault;
use crate::value::Value;

/// Edits of lists.
pub static LIBRARY: Library = Library {
    name: "kro.lists",
    functions: functions! {
        "lists.insertAtIndex": "The list with the value put in at an index." {
            "lists.insertAtIndex(list(T), int, T) -> list(T)" => insert,
        }
        "lists.removeAtIndex": "The list without the element at an index." {
            "lists.removeAtIndex(list(T), int) -> list(T)" => remove,
        }
        "lists.setAtIndex": "The list with the value in place of the element at an index." {
            "lists.setAtIndex(list(T), int, T) -> list(T)" => set,
        }
    },
};

/// The list and the index, which may be `past` the last element by so much.
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
        // Not "out of bounds of a list", which would mean that the data is not there yet.
        Fault::invalid(format!("{function}: the index {index} is not below {limit}"))
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
