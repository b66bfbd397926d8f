//! The components of timestamps and durations, in UTC or in a time zone by name or offset.

use std::sync::LazyLock;

use jiff::tz::TimeZoneDatabase;

use super::functions;
use crate::error::{Fault, sized};
use crate::library::{Call, Function};
use crate::value::{Timestamp, Value, civil};

pub(super) const FUNCTIONS: &[Function] = functions! {
    "getFullYear", "Returns the year.", |_, arguments| part("getFullYear", arguments, |local| local.year),
        ["(timestamp).getFullYear() -> int", "(timestamp).getFullYear(string) -> int"];
    "getMonth", "Returns the month, starting at 0.", |_, arguments| part("getMonth", arguments, |local| local.month - 1),
        ["(timestamp).getMonth() -> int", "(timestamp).getMonth(string) -> int"];
    "getDayOfYear", "Returns the day of the year, starting at 0.",
        |_, arguments| part("getDayOfYear", arguments, |local| local.day_of_year),
        ["(timestamp).getDayOfYear() -> int", "(timestamp).getDayOfYear(string) -> int"];
    "getDayOfMonth", "Returns the day of the month, starting at 0.",
        |_, arguments| part("getDayOfMonth", arguments, |local| local.day - 1),
        ["(timestamp).getDayOfMonth() -> int", "(timestamp).getDayOfMonth(string) -> int"];
    "getDate", "Returns the day of the month, starting at 1.", |_, arguments| part("getDate", arguments, |local| local.day),
        ["(timestamp).getDate() -> int", "(timestamp).getDate(string) -> int"];
    "getDayOfWeek", "Returns the day of the week; Sunday is 0.",
        |_, arguments| part("getDayOfWeek", arguments, |local| local.day_of_week),
        ["(timestamp).getDayOfWeek() -> int", "(timestamp).getDayOfWeek(string) -> int"];
    "getHours", "Returns the hour of a timestamp, or a duration in hours.",
        |_, arguments| part_or_length("getHours", arguments, 3_600_000_000_000, |local| local.second / 3600),
        ["(timestamp).getHours() -> int", "(timestamp).getHours(string) -> int", "(duration).getHours() -> int"];
    "getMinutes", "Returns the minute of a timestamp, or a duration in minutes.",
        |_, arguments| part_or_length("getMinutes", arguments, 60_000_000_000, |local| local.second / 60 % 60),
        ["(timestamp).getMinutes() -> int", "(timestamp).getMinutes(string) -> int",
         "(duration).getMinutes() -> int"];
    "getSeconds", "Returns the second of a timestamp, or a duration in seconds.",
        |_, arguments| part_or_length("getSeconds", arguments, 1_000_000_000, |local| local.second % 60),
        ["(timestamp).getSeconds() -> int", "(timestamp).getSeconds(string) -> int",
         "(duration).getSeconds() -> int"];
    "getMilliseconds", "Returns the milliseconds of a timestamp's second, or a duration in milliseconds.", milliseconds,
        ["(timestamp).getMilliseconds() -> int", "(timestamp).getMilliseconds(string) -> int",
         "(duration).getMilliseconds() -> int"];
};

/// The components of a time in a time zone.
struct Local {
    year: i64,
    month: i64,
    day: i64,
    day_of_year: i64,
    day_of_week: i64,
    /// Seconds since midnight.
    second: i64,
}

fn part(function: &str, arguments: &[Value], read: impl FnOnce(&Local) -> i64) -> Result<Value, Fault> {
    let offset = match arguments {
        [Value::Timestamp(_)] => 0,
        [Value::Timestamp(time), Value::String(zone)] => offset_of(*time, zone)?,
        _ => return Err(Fault::no_such_overload(function, arguments)),
    };
    match arguments.first() {
        Some(Value::Timestamp(time)) => Ok(Value::Int(read(&local(time.seconds.saturating_add(offset))))),
        _ => Err(Fault::no_such_overload(function, arguments)),
    }
}

fn part_or_length(
    function: &str,
    arguments: &[Value],
    unit: i64,
    read: impl FnOnce(&Local) -> i64,
) -> Result<Value, Fault> {
    match arguments {
        [Value::Duration(length)] => Ok(Value::Int(length.nanoseconds / unit)),
        _ => part(function, arguments, read),
    }
}

/// Offsets are whole seconds, so the zone makes no difference, but it must be valid.
fn milliseconds(_: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    match arguments {
        [Value::Duration(length)] => Ok(Value::Int(length.nanoseconds / 1_000_000)),
        [Value::Timestamp(time)] => Ok(Value::Int(i64::from(time.nanoseconds / 1_000_000))),
        [Value::Timestamp(time), Value::String(zone)] => {
            offset_of(*time, zone)?;
            Ok(Value::Int(i64::from(time.nanoseconds / 1_000_000)))
        }
        _ => Err(Fault::no_such_overload("getMilliseconds", arguments)),
    }
}

fn local(seconds: i64) -> Local {
    let days = seconds.div_euclid(86_400);
    let (year, month, day) = civil(days);
    let mut day_of_year = day - 1;
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    for earlier in 1..month {
        day_of_year += match earlier {
            2 => 28 + i64::from(leap),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
    }
    // 1970 began on a Thursday.
    let day_of_week = (days + 4).rem_euclid(7);
    Local { year, month, day, day_of_year, day_of_week, second: seconds.rem_euclid(86_400) }
}

/// Seconds east of UTC of a zone given as `Europe/Berlin`, `+01:00` or `01:00`.
fn offset_of(time: Timestamp, zone: &str) -> Result<i64, Fault> {
    let unknown =
        || Fault::invalid(format!("{} is not a time zone such as `Europe/Berlin` or `+01:00`", sized(zone)));
    if let Some((hours, minutes)) = zone.split_once(':') {
        let (hours, minutes): (i64, i64) =
            (hours.parse().map_err(|_| unknown())?, minutes.parse().map_err(|_| unknown())?);
        if hours.abs() > 23 || minutes.abs() > 59 {
            return Err(unknown());
        }
        let minutes = if zone.starts_with('-') { -minutes } else { minutes };
        return Ok(hours * 3600 + minutes * 60);
    }
    static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);
    let name = if zone.is_empty() { "UTC" } else { zone };
    let zone = ZONES.get(name).map_err(|_| unknown())?;
    // The last day of the year 9999 is out of range for the time zone database; use its last second.
    let seconds = time.seconds.clamp(jiff::Timestamp::MIN.as_second(), jiff::Timestamp::MAX.as_second());
    let at = jiff::Timestamp::from_second(seconds).map_err(|_| unknown())?;
    Ok(i64::from(zone.to_offset(at).seconds()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(function: &str, time: &str, zone: Option<&str>) -> Result<i64, Fault> {
        let mut arguments = vec![Value::Timestamp(Timestamp::parse(time).unwrap())];
        arguments.extend(zone.map(Value::string));
        let found = FUNCTIONS.iter().find(|candidate| candidate.name == function).unwrap();
        let mut budget = 100;
        match (found.overloads[0].implementation)(&mut Call::new(&mut budget), &arguments)? {
            Value::Int(number) => Ok(number),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn components_depend_on_the_time_zone() {
        let time = "2009-02-13T23:31:30.123Z";
        assert_eq!(ask("getDayOfYear", time, None), Ok(43));
        assert_eq!(ask("getDayOfWeek", time, None), Ok(5));
        assert_eq!(ask("getMilliseconds", time, Some("UTC")), Ok(123));
        assert_eq!(ask("getDate", time, Some("Australia/Sydney")), Ok(14));
        assert_eq!(ask("getHours", time, Some("02:00")), Ok(1));
        assert_eq!(ask("getMinutes", time, Some("Asia/Kathmandu")), Ok(16));
        assert_eq!(ask("getDayOfMonth", "2009-02-13T02:00:00Z", Some("-02:30")), Ok(11));
        assert_eq!(ask("getDayOfYear", "2024-12-31T00:00:00Z", None), Ok(365));
        let last = "9999-12-31T23:59:59.999999999Z";
        assert_eq!(ask("getDate", last, Some("UTC")), Ok(31));
        assert_eq!(ask("getHours", last, Some("America/New_York")), Ok(18));
        assert!(ask("getHours", time, Some("Nowhere/Else")).is_err());
        assert!(ask("getHours", time, Some("1:é")).is_err());
    }
}
