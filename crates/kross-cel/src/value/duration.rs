//! Parses and formats durations as Go does: `1h30m` is parsed, `5400s` is the result of `string()`.

use std::fmt;

use super::Duration;
use crate::error::Fault;

const SECOND: i64 = 1_000_000_000;

impl Duration {
    /// Parses Go's notation: `1h30m`, `-1.5s`, `100ms`, `0`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, mut rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        if rest == "0" {
            return Some(Self { nanoseconds: 0 });
        }
        if rest.is_empty() {
            return None;
        }
        let mut total: i128 = 0;
        while !rest.is_empty() {
            let (part, left) = parse_part(rest)?;
            total = total.checked_add(part)?;
            rest = left;
        }
        let total = if negative { -total } else { total };
        i64::try_from(total).ok().map(|nanoseconds| Self { nanoseconds })
    }

    /// The format of Go and Kubernetes: `1h30m0s`.
    #[must_use]
    pub fn to_go_text(self) -> String {
        let sign = if self.nanoseconds < 0 { "-" } else { "" };
        let total = self.nanoseconds.unsigned_abs();
        let second = SECOND.unsigned_abs();
        match total {
            0 => "0s".into(),
            1..1_000 => format!("{sign}{total}ns"),
            1_000..1_000_000 => format!("{sign}{}µs", decimal(total, 1_000)),
            1_000_000..1_000_000_000 => format!("{sign}{}ms", decimal(total, 1_000_000)),
            _ => {
                let (hours, minutes) = (total / (3600 * second), total / (60 * second) % 60);
                let seconds = decimal(total % (60 * second), second);
                match (hours, minutes) {
                    (0, 0) => format!("{sign}{seconds}s"),
                    (0, minutes) => format!("{sign}{minutes}m{seconds}s"),
                    (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}s"),
                }
            }
        }
    }

    /// The sum.
    ///
    /// # Errors
    /// If the sum overflows.
    pub fn plus(self, other: Self) -> Result<Self, Fault> {
        self.nanoseconds
            .checked_add(other.nanoseconds)
            .map(|nanoseconds| Self { nanoseconds })
            .ok_or_else(|| Fault::Overflow("duration".into()))
    }

    /// The difference.
    ///
    /// # Errors
    /// If the difference overflows.
    pub fn minus(self, other: Self) -> Result<Self, Fault> {
        self.nanoseconds
            .checked_sub(other.nanoseconds)
            .map(|nanoseconds| Self { nanoseconds })
            .ok_or_else(|| Fault::Overflow("duration".into()))
    }
}

impl fmt::Display for Duration {
    /// Seconds with a fraction if needed, as `string()` returns it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Adds the two parts as Go does, so that the result has the same digits.
        let seconds = (self.nanoseconds / SECOND) as f64 + (self.nanoseconds % SECOND) as f64 / 1e9;
        write!(f, "{seconds}s")
    }
}

/// `value / unit` without trailing zeros.
fn decimal(value: u64, unit: u64) -> String {
    let (whole, fraction) = (value / unit, value % unit);
    if fraction == 0 {
        return whole.to_string();
    }
    let width = unit.ilog10() as usize;
    let digits = format!("{fraction:0width$}");
    format!("{whole}.{}", digits.trim_end_matches('0'))
}

/// The nanoseconds of a number and its unit, and the remaining text.
fn parse_part(text: &str) -> Option<(i128, &str)> {
    let (whole, rest) = take_digits(text);
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => take_digits(rest),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let unit_length = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(unit_length);
    let unit = unit_nanoseconds(unit)?;
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    // Digits after the fifteenth are below a nanosecond for every unit.
    let kept = fraction.get(..fraction.len().min(15))?;
    let part = if kept.is_empty() {
        0
    } else {
        kept.parse::<i128>().ok()? * unit / 10_i128.checked_pow(u32::try_from(kept.len()).ok()?)?
    };
    Some((whole.checked_mul(unit)?.checked_add(part)?, rest))
}

fn take_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

fn unit_nanoseconds(unit: &str) -> Option<i128> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_as_in_go() {
        for (text, nanoseconds) in [
            ("0", 0),
            ("1h30m", 5_400_000_000_000),
            ("-1.5s", -1_500_000_000),
            ("+.5ms", 500_000),
            ("1.s", 1_000_000_000),
            ("2µs3ns", 2_003),
            ("-2562047h47m16.854775808s", i64::MIN),
        ] {
            assert_eq!(Duration::parse(text), Some(Duration { nanoseconds }), "{text}");
        }
        for text in [
            "",
            "1",
            "s",
            ".s",
            "1 s",
            "1d",
            "-",
            "2562048h",
            "1h-1m",
            "9e9s",
            "99999999999999999999999999999999999999999h",
        ] {
            assert_eq!(Duration::parse(text), None, "{text}");
        }
    }

    #[test]
    fn durations_are_formatted_as_in_go() {
        for (nanoseconds, go, seconds) in [
            (0, "0s", "0s"),
            (1, "1ns", "0.000000001s"),
            (1_500, "1.5µs", "0.0000015s"),
            (2_000_000, "2ms", "0.002s"),
            (5_400_000_000_000, "1h30m0s", "5400s"),
            (-61_500_000_000, "-1m1.5s", "-61.5s"),
            (i64::MIN, "-2562047h47m16.854775808s", "-9223372036.854776s"),
        ] {
            assert_eq!(Duration { nanoseconds }.to_go_text(), go);
            assert_eq!(Duration { nanoseconds }.to_string(), seconds);
        }
    }
}
