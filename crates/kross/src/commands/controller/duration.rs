//! Parses and prints durations as Go does: `1h15m30.5s`, `200ms`, `0`.

use std::fmt;
use std::time::Duration;

const UNITS: [(&str, i128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// A duration in nanoseconds. It may be negative, which often means "off" to kro.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GoDuration(i64);

impl GoDuration {
    pub(super) const fn from_millis(milliseconds: i64) -> Self {
        Self(milliseconds * 1_000_000)
    }

    pub(super) const fn from_secs(seconds: i64) -> Self {
        Self::from_millis(seconds * 1_000)
    }

    /// The duration; zero if it is negative.
    pub(super) fn get(self) -> Duration {
        Duration::from_nanos(u64::try_from(self.0).unwrap_or(0))
    }
}

/// Parses a duration: a sign, then numbers with units, or `0` alone.
pub(super) fn parse(text: &str) -> Option<GoDuration> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(GoDuration(0));
    }
    if rest.is_empty() {
        return None;
    }
    let mut sum: i128 = 0;
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').filter(|end| *end > 0)?;
        let (number, after) = rest.split_at(number_end);
        let unit_end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let (_, nanoseconds) = UNITS.iter().find(|(name, _)| *name == unit)?;
        sum = sum.checked_add(scaled(number, *nanoseconds)?)?;
        rest = after;
    }
    i64::try_from(sum * sign).ok().map(GoDuration)
}

/// A decimal number times a unit, without intermediate rounding.
fn scaled(number: &str, unit: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') || whole.len() > 19 {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    // More digits than these are less than a nanosecond, even of an hour.
    let fraction: String = fraction.chars().take(18).collect();
    let scale = 10_i128.pow(u32::try_from(fraction.len()).ok()?);
    let fraction: i128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    Some(whole.checked_mul(unit)? + fraction.checked_mul(unit)? / scale)
}

impl fmt::Display for GoDuration {
    /// Prints it as Go does: `1m0s`, `200ms`, `0s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        let small = [(1_000_000_000, "ms", 1_000_000), (1_000_000, "µs", 1_000), (1_000, "ns", 1)];
        if total == 0 {
            return f.write_str("0s");
        }
        if total < 1_000_000_000 {
            let unit = small.iter().rfind(|(below, ..)| total < *below).map(|(_, name, size)| (*name, *size));
            let (name, size) = unit.unwrap_or(("ms", 1_000_000));
            return write!(f, "{}{name}", decimal(total, size));
        }
        let (hours, minutes) = (total / 3_600_000_000_000, total / 60_000_000_000 % 60);
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if hours > 0 || minutes > 0 {
            write!(f, "{minutes}m")?;
        }
        write!(f, "{}s", decimal(total % 60_000_000_000, 1_000_000_000))
    }
}

/// A number of units without trailing zeros.
fn decimal(total: u64, unit: u64) -> String {
    let (whole, part) = (total / unit, total % unit);
    if part == 0 {
        return whole.to_string();
    }
    let digits = unit.ilog10() as usize;
    let part = format!("{part:0digits$}");
    format!("{whole}.{}", part.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_and_printed_as_in_go() {
        for (text, nanoseconds, written) in [
            ("0", 0, "0s"),
            ("15s", 15_000_000_000, "15s"),
            ("200ms", 200_000_000, "200ms"),
            ("1000s", 1_000_000_000_000, "16m40s"),
            ("1h15m30.5s", 4_530_500_000_000, "1h15m30.5s"),
            ("-1.5h", -5_400_000_000_000, "-1h30m0s"),
            ("60s", 60_000_000_000, "1m0s"),
            ("1.5us", 1_500, "1.5µs"),
            ("3ns", 3, "3ns"),
            (".5s", 500_000_000, "500ms"),
            ("1.s", 1_000_000_000, "1s"),
        ] {
            let duration = parse(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(
                (duration, duration.to_string().as_str()),
                (GoDuration(nanoseconds), written),
                "{text}"
            );
        }
    }

    #[test]
    fn durations_that_go_rejects_are_rejected() {
        for text in ["", "-", "1", "s", ".s", "1x", "1s2", "1.2.3s", "1 s", "9999999h", "1S"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_negative_duration_is_zero() {
        assert_eq!(GoDuration::from_secs(-3).get(), Duration::ZERO);
    }
}
