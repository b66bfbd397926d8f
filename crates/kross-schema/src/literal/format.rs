//! Checks literals against the OpenAPI formats that the API server enforces.

use std::net::{Ipv4Addr, Ipv6Addr};

use kross_value::Value;

/// What the format requires, if the value violates it. Unknown formats accept any value.
pub(super) fn violated(format: &str, value: &Value) -> Option<&'static str> {
    match (format, value) {
        ("int32", Value::Int(number)) => i32::try_from(*number).is_err().then_some("a 32-bit integer"),
        ("byte", Value::String(text)) => (!is_base64(text)).then_some("base64"),
        ("date-time", Value::String(text)) => {
            (!is_date_time(text)).then_some("a date and time such as `2030-01-31T12:00:00Z`")
        }
        ("date", Value::String(text)) => (!is_date(text)).then_some("a date such as `2030-01-31`"),
        ("ipv4", Value::String(text)) => text.parse::<Ipv4Addr>().is_err().then_some("an IPv4 address"),
        ("ipv6", Value::String(text)) => text.parse::<Ipv6Addr>().is_err().then_some("an IPv6 address"),
        ("uuid", Value::String(text)) => (!is_uuid(text)).then_some("a UUID"),
        _ => None,
    }
}

fn is_base64(text: &str) -> bool {
    let text: Vec<u8> = text.bytes().filter(|byte| !matches!(byte, b'\n' | b'\r')).collect();
    let body = text.iter().rev().skip_while(|byte| **byte == b'=');
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    let letters = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    text.len().is_multiple_of(4) && padding <= 2 && body.into_iter().all(letters)
}

fn is_uuid(text: &str) -> bool {
    let lengths: Vec<usize> = text.split('-').map(str::len).collect();
    let hexadecimal = text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    hexadecimal && (lengths == [8, 4, 4, 4, 12] || lengths == [32])
}

/// Whether the text is a number with this many digits, within bounds.
fn digits(text: &str, count: usize, bounds: std::ops::RangeInclusive<u32>) -> bool {
    text.len() == count
        && text.bytes().all(|byte| byte.is_ascii_digit())
        && text.parse().is_ok_and(|number| bounds.contains(&number))
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts.as_slice() else { return false };
    if !(digits(year, 4, 0..=9999) && digits(month, 2, 1..=12) && digits(day, 2, 1..=31)) {
        return false;
    }
    let number = |text: &str| text.parse::<u32>().unwrap_or(0);
    let (year, month, day) = (number(year), number(month), number(day));
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    day <= last
}

fn is_date_time(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['T', 't', ' ']) else { return false };
    let zone = time.find(['Z', 'z', '+', '-']);
    let Some((clock, zone)) = zone.and_then(|at| time.split_at_checked(at)) else { return false };
    let zone_fits = match zone {
        "Z" | "z" => true,
        offset => offset
            .get(1..)
            .and_then(|offset| offset.split_once(':'))
            .is_some_and(|(hours, minutes)| digits(hours, 2, 0..=23) && digits(minutes, 2, 0..=59)),
    };
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let parts: Vec<&str> = clock.split(':').collect();
    let [hours, minutes, seconds] = parts.as_slice() else { return false };
    is_date(date)
        && zone_fits
        && digits(hours, 2, 0..=23)
        && digits(minutes, 2, 0..=59)
        && digits(seconds, 2, 0..=60)
        && !fraction.is_empty()
        && fraction.bytes().all(|byte| byte.is_ascii_digit())
}
