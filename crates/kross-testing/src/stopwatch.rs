//! Compares how long something took with a limit, and tells a slow product from a busy machine: time in which tasks waited
//! for a CPU is subtracted, and a result that depends on that subtraction is reported as inconclusive.

use std::fmt;
use std::io::Write;
use std::panic::Location;
use std::time::{Duration, Instant};

/// Measures wall time, and wall time less the CPU pressure of the whole machine.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch<P = fn() -> Duration> {
    started: Instant,
    /// Reads for how long, in total, some task of this machine has waited for a CPU.
    cpu_pressure: P,
    /// That reading at the start.
    pressure_at_start: Duration,
}

/// A measurement and its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Measurement {
    wall: Duration,
    /// Wall time less CPU pressure: a lower bound of the time on an idle machine.
    corrected: Duration,
    limit: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// The wall time is within the limit.
    Pass,
    /// Only the corrected time is within the limit: an idle machine may or may not have met it.
    Inconclusive,
    /// Even the corrected time exceeds the limit.
    Fail,
}

impl Stopwatch {
    /// Starts a measurement.
    #[must_use]
    pub fn start() -> Self {
        Self::with_pressure(system_cpu_pressure)
    }
}

impl<P: Fn() -> Duration> Stopwatch<P> {
    fn with_pressure(cpu_pressure: P) -> Self {
        let pressure_at_start = cpu_pressure();
        Self { started: Instant::now(), cpu_pressure, pressure_at_start }
    }

    /// The time since the start, less the time in which tasks of this machine waited for a CPU.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.measure(Duration::MAX).corrected
    }

    /// Fails the test if it took longer than `limit`. If that depends on how busy the machine was, says so on stderr and
    /// lets the test pass.
    ///
    /// # Panics
    /// The time without CPU pressure exceeds the limit.
    #[track_caller]
    pub fn assert_within(&self, limit: Duration) {
        // Not `eprintln!`: the test harness captures that and drops it when the test passes.
        self.measure(limit).check(Location::caller(), &mut std::io::stderr());
    }

    fn measure(&self, limit: Duration) -> Measurement {
        let wall = self.started.elapsed();
        let pressure = (self.cpu_pressure)().saturating_sub(self.pressure_at_start);
        Measurement { wall, corrected: wall.saturating_sub(pressure), limit }
    }
}

impl Measurement {
    #[track_caller]
    fn check(&self, caller: &Location<'_>, output: &mut impl Write) {
        let verdict = self.verdict();
        assert!(verdict != Verdict::Fail, "{self}");
        if verdict == Verdict::Inconclusive {
            let _ = writeln!(output, "inconclusive: {caller}: {self}");
        }
    }

    fn verdict(&self) -> Verdict {
        if self.wall < self.limit {
            Verdict::Pass
        } else if self.corrected < self.limit {
            Verdict::Inconclusive
        } else {
            Verdict::Fail
        }
    }
}

impl fmt::Display for Measurement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { wall, corrected, limit } = self;
        write!(formatter, "took {wall:.1?}, {corrected:.1?} without CPU pressure; the limit is {limit:?}")
    }
}

/// For how long, in total, some task of this machine has waited for a CPU; zero where the kernel does not report it.
fn system_cpu_pressure() -> Duration {
    let text = std::fs::read_to_string("/proc/pressure/cpu").ok();
    text.and_then(|text| parse_total(&text)).unwrap_or_default()
}

fn parse_total(text: &str) -> Option<Duration> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    let micros = line.split_whitespace().find_map(|field| field.strip_prefix("total="))?;
    micros.parse().ok().map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// What a check of these times, in seconds, prints.
    fn output(wall: u64, corrected: u64, limit: u64) -> String {
        let [wall, corrected, limit] = [wall, corrected, limit].map(Duration::from_secs);
        let mut output = Vec::new();
        Measurement { wall, corrected, limit }.check(Location::caller(), &mut output);
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn reads_the_total_of_the_kernels_pressure_report() {
        let text = "some avg10=96.57 avg60=88.33 avg300=52.88 total=1500000\nfull avg10=0.00 total=7\n";
        assert_eq!(parse_total(text), Some(Duration::from_millis(1500)));
        assert_eq!(parse_total("full avg10=0.00 total=7"), None);
    }

    #[test]
    fn subtracts_the_pressure_since_the_start() {
        let ten_seconds_ago = Instant::now().checked_sub(Duration::from_secs(10)).unwrap();
        for (pressure, expected) in [(0, 10), (6, 4), (20, 0)] {
            let reading = Cell::new(Duration::from_secs(100));
            let advance = || reading.replace(reading.get() + Duration::from_secs(pressure));
            let mut stopwatch = Stopwatch::with_pressure(advance);
            stopwatch.started = ten_seconds_ago;
            let elapsed = stopwatch.elapsed();
            assert_eq!(elapsed.as_secs(), expected, "{elapsed:?}");
        }
    }

    #[test]
    fn passes_silently_while_the_wall_time_is_within_the_limit() {
        assert_eq!(output(4, 4, 5), "");
        assert_eq!(output(4, 0, 5), "");
    }

    #[test]
    fn says_inconclusive_when_only_pressure_brings_the_time_within_the_limit() {
        let output = output(10, 4, 5);
        assert!(output.starts_with("inconclusive: ") && output.contains("stopwatch.rs:"), "{output}");
        let expected = ": took 10.0s, 4.0s without CPU pressure; the limit is 5s\n";
        assert!(output.ends_with(expected), "{output}");
    }

    #[test]
    #[should_panic(expected = "took 10.0s, 9.0s without CPU pressure; the limit is 5s")]
    fn fails_when_pressure_does_not_explain_the_time() {
        output(10, 9, 5);
    }
}
