//! Aligns plain and quoted scalars: escapes are decoded, line breaks are folded.

use super::{Walk, line_break};

/// What surrounds the scalar.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Quote {
    None,
    Single,
    Double,
}

/// Walks to the end of the scalar and returns the end of its content.
pub(super) fn walk(walk: &mut Walk<'_>, quote: Quote) -> usize {
    let mark = match quote {
        Quote::None => "",
        Quote::Single => "'",
        Quote::Double => "\"",
    };
    let end = walk.text.strip_suffix(mark).unwrap_or(walk.text).len().max(mark.len().min(walk.text.len()));
    walk.at = mark.len();
    while walk.at < end {
        let rest = walk.rest();
        let taken = if let Some(fold) = Fold::read(rest) {
            fold.apply(walk)
        } else if quote == Quote::Double && rest.starts_with('\\') {
            escape(walk)
        } else if quote == Quote::Single && rest.starts_with("''") {
            walk.other(2, 1);
            true
        } else {
            let length = rest.chars().next().map_or(1, char::len_utf8);
            walk.same(length)
        };
        if !taken {
            break;
        }
    }
    end
}

/// White space with line breaks: one line break becomes a space, each further one a line feed.
struct Fold {
    length: usize,
    breaks: usize,
}

impl Fold {
    fn read(text: &str) -> Option<Self> {
        let mut length = 0;
        let mut breaks = 0;
        loop {
            let rest = text.get(length..).unwrap_or_default();
            match line_break(rest) {
                0 if rest.starts_with([' ', '\t']) => length += 1,
                0 => break,
                found => {
                    breaks += 1;
                    length += found;
                }
            }
        }
        (breaks > 0).then_some(Self { length, breaks })
    }

    fn apply(&self, walk: &mut Walk<'_>) -> bool {
        let expected = if self.breaks == 1 { " ".to_owned() } else { "\n".repeat(self.breaks - 1) };
        let agrees = walk.remaining().starts_with(&expected);
        if agrees {
            walk.other(self.length, expected.len());
        }
        agrees
    }
}

/// Consumes an escape sequence of a double-quoted scalar.
fn escape(walk: &mut Walk<'_>) -> bool {
    let rest = walk.rest();
    let after = rest.get(1..).unwrap_or_default();
    if line_break(after) > 0 {
        return escaped_break(walk);
    }
    let length = match after.as_bytes().first() {
        Some(b'x') => 4,
        Some(b'u') if is_high_surrogate(after.get(1..5)) && rest.get(6..8) == Some("\\u") => 12,
        Some(b'u') => 6,
        Some(b'U') => 10,
        Some(_) => 1 + after.chars().next().map_or(1, char::len_utf8),
        None => return false,
    };
    let Some(letter) = walk.remaining().chars().next() else { return false };
    walk.other(length, letter.len_utf8());
    true
}

fn is_high_surrogate(digits: Option<&str>) -> bool {
    digits
        .and_then(|digits| u16::from_str_radix(digits, 16).ok())
        .is_some_and(|unit| (0xd800..0xdc00).contains(&unit))
}

/// Consumes a backslash at the end of a line, which joins the lines; empty lines after it are kept.
fn escaped_break(walk: &mut Walk<'_>) -> bool {
    let rest = walk.rest().get(1..).unwrap_or_default();
    let first = line_break(rest);
    let more = Fold::read(rest.get(first..).unwrap_or_default());
    let (length, breaks) = match more {
        Some(fold) => (fold.length, fold.breaks),
        None => {
            let after = rest.get(first..).unwrap_or_default();
            (after.len() - after.trim_start_matches([' ', '\t']).len(), 0)
        }
    };
    let agrees = walk.remaining().starts_with(&"\n".repeat(breaks));
    if agrees {
        walk.other(1 + first + length, breaks);
    }
    agrees
}
