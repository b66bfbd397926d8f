//! The amount of a quantity, parsed and formatted as in Kubernetes. Small amounts are an int with a power of ten, others a
//! decimal; `isInteger` depends on the representation, so it is preserved.

use std::cmp::Ordering;

use super::decimal::Decimal;
use crate::error::sized;

/// The smallest power of ten of an amount.
const NANO: i64 = -9;

/// The notation of a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notation {
    /// `1k`, `1m`
    DecimalSuffix,
    /// `1e3`
    DecimalExponent,
    /// `1Ki`
    BinarySuffix,
}

#[derive(Clone, Debug)]
pub(super) enum Amount {
    /// `value × 10^scale`
    Int {
        value: i64,
        scale: i32,
    },
    Big(Decimal),
}

/// A quantity such as `1500m` or `2Gi`.
#[derive(Clone, Debug)]
pub struct Quantity {
    amount: Amount,
    notation: Notation,
    /// The original text, if it is canonical.
    text: Option<String>,
}

/// The parts of a quantity's text.
struct Parts<'a> {
    negative: bool,
    /// Digits before the point, without leading zeros; `0` if there are none.
    whole: &'a str,
    /// Digits after the point.
    fraction: &'a str,
    suffix: &'a str,
}

fn take_while(text: &str, accept: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at_checked(text.find(|letter| !accept(letter)).unwrap_or(text.len())).unwrap_or((text, ""))
}

fn parts(text: &str) -> Result<Parts<'_>, &'static str> {
    let negative = text.starts_with('-');
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let unpadded = unsigned.trim_start_matches('0');
    let (whole, rest) = take_while(unpadded, |letter| letter.is_ascii_digit());
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => take_while(rest, |letter| letter.is_ascii_digit()),
        None => ("", rest),
    };
    let (_, rest) = take_while(suffix, |letter| "eEinumkKMGTP".contains(letter));
    let digits = rest.strip_prefix(['-', '+']).unwrap_or(rest);
    if digits.bytes().any(|byte| !byte.is_ascii_digit()) {
        return Err("it must be a number with an optional suffix such as `m`, `k`, `Gi` or `e3`");
    }
    Ok(Parts { negative, whole: if whole.is_empty() { "0" } else { whole }, fraction, suffix })
}

/// The notation of a suffix and its exponent, to the base of 2 or 10.
fn interpret(suffix: &str) -> Option<(Notation, i32)> {
    use Notation::{BinarySuffix, DecimalExponent, DecimalSuffix};
    Some(match suffix {
        "" => (DecimalSuffix, 0),
        "n" => (DecimalSuffix, -9),
        "u" => (DecimalSuffix, -6),
        "m" => (DecimalSuffix, -3),
        "k" => (DecimalSuffix, 3),
        "M" => (DecimalSuffix, 6),
        "G" => (DecimalSuffix, 9),
        "T" => (DecimalSuffix, 12),
        "P" => (DecimalSuffix, 15),
        "E" => (DecimalSuffix, 18),
        "Ki" => (BinarySuffix, 10),
        "Mi" => (BinarySuffix, 20),
        "Gi" => (BinarySuffix, 30),
        "Ti" => (BinarySuffix, 40),
        "Pi" => (BinarySuffix, 50),
        "Ei" => (BinarySuffix, 60),
        _ => {
            let exponent: i64 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            (DecimalExponent, i32::try_from(exponent).ok()?)
        }
    })
}

impl Quantity {
    /// Parses a quantity.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let invalid = |why: &str| format!("{} is not a quantity: {why}", sized(text));
        if text.is_empty() {
            return Err(invalid("it is empty"));
        }
        let parts = parts(text).map_err(invalid)?;
        let (notation, exponent) =
            interpret(parts.suffix).ok_or_else(|| invalid("its suffix is not one of `n`, `u`, `m`, `k`, `M`, `G`, `T`, `P`, `E`, `Ki` to `Ei`, or an exponent such as `e3`"))?;
        if let Some(quantity) = Self::small(text, &parts, notation, exponent) {
            return Ok(quantity);
        }
        Self::big(&parts, notation, exponent).ok_or_else(|| invalid("it is too large"))
    }

    /// The quantity as an int with a power of ten, if it is small enough.
    fn small(text: &str, parts: &Parts<'_>, notation: Notation, exponent: i32) -> Option<Self> {
        let (whole, fraction) =
            (i32::try_from(parts.whole.len()).ok()?, i32::try_from(parts.fraction.len()).ok()?);
        let (factor, scale) = match notation {
            Notation::BinarySuffix => {
                let room = 15 - whole - exponent * 3 / 10 - 1;
                (parts.fraction.is_empty() && room >= 0)
                    .then_some((1_i64.checked_shl(exponent.unsigned_abs())?, 0))?
            }
            _ => (whole + fraction <= 18).then_some((1, exponent))?,
        };
        let scale = scale.checked_sub(fraction)?;
        if i64::from(scale) < NANO {
            return None;
        }
        let digits = format!("{}{}", parts.whole, parts.fraction);
        let number: i64 = digits.parse().ok()?;
        let value = number.checked_mul(factor)?;
        let kept = match notation {
            Notation::BinarySuffix => number & 7 != 0,
            _ => scale % 3 == 0 && !digits.ends_with("000") && !digits.starts_with('0'),
        };
        let value = if parts.negative { -value } else { value };
        let text = (kept || text == "0").then(|| text.to_owned());
        Some(Self { amount: Amount::Int { value, scale }, notation, text })
    }

    fn big(parts: &Parts<'_>, mut notation: Notation, exponent: i32) -> Option<Self> {
        let digits = format!("{}{}", parts.whole, parts.fraction);
        let scale = i64::try_from(parts.fraction.len()).ok()?;
        let mut amount = match notation {
            Notation::BinarySuffix => Decimal::new(false, &digits, scale).doubled(exponent.unsigned_abs()),
            _ => Decimal::new(false, &digits, scale - i64::from(exponent)),
        };
        if !amount.is_zero() {
            amount = amount.rounded_up(-NANO)?.0;
        }
        if notation == Notation::BinarySuffix {
            let limit = Decimal::from_int(i64::MAX, 0);
            if amount.compare(&limit).is_gt() {
                amount = limit;
            }
            if amount.compare(&Decimal::from_int(1, 0)).is_lt() && !amount.is_zero() {
                notation = Notation::DecimalSuffix;
            }
        }
        let amount = if parts.negative { amount.negated() } else { amount };
        Some(Self { amount: Amount::Big(amount), notation, text: None })
    }

    /// An integral quantity.
    pub(super) fn from_int(value: i64) -> Self {
        Self { amount: Amount::Int { value, scale: 0 }, notation: Notation::DecimalExponent, text: None }
    }

    fn decimal(&self) -> Decimal {
        match &self.amount {
            Amount::Int { value, scale } => Decimal::from_int(*value, -i64::from(*scale)),
            Amount::Big(decimal) => decimal.clone(),
        }
    }

    pub(super) fn sign(&self) -> i64 {
        self.decimal().sign()
    }

    pub(super) fn compare(&self, other: &Self) -> Ordering {
        self.decimal().compare(&other.decimal())
    }

    /// The sum, unless it has too many digits.
    pub(super) fn plus(&self, other: &Self) -> Option<Self> {
        let notation = if self.sign() == 0 { other.notation } else { self.notation };
        if let (Amount::Int { value: a, scale: a_scale }, Amount::Int { value: b, scale: b_scale }) =
            (&self.amount, &other.amount)
            && let Some(amount) = add_small((*a, *a_scale), (*b, *b_scale))
        {
            return Some(Self { amount, notation, text: None });
        }
        let amount = Amount::Big(self.decimal().plus(&other.decimal())?);
        Some(Self { amount, notation, text: None })
    }

    pub(super) fn minus(&self, other: &Self) -> Option<Self> {
        let negated = match &other.amount {
            Amount::Int { value, scale } => match value.checked_neg() {
                Some(value) => Amount::Int { value, scale: *scale },
                None => Amount::Big(other.decimal().negated()),
            },
            Amount::Big(decimal) => Amount::Big(decimal.clone().negated()),
        };
        self.plus(&Self { amount: negated, notation: other.notation, text: None })
    }

    /// The integer, if Kubernetes treats it as one: `1000m` and amounts that are stored as decimals are not.
    pub(super) fn as_int(&self) -> Option<i64> {
        match self.amount {
            Amount::Int { value: 0, scale } if scale >= 0 => Some(0),
            Amount::Int { value, scale } => {
                value.checked_mul(10_i64.checked_pow(u32::try_from(scale).ok()?)?)
            }
            Amount::Big(_) => None,
        }
    }

    pub(super) fn as_double(&self) -> f64 {
        let (digits, scale) = match &self.amount {
            Amount::Int { value, scale } => (value.to_string(), -i64::from(*scale)),
            Amount::Big(decimal) => decimal.unscaled(),
        };
        let base: f64 = digits.parse().unwrap_or(f64::NAN);
        if scale == 0 { base } else { base * power_of_ten(-scale) }
    }

    /// The quantity in canonical form.
    pub(super) fn shown(&self) -> String {
        if let Some(text) = &self.text {
            return text.clone();
        }
        let amount = self.decimal();
        if amount.is_zero() {
            return "0".to_owned();
        }
        if self.notation == Notation::BinarySuffix
            && let Some(shown) = show_binary(&amount)
        {
            return shown;
        }
        show_decimal(amount, self.notation)
    }
}

fn add_small((a, a_scale): (i64, i32), (b, b_scale): (i64, i32)) -> Option<Amount> {
    if b == 0 {
        return Some(Amount::Int { value: a, scale: a_scale });
    }
    if a == 0 {
        return Some(Amount::Int { value: b, scale: b_scale });
    }
    let scale = a_scale.min(b_scale);
    let scaled = |value: i64, from: i32| {
        let power = u32::try_from(i64::from(from) - i64::from(scale)).ok()?;
        value.checked_mul(10_i64.checked_pow(power)?)
    };
    Some(Amount::Int { value: scaled(a, a_scale)?.checked_add(scaled(b, b_scale)?)?, scale })
}

/// The text with a suffix such as `Ki`, for integers from 1024.
fn show_binary(amount: &Decimal) -> Option<String> {
    let limit = Decimal::from_int(1024, 0);
    let small = amount.compare(&limit).is_lt() && amount.compare(&limit.negated()).is_gt();
    let (mut number, exact) = amount.rounded_up(0)?;
    if small || !exact {
        return None;
    }
    let mut power = 0_usize;
    while let Some(divided) = number.divided_by_1024() {
        number = divided;
        power += 1;
    }
    let suffix = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].get(power).copied().unwrap_or_default();
    Some(format!("{}{suffix}", number.unscaled().0))
}

/// The text with a suffix such as `k`, or with an exponent that is a multiple of three.
fn show_decimal(amount: Decimal, notation: Notation) -> String {
    let (mut amount, _) = amount.without_tens();
    while amount.unscaled().1 % 3 != 0 {
        amount = amount.with_ten();
    }
    let (digits, scale) = amount.unscaled();
    let suffix = match -scale {
        0 => String::new(),
        exponent if notation == Notation::DecimalExponent => format!("e{exponent}"),
        -9 => "n".to_owned(),
        -6 => "u".to_owned(),
        -3 => "m".to_owned(),
        3 => "k".to_owned(),
        6 => "M".to_owned(),
        9 => "G".to_owned(),
        12 => "T".to_owned(),
        15 => "P".to_owned(),
        18 => "E".to_owned(),
        _ => String::new(),
    };
    format!("{digits}{suffix}")
}

/// A power of ten, with the rounding of Go's `math.Pow10`.
fn power_of_ten(exponent: i64) -> f64 {
    let exact = |power: i64| format!("1e{power}").parse::<f64>().unwrap_or(f64::NAN);
    match exponent {
        0..=308 => exact(exponent / 32 * 32) * exact(exponent % 32),
        -323..=-1 => exact(exponent / 32 * 32) / exact(-exponent % 32),
        309.. => f64::INFINITY,
        _ => 0.0,
    }
}
