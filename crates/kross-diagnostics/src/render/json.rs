//! Formats diagnostics as JSON for editors and pipelines: lines and columns count from 1, columns and lengths are in
//! characters, ends are exclusive.

use std::fmt::Write;

use serde::Serialize;

use super::neutral::interpreted;
use crate::{Diagnostic, Diagnostics, Edit, Help, Label, Sources, Span};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Place<'a> {
    file: &'a str,
    line: u32,
    column: u32,
    end_line: u32,
    end_column: u32,
    length: usize,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Item<'a> {
    code: &'static str,
    severity: &'static str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'a str>,
    #[serde(flatten)]
    place: Option<Place<'a>>,
    #[serde(skip_serializing_if = "str::is_empty")]
    label: &'a str,
    labels: Vec<Remark<'a>>,
    help: Vec<Advice<'a>>,
    notes: &'a [String],
}

#[derive(Serialize)]
struct Remark<'a> {
    #[serde(flatten)]
    place: Place<'a>,
    text: &'a str,
}

#[derive(Serialize)]
struct Advice<'a> {
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    edit: Option<Replacement<'a>>,
}

#[derive(Serialize)]
struct Replacement<'a> {
    #[serde(flatten)]
    place: Place<'a>,
    replacement: &'a str,
}

/// An indented array of objects, with a trailing newline.
#[must_use]
pub fn json(diagnostics: &Diagnostics, sources: &Sources) -> String {
    let items: Vec<Item<'_>> = diagnostics.iter().map(|diagnostic| item(diagnostic, sources)).collect();
    // Strings, numbers and lists of them can always be serialized.
    escaped(&serde_json::to_string_pretty(&items).unwrap_or_default()) + "\n"
}

/// One object per line.
#[must_use]
pub fn json_lines(diagnostics: &Diagnostics, sources: &Sources) -> String {
    diagnostics
        .iter()
        .map(|diagnostic| {
            escaped(&serde_json::to_string(&item(diagnostic, sources)).unwrap_or_default()) + "\n"
        })
        .collect()
}

fn item<'a>(diagnostic: &'a Diagnostic, sources: &'a Sources) -> Item<'a> {
    let Diagnostic { code, severity, message, path, primary, secondary, help, notes } = diagnostic;
    Item {
        code: code.id(),
        severity: severity.as_str(),
        message,
        path: path.as_deref(),
        place: primary.as_ref().map(|label| place(label.span, sources)),
        label: primary.as_ref().map_or("", |label| &label.text),
        labels: secondary
            .iter()
            .map(|Label { span, text }| Remark { place: place(*span, sources), text })
            .collect(),
        help: help
            .iter()
            .map(|Help { text, edit }| Advice { text, edit: replacement(edit, sources) })
            .collect(),
        notes,
    }
}

fn replacement<'a>(edit: &'a Option<Edit>, sources: &'a Sources) -> Option<Replacement<'a>> {
    edit.as_ref().map(|Edit { span, replacement }| Replacement { place: place(*span, sources), replacement })
}

fn place(span: Span, sources: &Sources) -> Place<'_> {
    let start = sources.position(span);
    let end = sources.end_position(span);
    Place {
        file: sources.name(span.source),
        line: start.line,
        column: start.column,
        end_line: end.line,
        end_column: end.column,
        length: sources.slice(span).chars().count(),
    }
}

/// serde_json does not escape DEL, C1 control characters and bidirectional marks, which a terminal would interpret.
/// They can only occur in strings.
fn escaped(json: &str) -> String {
    let mut output = String::with_capacity(json.len());
    for letter in json.chars() {
        if letter != '\n' && interpreted(letter) {
            let _ = write!(output, "\\u{:04x}", u32::from(letter));
        } else {
            output.push(letter);
        }
    }
    output
}
