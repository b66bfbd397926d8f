//! Formats diagnostics as the message of a Kubernetes condition or Event. There is no source text to show there, so
//! each diagnostic has its path, and those that do not fit are counted.

use std::fmt::Write;

use super::neutral::neutral_line;
use super::summary::counted;
use crate::{Diagnostic, Diagnostics, Severity};

/// The longest note that the API server accepts on an Event, in bytes; conditions use the same message.
pub const CONDITION_LIMIT: usize = 1024;

/// Space reserved for the suffix that counts the omitted diagnostics.
const TAIL: usize = "; and 4294967295 more errors, 4294967295 more warnings".len();

/// `path: message (help) [code]`, several joined by `; `, in at most `limit` bytes; errors come first.
///
/// Diagnostics that do not fit are counted as `; and 3 more errors`. The first one is always included: if it is too
/// long, its help is dropped and then its message is truncated. A limit below 128 counts as 128.
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
    let entry = with_path(diagnostic, true);
    (entry.len() <= room).then_some(entry)
}

/// The entry, shortened until it fits: first without help, then with a truncated message.
pub(super) fn squeezed(diagnostic: &Diagnostic, room: usize) -> String {
    if let Some(entry) = fitting(diagnostic, room) {
        return entry;
    }
    let bare = with_path(diagnostic, false);
    if bare.len() <= room {
        return bare;
    }
    let tail = format!("… [{}]", diagnostic.code);
    let kept = bare.floor_char_boundary(room.saturating_sub(tail.len()));
    format!("{}{tail}", bare.get(..kept).unwrap_or_default())
}

fn with_path(diagnostic: &Diagnostic, help: bool) -> String {
    let entry = entry(diagnostic, help);
    match &diagnostic.path {
        Some(path) => format!("{}: {entry}", neutral_line(path)),
        None => entry,
    }
}

/// `message (help) [code]`.
pub(super) fn entry(diagnostic: &Diagnostic, help: bool) -> String {
    let mut entry = String::new();
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
            (count > 0).then(|| counted(count, "more ", severity))
        })
        .collect();
    format!("; and {}", counts.join(", "))
}
