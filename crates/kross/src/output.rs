//! Writes a command's output: data to standard output, everything else to standard error. The only place that prints.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use kross_diagnostics::render::Format;

/// The answer of a command, which becomes its exit code. An error is the third case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The answer is yes, or the work is done: 0.
    Success,
    /// The answer is no: 1.
    No,
}

impl Outcome {
    /// The exit code of a command that ended with an error.
    pub(crate) const ERROR_EXIT_CODE: u8 = 2;

    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::No => 1,
        }
    }
}

/// The output streams of a command.
#[derive(Debug)]
pub(crate) struct Output {
    data: io::Stdout,
    notes: io::Stderr,
}

impl Output {
    pub(crate) fn new() -> Self {
        Self { data: io::stdout(), notes: io::stderr() }
    }

    /// The default format of diagnostics on standard output: coloured on a terminal, unless `NO_COLOR` is set.
    pub(crate) fn format(&self) -> Format {
        coloured(self.data.is_terminal())
    }

    /// The format of diagnostics on standard error, for commands that print other data to standard output.
    pub(crate) fn note_format(&self) -> Format {
        coloured(self.notes.is_terminal())
    }

    /// The width of the terminal that standard output is. None if it is a pipe or a file, where lines are never broken.
    pub(crate) fn width(&self) -> Option<usize> {
        if !self.data.is_terminal() {
            return None;
        }
        let size = rustix::termios::tcgetwinsize(&self.data).ok()?;
        Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
    }

    /// Prints one line of data.
    ///
    /// # Errors
    /// Standard output is closed.
    pub(crate) fn data(&mut self, line: impl Display) -> io::Result<()> {
        writeln!(self.data, "{line}")?;
        self.data.flush()
    }

    /// Clears the screen, if standard output is a terminal.
    pub(crate) fn redraw(&mut self) {
        if self.data.is_terminal() {
            // A terminal without support for it shows the next output below the last.
            let _ = write!(self.data, "\u{1b}[H\u{1b}[2J");
        }
    }

    /// Prints a line to standard error. A closed standard error is no reason to stop.
    pub(crate) fn note(&mut self, line: impl Display) {
        let _ = writeln!(self.notes, "{line}");
    }

    /// Prints an error and returns the exit code. That the reader of standard output has enough, as `head` does, is no
    /// error.
    pub(crate) fn error(&mut self, error: &anyhow::Error) -> u8 {
        let closed = |cause: &(dyn std::error::Error + 'static)| {
            cause.downcast_ref::<io::Error>().is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
        };
        if error.chain().any(closed) {
            return Outcome::Success.exit_code();
        }
        self.note(format_args!("error: {}", with_causes(error)));
        Outcome::ERROR_EXIT_CODE
    }
}

/// The error with its causes. Skips a cause whose text is part of the error before it.
fn with_causes(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

fn coloured(terminal: bool) -> Format {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if terminal && !plain { Format::Coloured } else { Format::Plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_printed_with_each_cause_once() {
        let error =
            anyhow::anyhow!("no such file").context("cannot read x: no such file").context("cannot start");
        assert_eq!(with_causes(&error), "cannot start: cannot read x: no such file");
    }
}
