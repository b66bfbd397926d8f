//! Turns offsets in the string that a scalar stands for into offsets in its text. Walks both side by side; where they
//! should ever disagree, the rest of the string maps to the rest of the text.

mod block;
mod flow;

use std::ops::Range;

use granit_parser::ScalarStyle;

/// A run of the decoded string and the text it comes from.
#[derive(Debug)]
struct Piece {
    /// First byte in the decoded string.
    decoded: usize,
    /// First byte in the text.
    source: usize,
    /// Bytes of the text.
    length: usize,
    /// Whether text and string are the same, byte for byte; else all of the string stands for all of the text.
    verbatim: bool,
}

/// The pieces of a scalar, in order.
#[derive(Debug)]
pub(super) struct Offsets {
    pieces: Vec<Piece>,
    /// Bytes of the decoded string that the pieces cover.
    covered: usize,
    /// Where in the text the content ends.
    end: usize,
}

impl Offsets {
    /// Lines up the text of a scalar with the string it stands for.
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

    /// The part of the text that a part of the string comes from.
    pub(super) fn map(&self, range: Range<usize>) -> Range<usize> {
        let start = self.start(range.start);
        let end = if range.end > range.start { self.end_of(range.end - 1) } else { start };
        start..end.max(start)
    }

    /// Where the byte at an offset of the string begins in the text.
    fn start(&self, offset: usize) -> usize {
        match self.piece(offset) {
            Some(piece) if piece.verbatim => piece.source + (offset - piece.decoded),
            Some(piece) => piece.source,
            None => self.end,
        }
    }

    /// Where the byte at an offset of the string ends in the text.
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

/// The two texts and how far they have been read.
struct Walk<'a> {
    text: &'a str,
    decoded: &'a str,
    /// Bytes of the text that are done.
    at: usize,
    /// Bytes of the string that are done.
    read: usize,
    pieces: Vec<Piece>,
}

impl Walk<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn due(&self) -> &str {
        self.decoded.get(self.read..).unwrap_or_default()
    }

    /// Takes `length` bytes that are the same in both; false if they are not.
    fn same(&mut self, length: usize) -> bool {
        let text = self.rest().get(..length);
        if text.is_none() || text != self.due().get(..length) {
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

    /// Takes `length` bytes of the text that stand for `decoded` bytes of the string.
    fn other(&mut self, length: usize, decoded: usize) {
        if decoded > 0 {
            self.pieces.push(Piece { decoded: self.read, source: self.at, length, verbatim: false });
        }
        self.at += length;
        self.read += decoded;
    }
}

/// The length of the line break a text begins with; 0 if it does not.
fn line_break(text: &str) -> usize {
    match text.as_bytes() {
        [b'\r', b'\n', ..] => 2,
        [b'\r' | b'\n', ..] => 1,
        _ => 0,
    }
}
