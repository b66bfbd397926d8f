//! Turns a collection of diagnostics into the closing line that counts them, and the hint on where to read more.

use crate::{Diagnostics, Severity};

/// How many there are of each severity, such as `3 errors, 1 warning`; `no errors` when there is nothing.
#[must_use]
pub fn summary(diagnostics: &Diagnostics) -> String {
    let counts: Vec<String> = [Severity::Error, Severity::Warning]
        .into_iter()
        .filter_map(|severity| {
            let count = diagnostics.iter().filter(|diagnostic| diagnostic.severity == severity).count();
            (count > 0).then(|| counted(count, severity))
        })
        .collect();
    if counts.is_empty() { "no errors".to_owned() } else { counts.join(", ") }
}

/// What to type to read more about the first code; nothing when there is nothing to explain.
#[must_use]
pub fn explain_hint(diagnostics: &Diagnostics) -> Option<String> {
    let first = diagnostics.iter().min_by_key(|diagnostic| diagnostic.severity)?;
    let others = diagnostics.iter().any(|diagnostic| diagnostic.code != first.code);
    let example = if others { ", or any other code above" } else { "" };
    Some(format!("`kross explain {}` says more{example}", first.code))
}

pub(super) fn counted(count: usize, severity: Severity) -> String {
    format!("{count} {}{}", severity.as_str(), if count == 1 { "" } else { "s" })
}
