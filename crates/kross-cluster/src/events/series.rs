//! Decides which reports become events, which are repetitions of one, and which are too many. Pure: the caller brings the
//! clock.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::{MAX_NAME, Regarding, Report};

/// After this time without a repetition the same report is a new event.
const SERIES_TIMEOUT: Duration = Duration::from_secs(6 * 60);
/// Events that are remembered.
const MAX_REMEMBERED: usize = 4096;
/// An object may have this many different events at once…
const BURST: f64 = 25.0;
/// …and then one more in this time.
const REFILL: Duration = Duration::from_secs(60);

/// What a report is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Recorded {
    /// A new event, under this name.
    New { name: String },
    /// A repetition, which will be counted.
    Repeated,
    /// One too many for its object.
    TooMany,
}

/// A count to write.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Repeat {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) count: i64,
}

#[derive(Default)]
pub(super) struct Series {
    known: HashMap<Report, Known>,
    allowances: HashMap<Regarding, Allowance>,
    names: u32,
}

struct Known {
    name: String,
    count: i64,
    counted: i64,
    last: Instant,
}

/// How many more events an object may have, as of a time.
struct Allowance {
    left: f64,
    at: Instant,
}

impl Series {
    pub(super) fn record(&mut self, report: &Report, now: Instant) -> Recorded {
        if let Some(known) = self.known.get_mut(report)
            && now.duration_since(known.last) < SERIES_TIMEOUT
        {
            known.count += 1;
            known.last = now;
            return Recorded::Repeated;
        }
        self.make_room(now);
        if !self.allowed(&report.regarding, now) {
            return Recorded::TooMany;
        }
        let name = self.name(&report.regarding);
        let known = Known { name: name.clone(), count: 1, counted: 1, last: now };
        self.known.insert(report.clone(), known);
        Recorded::New { name }
    }

    /// The counts that changed since they were written.
    pub(super) fn repeats(&mut self, now: Instant) -> Vec<Repeat> {
        let changed = self.known.iter_mut().filter(|(_, known)| known.count > known.counted);
        let repeats = changed
            .map(|(report, known)| {
                known.counted = known.count;
                let namespace = namespace(&report.regarding).to_owned();
                Repeat { namespace, name: known.name.clone(), count: known.count }
            })
            .collect();
        self.known.retain(|_, known| now.duration_since(known.last) < SERIES_TIMEOUT);
        self.allowances.retain(|_, allowance| allowance.refilled(now) < BURST);
        repeats
    }

    fn make_room(&mut self, now: Instant) {
        if self.known.len() >= MAX_REMEMBERED {
            self.known.retain(|_, known| now.duration_since(known.last) < SERIES_TIMEOUT / 6);
        }
        if self.known.len() >= MAX_REMEMBERED {
            self.known.clear();
        }
        if self.allowances.len() >= MAX_REMEMBERED {
            self.allowances.clear();
        }
    }

    fn allowed(&mut self, regarding: &Regarding, now: Instant) -> bool {
        let allowance =
            self.allowances.entry(regarding.clone()).or_insert(Allowance { left: BURST, at: now });
        allowance.left = allowance.refilled(now);
        allowance.at = now;
        let allowed = allowance.left >= 1.0;
        if allowed {
            allowance.left -= 1.0;
        }
        allowed
    }

    /// Unique: a time in nanoseconds, and a number in case that two have the same.
    fn name(&mut self, regarding: &Regarding) -> String {
        self.names = self.names.wrapping_add(1);
        let nanoseconds = jiff::Timestamp::now().as_nanosecond();
        let prefix: String = regarding.name.chars().take(MAX_NAME).collect();
        format!("{prefix}.{nanoseconds:x}{:04x}", self.names & 0xffff)
    }
}

impl Allowance {
    fn refilled(&self, now: Instant) -> f64 {
        let gained = now.duration_since(self.at).as_secs_f64() / REFILL.as_secs_f64();
        (self.left + gained).min(BURST)
    }
}

/// Events about objects without a namespace are in `default`.
pub(super) fn namespace(regarding: &Regarding) -> &str {
    regarding.namespace.as_deref().unwrap_or("default")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Severity;

    fn report(name: &str, note: &str) -> Report {
        Report {
            regarding: Regarding {
                api_version: "v1".into(),
                kind: "Web".into(),
                namespace: Some("shop".into()),
                name: name.into(),
                uid: name.into(),
            },
            severity: Severity::Warning,
            reason: "ResourcesReady".into(),
            action: "Reconcile".into(),
            note: note.into(),
        }
    }

    #[test]
    fn what_repeats_is_counted_once_in_a_while() {
        let (mut series, now) = (Series::default(), Instant::now());
        let Recorded::New { name } = series.record(&report("a", "x"), now) else { panic!() };
        assert!(series.repeats(now).is_empty());
        for _ in 0..9 {
            assert_eq!(series.record(&report("a", "x"), now), Recorded::Repeated);
        }
        assert_eq!(series.repeats(now), [Repeat { namespace: "shop".into(), name, count: 10 }]);
        assert!(series.repeats(now).is_empty());
    }

    #[test]
    fn what_has_not_repeated_for_long_is_new_again() {
        let (mut series, now) = (Series::default(), Instant::now());
        series.record(&report("a", "x"), now);
        assert!(matches!(series.record(&report("a", "x"), now + SERIES_TIMEOUT), Recorded::New { .. }));
    }

    #[test]
    fn one_object_cannot_flood_the_cluster() {
        let (mut series, now) = (Series::default(), Instant::now());
        let count = |series: &mut Series, from: usize, now: Instant| {
            (from..from + 100)
                .filter(|n| matches!(series.record(&report("a", &n.to_string()), now), Recorded::New { .. }))
                .count()
        };
        assert_eq!(count(&mut series, 0, now), 25);
        assert!(matches!(series.record(&report("b", "x"), now), Recorded::New { .. }));
        assert_eq!(count(&mut series, 100, now + REFILL * 3), 3);
    }

    #[test]
    fn memory_is_bounded() {
        let (mut series, now) = (Series::default(), Instant::now());
        for n in 0..20_000 {
            series.record(&report(&n.to_string(), "x"), now);
        }
        assert!(series.known.len() <= MAX_REMEMBERED && series.allowances.len() <= MAX_REMEMBERED);
        series.repeats(now + SERIES_TIMEOUT * 10);
        assert!(series.known.is_empty() && series.allowances.is_empty());
    }
}
