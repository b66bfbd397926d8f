//! The CPU time and memory of a running controller.

use std::time::Duration;

use anyhow::Context;
use kross_local::Program;

/// The resource usage of a process.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    /// CPU time on all cores.
    pub(super) cpu: Duration,
    /// Resident memory in bytes.
    pub(super) resident: u64,
    /// The most that it was so far.
    pub(super) peak: u64,
}

/// The unit of CPU time in `/proc`: 100 ticks per second on every Linux that Rust supports.
const TICK: Duration = Duration::from_millis(10);

impl Usage {
    pub(super) fn of(program: &Program) -> anyhow::Result<Self> {
        let read = |file: &str| {
            let path = format!("/proc/{}/{file}", program.pid());
            let text = std::fs::read_to_string(&path);
            text.with_context(|| format!("cannot read {path}; the log of the controller:\n{}", program.log()))
        };
        let (stat, status) = (read("stat")?, read("status")?);
        Ok(Self {
            cpu: cpu_time(&stat).context("no CPU time in /proc/PID/stat")?,
            resident: memory(&status, "VmRSS:").context("no `VmRSS` in /proc/PID/status")?,
            peak: memory(&status, "VmHWM:").context("no `VmHWM` in /proc/PID/status")?,
        })
    }
}

/// User and system time. The program name in the second field may contain spaces; it ends with the last parenthesis.
fn cpu_time(stat: &str) -> Option<Duration> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let (user, system): (u32, u32) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(TICK * (user + system))
}

fn memory(status: &str, field: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_with_spaces_and_parentheses_is_skipped() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 9 0 0 0 150 50 0 0 20 0 9 0 3 4 5";
        assert_eq!(cpu_time(stat), Some(Duration::from_secs(2)));
        assert_eq!(memory("Name:\tx\nVmRSS:\t    2048 kB\n", "VmRSS:"), Some(2 << 20));
    }
}
