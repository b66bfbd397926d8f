//! JSON text into values and back, byte for byte as Go writes it.

use super::super::arguments::{any, charge_bytes, functions, text};
use super::super::{Call, Library};
use crate::error::Fault;
use crate::value::Value;

mod read;
mod write;

/// JSON text.
pub static LIBRARY: Library = Library {
    name: "json",
    functions: functions! {
        "json.marshal": "The value as JSON, with sorted keys and without white space." {
            "json.marshal(dyn) -> string" => marshal,
        }
        "json.unmarshal": "The value of JSON text. Numbers are doubles." {
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
    read::read(text).map_err(|(why, at)| Fault::invalid(format!("json.unmarshal: {why} at byte {at}")))
}
