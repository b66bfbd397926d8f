//! Parses a file that may be half-written. What a syntax error hides is parsed a second time with the faulty lines blanked out, so
//! that the rest of the document can still be completed and navigated. Offsets stay the same.

use std::ops::Range;
use std::sync::Arc;

use kross_api::yaml::{self, Document, Limits};
use kross_diagnostics::{Code, Diagnostics, Label, Severity, Sources, Span};

use crate::text::Text;

/// How many faults of a file are blanked out before the rest of the file is given up.
const MAX_REPAIRS: usize = 8;

/// A parsed file.
#[derive(Debug)]
pub(crate) struct Parsed {
    /// The documents, in order. Those with a syntax error are as far as they could be repaired.
    pub(crate) documents: Vec<ParsedDocument>,
    /// The syntax errors.
    pub(crate) diagnostics: Diagnostics,
}

#[derive(Debug)]
pub(crate) struct ParsedDocument {
    pub(crate) document: Document,
    /// Whether it has no syntax error.
    pub(crate) intact: bool,
}

impl ParsedDocument {
    /// The bytes of the document.
    pub(crate) fn bytes(&self) -> Range<usize> {
        bytes(self.document.span())
    }
}

/// The bytes of a span.
pub(crate) fn bytes(span: Span) -> Range<usize> {
    span.start as usize..span.end as usize
}

/// Parses a file.
pub(crate) fn parse(text: &Text) -> Parsed {
    let mut diagnostics = Diagnostics::new();
    let intact = parse_once(text.shared(), &mut diagnostics);
    let mut documents = intact.clone();
    let mut repaired = text.clone();
    let mut found = diagnostics.clone();
    for _ in 0..MAX_REPAIRS {
        let Some((code, at)) = first_error(&repaired, &found) else { break };
        let Some(next) = repair(&repaired, code, at) else { break };
        repaired = next;
        found = Diagnostics::new();
        documents = parse_once(repaired.shared(), &mut found);
    }
    let documents: Vec<ParsedDocument> = documents
        .into_iter()
        .map(|document| {
            let known = intact.iter().find(|known| known.span() == document.span());
            ParsedDocument { intact: known.is_some(), document: known.cloned().unwrap_or(document) }
        })
        .collect();
    Parsed { documents, diagnostics }
}

/// Every parse has sources of its own, so that the only text in them always has the same identifier.
fn parse_once(text: Arc<str>, found: &mut Diagnostics) -> Vec<Document> {
    yaml::parse(&mut Sources::new(), "file", text, &Limits::default(), found)
}

/// The first error that hides a document. Errors in single values leave the document.
fn first_error(text: &Text, found: &Diagnostics) -> Option<(Code, usize)> {
    let hides = |code: Code| matches!(code, Code::InvalidYaml | Code::UnclosedYaml | Code::TabInYaml);
    let mut errors = found.iter().filter(|found| found.severity == Severity::Error && hides(found.code));
    let first = errors.next()?;
    let start = |label: &Label| label.span.start as usize;
    // An open bracket is noticed at a later line, and is then the second label.
    let is_bracket = |at: &usize| text.as_str().get(*at..).is_some_and(|rest| rest.starts_with(['[', '{']));
    let bracket = first.secondary.iter().map(start).find(is_bracket);
    Some((first.code, bracket.or_else(|| first.primary.as_ref().map(start))?))
}

/// The text with the fault blanked out; none if there is nothing left to blank out.
fn repair(text: &Text, code: Code, at: usize) -> Option<Text> {
    let line = text.line_of(at);
    let whole = text.line_range(line);
    let sign = text.as_str().get(at..).and_then(|rest| rest.chars().next());
    match sign {
        // The text after an opening quote is usually a valid value without it.
        Some('"' | '\'') if code == Code::UnclosedYaml => return Some(blank(text, at..at + 1)),
        Some('[' | '{') if code == Code::UnclosedYaml => return Some(blank(text, at..whole.end)),
        _ => {}
    }
    let above = (0..line).rev().take(3).find(|above| !text.line(*above).trim().is_empty());
    let culprit = match above {
        Some(above) if is_incomplete(text.line(above)) => above,
        _ if !text.line(line).trim().is_empty() => line,
        Some(above) => above,
        None => return None,
    };
    let range = text.line_range(culprit);
    let content = text.as_str().get(range.clone())?;
    let indent = content.len() - content.trim_start().len();
    Some(blank(text, range.start + indent..range.end))
}

/// Whether a line is neither a key nor an item: probably a key that is being typed.
fn is_incomplete(line: &str) -> bool {
    let line = line.trim();
    let item = line.trim_start_matches("- ");
    !line.starts_with('#')
        && !item.ends_with(':')
        && !item.contains(": ")
        && line == item
        && line != "-"
        && line != "---"
}

fn blank(text: &Text, range: Range<usize>) -> Text {
    let spaces = " ".repeat(range.len());
    text.replaced(range, &spaces)
}

#[cfg(test)]
mod tests {
    use kross_diagnostics::Path;

    use super::*;

    fn texts(text: &str, path: &str) -> Vec<Option<String>> {
        let path: Path = path.parse().unwrap();
        let parsed = parse(&Text::new(text));
        let text = |parsed: &ParsedDocument| {
            let span = parsed.document.exact_span(&path)?;
            text.get(bytes(span)).map(str::to_owned)
        };
        parsed.documents.iter().map(text).collect()
    }

    #[test]
    fn a_key_that_is_being_typed_leaves_the_rest_of_its_document() {
        let text = "a:\n  b: 1\n  meta\nc:\n  d: 2\n---\ne: 3\n";
        assert_eq!(texts(text, "c.d"), [Some("2".to_owned()), None]);
        assert_eq!(texts(text, "e"), [None, Some("3".to_owned())]);
        let parsed = parse(&Text::new(text));
        assert_eq!(parsed.documents.iter().map(|found| found.intact).collect::<Vec<_>>(), [false, true]);
        assert!(parsed.diagnostics.has_errors());
    }

    #[test]
    fn an_open_quote_leaves_the_text_after_it() {
        let text = "a:\n  name: \"${schema.spec.na\n  other: x\nc: 1\n";
        assert_eq!(texts(text, "a.name"), [Some("${schema.spec.na".to_owned())]);
        assert_eq!(texts(text, "c"), [Some("1".to_owned())]);
    }

    #[test]
    fn an_open_bracket_leaves_the_lines_after_it() {
        let text = "a: {b: [1, 2\nc: 1\nd: 2\n";
        assert_eq!(texts(text, "d"), [Some("2".to_owned())]);
    }

    #[test]
    fn a_text_without_documents_is_no_error() {
        for text in ["", "\n\n", "# only a comment\n", "---\n---\n"] {
            let parsed = parse(&Text::new(text));
            assert!(parsed.documents.is_empty() && parsed.diagnostics.is_empty(), "{text:?}");
        }
    }
}
