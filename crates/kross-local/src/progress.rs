//! Turns what a slow step is doing into lines for whoever waits. The library never prints by itself: a caller hands in where
//! the lines go.

use std::io::Write;
use std::sync::Arc;

/// Where progress lines go. Cheap to clone.
#[derive(Clone)]
pub struct Progress(Arc<dyn Fn(&str) + Send + Sync>);

impl Progress {
    /// Hands every line to `write`.
    pub fn new(write: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(write))
    }

    /// Drops every line.
    #[must_use]
    pub fn silent() -> Self {
        Self::new(|_| {})
    }

    /// Writes every line to standard error, which stays visible under `cargo test` when a test fails.
    #[must_use]
    pub fn stderr() -> Self {
        Self::new(|line| {
            // A closed standard error is no reason to stop working.
            let _ = writeln!(std::io::stderr().lock(), "{line}");
        })
    }

    /// Says one line.
    pub fn say(&self, line: impl AsRef<str>) {
        (self.0)(line.as_ref());
    }
}

impl std::fmt::Debug for Progress {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Progress")
    }
}
