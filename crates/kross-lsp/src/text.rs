//! The text of a file, with positions as editors count them: lines from 0, and columns in UTF-16 code units.

use std::ops::Range;
use std::sync::Arc;

use gen_lsp_types::{Position, Range as EditorRange};

/// A text and where its lines start.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    text: Arc<str>,
    /// The byte offset of the start of each line.
    lines: Vec<usize>,
}

impl Text {
    pub(crate) fn new(text: impl Into<Arc<str>>) -> Self {
        let text: Arc<str> = text.into();
        let bytes = text.as_bytes();
        let is_end = |at: usize| match bytes.get(at) {
            Some(b'\n') => true,
            Some(b'\r') => bytes.get(at + 1) != Some(&b'\n'),
            _ => false,
        };
        let lines = (0..bytes.len()).filter(|at| is_end(*at)).map(|at| at + 1);
        let lines = std::iter::once(0).chain(lines).collect();
        Self { text, lines }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    pub(crate) fn shared(&self) -> Arc<str> {
        Arc::clone(&self.text)
    }

    /// The number of the line that contains an offset.
    pub(crate) fn line_of(&self, offset: usize) -> usize {
        self.lines.partition_point(|start| *start <= offset).saturating_sub(1)
    }

    pub(crate) fn line_count(&self) -> usize {
        self.lines.len()
    }

    /// The bytes of a line, without its line break.
    pub(crate) fn line_range(&self, line: usize) -> Range<usize> {
        let start = self.lines.get(line).copied().unwrap_or(self.text.len());
        let end = self.lines.get(line + 1).copied().unwrap_or(self.text.len());
        let content = self.text.get(start..end).unwrap_or_default();
        start..start + content.trim_end_matches(['\n', '\r']).len()
    }

    pub(crate) fn line(&self, line: usize) -> &str {
        self.text.get(self.line_range(line)).unwrap_or_default()
    }

    /// The position of a byte offset.
    pub(crate) fn position(&self, offset: usize) -> Position {
        let offset = self.text.floor_char_boundary(offset.min(self.text.len()));
        let line = self.line_of(offset);
        let start = self.lines.get(line).copied().unwrap_or(0);
        let before = self.text.get(start..offset).unwrap_or_default();
        let character = before.chars().map(char::len_utf16).sum::<usize>();
        Position { line: small(line), character: small(character) }
    }

    pub(crate) fn range(&self, bytes: Range<usize>) -> EditorRange {
        EditorRange { start: self.position(bytes.start), end: self.position(bytes.end) }
    }

    /// The byte offset of a position. A position after the end of its line is its end.
    pub(crate) fn offset(&self, position: Position) -> usize {
        let line = self.line_range(position.line as usize);
        let mut left = position.character as usize;
        let mut at = line.start;
        for character in self.text.get(line).unwrap_or_default().chars() {
            if left < character.len_utf16() {
                break;
            }
            left -= character.len_utf16();
            at += character.len_utf8();
        }
        at
    }

    pub(crate) fn bytes(&self, range: EditorRange) -> Range<usize> {
        let start = self.offset(range.start);
        start..self.offset(range.end).max(start)
    }

    /// The text with a range replaced.
    pub(crate) fn replaced(&self, bytes: Range<usize>, with: &str) -> Self {
        let before = self.text.get(..bytes.start).unwrap_or_default();
        let after = self.text.get(bytes.end..).unwrap_or_default();
        Self::new([before, with, after].concat())
    }
}

fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: u32, character: u32) -> Position {
        Position { line, character }
    }

    #[test]
    fn columns_count_utf_16_code_units_and_every_line_break_counts_once() {
        let text = Text::new("a: \u{1f680}x\r\nb: é\rc: 1\nd");
        assert_eq!(text.offset(at(0, 5)), 7);
        assert_eq!(text.position(7), at(0, 5));
        assert_eq!(text.position(text.as_str().find('é').unwrap() + 2), at(1, 4));
        assert_eq!(text.position(text.as_str().find("c:").unwrap()), at(2, 0));
        assert_eq!(text.position(text.as_str().len()), at(3, 1));
        assert_eq!(text.line(0), "a: \u{1f680}x");
    }

    #[test]
    fn positions_outside_the_text_are_moved_into_it() {
        let text = Text::new("ab\ncd");
        assert_eq!(text.offset(at(0, 9)), 2);
        assert_eq!(text.offset(at(9, 0)), 5);
        assert_eq!(text.position(99), at(1, 2));
        // In the middle of a character that takes two code units.
        assert_eq!(Text::new("\u{1f680}").offset(at(0, 1)), 0);
    }

    #[test]
    fn an_edit_replaces_a_range() {
        let text = Text::new("a: 1\r\nb: 2\n");
        let bytes = text.bytes(EditorRange { start: at(0, 3), end: at(1, 3) });
        assert_eq!(text.replaced(bytes, "x").as_str(), "a: x2\n");
    }
}
