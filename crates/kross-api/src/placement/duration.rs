//! Parses the durations of `pollConfig` and `lifecycle`: `30s`, `1m30s`, `1.5h`.

use std::time::Duration;

/// Parses a duration: one or more numbers, each with the unit `s`, `m` or `h`.
#[must_use]
pub fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let (number, after) = rest.split_at_checked(rest.find(['s', 'm', 'h'])?)?;
        let mut characters = after.chars();
        let seconds = match characters.next()? {
            's' => 1.0,
            'm' => 60.0,
            _ => 3600.0,
        };
        let part = Duration::try_from_secs_f64(parse_decimal(number)? * seconds).ok()?;
        total = total.checked_add(part)?;
        rest = characters.as_str();
    }
    (!text.is_empty()).then_some(total)
}

/// Parses digits with at most one decimal point between them; stricter than Rust's `f64` parser.
fn parse_decimal(text: &str) -> Option<f64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    (digits(whole) && digits(fraction)).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_sums_of_parts() {
        for (text, milliseconds) in
            [("30s", 30_000), ("1m30s", 90_000), ("1.5h", 5_400_000), ("0.5s", 500), ("1h1m1s", 3_661_000)]
        {
            assert_eq!(parse_duration(text), Some(Duration::from_millis(milliseconds)), "{text}");
        }
    }

    #[test]
    fn anything_else_is_not_a_duration() {
        for text in [
            "", "30", "s", "1.s", ".5s", "1..5s", "-1s", "1e3s", "30ms", "1d", "30s ", "inf s", "5 s", "1m30",
        ] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }

    #[test]
    fn parser_and_pattern_agree() {
        let pattern = regex::Regex::new(crate::openapi::DURATION_PATTERN).unwrap();
        for text in
            ["30s", "1m30s", "1.5h", "", "30", "1.s", ".5s", "30ms", "1d", "5 s", "1m30", "99999999999h"]
        {
            assert_eq!(pattern.is_match(text), parse_duration(text).is_some(), "{text}");
        }
    }
}
