//! Turns times into ages, as kubectl shows them, and the times inside of sentences too: `since 2026-01-01T00:00:00Z` becomes
//! `for 5m`.

use jiff::Timestamp;
use kross_diagnostics::render::neutral;

/// The length of a time such as `2026-01-01T00:00:00Z`.
const LENGTH: usize = 20;

/// How long ago a time was: `5s`, `3m12s`, `42m`, `5h30m`, `3d`.
pub fn age(time: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(time.as_second()).max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    let two = |large: i64, large_unit: char, small: i64, small_unit: char| match small {
        0 => format!("{large}{large_unit}"),
        small => format!("{large}{large_unit}{small}{small_unit}"),
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => two(minutes, 'm', seconds % 60, 's'),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, 'h', minutes % 60, 'm'),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, 'd', hours % 24, 'h'),
        _ => format!("{days}d"),
    }
}

/// The age of a time that is part of an object; empty if there is none.
pub fn since(time: Option<&str>, now: Timestamp) -> String {
    time.and_then(|time| time.parse().ok()).map_or_else(String::new, |time| age(time, now))
}

/// A sentence with ages in place of times, and without anything that a terminal would interpret: objects of other clusters, and of
/// tenants, may say anything.
pub fn for_people(text: &str, now: Timestamp) -> String {
    let text = &*neutral(text);
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((at, time)) = next_time(rest) {
        let (before, after) = (rest.get(..at).unwrap_or_default(), rest.get(at + LENGTH..));
        if time > now {
            let before = before.strip_suffix("at ").unwrap_or(before);
            shown.push_str(&format!("{before}in {}", age(now, time)));
        } else if let Some(before) = before.strip_suffix("since ") {
            shown.push_str(&format!("{before}for {}", age(time, now)));
        } else {
            let before = before.strip_suffix("at ").unwrap_or(before);
            shown.push_str(&format!("{before}{} ago", age(time, now)));
        }
        rest = after.unwrap_or_default();
    }
    shown.push_str(rest);
    shown
}

/// The first time in a text.
fn next_time(text: &str) -> Option<(usize, Timestamp)> {
    let starts = text.char_indices().filter(|(_, character)| character.is_ascii_digit());
    starts.into_iter().find_map(|(at, _)| {
        let word = text.get(at..at + LENGTH)?;
        (word.ends_with('Z') && word.contains('T')).then(|| word.parse().ok().map(|time| (at, time)))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T12:00:00Z".parse().unwrap()
    }

    #[test]
    fn ages_are_those_of_kubectl() {
        for (seconds, shown) in [
            (0, "0s"),
            (119, "119s"),
            (192, "3m12s"),
            (180, "3m"),
            (2_520, "42m"),
            (7_300, "121m"),
            (19_800, "5h30m"),
            (90_000, "25h"),
            (180_000, "2d2h"),
            (8_640_000, "100d"),
        ] {
            let time = Timestamp::from_second(now().as_second() - seconds).unwrap();
            assert_eq!(age(time, now()), shown);
        }
    }

    #[test]
    fn times_in_a_sentence_become_ages() {
        for (text, shown) in [
            ("not connected (since 2026-01-01T11:55:00Z)", "not connected (for 5m)"),
            ("last seen at 2026-01-01T11:59:30Z: refused", "last seen 30s ago: refused"),
            ("orphaned at 2026-01-01T12:05:00Z unless", "orphaned in 5m unless"),
            ("port 2026 of 10.0.0.1", "port 2026 of 10.0.0.1"),
            ("größe 5 seit gestern", "größe 5 seit gestern"),
            ("\u{1b}[2Jall is well\u{202e}", "␛[2Jall is well\u{fffd}"),
        ] {
            assert_eq!(for_people(text, now()), shown);
        }
    }
}
