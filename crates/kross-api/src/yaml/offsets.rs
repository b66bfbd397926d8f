//! Maps offsets in the decoded string of a scalar to offsets in its source text. Walks both in parallel; if they ever
//! disagree, the rest of the string maps to the rest of the text.
//!
//! It is hand-written because granit-parser reports only the position of a whole scalar and its decoded string, while
//! diagnostics point at single characters of an expression inside quotes, escapes, folded lines and indentation. Other
//! YAML parsers do not report offsets within a scalar either.

mod block;
mod flow;

use std::ops::Range;

use granit_parser::ScalarStyle;

/// A run of the decoded string and its source text.
#[derive(Debug)]
struct Piece {
    /// First byte in the decoded string.
    decoded: usize,
    /// First byte in the text.
    source: usize,
    /// Length in the text, in bytes.
    length: usize,
    /// Whether text and string are the same, byte for byte; otherwise the whole text decodes to the whole string.
    verbatim: bool,
}

/// The pieces of a scalar, in order.
#[derive(Debug)]
pub(super) struct Offsets {
    pieces: Vec<Piece>,
    /// Number of bytes of the decoded string that the pieces cover.
    covered: usize,
    /// The end of the content in the text.
    end: usize,
}

impl Offsets {
    /// Aligns the text of a scalar with its decoded string.
    pub(super) fn new(style: ScalarStyle, indent: usize, text: &str, decoded: &str) -> Self {
        let mut walk = Walk { text, decoded, at: 0, read: 0, pieces: Vec::new() };
        let end = match style {
            ScalarStyle::Plain => flow::walk(&mut walk, flow::Quote::None),
            ScalarStyle::SingleQuoted => flow::walk(&mut walk, flow::Quote::Single),
            ScalarStyle::DoubleQuoted => flow::walk(&mut walk, flow::Quote::Double),
            ScalarStyle::Literal => block::walk(&mut walk, indent, false),
            ScalarStyle::Folded => block::walk(&mut walk, indent, true),
        };
        Self { covered: walk.read, pieces: walk.pieces, end }
    }

    /// The range of the text that a range of the string was decoded from.
    pub(super) fn map(&self, range: Range<usize>) -> Range<usize> {
        let start = self.start(range.start);
        let end = if range.end > range.start { self.end_of(range.end - 1) } else { start };
        start..end.max(start)
    }

    /// The start in the text of the byte at an offset of the string.
    fn start(&self, offset: usize) -> usize {
        match self.piece(offset) {
            Some(piece) if piece.verbatim => piece.source + (offset - piece.decoded),
            Some(piece) => piece.source,
            None => self.end,
        }
    }

    /// The end in the text of the byte at an offset of the string.
    fn end_of(&self, offset: usize) -> usize {
        match self.piece(offset) {
            Some(piece) if piece.verbatim => piece.source + (offset - piece.decoded) + 1,
            Some(piece) => piece.source + piece.length,
            None => self.end,
        }
    }

    fn piece(&self, offset: usize) -> Option<&Piece> {
        if offset >= self.covered {
            return None;
        }
        let after = self.pieces.partition_point(|piece| piece.decoded <= offset);
        self.pieces.get(after.checked_sub(1)?)
    }
}

/// Source text and decoded string, and the current position in both.
struct Walk<'a> {
    text: &'a str,
    decoded: &'a str,
    /// Position in the text.
    at: usize,
    /// Position in the string.
    read: usize,
    pieces: Vec<Piece>,
}

impl Walk<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn remaining(&self) -> &str {
        self.decoded.get(self.read..).unwrap_or_default()
    }

    /// Consumes `length` bytes that are the same in both; returns false if they are not.
    fn same(&mut self, length: usize) -> bool {
        let text = self.rest().get(..length);
        if text.is_none() || text != self.remaining().get(..length) {
            return false;
        }
        match self.pieces.last_mut() {
            Some(last)
                if last.verbatim
                    && last.source + last.length == self.at
                    && last.decoded + last.length == self.read =>
            {
                last.length += length;
            }
            _ => self.pieces.push(Piece { decoded: self.read, source: self.at, length, verbatim: true }),
        }
        self.at += length;
        self.read += length;
        true
    }

    /// Consumes `length` bytes of the text that decode to `decoded` bytes of the string.
    fn other(&mut self, length: usize, decoded: usize) {
        if decoded > 0 {
            self.pieces.push(Piece { decoded: self.read, source: self.at, length, verbatim: false });
        }
        self.at += length;
        self.read += decoded;
    }
}

/// The length of the line break at the start of a text; 0 if there is none.
fn line_break(text: &str) -> usize {
    match text.as_bytes() {
        [b'\r', b'\n', ..] => 2,
        [b'\r' | b'\n', ..] => 1,
        _ => 0,
    }
}
