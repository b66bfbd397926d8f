//! `omit()`: a value that takes its field or element away. A library of its own, since a gate switches it.

use super::super::Library;
use super::super::arguments::functions;
use crate::value::Value;

/// `omit()`.
pub static LIBRARY: Library = Library {
    name: "kro.omit",
    functions: functions! {
        "omit": "Nothing: the field or element that this is the value of is left out of the object." {
            "omit() -> dyn" => |_, _| Ok(Value::omit()),
        }
    },
};
