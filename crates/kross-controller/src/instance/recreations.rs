//! Backs off the deletion of an instance whose objects another client creates again as soon as they are deleted.

use std::time::Duration;

use kross_cluster::Backoff;
use tokio::time::Instant;

const BACKOFF: Backoff = Backoff { base: Duration::from_secs(1), cap: Duration::from_secs(60) };

/// How often objects were created again during the deletion of an instance.
#[derive(Debug, Default)]
pub(super) struct Recreations {
    passes: u32,
    /// When the deletion continues.
    until: Option<Instant>,
}

impl Recreations {
    /// A pass has found objects that were created again.
    pub(super) fn found(&mut self, now: Instant) {
        self.passes = self.passes.saturating_add(1);
        self.until = Some(now + BACKOFF.delay(self.passes, 1.0));
    }

    /// How long it is until the deletion continues, if it has to wait.
    pub(super) fn wait(&self, now: Instant) -> Option<Duration> {
        self.until.filter(|until| now < *until).map(|until| until - now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deletion_waits_longer_each_time_and_at_most_a_minute() {
        let (mut recreations, mut now) = (Recreations::default(), Instant::now());
        assert_eq!(recreations.wait(now), None);
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            recreations.found(now);
            let wait = Duration::from_secs(seconds);
            assert_eq!(recreations.wait(now), Some(wait));
            now += wait;
            assert_eq!(recreations.wait(now), None);
        }
    }
}
