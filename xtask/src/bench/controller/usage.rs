//! What a running controller has used so far, according to the system.

use std::time::Duration;

use anyhow::Context;
use kross_local::Program;

/// What a process has used.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    /// Time on all processors.
    pub(super) processor: Duration,
    /// Bytes in memory at this moment.
    pub(super) resident: u64,
}

/// The system counts processor time in these, on every Linux that Rust runs on.
const TICK: Duration = Duration::from_millis(10);

impl Usage {
    pub(super) fn of(program: &Program) -> anyhow::Result<Self> {
        let read = |file: &str| {
            let path = format!("/proc/{}/{file}", program.number());
            let text = std::fs::read_to_string(&path);
            text.with_context(|| format!("cannot read {path}; the controller said:\n{}", program.log()))
        };
        let (stat, status) = (read("stat")?, read("status")?);
        Ok(Self {
            processor: processor(&stat).context("no processor time in /proc/PID/stat")?,
            resident: resident(&status).context("no `VmRSS` in /proc/PID/status")?,
        })
    }
}

/// User and system time. The name in the second field may have spaces, but ends with the last parenthesis.
fn processor(stat: &str) -> Option<Duration> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let (user, system): (u32, u32) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(TICK * (user + system))
}

fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_memory_are_read_whatever_the_program_is_called() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 9 0 0 0 150 50 0 0 20 0 9 0 3 4 5";
        assert_eq!(processor(stat), Some(Duration::from_secs(2)));
        assert_eq!(resident("Name:\tx\nVmRSS:\t    2048 kB\n"), Some(2 << 20));
    }
}
