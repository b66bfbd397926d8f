//! Reports the progress of slow steps as lines of text. The library never prints: the caller decides where the lines go.

use std::io::Write;
use std::sync::Arc;

/// Where progress lines go. Cheap to clone.
#[derive(Clone)]
pub struct Progress(Arc<dyn Fn(&str) + Send + Sync>);

impl Progress {
    /// Calls `write` with every line.
    pub fn new(write: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(write))
    }

    /// Drops every line.
    #[must_use]
    pub fn silent() -> Self {
        Self::new(|_| {})
    }

    /// Writes every line to standard error. `cargo test` shows them when a test fails.
    #[must_use]
    pub fn stderr() -> Self {
        Self::new(|line| {
            // A closed standard error is no reason to stop.
            let _ = writeln!(std::io::stderr().lock(), "{line}");
        })
    }

    /// Reports one line.
    pub fn say(&self, line: impl AsRef<str>) {
        (self.0)(line.as_ref());
    }
}

impl std::fmt::Debug for Progress {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Progress")
    }
}
