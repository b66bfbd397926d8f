//! Kubernetes quantities such as `1500m` and `2Gi`: exact arithmetic and comparison.

use std::any::Any;
use std::cmp::Ordering;

use super::super::arguments::{any, charge_bytes, functions, opaque, succeeds, text};
use super::super::{Call, Library};
use crate::error::Fault;
use crate::value::{Opaque, Value};

mod amount;
mod decimal;

pub use amount::Quantity;

/// The longest text that is parsed as a quantity.
const MAX_LENGTH: usize = 1_000;

/// Quantities.
pub static LIBRARY: Library = Library {
    name: "kubernetes.quantity",
    functions: functions! {
        "add": "Adds a quantity or an integer." {
            "(kubernetes.Quantity).add(kubernetes.Quantity) -> kubernetes.Quantity" => add,
            "(kubernetes.Quantity).add(int) -> kubernetes.Quantity" => add,
        }
        "asApproximateFloat": "Converts the quantity to a double, which may lose precision." {
            "(kubernetes.Quantity).asApproximateFloat() -> double" => |_, a| Ok(Value::Double(quantity_of(a)?.as_double())),
        }
        "asInteger": "Converts the quantity to an int; an error if `isInteger` is false." {
            "(kubernetes.Quantity).asInteger() -> int" => as_integer,
        }
        "compareTo": "Returns -1, 0 or 1 if the quantity is less than, equal to or greater than the argument." {
            "(kubernetes.Quantity).compareTo(kubernetes.Quantity) -> int" => |_, a| Ok(Value::Int(order(a)? as i64)),
        }
        "isGreaterThan": "Returns whether the quantity is greater than the argument." {
            "(kubernetes.Quantity).isGreaterThan(kubernetes.Quantity) -> bool" => |_, a| Ok(Value::Bool(order(a)?.is_gt())),
        }
        "isInteger": "Returns whether the quantity can be converted to an int without loss." {
            "(kubernetes.Quantity).isInteger() -> bool" => |_, a| Ok(Value::Bool(quantity_of(a)?.as_int().is_some())),
        }
        "isLessThan": "Returns whether the quantity is less than the argument." {
            "(kubernetes.Quantity).isLessThan(kubernetes.Quantity) -> bool" => |_, a| Ok(Value::Bool(order(a)?.is_lt())),
        }
        "isQuantity": "Returns whether the string is a quantity." {
            "isQuantity(string) -> bool" => |call, a| succeeds(parsed(call, a)),
        }
        "quantity": "Parses a quantity." {
            "quantity(string) -> kubernetes.Quantity" => |call, a| parsed(call, a).map(Value::opaque),
        }
        "sign": "Returns -1, 0 or 1 for a negative, zero or positive quantity." {
            "sign(kubernetes.Quantity) -> int" => |_, a| Ok(Value::Int(quantity_of(a)?.sign())),
            "(kubernetes.Quantity).sign() -> int" => |_, a| Ok(Value::Int(quantity_of(a)?.sign())),
        }
        "sub": "Subtracts a quantity or an integer." {
            "(kubernetes.Quantity).sub(kubernetes.Quantity) -> kubernetes.Quantity" => subtract,
            "(kubernetes.Quantity).sub(int) -> kubernetes.Quantity" => subtract,
        }
    },
};

impl Opaque for Quantity {
    fn type_name(&self) -> &'static str {
        "kubernetes.Quantity"
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.as_any().downcast_ref::<Self>().is_some_and(|other| self.compare(other).is_eq())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn text(&self) -> Option<String> {
        Some(self.shown())
    }
}

fn quantity_of(arguments: &[Value]) -> Result<&Quantity, Fault> {
    opaque(arguments, 0, "kubernetes.Quantity")
}

fn order(arguments: &[Value]) -> Result<Ordering, Fault> {
    Ok(quantity_of(arguments)?.compare(opaque(arguments, 1, "kubernetes.Quantity")?))
}

fn parsed(call: &mut Call<'_>, arguments: &[Value]) -> Result<Quantity, Fault> {
    let text = text(arguments, 0)?;
    charge_bytes(call, text.len())?;
    if text.len() > MAX_LENGTH {
        return Err(Fault::invalid(format!("a quantity must not have more than {MAX_LENGTH} characters")));
    }
    Quantity::parse(text).map_err(Fault::InvalidArgument)
}

fn as_integer(_: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let quantity = quantity_of(arguments)?;
    let fault = || Fault::invalid("the quantity cannot be converted to an int");
    quantity.as_int().map(Value::Int).ok_or_else(fault)
}

fn operand(arguments: &[Value]) -> Result<Quantity, Fault> {
    match any(arguments, 1)? {
        Value::Int(number) => Ok(Quantity::from_int(*number)),
        _ => opaque::<Quantity>(arguments, 1, "kubernetes.Quantity").cloned(),
    }
}

fn too_large() -> Fault {
    Fault::invalid("the result of the quantities' addition is too large")
}

fn add(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    call.charge(10)?;
    quantity_of(arguments)?.plus(&operand(arguments)?).map(Value::opaque).ok_or_else(too_large)
}

fn subtract(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    call.charge(10)?;
    quantity_of(arguments)?.minus(&operand(arguments)?).map(Value::opaque).ok_or_else(too_large)
}
