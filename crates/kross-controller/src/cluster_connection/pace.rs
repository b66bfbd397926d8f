//! How often the object of one cluster is written: at once when its state changes for the first time, and less often when it keeps
//! changing.

use std::time::Duration;

use tokio::time::Instant;

use super::ConnectionIntervals;
use super::status::Importance;

/// How often the state of a cluster may change before its changes are published with a delay.
const STATES: u32 = 5;
/// How often details may change before that: a cluster that was just connected gets its first objects soon.
const DETAILS: u32 = 2;

/// The pace of the writes of one object.
#[derive(Debug)]
pub(super) struct Pace {
    states: Bucket,
    details: Bucket,
}

impl Pace {
    /// The object was published by an earlier process, or is new.
    pub(super) fn new(intervals: ConnectionIntervals, is_published: bool, now: Instant) -> Self {
        let details = if is_published { 0 } else { DETAILS };
        Self {
            states: Bucket::new(STATES, STATES, intervals.states, now),
            details: Bucket::new(DETAILS, details, intervals.details, now),
        }
    }

    /// Whether the object may be written now, which counts as a write.
    pub(super) fn take(&mut self, importance: Importance, now: Instant) -> bool {
        match importance {
            Importance::Loss | Importance::State => self.states.take(now),
            Importance::Detail => self.details.take(now),
            Importance::Deletion => true,
        }
    }
}

/// A number of writes, of which one comes back in each interval.
#[derive(Debug)]
struct Bucket {
    capacity: u32,
    left: u32,
    interval: Duration,
    /// When the last one came back.
    refilled: Instant,
}

impl Bucket {
    fn new(capacity: u32, left: u32, interval: Duration, now: Instant) -> Self {
        Self { capacity, left, interval, refilled: now }
    }

    fn take(&mut self, now: Instant) -> bool {
        while self.left < self.capacity && now.duration_since(self.refilled) >= self.interval {
            self.left += 1;
            self.refilled += self.interval;
        }
        if self.left == self.capacity {
            self.refilled = now;
        }
        let is_allowed = self.left > 0;
        self.left = self.left.saturating_sub(1);
        is_allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn writes(importance: Importance, is_published: bool, seconds: u32) -> u32 {
        let start = Instant::now();
        let mut pace = Pace::new(ConnectionIntervals::default(), is_published, start);
        let changes = (0..seconds).filter(|second| pace.take(importance, start + SECOND * *second));
        u32::try_from(changes.count()).unwrap()
    }

    #[test]
    fn a_cluster_that_changes_every_second_is_written_at_once_and_then_now_and_then() {
        assert_eq!(writes(Importance::State, true, 5), 5);
        assert_eq!(writes(Importance::State, true, 600), 5 + 29);
        assert_eq!(writes(Importance::Detail, false, 600), 2 + 9);
    }

    #[test]
    fn details_of_a_published_cluster_are_not_written_right_after_a_start() {
        assert_eq!(writes(Importance::Detail, true, 60), 0);
        assert_eq!(writes(Importance::Detail, true, 61), 1);
    }
}
