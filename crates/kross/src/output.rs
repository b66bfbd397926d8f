//! Turns what a command has to say into text: data to standard output, everything else to standard error. The only place that
//! prints.

use std::fmt::Display;
use std::io::{self, Write};

/// What a command found out, which becomes the exit code; an error is the third case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The answer is yes, or the work is done: 0.
    Success,
}

impl Outcome {
    /// The exit code when a command could not find out.
    pub(crate) const COULD_NOT_FIND_OUT: u8 = 2;

    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Self::Success => 0,
        }
    }
}

/// Where a command's words go.
#[derive(Debug)]
pub(crate) struct Output {
    data: io::Stdout,
    notes: io::Stderr,
}

impl Output {
    pub(crate) fn new() -> Self {
        Self { data: io::stdout(), notes: io::stderr() }
    }

    /// Prints one line of data.
    ///
    /// # Errors
    /// Standard output is closed.
    pub(crate) fn data(&mut self, line: impl Display) -> io::Result<()> {
        writeln!(self.data, "{line}")?;
        self.data.flush()
    }

    /// Says something to the person at the terminal. A closed standard error is no reason to stop.
    pub(crate) fn note(&mut self, line: impl Display) {
        let _ = writeln!(self.notes, "{line}");
    }

    /// Says why a command could not find out. Whoever closed standard output early, as `head` does, needs no explanation.
    pub(crate) fn error(&mut self, error: &anyhow::Error) {
        let closed = |cause: &(dyn std::error::Error + 'static)| {
            cause.downcast_ref::<io::Error>().is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
        };
        if !error.chain().any(closed) {
            self.note(format_args!("error: {error:#}"));
        }
    }
}
