//! Reads the arguments of a call as the types of its signature, and limits the size of results. Dynamic calls may pass any
//! value, so every library function uses these.

use std::sync::Arc;

use kross_value::Text;

use crate::error::Fault;
use crate::library::{Call, ELEMENT};
use crate::value::{Duration, Value};

/// The largest string in bytes, or list in elements times eight, that a function returns.
pub(in crate::library) const MAX_OUTPUT: usize = 10 << 20;

/// Declares functions: `"name": "doc" { "signature" => implementation, … } …`.
macro_rules! functions {
    ($($name:literal : $doc:literal { $($signature:literal => $implementation:expr),* $(,)? })*) => {
        &[$($crate::library::Function {
            name: $name,
            doc: $doc,
            overloads: &[$($crate::library::Overload {
                signature: $signature,
                implementation: $implementation,
            }),*],
        }),*]
    };
}
pub(in crate::library) use functions;

fn wrong(expected: &str, found: Option<&Value>) -> Fault {
    Fault::WrongType {
        expected: expected.to_owned(),
        found: found.map_or("nothing", Value::type_name).to_owned(),
    }
}

/// An argument of any type.
pub(in crate::library) fn any(arguments: &[Value], at: usize) -> Result<&Value, Fault> {
    arguments.get(at).ok_or_else(|| wrong("an argument", None))
}

/// A string argument.
pub(in crate::library) fn text(arguments: &[Value], at: usize) -> Result<&Text, Fault> {
    match arguments.get(at) {
        Some(Value::String(text)) => Ok(text),
        other => Err(wrong("string", other)),
    }
}

/// A bytes argument.
pub(in crate::library) fn bytes(arguments: &[Value], at: usize) -> Result<&Arc<[u8]>, Fault> {
    match arguments.get(at) {
        Some(Value::Bytes(bytes)) => Ok(bytes),
        other => Err(wrong("bytes", other)),
    }
}

/// An int argument.
pub(in crate::library) fn int(arguments: &[Value], at: usize) -> Result<i64, Fault> {
    match arguments.get(at) {
        Some(Value::Int(number)) => Ok(*number),
        other => Err(wrong("int", other)),
    }
}

/// A uint argument.
pub(in crate::library) fn uint(arguments: &[Value], at: usize) -> Result<u64, Fault> {
    match arguments.get(at) {
        Some(Value::UInt(number)) => Ok(*number),
        other => Err(wrong("uint", other)),
    }
}

/// A double argument.
pub(in crate::library) fn double(arguments: &[Value], at: usize) -> Result<f64, Fault> {
    match arguments.get(at) {
        Some(Value::Double(number)) => Ok(*number),
        other => Err(wrong("double", other)),
    }
}

/// A bool argument.
pub(in crate::library) fn boolean(arguments: &[Value], at: usize) -> Result<bool, Fault> {
    match arguments.get(at) {
        Some(Value::Bool(truth)) => Ok(*truth),
        other => Err(wrong("bool", other)),
    }
}

/// A duration.
pub(in crate::library) fn duration(value: &Value) -> Result<Duration, Fault> {
    if let Value::Duration(length) = value { Ok(*length) } else { Err(wrong("duration", Some(value))) }
}

/// An argument of an opaque type.
pub(in crate::library) fn opaque<'a, T: crate::value::Opaque>(
    arguments: &'a [Value],
    at: usize,
    name: &str,
) -> Result<&'a T, Fault> {
    arguments.get(at).and_then(Value::downcast).ok_or_else(|| wrong(name, arguments.get(at)))
}

/// The elements of a list argument; charges for them.
pub(in crate::library) fn items(
    call: &mut Call<'_>,
    arguments: &[Value],
    at: usize,
) -> Result<Vec<Value>, Fault> {
    match arguments.get(at) {
        Some(Value::List(list)) => {
            call.charge(list.len() + 1)?;
            call.allocate(list.len() * ELEMENT)?;
            Ok(list.iter().collect())
        }
        other => Err(wrong("list", other)),
    }
}

/// The entries of a map argument; charges for them.
pub(in crate::library) fn entries(
    call: &mut Call<'_>,
    arguments: &[Value],
    at: usize,
) -> Result<Vec<(Value, Value)>, Fault> {
    match arguments.get(at) {
        Some(Value::Map(map)) => {
            call.charge(map.len() + 1)?;
            call.allocate(2 * map.len() * ELEMENT)?;
            Ok(map.iter().collect())
        }
        other => Err(wrong("map", other)),
    }
}

/// Whether a function accepts its arguments. Arguments of a wrong type and an exhausted budget stay errors.
pub(in crate::library) fn succeeds<T>(result: Result<T, Fault>) -> Result<Value, Fault> {
    match result {
        Ok(_) => Ok(Value::Bool(true)),
        Err(Fault::InvalidArgument(_)) => Ok(Value::Bool(false)),
        Err(fault) => Err(fault),
    }
}

/// Charges for reading `length` bytes.
pub(in crate::library) fn charge_bytes(call: &mut Call<'_>, length: usize) -> Result<(), Fault> {
    call.charge(length / 10 + 1)
}

/// Charges for a result of `length` bytes; rejects one that is too large.
pub(in crate::library) fn grow(call: &mut Call<'_>, function: &str, length: usize) -> Result<(), Fault> {
    if length > MAX_OUTPUT {
        return Err(Fault::invalid(format!(
            "{function}: the result has {length} bytes, which is larger than the limit of {MAX_OUTPUT}"
        )));
    }
    write_bytes(call, length)
}

/// Charges for reading `length` bytes, and for a result of as many.
pub(in crate::library) fn write_bytes(call: &mut Call<'_>, length: usize) -> Result<(), Fault> {
    call.allocate(length)?;
    charge_bytes(call, length)
}

#[cfg(test)]
pub(in crate::library) mod testing {
    //! Calls implementations directly and shows their results as text.

    #![allow(clippy::needless_pass_by_value)]

    use crate::library::{Call, Implementation};
    use crate::value::Value;

    /// The result of a call, as a literal.
    pub(crate) fn ok<const N: usize>(function: Implementation, arguments: [Value; N]) -> String {
        show(&run(function, &arguments).unwrap_or_else(|fault| panic!("unexpected: {fault}")))
    }

    /// The message of a call that must fail.
    pub(crate) fn err<const N: usize>(function: Implementation, arguments: [Value; N]) -> String {
        match run(function, &arguments) {
            Ok(value) => panic!("unexpected success: {}", show(&value)),
            Err(fault) => fault.to_string(),
        }
    }

    /// The result of a call.
    pub(crate) fn run(function: Implementation, arguments: &[Value]) -> Result<Value, crate::error::Fault> {
        let mut budget = 10_000_000;
        function(&mut Call::new(&mut budget), arguments)
    }

    /// A list of strings.
    pub(crate) fn strings<const N: usize>(items: [&str; N]) -> Value {
        Value::list(items.into_iter().map(Value::string).collect())
    }

    /// A list of ints.
    pub(crate) fn ints<const N: usize>(items: [i64; N]) -> Value {
        Value::list(items.into_iter().map(Value::Int).collect())
    }

    /// Shows a value similar to a literal.
    pub(crate) fn show(value: &Value) -> String {
        match value {
            Value::Null => "null".into(),
            Value::Bool(truth) => truth.to_string(),
            Value::Int(number) => number.to_string(),
            Value::UInt(number) => format!("{number}u"),
            Value::Double(number) => format!("{number:?}"),
            Value::String(text) => format!("{:?}", text.as_str()),
            Value::Bytes(bytes) => format!("b{bytes:?}"),
            Value::List(list) => {
                let items: Vec<String> = list.iter().map(|item| show(&item)).collect();
                format!("[{}]", items.join(", "))
            }
            Value::Map(map) => {
                let entries: Vec<String> =
                    map.iter().map(|(key, value)| format!("{}: {}", show(&key), show(&value))).collect();
                format!("{{{}}}", entries.join(", "))
            }
            Value::Optional(None) => "none".into(),
            Value::Optional(Some(inner)) => format!("some({})", show(inner)),
            Value::Opaque(opaque) => opaque.text().unwrap_or_else(|| opaque.type_name().to_owned()),
            Value::Timestamp(time) => format!("{time:?}"),
            Value::Duration(length) => format!("{}ns", length.nanoseconds),
            Value::Type(name) => name.to_string(),
        }
    }
}
