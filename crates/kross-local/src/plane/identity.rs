//! Turns a process number into an identity that survives the reuse of numbers: the number together with when the process
//! began.

use std::fmt;
use std::str::FromStr;

use rustix::process::{Pid, Signal, kill_process};

/// A process, told from any later one with the same number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProcessIdentity {
    number: u32,
    began: String,
}

impl ProcessIdentity {
    /// The identity of the process that has this number now, if there is one.
    pub(super) fn of(number: u32) -> Option<Self> {
        began(number).map(|began| Self { number, began })
    }

    /// Ends the process if it is still the same one.
    pub(super) fn end(&self) {
        if began(self.number).as_ref() != Some(&self.began) {
            return;
        }
        let number = i32::try_from(self.number).ok().and_then(Pid::from_raw);
        if let Some(number) = number {
            // It may end by itself in this very moment.
            let _ = kill_process(number, Signal::KILL);
        }
    }
}

impl fmt::Display for ProcessIdentity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.number, self.began)
    }
}

impl FromStr for ProcessIdentity {
    type Err = ();

    fn from_str(line: &str) -> Result<Self, Self::Err> {
        let (number, began) = line.split_once(' ').ok_or(())?;
        Ok(Self { number: number.parse().map_err(drop)?, began: began.to_owned() })
    }
}

/// When a process began, in the system's own words.
#[cfg(target_os = "linux")]
fn began(number: u32) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    // The second field is the program's name, which may contain spaces and parentheses; the 22nd is the start time.
    let (_, after_name) = text.rsplit_once(')')?;
    after_name.split_whitespace().nth(19).map(str::to_owned)
}

/// When a process began, in the system's own words.
#[cfg(not(target_os = "linux"))]
fn began(number: u32) -> Option<String> {
    let output =
        std::process::Command::new("ps").args(["-o", "lstart=", "-p", &number.to_string()]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}
