//! Turns diagnostics into the one string that a Kubernetes condition or event carries. There is no source text to
//! show there, so each mistake names its path, and what does not fit is counted.

use std::fmt::Write;

use super::neutral::neutral_line;
use super::summary::counted;
use crate::{Diagnostic, Diagnostics, Severity};

/// The longest note the API server takes on an event, in bytes; conditions say the same sentence.
pub const CONDITION_LIMIT: usize = 1024;

/// Room kept for the part that counts what was left out.
const TAIL: usize = "; and 4294967295 errors, 4294967295 warnings more".len();

/// `path: message (help) [code]`, several joined by `; `, in at most `limit` bytes; errors go first.
///
/// What does not fit is summed up as `; and 3 errors more`. The first mistake is always there: its help is dropped
/// and its message cut short before it is left out. A limit below 128 counts as 128.
#[must_use]
pub fn condition(diagnostics: &Diagnostics, limit: usize) -> String {
    let limit = limit.max(128);
    let mut ordered: Vec<&Diagnostic> = diagnostics.iter().collect();
    ordered.sort_by_key(|diagnostic| diagnostic.severity);
    let mut text = String::new();
    for (shown, diagnostic) in ordered.iter().enumerate() {
        let last = shown + 1 == ordered.len();
        let separator = if text.is_empty() { "" } else { "; " };
        let room = limit.saturating_sub(text.len() + separator.len() + if last { 0 } else { TAIL });
        let entry =
            if text.is_empty() { Some(squeezed(diagnostic, room)) } else { fitting(diagnostic, room) };
        let Some(entry) = entry else {
            text.push_str(&rest(ordered.get(shown..).unwrap_or_default()));
            break;
        };
        let _ = write!(text, "{separator}{entry}");
    }
    text
}

fn fitting(diagnostic: &Diagnostic, room: usize) -> Option<String> {
    let entry = entry(diagnostic, true);
    (entry.len() <= room).then_some(entry)
}

/// The entry, shortened until it fits: first without help, then with a cut message.
fn squeezed(diagnostic: &Diagnostic, room: usize) -> String {
    if let Some(entry) = fitting(diagnostic, room) {
        return entry;
    }
    let bare = entry(diagnostic, false);
    if bare.len() <= room {
        return bare;
    }
    let tail = format!("… [{}]", diagnostic.code);
    let kept = bare.floor_char_boundary(room.saturating_sub(tail.len()));
    format!("{}{tail}", bare.get(..kept).unwrap_or_default())
}

fn entry(diagnostic: &Diagnostic, help: bool) -> String {
    let mut entry = String::new();
    if let Some(path) = &diagnostic.path {
        let _ = write!(entry, "{}: ", neutral_line(path));
    }
    if diagnostic.severity == Severity::Warning {
        entry.push_str("warning: ");
    }
    entry.push_str(&neutral_line(&diagnostic.message));
    if let Some(advice) = diagnostic.help.first().filter(|_| help) {
        let _ = write!(entry, " ({}", neutral_line(&advice.text));
        let replacement = advice.edit.as_ref().map_or("", |edit| edit.replacement.as_str());
        if !replacement.is_empty() && !advice.text.contains(replacement) && !replacement.contains('\n') {
            let _ = write!(entry, ": `{}`", neutral_line(replacement));
        }
        entry.push(')');
    }
    let _ = write!(entry, " [{}]", diagnostic.code);
    entry
}

fn rest(left_out: &[&Diagnostic]) -> String {
    let counts: Vec<String> = [Severity::Error, Severity::Warning]
        .into_iter()
        .filter_map(|severity| {
            let count = left_out.iter().filter(|diagnostic| diagnostic.severity == severity).count();
            (count > 0).then(|| counted(count, severity))
        })
        .collect();
    format!("; and {} more", counts.join(", "))
}
