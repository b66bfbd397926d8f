//! Parses and serializes JSON; the output is identical to Go's.

use super::super::arguments::{any, charge_bytes, functions, text};
use super::super::{Call, ELEMENT, Library};
use crate::error::Fault;
use crate::value::Value;

mod read;
mod write;

/// JSON functions.
pub static LIBRARY: Library = Library {
    name: "json",
    functions: functions! {
        "json.marshal": "Serializes a value to JSON, with sorted keys and without whitespace." {
            "json.marshal(dyn) -> string" => marshal,
        }
        "json.unmarshal": "Parses JSON. Numbers are doubles." {
            "json.unmarshal(string) -> dyn" => unmarshal,
        }
    },
};

fn marshal(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    write::write(call, any(arguments, 0)?).map(Value::string)
}

fn unmarshal(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let text = text(arguments, 0)?;
    charge_bytes(call, text.len())?;
    let values = text.bytes().filter(|byte| matches!(byte, b',' | b':' | b'[' | b'{')).count() + 1;
    call.allocate(text.len() + values * ELEMENT)?;
    read::read(text).map_err(|(why, at)| Fault::invalid(format!("json.unmarshal: {why} at byte {at}")))
}
