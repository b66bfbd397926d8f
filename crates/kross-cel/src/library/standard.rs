//! CEL's standard library: operators, conversions, strings, time and optionals. The signatures are cel-go's; each
//! implementation also dispatches on dynamic values.

mod access;
mod arithmetic;
mod conversion;
mod optional;
mod text;
mod time;

/// The operators on values of any type, as the evaluator uses them.
pub(crate) mod operators {
    pub(crate) use super::access::{index, is_in, missing, some_keys};
    pub(crate) use super::arithmetic::{add, check_length, divide, modulo, multiply, negate, subtract};
    pub(crate) use super::conversion::write_text;
    pub(crate) use super::{binary, not};
}
use operators::{add, divide, index, is_in, modulo, multiply, negate, subtract};

use std::cmp::Ordering;

use super::{Call, Library};
use crate::ast::BinaryOperator;
use crate::error::Fault;
use crate::value::Value;

/// Declares functions: `"name", "doc", implementation, ["signature", …];` for each.
macro_rules! functions {
    ($($name:literal, $doc:literal, $implementation:expr, [$($signature:literal),* $(,)?];)*) => {
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
use functions;

/// The libraries of CEL itself.
pub const STANDARD: &[Library] = &[
    Library { name: "Operators", functions: OPERATORS },
    Library { name: "Conversions", functions: conversion::FUNCTIONS },
    Library { name: "Sizes and string matching", functions: text::FUNCTIONS },
    Library { name: "Time", functions: time::FUNCTIONS },
    Library { name: "Optionals", functions: optional::FUNCTIONS },
];

const OPERATORS: &[super::Function] = functions! {
    "==", "Returns whether both sides are equal. Numbers of different types are compared by value.",
        |call, arguments| two("==", arguments, |a, b| binary(call, BinaryOperator::Equal, a, b)),
        ["==(A, A) -> bool"];
    "!=", "Returns whether the sides differ.",
        |call, arguments| two("!=", arguments, |a, b| binary(call, BinaryOperator::NotEqual, a, b)),
        ["!=(A, A) -> bool"];
    "<", "Returns whether the left side is less than the right side.",
        |call, arguments| two("<", arguments, |a, b| binary(call, BinaryOperator::Less, a, b)),
        ["<(bool, bool) -> bool", "<(int, int) -> bool", "<(uint, uint) -> bool", "<(double, double) -> bool",
         "<(string, string) -> bool", "<(bytes, bytes) -> bool", "<(timestamp, timestamp) -> bool",
         "<(duration, duration) -> bool"];
    "<=", "Returns whether the left side is less than or equal to the right side.",
        |call, arguments| two("<=", arguments, |a, b| binary(call, BinaryOperator::LessOrEqual, a, b)),
        ["<=(bool, bool) -> bool", "<=(int, int) -> bool", "<=(uint, uint) -> bool", "<=(double, double) -> bool",
         "<=(string, string) -> bool", "<=(bytes, bytes) -> bool", "<=(timestamp, timestamp) -> bool",
         "<=(duration, duration) -> bool"];
    ">", "Returns whether the left side is greater than the right side.",
        |call, arguments| two(">", arguments, |a, b| binary(call, BinaryOperator::Greater, a, b)),
        [">(bool, bool) -> bool", ">(int, int) -> bool", ">(uint, uint) -> bool", ">(double, double) -> bool",
         ">(string, string) -> bool", ">(bytes, bytes) -> bool", ">(timestamp, timestamp) -> bool",
         ">(duration, duration) -> bool"];
    ">=", "Returns whether the left side is greater than or equal to the right side.",
        |call, arguments| two(">=", arguments, |a, b| binary(call, BinaryOperator::GreaterOrEqual, a, b)),
        [">=(bool, bool) -> bool", ">=(int, int) -> bool", ">=(uint, uint) -> bool", ">=(double, double) -> bool",
         ">=(string, string) -> bool", ">=(bytes, bytes) -> bool", ">=(timestamp, timestamp) -> bool",
         ">=(duration, duration) -> bool"];
    "+", "Adds numbers or times; concatenates strings, bytes or lists.",
        |call, arguments| two("+", arguments, |a, b| add(call, a, b)),
        ["+(bytes, bytes) -> bytes", "+(double, double) -> double", "+(duration, duration) -> duration", "+(duration, timestamp) -> timestamp",
         "+(timestamp, duration) -> timestamp", "+(int, int) -> int", "+(list(A), list(A)) -> list(A)",
         "+(string, string) -> string", "+(uint, uint) -> uint"];
    "-", "Subtracts numbers or times.",
        |_, arguments| two("-", arguments, subtract),
        ["-(double, double) -> double", "-(duration, duration) -> duration", "-(int, int) -> int",
         "-(timestamp, duration) -> timestamp", "-(timestamp, timestamp) -> duration",
         "-(uint, uint) -> uint"];
    "*", "Multiplies numbers.",
        |_, arguments| two("*", arguments, multiply),
        ["*(double, double) -> double", "*(int, int) -> int", "*(uint, uint) -> uint"];
    "/", "Divides numbers; the quotient of integers is truncated.",
        |_, arguments| two("/", arguments, divide),
        ["/(double, double) -> double", "/(int, int) -> int", "/(uint, uint) -> uint"];
    "%", "Returns the remainder of a division, with the sign of the left side.",
        |_, arguments| two("%", arguments, modulo),
        ["%(int, int) -> int", "%(uint, uint) -> uint"];
    "-_", "Negates a number.",
        |_, arguments| one("-_", arguments, negate),
        ["-_(double) -> double", "-_(int) -> int"];
    "!_", "Negates a bool.",
        |_, arguments| one("!_", arguments, not),
        ["!_(bool) -> bool"];
    "in", "Returns whether a list contains the element, or a map the key.",
        |call, arguments| two("in", arguments, |a, b| is_in(call, a, b)),
        ["in(A, list(A)) -> bool", "in(A, map(A, B)) -> bool"];
    "[]", "Returns the element of a list at an index, or the value of a map for a key.",
        |_, arguments| two("[]", arguments, index),
        ["[](list(A), int) -> A", "[](map(A, B), A) -> B"];
};

/// Runs a function of one argument.
fn one(
    function: &str,
    arguments: &[Value],
    run: impl FnOnce(&Value) -> Result<Value, Fault>,
) -> Result<Value, Fault> {
    match arguments {
        [argument] => run(argument),
        _ => Err(Fault::no_such_overload(function, arguments)),
    }
}

/// Runs a function of two arguments.
fn two(
    function: &str,
    arguments: &[Value],
    run: impl FnOnce(&Value, &Value) -> Result<Value, Fault>,
) -> Result<Value, Fault> {
    match arguments {
        [left, right] => run(left, right),
        _ => Err(Fault::no_such_overload(function, arguments)),
    }
}

/// Any binary operator except `&&` and `||`, which short-circuit.
pub(crate) fn binary(
    call: &mut Call<'_>,
    operator: BinaryOperator,
    left: &Value,
    right: &Value,
) -> Result<Value, Fault> {
    match operator {
        BinaryOperator::Add => add(call, left, right),
        BinaryOperator::Subtract => subtract(left, right),
        BinaryOperator::Multiply => multiply(left, right),
        BinaryOperator::Divide => divide(left, right),
        BinaryOperator::Modulo => modulo(left, right),
        BinaryOperator::In => is_in(call, left, right),
        BinaryOperator::Equal => call.equal(left, right).map(Value::Bool),
        BinaryOperator::NotEqual => call.equal(left, right).map(|same| Value::Bool(!same)),
        BinaryOperator::Less => ordered(operator, left, right, Ordering::is_lt),
        BinaryOperator::LessOrEqual => ordered(operator, left, right, Ordering::is_le),
        BinaryOperator::Greater => ordered(operator, left, right, Ordering::is_gt),
        BinaryOperator::GreaterOrEqual => ordered(operator, left, right, Ordering::is_ge),
        BinaryOperator::And | BinaryOperator::Or => {
            Err(Fault::no_such_overload(operator.symbol(), &[left.clone(), right.clone()]))
        }
    }
}

fn ordered(
    operator: BinaryOperator,
    left: &Value,
    right: &Value,
    ask: fn(Ordering) -> bool,
) -> Result<Value, Fault> {
    match left.compare(right) {
        // NaN is neither less nor greater.
        Err(Fault::InvalidArgument(_)) if is_nan(left) || is_nan(right) => Ok(Value::Bool(false)),
        Ok(order) => Ok(Value::Bool(ask(order))),
        Err(Fault::NoSuchOverload { arguments, .. }) => {
            Err(Fault::NoSuchOverload { function: operator.symbol().to_owned(), arguments })
        }
        Err(fault) => Err(fault),
    }
}

fn is_nan(value: &Value) -> bool {
    matches!(value, Value::Double(number) if number.is_nan())
}

/// `!x`
pub(crate) fn not(value: &Value) -> Result<Value, Fault> {
    match value {
        Value::Bool(value) => Ok(Value::Bool(!value)),
        other => Err(Fault::no_such_overload("!_", std::slice::from_ref(other))),
    }
}

/// Returns the argument.
fn identity(_: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    one("dyn", arguments, |value| Ok(value.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::FunctionTable;

    #[test]
    fn every_signature_can_be_parsed() {
        let table = FunctionTable::new(STANDARD).unwrap();
        assert_eq!(table.find("size").map(<[_]>::len), Some(8));
        assert!(table.is_namespace("optional"));
    }
}
