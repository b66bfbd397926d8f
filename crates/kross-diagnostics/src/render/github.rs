//! Formats each diagnostic as a GitHub workflow command, which shows it next to the changed line of a pull request.

use std::fmt::Write;

use super::neutral::neutral;
use crate::{Diagnostic, Diagnostics, Sources};

/// One workflow command per line.
#[must_use]
pub fn github(diagnostics: &Diagnostics, sources: &Sources) -> String {
    diagnostics.iter().map(|diagnostic| command(diagnostic, sources) + "\n").collect()
}

fn command(diagnostic: &Diagnostic, sources: &Sources) -> String {
    let mut properties = diagnostic.primary.as_ref().map_or_else(String::new, |label| {
        let start = sources.position(label.span);
        let end = sources.end_position(label.span);
        let mut place = format!("file={},line={},endLine={}", property(&start.file), start.line, end.line);
        // GitHub rejects columns on annotations that span several lines.
        if start.line == end.line {
            let _ = write!(place, ",col={},endColumn={}", start.column, end.column);
        }
        place.push(',');
        place
    });
    let title = format!("{}: {}", diagnostic.code, diagnostic.code.title());
    let _ = write!(properties, "title={}", property(&title));
    format!("::{} {properties}::{}", diagnostic.severity.as_str(), data(&body(diagnostic)))
}

fn body(diagnostic: &Diagnostic) -> String {
    let mut body = String::new();
    if let (None, Some(path)) = (&diagnostic.primary, &diagnostic.path) {
        let _ = write!(body, "{path}: ");
    }
    body.push_str(&diagnostic.message);
    if let Some(label) = diagnostic.primary.as_ref().filter(|label| !label.text.is_empty()) {
        let _ = write!(body, "\n{}", label.text);
    }
    for help in &diagnostic.help {
        let _ = write!(body, "\nhelp: {}", help.text);
        if let Some(edit) = help.edit.as_ref().filter(|edit| !edit.replacement.is_empty()) {
            let _ = write!(body, "\n{}", edit.replacement);
        }
    }
    for note in &diagnostic.notes {
        let _ = write!(body, "\nnote: {note}");
    }
    body
}

fn data(text: &str) -> String {
    neutral(text).replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
