//! Decides which reports become new events, which repeat an event, and which are dropped. No I/O and no clock of its
//! own.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::{MAX_NAME, Regarding, Report};

/// After this time without a repetition, the same report is a new event.
const SERIES_TIMEOUT: Duration = Duration::from_secs(6 * 60);
/// The maximum number of remembered events.
const MAX_REMEMBERED: usize = 4096;
/// The number of different events that an object may have at once…
const BURST: f64 = 25.0;
/// …and the time after which it may have one more.
const REFILL: Duration = Duration::from_secs(60);

/// What becomes of a report.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Recorded {
    /// It is a new event with this name.
    New { name: String },
    /// It repeats an event, whose count will be written.
    Repeated,
    /// It exceeds the limit of its object, and is dropped.
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

    /// The counts that have changed since they were last written.
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

    /// Unique: the time in nanoseconds, and a number in case two are equal.
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

/// Events of cluster-scoped objects are in `default`.
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
    fn repeated_reports_are_counted_and_written_together() {
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
    fn a_report_after_the_series_timeout_is_a_new_event() {
        let (mut series, now) = (Series::default(), Instant::now());
        series.record(&report("a", "x"), now);
        assert!(matches!(series.record(&report("a", "x"), now + SERIES_TIMEOUT), Recorded::New { .. }));
    }

    #[test]
    fn limits_the_events_of_an_object() {
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
    fn the_number_of_remembered_events_is_bounded() {
        let (mut series, now) = (Series::default(), Instant::now());
        for n in 0..20_000 {
            series.record(&report(&n.to_string(), "x"), now);
        }
        assert!(series.known.len() <= MAX_REMEMBERED && series.allowances.len() <= MAX_REMEMBERED);
        series.repeats(now + SERIES_TIMEOUT * 10);
        assert!(series.known.is_empty() && series.allowances.is_empty());
    }
}
