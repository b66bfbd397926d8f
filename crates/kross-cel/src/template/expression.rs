//! Finds the `}` that closes a `${`, or the reason why there is none.

use std::ops::Range;

/// How an expression ends.
pub(super) enum End {
    /// At this brace; `nested` is the first `${` outside of string literals.
    Closed { at: usize, nested: Option<usize> },
    /// At this brace in a comment, because there is no other.
    ClosedInComment { at: usize },
    /// It is never closed.
    Open { nested: Option<usize> },
    /// A string literal is not closed; scanning resumes after it at `resume`.
    OpenString { quote: Range<usize>, resume: usize },
}

/// An [`End`] and how far the text was read to find it.
pub(super) struct Walk {
    pub(super) end: End,
    pub(super) reached: usize,
}

/// Finds the end of the expression whose first byte is at `from`.
pub(super) fn walk(text: &str, from: usize) -> Walk {
    let mut walker = Walker { bytes: text.as_bytes(), at: from, depth: 0, nested: None, in_comment: None };
    let end = walker.walk();
    let end = match (end, walker.in_comment) {
        (End::Closed { at, nested: None }, _) => End::Closed { at, nested: None },
        (_, Some(at)) => End::ClosedInComment { at },
        (end, None) => end,
    };
    Walk { end, reached: walker.at }
}

struct Walker<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The number of open braces, without the expression's own.
    depth: usize,
    nested: Option<usize>,
    /// The first brace in a comment that would close the expression if comments were not skipped.
    in_comment: Option<usize>,
}

impl Walker<'_> {
    fn walk(&mut self) -> End {
        while let Some(byte) = self.peek(0) {
            match byte {
                b'"' | b'\'' => {
                    if let Some(end) = self.string(self.at, false) {
                        return end;
                    }
                }
                b'/' if self.peek(1) == Some(b'/') => {
                    if self.comment() {
                        return End::Open { nested: self.nested };
                    }
                }
                b'$' if self.peek(1) == Some(b'{') => {
                    self.nested.get_or_insert(self.at);
                    if self.in_comment.is_some() {
                        return End::Open { nested: self.nested };
                    }
                    self.depth += 1;
                    self.at += 2;
                }
                b'{' => {
                    self.depth += 1;
                    self.at += 1;
                }
                b'}' if self.depth == 0 => return End::Closed { at: self.at, nested: self.nested },
                b'}' => {
                    self.depth -= 1;
                    self.at += 1;
                }
                _ if is_word(byte) => {
                    if let Some(end) = self.word() {
                        return end;
                    }
                }
                _ => self.at += 1,
            }
        }
        End::Open { nested: self.nested }
    }

    /// Reads a name or number, and the string literal after it if the name is a prefix.
    fn word(&mut self) -> Option<End> {
        let start = self.at;
        while self.peek(0).is_some_and(is_word) {
            self.at += 1;
        }
        let raw = match self.bytes.get(start..self.at)? {
            b"b" | b"B" => false,
            b"r" | b"R" | b"br" | b"bR" | b"Br" | b"BR" => true,
            _ => return None,
        };
        matches!(self.peek(0), Some(b'"' | b'\'')).then(|| self.string(start, raw)).flatten()
    }

    /// Reads a string literal; `self.at` is at its first quote. Returns the end of the walk if it is never closed.
    fn string(&mut self, prefix: usize, raw: bool) -> Option<End> {
        let quote = self.peek(0)?;
        let long = self.peek(1) == Some(quote) && self.peek(2) == Some(quote);
        self.at += if long { 3 } else { 1 };
        let opening = prefix..self.at;
        while let Some(byte) = self.peek(0) {
            match byte {
                b'\\' if !raw => self.at += if matches!(self.peek(1), Some(b'\n' | b'\r')) { 1 } else { 2 },
                b'\n' | b'\r' if !long => break,
                _ if byte != quote => self.at += 1,
                _ if !long => {
                    self.at += 1;
                    return None;
                }
                _ if self.peek(1) == Some(quote) && self.peek(2) == Some(quote) => {
                    self.at += 3;
                    return None;
                }
                _ => self.at += 1,
            }
        }
        self.at = self.at.min(self.bytes.len());
        Some(End::OpenString { quote: opening, resume: self.at })
    }

    /// Skips to the end of the line and records a brace that may close the expression.
    /// True if another expression begins after such a brace.
    fn comment(&mut self) -> bool {
        let mut depth = self.depth;
        while let Some(byte) = self.peek(0).filter(|byte| *byte != b'\n') {
            match byte {
                b'$' if self.in_comment.is_some() && self.peek(1) == Some(b'{') => return true,
                b'{' => depth += 1,
                b'}' if depth == 0 => {
                    self.in_comment.get_or_insert(self.at);
                }
                b'}' => depth -= 1,
                _ => {}
            }
            self.at += 1;
        }
        false
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}
