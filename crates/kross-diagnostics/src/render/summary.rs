//! The closing line that counts the diagnostics, and the hint on how to read more.

use crate::{Diagnostics, Severity};

/// The number of diagnostics of each severity, such as `3 errors, 1 warning`; `no errors` if there are none.
#[must_use]
pub fn summary(diagnostics: &Diagnostics) -> String {
    let counts: Vec<String> = [Severity::Error, Severity::Warning]
        .into_iter()
        .filter_map(|severity| {
            let count = diagnostics.iter().filter(|diagnostic| diagnostic.severity == severity).count();
            (count > 0).then(|| counted(count, "", severity))
        })
        .collect();
    if counts.is_empty() { "no errors".to_owned() } else { counts.join(", ") }
}

/// The command that explains the first code; `None` if there are no diagnostics.
#[must_use]
pub fn explain_hint(diagnostics: &Diagnostics) -> Option<String> {
    let first = diagnostics.iter().min_by_key(|diagnostic| diagnostic.severity)?;
    let others = diagnostics.iter().any(|diagnostic| diagnostic.code != first.code);
    let example = if others { " (or any other code above)" } else { "" };
    Some(format!("for details, run `kross explain {}`{example}", first.code))
}

pub(super) fn counted(count: usize, more: &str, severity: Severity) -> String {
    format!("{count} {more}{}{}", severity.as_str(), if count == 1 { "" } else { "s" })
}
