//! Formats each diagnostic as one line, `file:line:column: error[K0201]: message`, which editors and grep understand.
//! A diagnostic without a span shows its path instead.

use super::neutral::neutral_line;
use crate::{Diagnostic, Diagnostics, Sources};

/// One line per diagnostic.
#[must_use]
pub fn lines(diagnostics: &Diagnostics, sources: &Sources) -> String {
    diagnostics.iter().map(|diagnostic| line(diagnostic, sources) + "\n").collect()
}

/// The line of one diagnostic, without a newline.
#[must_use]
pub fn line(diagnostic: &Diagnostic, sources: &Sources) -> String {
    let Diagnostic { code, severity, message, path, primary, .. } = diagnostic;
    let rest = format!("{}[{code}]: {}", severity.as_str(), neutral_line(message));
    match (primary, path) {
        (Some(label), _) => {
            let position = sources.position(label.span).to_string();
            format!("{}: {rest}", neutral_line(&position))
        }
        (None, Some(path)) => format!("{}: {rest}", neutral_line(path)),
        (None, None) => rest,
    }
}
