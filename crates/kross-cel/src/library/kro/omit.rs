//! `omit()`: a value that omits its field or element. A library of its own, because it has a feature gate.

use super::super::Library;
use super::super::arguments::functions;
use crate::value::Value;

/// `omit()`.
pub static LIBRARY: Library = Library {
    name: "kro.omit",
    functions: functions! {
        "omit": "Omits the field or list element that it is the value of." {
            "omit() -> dyn" => |_, _| Ok(Value::omit()),
        }
    },
};
