//! Functions for numbers: extremes, rounding, signs, bits.

use std::cmp::Ordering;

use super::arguments::{any, double, functions, int, items, uint};
use super::{Call, Library};
use crate::error::Fault;
use crate::value::Value;

/// Functions for numbers. The parser turns calls of `math.greatest` and `math.least` with three or more arguments into
/// calls with one list.
pub static LIBRARY: Library = Library {
    name: "math",
    functions: functions! {
        "math.abs": "Returns the absolute value." {
            "math.abs(double) -> double" => abs,
            "math.abs(int) -> int" => abs,
            "math.abs(uint) -> uint" => abs,
        }
        "math.bitAnd": "Returns the bitwise AND." {
            "math.bitAnd(int, int) -> int" => |_, a| Ok(Value::Int(int(a, 0)? & int(a, 1)?)),
            "math.bitAnd(uint, uint) -> uint" => |_, a| Ok(Value::UInt(uint(a, 0)? & uint(a, 1)?)),
        }
        "math.bitNot": "Returns the bitwise complement." {
            "math.bitNot(int) -> int" => |_, a| Ok(Value::Int(!int(a, 0)?)),
            "math.bitNot(uint) -> uint" => |_, a| Ok(Value::UInt(!uint(a, 0)?)),
        }
        "math.bitOr": "Returns the bitwise OR." {
            "math.bitOr(int, int) -> int" => |_, a| Ok(Value::Int(int(a, 0)? | int(a, 1)?)),
            "math.bitOr(uint, uint) -> uint" => |_, a| Ok(Value::UInt(uint(a, 0)? | uint(a, 1)?)),
        }
        "math.bitShiftLeft": "Shifts the bits to the left; overflowing bits are lost." {
            "math.bitShiftLeft(int, int) -> int" => |_, a| Ok(Value::Int(shift_left(int(a, 0)?.cast_unsigned(), a)?.cast_signed())),
            "math.bitShiftLeft(uint, int) -> uint" => |_, a| shift_left(uint(a, 0)?, a).map(Value::UInt),
        }
        "math.bitShiftRight": "Shifts the bits to the right, filling with zeros, also for negative numbers." {
            "math.bitShiftRight(int, int) -> int" => |_, a| Ok(Value::Int(shift_right(int(a, 0)?.cast_unsigned(), a)?.cast_signed())),
            "math.bitShiftRight(uint, int) -> uint" => |_, a| shift_right(uint(a, 0)?, a).map(Value::UInt),
        }
        "math.bitXor": "Returns the bitwise exclusive OR." {
            "math.bitXor(int, int) -> int" => |_, a| Ok(Value::Int(int(a, 0)? ^ int(a, 1)?)),
            "math.bitXor(uint, uint) -> uint" => |_, a| Ok(Value::UInt(uint(a, 0)? ^ uint(a, 1)?)),
        }
        "math.ceil": "Rounds up to an integral number." {
            "math.ceil(double) -> double" => |_, a| Ok(Value::Double(double(a, 0)?.ceil())),
        }
        "math.floor": "Rounds down to an integral number." {
            "math.floor(double) -> double" => |_, a| Ok(Value::Double(double(a, 0)?.floor())),
        }
        "math.greatest": "Returns the largest of the numbers, or of the numbers in a list." {
            "math.greatest(double) -> double" => greatest,
            "math.greatest(int) -> int" => greatest,
            "math.greatest(uint) -> uint" => greatest,
            "math.greatest(double, double) -> double" => greatest,
            "math.greatest(int, int) -> int" => greatest,
            "math.greatest(uint, uint) -> uint" => greatest,
            "math.greatest(int, uint) -> dyn" => greatest,
            "math.greatest(int, double) -> dyn" => greatest,
            "math.greatest(double, int) -> dyn" => greatest,
            "math.greatest(double, uint) -> dyn" => greatest,
            "math.greatest(uint, int) -> dyn" => greatest,
            "math.greatest(uint, double) -> dyn" => greatest,
            "math.greatest(list(double)) -> double" => greatest,
            "math.greatest(list(int)) -> int" => greatest,
            "math.greatest(list(uint)) -> uint" => greatest,
        }
        "math.isFinite": "Returns whether the number is neither infinite nor `NaN`." {
            "math.isFinite(double) -> bool" => |_, a| Ok(Value::Bool(double(a, 0)?.is_finite())),
        }
        "math.isInf": "Returns whether the number is infinite." {
            "math.isInf(double) -> bool" => |_, a| Ok(Value::Bool(double(a, 0)?.is_infinite())),
        }
        "math.isNaN": "Returns whether the number is `NaN`." {
            "math.isNaN(double) -> bool" => |_, a| Ok(Value::Bool(double(a, 0)?.is_nan())),
        }
        "math.least": "Returns the smallest of the numbers, or of the numbers in a list." {
            "math.least(double) -> double" => least,
            "math.least(int) -> int" => least,
            "math.least(uint) -> uint" => least,
            "math.least(double, double) -> double" => least,
            "math.least(int, int) -> int" => least,
            "math.least(uint, uint) -> uint" => least,
            "math.least(int, uint) -> dyn" => least,
            "math.least(int, double) -> dyn" => least,
            "math.least(double, int) -> dyn" => least,
            "math.least(double, uint) -> dyn" => least,
            "math.least(uint, int) -> dyn" => least,
            "math.least(uint, double) -> dyn" => least,
            "math.least(list(double)) -> double" => least,
            "math.least(list(int)) -> int" => least,
            "math.least(list(uint)) -> uint" => least,
        }
        "math.round": "Rounds to the nearest integral number; halves are rounded away from zero." {
            "math.round(double) -> double" => |_, a| Ok(Value::Double(double(a, 0)?.round())),
        }
        "math.sign": "Returns -1, 0 or 1, in the number's type." {
            "math.sign(double) -> double" => sign,
            "math.sign(int) -> int" => sign,
            "math.sign(uint) -> uint" => sign,
        }
        "math.sqrt": "Returns the square root; `NaN` for negative numbers." {
            "math.sqrt(double) -> double" => square_root,
            "math.sqrt(int) -> double" => square_root,
            "math.sqrt(uint) -> double" => square_root,
        }
        "math.trunc": "Returns the integral part." {
            "math.trunc(double) -> double" => |_, a| Ok(Value::Double(double(a, 0)?.trunc())),
        }
    },
};

fn not_a_number(function: &str, value: &Value) -> Fault {
    Fault::NoSuchOverload { function: function.to_owned(), arguments: vec![value.type_name().to_owned()] }
}

fn abs(_: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    match any(arguments, 0)? {
        Value::Int(number) => {
            number.checked_abs().map(Value::Int).ok_or_else(|| Fault::Overflow("math.abs".into()))
        }
        Value::UInt(number) => Ok(Value::UInt(*number)),
        Value::Double(number) => Ok(Value::Double(number.abs())),
        other => Err(not_a_number("math.abs", other)),
    }
}

fn sign(_: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    match any(arguments, 0)? {
        Value::Int(number) => Ok(Value::Int(number.signum())),
        Value::UInt(number) => Ok(Value::UInt((*number).min(1))),
        Value::Double(number) if number.is_nan() => Ok(Value::Double(*number)),
        Value::Double(number) if *number == 0.0 => Ok(Value::Double(0.0)),
        Value::Double(number) => Ok(Value::Double(number.signum())),
        other => Err(not_a_number("math.sign", other)),
    }
}

fn square_root(_: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    #[expect(clippy::cast_precision_loss, reason = "roots are doubles")]
    let number = match any(arguments, 0)? {
        Value::Int(number) => *number as f64,
        Value::UInt(number) => *number as f64,
        Value::Double(number) => *number,
        other => return Err(not_a_number("math.sqrt", other)),
    };
    Ok(Value::Double(number.sqrt()))
}

fn shift(arguments: &[Value]) -> Result<u32, Fault> {
    let count = int(arguments, 1)?;
    if count < 0 {
        return Err(Fault::invalid("the shift count is negative"));
    }
    Ok(u32::try_from(count).unwrap_or(u32::MAX))
}

fn shift_left(bits: u64, arguments: &[Value]) -> Result<u64, Fault> {
    Ok(bits.checked_shl(shift(arguments)?).unwrap_or(0))
}

fn shift_right(bits: u64, arguments: &[Value]) -> Result<u64, Fault> {
    Ok(bits.checked_shr(shift(arguments)?).unwrap_or(0))
}

fn greatest(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    extreme(call, arguments, "math.greatest", Ordering::Less)
}

fn least(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    extreme(call, arguments, "math.least", Ordering::Greater)
}

/// Returns the first of equal numbers, whatever its type: `math.greatest(1u, 1)` is `1u`.
fn extreme(
    call: &mut Call<'_>,
    arguments: &[Value],
    function: &str,
    replaces: Ordering,
) -> Result<Value, Fault> {
    let numbers = match arguments {
        [Value::List(_)] => items(call, arguments, 0)?,
        other => other.to_vec(),
    };
    let Some((mut best, rest)) = numbers.split_first() else {
        return Err(Fault::invalid(format!("{function}: the list is empty")));
    };
    for candidate in &numbers {
        if !matches!(candidate, Value::Int(_) | Value::UInt(_) | Value::Double(_)) {
            return Err(not_a_number(function, candidate));
        }
    }
    for candidate in rest {
        if best.compare(candidate)? == replaces {
            best = candidate;
        }
    }
    Ok(best.clone())
}

#[cfg(test)]
mod tests {
    use super::super::arguments::testing::{err, ints, ok};
    use super::*;

    fn named(signature: &str) -> super::super::Implementation {
        let overloads = LIBRARY.functions.iter().flat_map(|function| function.overloads);
        let overload = overloads.into_iter().find(|overload| overload.signature.starts_with(signature));
        overload.unwrap_or_else(|| panic!("{signature}")).implementation
    }

    #[test]
    fn the_first_of_equal_numbers_is_returned() {
        assert_eq!(ok(greatest, [Value::Int(1), Value::Double(1.0)]), "1");
        assert_eq!(ok(greatest, [Value::Double(1.0), Value::Int(1)]), "1.0");
        assert_eq!(ok(least, [Value::UInt(5), Value::Int(-7)]), "-7");
        let mixed = vec![Value::Double(5.4), Value::Int(10), Value::UInt(3), Value::Double(-5.0)];
        assert_eq!(ok(greatest, [Value::list(mixed.clone())]), "10");
        assert_eq!(ok(least, [Value::list(mixed)]), "-5.0");
        assert_eq!(ok(least, [Value::Int(5)]), "5");
        assert_eq!(err(greatest, [ints([])]), "math.greatest: the list is empty");
        assert!(err(greatest, [Value::string("a")]).contains("no such overload"));
        assert!(err(least, [Value::Int(1), Value::string("a")]).contains("no such overload"));
    }

    #[test]
    fn shifts_do_not_panic() {
        let left = named("math.bitShiftLeft(int");
        let right = named("math.bitShiftRight(int");
        assert_eq!(ok(left, [Value::Int(1), Value::Int(200)]), "0");
        assert_eq!(ok(left, [Value::Int(-1), Value::Int(63)]), i64::MIN.to_string());
        assert_eq!(ok(right, [Value::Int(-1), Value::Int(1)]), i64::MAX.to_string());
        assert_eq!(ok(right, [Value::Int(-1024), Value::Int(64)]), "0");
        assert_eq!(ok(left, [Value::Int(1), Value::Int(i64::MAX)]), "0");
        assert_eq!(err(right, [Value::Int(1), Value::Int(-1)]), "the shift count is negative");
        assert_eq!(ok(named("math.bitNot(uint"), [Value::UInt(1)]), "18446744073709551614u");
        assert_eq!(ok(named("math.bitXor(int"), [Value::Int(1), Value::Int(3)]), "2");
        assert!(err(named("math.bitXor(int"), [ints([]), ints([1])]).contains("expected int"));
    }

    #[test]
    fn signs_and_absolute_values_keep_their_type() {
        assert_eq!(ok(abs, [Value::Int(-3)]), "3");
        assert!(err(abs, [Value::Int(i64::MIN)]).contains("overflows"));
        assert_eq!(ok(sign, [Value::UInt(9)]), "1u");
        assert_eq!(ok(sign, [Value::Double(-0.0)]), "0.0");
        assert_eq!(ok(sign, [Value::Double(f64::NAN)]), "NaN");
        assert_eq!(ok(sign, [Value::Double(f64::NEG_INFINITY)]), "-1.0");
        assert_eq!(ok(square_root, [Value::Int(81)]), "9.0");
        assert_eq!(ok(square_root, [Value::Int(-1)]), "NaN");
    }

    #[test]
    fn halves_round_away_from_zero() {
        assert_eq!(ok(named("math.round"), [Value::Double(-1.5)]), "-2.0");
        assert_eq!(ok(named("math.round"), [Value::Double(2.5)]), "3.0");
        assert_eq!(ok(named("math.trunc"), [Value::Double(-1.9)]), "-1.0");
        assert!(err(named("math.round"), [Value::Int(1)]).contains("expected double"));
    }
}
