//! Timestamps: RFC 3339 parsing and formatting, and arithmetic within the years 1 to 9999.

use std::fmt;

use super::{Duration, Timestamp};
use crate::error::Fault;

/// 0001-01-01T00:00:00Z
const FIRST_SECOND: i64 = -62_135_596_800;
/// 9999-12-31T23:59:59Z
const LAST_SECOND: i64 = 253_402_300_799;
const NANOSECONDS: i128 = 1_000_000_000;
const DAY: i64 = 86_400;

impl Timestamp {
    /// The timestamp this many seconds after 1970-01-01, or none outside the years 1 to 9999.
    #[must_use]
    pub fn new(seconds: i64, nanoseconds: u32) -> Option<Self> {
        ((FIRST_SECOND..=LAST_SECOND).contains(&seconds) && i128::from(nanoseconds) < NANOSECONDS)
            .then_some(Self { seconds, nanoseconds })
    }

    fn from_nanoseconds(total: i128) -> Option<Self> {
        let seconds = i64::try_from(total.div_euclid(NANOSECONDS)).ok()?;
        Self::new(seconds, u32::try_from(total.rem_euclid(NANOSECONDS)).ok()?)
    }

    fn nanoseconds_since_1970(self) -> i128 {
        i128::from(self.seconds) * NANOSECONDS + i128::from(self.nanoseconds)
    }

    /// Parses RFC 3339, such as `2024-01-02T03:04:05.678+01:00`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (date, rest) = text.split_once('T')?;
        let day = parse_date(date)?;
        let zone_at = rest.find(['Z', '+', '-'])?;
        let (time, zone) = rest.split_at(zone_at);
        let (clock, nanoseconds) = match time.split_once('.') {
            Some((clock, fraction)) => (clock, parse_fraction(fraction)?),
            None => (time, 0),
        };
        let offset = parse_zone(zone)?;
        let seconds = day * DAY + parse_clock(clock)? - offset;
        Self::new(seconds, nanoseconds)
    }

    /// This time plus a duration.
    ///
    /// # Errors
    /// If the result is outside the years 1 to 9999.
    pub fn plus(self, duration: Duration) -> Result<Self, Fault> {
        Self::from_nanoseconds(self.nanoseconds_since_1970() + i128::from(duration.nanoseconds))
            .ok_or_else(|| Fault::Overflow("timestamp".into()))
    }

    /// This time minus a duration.
    ///
    /// # Errors
    /// If the result is outside the years 1 to 9999.
    pub fn minus(self, duration: Duration) -> Result<Self, Fault> {
        Self::from_nanoseconds(self.nanoseconds_since_1970() - i128::from(duration.nanoseconds))
            .ok_or_else(|| Fault::Overflow("timestamp".into()))
    }

    /// The time from `earlier` to this.
    ///
    /// # Errors
    /// If it exceeds the range of a duration, about 292 years.
    pub fn since(self, earlier: Self) -> Result<Duration, Fault> {
        i64::try_from(self.nanoseconds_since_1970() - earlier.nanoseconds_since_1970())
            .map(|nanoseconds| Duration { nanoseconds })
            .map_err(|_| Fault::Overflow("duration".into()))
    }

    /// Kubernetes' format: whole seconds, UTC.
    #[must_use]
    pub fn to_seconds_text(self) -> String {
        Self { seconds: self.seconds, nanoseconds: 0 }.to_string()
    }
}

impl fmt::Display for Timestamp {
    /// RFC 3339 in UTC, with as many fractional digits as needed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil(self.seconds.div_euclid(DAY));
        let second = self.seconds.rem_euclid(DAY);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        if self.nanoseconds != 0 {
            let digits = format!("{:09}", self.nanoseconds);
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        f.write_str("Z")
    }
}

/// Parses exactly `count` digits.
fn digits(text: &str, count: usize) -> Option<i64> {
    (text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

/// Days since 1970 of `2024-01-02`.
fn parse_date(text: &str) -> Option<i64> {
    let mut parts = text.split('-');
    let (year, month, day) =
        (digits(parts.next()?, 4)?, digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    let valid =
        parts.next().is_none() && (1..=12).contains(&month) && (1..=days_in(year, month)).contains(&day);
    valid.then(|| days_since_1970(year, month, day))
}

/// Seconds since midnight of `03:04:05`.
fn parse_clock(text: &str) -> Option<i64> {
    let mut parts = text.split(':');
    let (hour, minute, second) =
        (digits(parts.next()?, 2)?, digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    let valid = parts.next().is_none() && hour < 24 && minute < 60 && second < 60;
    valid.then_some(hour * 3600 + minute * 60 + second)
}

/// The nanoseconds of a fraction; digits after the ninth are dropped, as in Go.
fn parse_fraction(text: &str) -> Option<u32> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let nine: String = text.chars().chain(std::iter::repeat('0')).take(9).collect();
    nine.parse().ok()
}

/// Seconds east of UTC.
fn parse_zone(text: &str) -> Option<i64> {
    if text == "Z" {
        return Some(0);
    }
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let (hour, minute) = text.get(1..)?.split_once(':')?;
    let (hour, minute) = (digits(hour, 2)?, digits(minute, 2)?);
    (hour < 24 && minute < 60).then_some(sign * (hour * 3600 + minute * 60))
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Counts in years that begin in March, so that the leap day is the last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year - 719_468
}

/// Year, month and day of a day since 1970: the inverse of [`days_since_1970`].
pub(crate) fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_survive_a_round_trip() {
        for text in [
            "1970-01-01T00:00:00Z",
            "0001-01-01T00:00:00Z",
            "9999-12-31T23:59:59.999999999Z",
            "2000-02-29T12:30:45.5Z",
            "1969-12-31T23:59:59.25Z",
        ] {
            assert_eq!(Timestamp::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(
            Timestamp::parse("2024-01-02T03:04:05+01:00").unwrap().to_string(),
            "2024-01-02T02:04:05Z"
        );
    }

    #[test]
    fn invalid_timestamps_are_rejected() {
        for text in [
            "",
            "T",
            "2024-01-02",
            "2024-1-2T03:04:05Z",
            "2023-02-29T00:00:00Z",
            "2024-01-02T24:00:00Z",
            "2024-01-02T03:04:05",
            "2024-01-02T03:04:05.Z",
            "10000-01-01T00:00:00Z",
            "2024-01-02T03:04:05+0100",
            "0001-01-01T00:00:00+00:01",
            "2024-01-02t03:04:05Z",
            "2024-01-02T03:04:05é",
        ] {
            assert_eq!(Timestamp::parse(text), None, "{text}");
        }
    }

    #[test]
    fn day_conversions_are_inverse() {
        for days in (-719_162..2_932_896).step_by(97) {
            let (year, month, day) = civil(days);
            assert_eq!(days_since_1970(year, month, day), days);
        }
    }

    #[test]
    fn arithmetic_stays_in_range() {
        let last = Timestamp::parse("9999-12-31T23:59:59.999999999Z").unwrap();
        let first = Timestamp::parse("0001-01-01T00:00:00Z").unwrap();
        assert!(last.plus(Duration { nanoseconds: 1 }).is_err());
        assert!(first.minus(Duration { nanoseconds: 1 }).is_err());
        assert!(last.since(first).is_err());
        assert!(first.minus(Duration { nanoseconds: i64::MIN }).is_ok());
    }
}
