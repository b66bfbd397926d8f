//! Aligns literal and folded block scalars: indentation is dropped; line breaks are kept, folded or chomped.

use super::{Walk, line_break};

/// Walks to the end of the scalar and returns the end of its content.
pub(super) fn walk(walk: &mut Walk<'_>, indent: usize, folded: bool) -> usize {
    // The text starts with the first character of content; empty lines before it are only in the string.
    if line_break(walk.text) == 0 {
        let before = walk.remaining().len() - walk.remaining().trim_start_matches('\n').len();
        walk.other(0, before);
    }
    while walk.at < walk.text.len() {
        let line = walk.rest().find(['\n', '\r']).unwrap_or(walk.rest().len());
        if line > 0 && !walk.same(line) {
            break;
        }
        let breaks = Breaks::read(walk.rest(), indent);
        if breaks.count == 0 || walk.remaining().is_empty() || !breaks.apply(walk, folded) {
            break;
        }
    }
    walk.text.len()
}

/// The end of a line, the empty lines after it, and the indentation of the next line with content.
struct Breaks {
    length: usize,
    count: usize,
}

impl Breaks {
    fn read(text: &str, indent: usize) -> Self {
        let mut length = 0;
        let mut count = 0;
        loop {
            let rest = text.get(length..).unwrap_or_default();
            let found = line_break(rest);
            if found == 0 {
                break;
            }
            count += 1;
            length += found;
            let next = text.get(length..).unwrap_or_default();
            length += next.bytes().take(indent).take_while(|byte| *byte == b' ').count();
        }
        Self { length, count }
    }

    /// Consumes the line feeds, or the single space, that the string has for them.
    fn apply(&self, walk: &mut Walk<'_>, folded: bool) -> bool {
        let kept = walk.remaining().bytes().take(self.count).take_while(|byte| *byte == b'\n').count();
        match kept {
            0 if folded && self.count == 1 && walk.remaining().starts_with(' ') => walk.other(self.length, 1),
            0 => return false,
            kept => walk.other(self.length, kept),
        }
        true
    }
}
