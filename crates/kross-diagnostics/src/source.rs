//! The source texts that spans point into, and the conversion of byte offsets to files, lines and columns.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// One text among the [`Sources`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(u32);

/// A range of bytes in one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// The source that contains the range.
    pub source: SourceId,
    /// First byte.
    pub start: u32,
    /// One past the last byte; equal to `start` for an empty span.
    pub end: u32,
}

impl Span {
    /// A span over `start..end` of `source`; an inverted range becomes an empty span at `start`.
    #[must_use]
    pub fn new(source: SourceId, start: u32, end: u32) -> Self {
        Self { source, start, end: end.max(start) }
    }

    /// The smallest span that covers both; `self` if they are in different sources.
    #[must_use]
    pub fn to(self, other: Self) -> Self {
        if self.source != other.source {
            return self;
        }
        Self { source: self.source, start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// A human-readable position: lines and columns count from 1, columns in characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// Name of the source, usually a path.
    pub file: Arc<str>,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

#[derive(Debug)]
struct Source {
    name: Arc<str>,
    text: Arc<str>,
    /// Byte offset of the start of each line.
    lines: Vec<u32>,
}

/// The texts that diagnostics point into.
#[derive(Debug, Default)]
pub struct Sources {
    sources: Vec<Source>,
}

impl Sources {
    /// Creates an empty collection.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a text under the name that is shown in positions.
    pub fn add(&mut self, name: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> SourceId {
        let text: Arc<str> = text.into();
        let starts = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        let lines =
            std::iter::once(0).chain(starts).map(|at| u32::try_from(at).unwrap_or(u32::MAX)).collect();
        let id = SourceId(u32::try_from(self.sources.len()).unwrap_or(u32::MAX));
        self.sources.push(Source { name: name.into(), text, lines });
        id
    }

    /// The name a source was added under.
    #[must_use]
    pub fn name(&self, id: SourceId) -> &str {
        self.get(id).map_or("<unknown>", |source| &source.name)
    }

    /// The whole text of a source.
    #[must_use]
    pub fn text(&self, id: SourceId) -> &str {
        self.get(id).map_or("", |source| &source.text)
    }

    /// The text of a span; empty if the span is out of bounds.
    #[must_use]
    pub fn slice(&self, span: Span) -> &str {
        self.text(span.source).get(span.start as usize..span.end as usize).unwrap_or("")
    }

    /// The start of a span.
    #[must_use]
    pub fn position(&self, span: Span) -> Position {
        self.place(span.source, span.start)
    }

    /// The end of a span.
    #[must_use]
    pub fn end_position(&self, span: Span) -> Position {
        self.place(span.source, span.end)
    }

    /// The byte range of the lines `first..=last`, counted from 1, clamped to the lines that exist.
    #[must_use]
    pub fn line_range(&self, id: SourceId, first: u32, last: u32) -> Range<usize> {
        let Some(source) = self.get(id) else { return 0..0 };
        let begin =
            |line: u32| source.lines.get(line.saturating_sub(1) as usize).map(|start| *start as usize);
        let start = begin(first).unwrap_or(source.text.len());
        let end = last.checked_add(1).and_then(begin).unwrap_or(source.text.len());
        start..end.max(start)
    }

    fn place(&self, id: SourceId, offset: u32) -> Position {
        let Some(source) = self.get(id) else {
            return Position { file: "<unknown>".into(), line: 1, column: 1 };
        };
        let line = source.lines.partition_point(|start| *start <= offset).saturating_sub(1);
        let start = source.lines.get(line).copied().unwrap_or(0) as usize;
        let before = source.text.get(start..offset as usize).unwrap_or("");
        let column = before.chars().count() + 1;
        Position {
            file: Arc::clone(&source.name),
            line: u32::try_from(line + 1).unwrap_or(u32::MAX),
            column: u32::try_from(column).unwrap_or(u32::MAX),
        }
    }

    fn get(&self, id: SourceId) -> Option<&Source> {
        self.sources.get(id.0 as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters_and_lines_count_from_one() {
        let mut sources = Sources::new();
        let id = sources.add("a.yaml", "é: x\nsecond: ü!\n");
        let at = |offset| sources.position(Span::new(id, offset, offset)).to_string();
        assert_eq!(at(0), "a.yaml:1:1");
        assert_eq!(at(2), "a.yaml:1:2");
        assert_eq!(at(6), "a.yaml:2:1");
        assert_eq!(at(16), "a.yaml:2:10");
    }

    #[test]
    fn an_offset_past_the_end_has_a_position() {
        let mut sources = Sources::new();
        let id = sources.add("a.yaml", "x");
        assert_eq!(sources.position(Span::new(id, 90, 91)).line, 1);
        assert_eq!(sources.slice(Span::new(id, 90, 91)), "");
    }
}
