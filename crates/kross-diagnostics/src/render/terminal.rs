//! Formats each diagnostic as a source excerpt with the span underlined, followed by help and notes.
//! The excerpt contains only the lines around the labels, so its cost does not depend on the size of the file.

use std::borrow::Cow;
use std::ops::Range;

use annotate_snippets::{
    Annotation, AnnotationKind, Element, Group, Level, Origin, Patch, Renderer, Snippet,
    renderer::DEFAULT_TERM_WIDTH,
};

use super::neutral::{neutral, neutral_line, neutral_source};
use crate::{Diagnostic, Diagnostics, Edit, Label, Severity, SourceId, Sources, Span};

/// Number of lines around a label that the excerpt may show.
const CONTEXT: u32 = 2;

/// Whether to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// Use ANSI escape sequences.
    Always,
    /// Plain text.
    Never,
}

/// Reports with excerpts, separated by empty lines, truncated to `width` columns.
#[must_use]
pub fn terminal(
    diagnostics: &Diagnostics,
    sources: &Sources,
    colour: Colour,
    width: Option<usize>,
) -> String {
    let renderer = match colour {
        Colour::Always => Renderer::styled(),
        Colour::Never => Renderer::plain(),
    }
    .term_width(width.unwrap_or(DEFAULT_TERM_WIDTH));
    let reports: Vec<String> =
        diagnostics.iter().map(|diagnostic| renderer.render(&report(diagnostic, sources)) + "\n").collect();
    reports.join("\n")
}

fn report<'a>(diagnostic: &'a Diagnostic, sources: &'a Sources) -> Vec<Group<'a>> {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = level.primary_title(neutral(&diagnostic.message)).id(diagnostic.code.id());
    let mut main = Group::with_title(title).elements(places(diagnostic, sources));
    for note in &diagnostic.notes {
        main = main.element(Level::NOTE.message(neutral(note)));
    }
    let mut groups = vec![main];
    for help in &diagnostic.help {
        match &help.edit {
            Some(edit) => groups.push(
                Level::HELP.secondary_title(neutral(&help.text)).element(excerpt_of_edit(edit, sources)),
            ),
            // Help without an edit has no excerpt of its own: append it to the previous group.
            None => match groups.pop() {
                Some(last) => groups.push(last.element(Level::HELP.message(neutral(&help.text)))),
                None => groups.push(Group::with_title(Level::HELP.secondary_title(neutral(&help.text)))),
            },
        }
    }
    groups
}

fn places<'a>(diagnostic: &'a Diagnostic, sources: &'a Sources) -> Vec<Element<'a>> {
    let mut ids: Vec<SourceId> = Vec::new();
    for label in diagnostic.primary.iter().chain(&diagnostic.secondary) {
        if !ids.contains(&label.span.source) {
            ids.push(label.span.source);
        }
    }
    let mut elements: Vec<Element<'a>> = Vec::new();
    if let (None, Some(path)) = (&diagnostic.primary, &diagnostic.path) {
        elements.push(Origin::path(neutral_line(path)).into());
    }
    elements.extend(ids.into_iter().map(|id| Element::from(excerpt(diagnostic, id, sources))));
    elements
}

/// The excerpt of one source with all labels in it.
fn excerpt<'a>(
    diagnostic: &'a Diagnostic,
    id: SourceId,
    sources: &'a Sources,
) -> Snippet<'a, Annotation<'a>> {
    let primary = diagnostic.primary.iter().map(|label| (AnnotationKind::Primary, label));
    let secondary = diagnostic.secondary.iter().map(|label| (AnnotationKind::Context, label));
    let labels: Vec<(AnnotationKind, &Label)> =
        primary.chain(secondary).filter(|(_, label)| label.span.source == id).collect();
    let window = Window::around(labels.iter().map(|(_, label)| label.span), id, sources);
    let annotations = labels.into_iter().map(|(kind, label)| {
        let text = Some(neutral_line(&label.text)).filter(|text| !text.is_empty());
        kind.span(window.relative(label.span)).label(text)
    });
    Snippet::source(neutral_source(window.text))
        .line_start(window.line)
        .path(neutral_line(sources.name(id)))
        .annotations(annotations.collect::<Vec<_>>())
}

fn excerpt_of_edit<'a>(edit: &'a Edit, sources: &'a Sources) -> Snippet<'a, Patch<'a>> {
    let id = edit.span.source;
    let window = Window::around([edit.span], id, sources);
    let range = window.relative(edit.span);
    let replacement: Cow<'a, str> = neutral(&edit.replacement);
    Snippet::source(neutral_source(window.text))
        .line_start(window.line)
        .path(neutral_line(sources.name(id)))
        .patch(Patch::new(range, replacement))
}

/// The lines of a source around some spans.
struct Window<'a> {
    text: &'a str,
    /// Byte offset of the window in the source.
    start: usize,
    /// Number of its first line, from 1.
    line: usize,
}

impl<'a> Window<'a> {
    fn around(spans: impl IntoIterator<Item = Span>, id: SourceId, sources: &'a Sources) -> Self {
        let mut range: Option<Range<u32>> = None;
        for span in spans {
            range = Some(match range {
                None => span.start..span.end,
                Some(range) => range.start.min(span.start)..range.end.max(span.end),
            });
        }
        let range = range.unwrap_or(0..0);
        let first =
            sources.position(Span::new(id, range.start, range.start)).line.saturating_sub(CONTEXT).max(1);
        let last = sources.position(Span::new(id, range.end, range.end)).line.saturating_add(CONTEXT);
        let lines = sources.line_range(id, first, last);
        Self {
            text: sources.text(id).get(lines.clone()).unwrap_or(""),
            start: lines.start,
            line: first as usize,
        }
    }

    /// A span as a range in the window's text, extended to character boundaries.
    fn relative(&self, span: Span) -> Range<usize> {
        let start = self.text.floor_char_boundary((span.start as usize).saturating_sub(self.start));
        let end = self.text.ceil_char_boundary((span.end as usize).saturating_sub(self.start));
        start.min(end)..end
    }
}
