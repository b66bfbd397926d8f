//! Quantities such as `1500m` and `2Gi`: exact arithmetic and comparison.

use std::any::Any;
use std::cmp::Ordering;

use super::super::arguments::{any, charge_bytes, functions, opaque, succeeds, text};
use super::super::{Call, Library};
use crate::error::Fault;
use crate::value::{Opaque, Value};

mod amount;
mod decimal;

pub use amount::Quantity;

/// The longest text that is read as a quantity.
const MAX_LENGTH: usize = 1_000;

/// Quantities.
pub static LIBRARY: Library = Library {
    name: "kubernetes.quantity",
    functions: functions! {
        "add": "The sum of two quantities, or of a quantity and a whole number." {
            "(kubernetes.Quantity).add(kubernetes.Quantity) -> kubernetes.Quantity" => add,
            "(kubernetes.Quantity).add(int) -> kubernetes.Quantity" => add,
        }
        "asApproximateFloat": "The quantity as a double, which may lose precision." {
            "(kubernetes.Quantity).asApproximateFloat() -> double" => |_, a| Ok(Value::Double(quantity_of(a)?.as_double())),
        }
        "asInteger": "The quantity as a whole number; fails where `isInteger` says no." {
            "(kubernetes.Quantity).asInteger() -> int" => as_integer,
        }
        "compareTo": "-1, 0 or 1: how the quantity compares to the other." {
            "(kubernetes.Quantity).compareTo(kubernetes.Quantity) -> int" => |_, a| Ok(Value::Int(order(a)? as i64)),
        }
        "isGreaterThan": "Whether the quantity is larger than the other." {
            "(kubernetes.Quantity).isGreaterThan(kubernetes.Quantity) -> bool" => |_, a| Ok(Value::Bool(order(a)?.is_gt())),
        }
        "isInteger": "Whether the quantity can be read as a whole number without loss." {
            "(kubernetes.Quantity).isInteger() -> bool" => |_, a| Ok(Value::Bool(quantity_of(a)?.as_int().is_some())),
        }
        "isLessThan": "Whether the quantity is smaller than the other." {
            "(kubernetes.Quantity).isLessThan(kubernetes.Quantity) -> bool" => |_, a| Ok(Value::Bool(order(a)?.is_lt())),
        }
        "isQuantity": "Whether the text is a quantity." {
            "isQuantity(string) -> bool" => |call, a| succeeds(parsed(call, a)),
        }
        "quantity": "The quantity that the text is." {
            "quantity(string) -> kubernetes.Quantity" => |call, a| parsed(call, a).map(Value::opaque),
        }
        "sign": "-1, 0 or 1." {
            "sign(kubernetes.Quantity) -> int" => |_, a| Ok(Value::Int(quantity_of(a)?.sign())),
            "(kubernetes.Quantity).sign() -> int" => |_, a| Ok(Value::Int(quantity_of(a)?.sign())),
        }
        "sub": "The difference of two quantities, or of a quantity and a whole number." {
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
        return Err(Fault::invalid(format!("a quantity has at most {MAX_LENGTH} characters")));
    }
    Quantity::parse(text).map_err(Fault::InvalidArgument)
}

fn as_integer(_: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let quantity = quantity_of(arguments)?;
    quantity.as_int().map(Value::Int).ok_or_else(|| {
        Fault::invalid(format!("the quantity {} is not a whole number that fits", quantity.shown()))
    })
}

fn operand(arguments: &[Value]) -> Result<Quantity, Fault> {
    match any(arguments, 1)? {
        Value::Int(number) => Ok(Quantity::from_int(*number)),
        _ => opaque::<Quantity>(arguments, 1, "kubernetes.Quantity").cloned(),
    }
}

fn too_large() -> Fault {
    Fault::invalid("the quantities are too far apart to be added")
}

fn add(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    call.charge(10)?;
    quantity_of(arguments)?.plus(&operand(arguments)?).map(Value::opaque).ok_or_else(too_large)
}

fn subtract(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    call.charge(10)?;
    quantity_of(arguments)?.minus(&operand(arguments)?).map(Value::opaque).ok_or_else(too_large)
}
