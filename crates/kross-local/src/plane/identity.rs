//! The identity of a process: its ID and start time. A later process with the same ID has another identity.

use std::fmt;
use std::str::FromStr;

use rustix::process::{Pid, Signal, kill_process};

/// The ID and start time of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProcessIdentity {
    pid: u32,
    started: String,
}

impl ProcessIdentity {
    /// The identity of the process that has this ID now, if there is one.
    pub(super) fn of(pid: u32) -> Option<Self> {
        start_time(pid).map(|started| Self { pid, started })
    }

    /// Kills the process if it is still the same one.
    pub(super) fn kill(&self) {
        if start_time(self.pid).as_ref() != Some(&self.started) {
            return;
        }
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // It may exit in this moment.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

impl fmt::Display for ProcessIdentity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.pid, self.started)
    }
}

impl FromStr for ProcessIdentity {
    type Err = ();

    fn from_str(line: &str) -> Result<Self, Self::Err> {
        let (pid, started) = line.split_once(' ').ok_or(())?;
        Ok(Self { pid: pid.parse().map_err(drop)?, started: started.to_owned() })
    }
}

/// The start time of a process, in the format of the system.
#[cfg(target_os = "linux")]
fn start_time(pid: u32) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name, which may contain spaces and parentheses; the 22nd is the start time.
    let (_, after_name) = text.rsplit_once(')')?;
    after_name.split_whitespace().nth(19).map(str::to_owned)
}

/// The start time of a process, in the format of the system.
#[cfg(not(target_os = "linux"))]
fn start_time(pid: u32) -> Option<String> {
    let output =
        std::process::Command::new("ps").args(["-o", "lstart=", "-p", &pid.to_string()]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}
