//! Turns what a command has to say into text: data to standard output, everything else to standard error. The only place that
//! prints.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use kross_diagnostics::render::Format;

/// What a command found out, which becomes the exit code; an error is the third case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The answer is yes, or the work is done: 0.
    Success,
    /// The answer is no: 1.
    No,
}

impl Outcome {
    /// The exit code when a command could not find out.
    pub(crate) const COULD_NOT_FIND_OUT: u8 = 2;

    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::No => 1,
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

    /// How mistakes are printed unless the person chose: in colour where a terminal shows it and nobody objects.
    pub(crate) fn format(&self) -> Format {
        coloured(self.data.is_terminal())
    }

    /// The same for mistakes that stand in the way of other data, and must not get in among it.
    pub(crate) fn note_format(&self) -> Format {
        coloured(self.notes.is_terminal())
    }

    /// Prints one line of data.
    ///
    /// # Errors
    /// Standard output is closed.
    pub(crate) fn data(&mut self, line: impl Display) -> io::Result<()> {
        writeln!(self.data, "{line}")?;
        self.data.flush()
    }

    /// Begins again at the top of the screen, where there is one.
    pub(crate) fn redraw(&mut self) {
        if self.data.is_terminal() {
            // A terminal that does not understand shows the next picture below the last.
            let _ = write!(self.data, "\u{1b}[H\u{1b}[2J");
        }
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

fn coloured(terminal: bool) -> Format {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if terminal && !plain { Format::Coloured } else { Format::Plain }
}
