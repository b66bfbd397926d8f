//! Measures how long something took, without what a busy machine added to it. A promise of so many seconds is about the
//! product; a test that breaks since others wanted the processor as well says nothing about it.

use std::time::{Duration, Instant};

/// Time since a moment, less the time in which somebody on this machine waited for a processor.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    started: Instant,
    waited: Duration,
}

impl Stopwatch {
    /// Starts now.
    #[must_use]
    pub fn start() -> Self {
        Self { started: Instant::now(), waited: waited() }
    }

    /// How long it has been on a machine with nothing else to do, at least.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        let waited = waited().saturating_sub(self.waited);
        self.started.elapsed().saturating_sub(waited)
    }

    /// Ends the test if it has been longer than this.
    ///
    /// # Panics
    /// It has.
    #[track_caller]
    pub fn assert_within(&self, limit: Duration) {
        let (quiet, wall) = (self.elapsed(), self.started.elapsed());
        assert!(
            quiet < limit,
            "it took {wall:?}, {quiet:?} of them with a free processor, in place of {limit:?}"
        );
    }
}

/// For how long in all somebody has waited for a processor; nothing where the system does not say.
fn waited() -> Duration {
    std::fs::read_to_string("/proc/pressure/cpu").ok().and_then(|text| total(&text)).unwrap_or_default()
}

fn total(text: &str) -> Option<Duration> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    let micros = line.split_whitespace().find_map(|field| field.strip_prefix("total="))?;
    micros.parse().ok().map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_says_is_read() {
        let text = "some avg10=96.57 avg60=88.33 avg300=52.88 total=1500000\nfull avg10=0.00 total=7\n";
        assert_eq!(total(text), Some(Duration::from_millis(1500)));
        assert_eq!(total("full avg10=0.00 total=7"), None);
    }

    #[test]
    fn what_others_took_does_not_count() {
        let busy = Stopwatch { started: Instant::now(), waited: Duration::ZERO };
        assert!(busy.elapsed() <= busy.started.elapsed());
        busy.assert_within(Duration::from_secs(10));
    }
}
