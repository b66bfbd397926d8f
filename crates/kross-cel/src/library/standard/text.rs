//! `size`, and the matching of strings.

use super::functions;
use crate::error::Fault;
use crate::library::{Call, Function, pattern};
use crate::value::Value;

pub(super) const FUNCTIONS: &[Function] = functions! {
    "size", "Returns the number of characters of a string, of bytes, of elements of a list or of entries of a map.", size,
        ["size(bytes) -> int", "(bytes).size() -> int", "size(list(A)) -> int", "(list(A)).size() -> int",
         "size(map(A, B)) -> int", "(map(A, B)).size() -> int", "size(string) -> int", "(string).size() -> int"];
    "contains", "Returns whether the string contains the argument.",
        |call, arguments| ask("contains", call, arguments, |text, part| text.contains(part)),
        ["(string).contains(string) -> bool"];
    "startsWith", "Returns whether the string starts with the argument.",
        |call, arguments| ask("startsWith", call, arguments, |text, part| text.starts_with(part)),
        ["(string).startsWith(string) -> bool"];
    "endsWith", "Returns whether the string ends with the argument.",
        |call, arguments| ask("endsWith", call, arguments, |text, part| text.ends_with(part)),
        ["(string).endsWith(string) -> bool"];
    "matches", "Returns whether a part of the string matches the regular expression (RE2).", matches_pattern,
        ["matches(string, string) -> bool", "(string).matches(string) -> bool"];
};

fn size(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let size = match arguments {
        [Value::String(text)] => {
            call.charge(text.len() / 10)?;
            text.chars().count()
        }
        [Value::Bytes(bytes)] => bytes.len(),
        [Value::List(list)] => list.len(),
        [Value::Map(map)] => map.len(),
        _ => return Err(Fault::no_such_overload("size", arguments)),
    };
    Ok(Value::Int(i64::try_from(size).unwrap_or(i64::MAX)))
}

fn ask(
    function: &str,
    call: &mut Call<'_>,
    arguments: &[Value],
    question: impl FnOnce(&str, &str) -> bool,
) -> Result<Value, Fault> {
    match arguments {
        [Value::String(text), Value::String(part)] => {
            call.charge((text.len() + part.len()) / 10)?;
            Ok(Value::Bool(question(text, part)))
        }
        _ => Err(Fault::no_such_overload(function, arguments)),
    }
}

fn matches_pattern(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    match arguments {
        [Value::String(text), Value::String(wanted)] => {
            call.charge(text.len() / 10 * (wanted.len() / 4 + 1))?;
            Ok(Value::Bool(pattern::compile(call, text, wanted)?.is_match(text)))
        }
        _ => Err(Fault::no_such_overload("matches", arguments)),
    }
}
