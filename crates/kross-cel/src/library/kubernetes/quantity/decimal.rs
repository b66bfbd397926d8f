//! Exact decimal numbers of any size: digits, and the number of them after the point.

use std::cmp::Ordering;

/// The largest number of digits: more than any quantity needs, and few enough for fast arithmetic.
const MAX_DIGITS: usize = 2_000;

/// `digits × 10^-scale` with a sign. Zero has no digits; other numbers start with a non-zero digit.
#[derive(Clone, Debug)]
pub(super) struct Decimal {
    negative: bool,
    digits: Vec<u8>,
    scale: i64,
}

impl Decimal {
    /// The number with these digits, which may have leading zeros.
    pub(super) fn new(negative: bool, digits: &str, scale: i64) -> Self {
        let digits = digits.bytes().map(|digit| digit.wrapping_sub(b'0').min(9)).collect();
        Self { negative, digits, scale }.trimmed()
    }

    /// An integer with a scale.
    pub(super) fn from_int(value: i64, scale: i64) -> Self {
        Self::new(value < 0, &value.unsigned_abs().to_string(), scale)
    }

    fn trimmed(mut self) -> Self {
        let zeros = self.digits.iter().take_while(|digit| **digit == 0).count();
        self.digits.drain(..zeros);
        self.negative &= !self.digits.is_empty();
        self
    }

    pub(super) fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    pub(super) fn sign(&self) -> i64 {
        if self.is_zero() {
            0
        } else if self.negative {
            -1
        } else {
            1
        }
    }

    pub(super) fn negated(mut self) -> Self {
        self.negative = !self.negative && !self.is_zero();
        self
    }

    /// The digits without a point, and the scale.
    pub(super) fn unscaled(&self) -> (String, i64) {
        let digits: String = self.digits.iter().map(|digit| char::from(b'0' + digit)).collect();
        let sign = if self.negative { "-" } else { "" };
        (if digits.is_empty() { "0".to_owned() } else { format!("{sign}{digits}") }, self.scale)
    }

    /// The position of the first digit: 1 for units.
    fn magnitude(&self) -> i64 {
        i64::try_from(self.digits.len()).unwrap_or(i64::MAX).saturating_sub(self.scale)
    }

    pub(super) fn compare(&self, other: &Self) -> Ordering {
        let signs = self.sign().cmp(&other.sign());
        if signs.is_ne() || self.is_zero() {
            return signs;
        }
        let longest = self.digits.len().max(other.digits.len());
        let padded = |number: &Self| {
            let zeros = longest - number.digits.len();
            number.digits.iter().copied().chain(std::iter::repeat_n(0, zeros)).collect::<Vec<u8>>()
        };
        let sizes = self.magnitude().cmp(&other.magnitude()).then_with(|| padded(self).cmp(&padded(other)));
        if self.negative { sizes.reverse() } else { sizes }
    }

    /// The same number with more digits after the point, unless it has too many digits.
    fn rescaled(&self, scale: i64) -> Option<Self> {
        let zeros = usize::try_from(scale.checked_sub(self.scale)?).ok()?;
        let mut digits = self.digits.clone();
        if !digits.is_empty() {
            if digits.len().checked_add(zeros)? > MAX_DIGITS {
                return None;
            }
            digits.resize(digits.len() + zeros, 0);
        }
        Some(Self { negative: self.negative, digits, scale })
    }

    /// Rounded away from zero to `scale` digits after the point, and whether that was exact.
    pub(super) fn rounded_up(&self, scale: i64) -> Option<(Self, bool)> {
        if self.scale <= scale {
            return Some((self.rescaled(scale)?, true));
        }
        let dropped = usize::try_from(self.scale.saturating_sub(scale)).unwrap_or(usize::MAX);
        let kept = self.digits.len().saturating_sub(dropped);
        let (head, tail) = self.digits.split_at_checked(kept)?;
        let exact = tail.iter().all(|digit| *digit == 0);
        let head = Self { negative: self.negative, digits: head.to_vec(), scale };
        if exact {
            return Some((head.trimmed(), true));
        }
        let unit = Self { negative: false, digits: vec![1], scale };
        let mut rounded = Self { negative: false, ..head }.plus(&unit)?;
        rounded.negative = self.negative;
        Some((rounded, false))
    }

    /// The sum, unless it has too many digits.
    pub(super) fn plus(&self, other: &Self) -> Option<Self> {
        let scale = self.scale.max(other.scale);
        let (a, b) = (self.rescaled(scale)?, other.rescaled(scale)?);
        if a.negative == b.negative {
            return Some(Self { negative: a.negative, digits: sum(&a.digits, &b.digits), scale }.trimmed());
        }
        let size = |number: &Self| Self { negative: false, ..number.clone() };
        let (larger, smaller) = if size(&a).compare(&size(&b)).is_ge() { (a, b) } else { (b, a) };
        let digits = difference(&larger.digits, &smaller.digits);
        Some(Self { negative: larger.negative, digits, scale }.trimmed())
    }

    /// Multiplied by `2^times`.
    pub(super) fn doubled(mut self, times: u32) -> Self {
        for _ in 0..times {
            self.digits = sum(&self.digits, &self.digits);
        }
        self
    }

    /// Without trailing zeros, and how many there were.
    pub(super) fn without_tens(mut self) -> (Self, i64) {
        let zeros = self.digits.iter().rev().take_while(|digit| **digit == 0).count();
        self.digits.truncate(self.digits.len() - zeros);
        let zeros = i64::try_from(zeros).unwrap_or(i64::MAX);
        self.scale = self.scale.saturating_sub(zeros);
        (self, zeros)
    }

    /// With one more trailing zero.
    pub(super) fn with_ten(mut self) -> Self {
        self.digits.push(0);
        self.scale = self.scale.saturating_add(1);
        self
    }

    /// Divided by 1024 if there is no remainder; for integers.
    pub(super) fn divided_by_1024(&self) -> Option<Self> {
        let mut rest = 0_u32;
        let mut digits = Vec::with_capacity(self.digits.len());
        for digit in &self.digits {
            let part = rest * 10 + u32::from(*digit);
            digits.push(u8::try_from(part / 1024).ok()?);
            rest = part % 1024;
        }
        (rest == 0 && !self.is_zero())
            .then(|| Self { negative: self.negative, digits, scale: self.scale }.trimmed())
    }
}

/// Adds digits from the right.
fn sum(a: &[u8], b: &[u8]) -> Vec<u8> {
    let length = a.len().max(b.len());
    let from_right = |digits: &[u8], at: usize| digits.iter().rev().nth(at).copied().unwrap_or(0);
    let mut carry = 0;
    let mut reversed = Vec::with_capacity(length + 1);
    for at in 0..length {
        let total = from_right(a, at) + from_right(b, at) + carry;
        reversed.push(total % 10);
        carry = total / 10;
    }
    if carry > 0 {
        reversed.push(carry);
    }
    reversed.reverse();
    reversed
}

/// Subtracts the digits of a number that is not larger.
fn difference(larger: &[u8], smaller: &[u8]) -> Vec<u8> {
    let from_right = |digits: &[u8], at: usize| digits.iter().rev().nth(at).copied().unwrap_or(0);
    let mut borrow = 0;
    let mut reversed = Vec::with_capacity(larger.len());
    for at in 0..larger.len() {
        let (top, bottom) = (from_right(larger, at), from_right(smaller, at) + borrow);
        borrow = u8::from(top < bottom);
        reversed.push(top + 10 * borrow - bottom);
    }
    reversed.reverse();
    reversed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal {
        let (negative, text) = text.strip_prefix('-').map_or((false, text), |text| (true, text));
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        Decimal::new(negative, &format!("{whole}{fraction}"), i64::try_from(fraction.len()).unwrap())
    }

    fn added(a: &str, b: &str) -> (String, i64) {
        decimal(a).plus(&decimal(b)).unwrap().unscaled()
    }

    #[test]
    fn sums_are_exact() {
        assert_eq!(added("1.5", "0.25"), ("175".into(), 2));
        assert_eq!(added("-1.5", "0.25"), ("-125".into(), 2));
        assert_eq!(added("1.5", "-1.50"), ("0".into(), 2));
        assert_eq!(added("999", "1"), ("1000".into(), 0));
        assert_eq!(added("-1000", "1"), ("-999".into(), 0));
        assert_eq!(added("99999999999999999999999999", "1"), (format!("1{}", "0".repeat(26)), 0));
    }

    #[test]
    fn numbers_of_different_scales_are_compared() {
        let order = |a: &str, b: &str| decimal(a).compare(&decimal(b));
        assert_eq!(order("1.50", "1.5"), Ordering::Equal);
        assert_eq!(order("-2", "-1.9"), Ordering::Less);
        assert_eq!(order("10", "9.99"), Ordering::Greater);
        assert_eq!(order("0.00", "-0"), Ordering::Equal);
        let huge = Decimal::new(false, "1", -1_000_000_000);
        assert_eq!(huge.compare(&decimal("5")), Ordering::Greater);
        assert!(huge.plus(&decimal("5")).is_none());
    }

    #[test]
    fn numbers_are_rounded_away_from_zero() {
        let round = |text: &str| {
            let (rounded, exact) = decimal(text).rounded_up(1).unwrap();
            (rounded.unscaled().0, exact)
        };
        assert_eq!(round("1.21"), ("13".into(), false));
        assert_eq!(round("-1.21"), ("-13".into(), false));
        assert_eq!(round("0.001"), ("1".into(), false));
        assert_eq!(round("9.99"), ("100".into(), false));
        assert_eq!(round("1.20"), ("12".into(), true));
        assert_eq!(round("7"), ("70".into(), true));
    }

    #[test]
    fn powers_of_1024_are_divided_exactly() {
        assert_eq!(decimal("1048576").divided_by_1024().unwrap().unscaled().0, "1024");
        assert!(decimal("1000").divided_by_1024().is_none());
        assert_eq!(decimal("3").doubled(60).unscaled().0, "3458764513820540928");
    }
}
