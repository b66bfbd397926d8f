//! Makes text from the user safe to print: escapes, other control characters and bidirectional marks become visible
//! characters that a terminal does not interpret.

use std::borrow::Cow;

/// The text with control characters made visible; newlines are kept.
#[must_use]
pub fn neutral(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|letter| letter != '\n' && interpreted(letter)) {
        return Cow::Borrowed(text);
    }
    let text = text.replace("\r\n", "\n");
    Cow::Owned(text.chars().map(|letter| if letter == '\n' { letter } else { shown(letter) }).collect())
}

/// The text on one line: runs of white space that contain a newline or a tab become one space.
#[must_use]
pub fn neutral_line(text: &str) -> Cow<'_, str> {
    if !text.chars().any(interpreted) {
        return Cow::Borrowed(text);
    }
    let mut line = String::with_capacity(text.len());
    for piece in text.split(['\n', '\r', '\t']) {
        let piece = piece.trim_matches(' ');
        if piece.is_empty() {
            continue;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(piece.chars().map(shown));
    }
    Cow::Owned(line)
}

/// The source text with the same byte offsets, for excerpts: replaces what annotate-snippets does not.
pub(super) fn neutral_source(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|letter| same_length(letter) != letter) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(same_length).collect())
}

fn same_length(letter: char) -> char {
    match letter {
        '\u{80}'..='\u{9f}' | '\u{61c}' => '·',
        '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' => '\u{fffd}',
        _ => letter,
    }
}

/// Whether a terminal may interpret the character instead of showing it.
pub(super) fn interpreted(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn shown(letter: char) -> char {
    match letter {
        '\t' => ' ',
        '\u{7f}' => '␡',
        '\0'..='\u{1f}' => char::from_u32(0x2400 + u32::from(letter)).unwrap_or('\u{fffd}'),
        _ if interpreted(letter) => '\u{fffd}',
        _ => letter,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_become_visible_and_plain_text_is_borrowed() {
        assert_eq!(neutral("\u{1b}[31mred\u{9b}2J\u{202e}"), "␛[31mred\u{fffd}2J\u{fffd}");
        assert!(matches!(neutral("größer\n日本"), Cow::Borrowed(_)));
    }

    #[test]
    fn one_line_stays_one_line() {
        assert_eq!(neutral_line("a\n\n   b\r\n\tc \u{7}"), "a b c ␇");
        assert_eq!(neutral_line("two  spaces"), "two  spaces");
    }

    #[test]
    fn source_text_keeps_its_offsets() {
        let text = "a\u{9b}b\u{200f}c\u{1b}d";
        let neutral = neutral_source(text);
        assert_eq!(neutral.len(), text.len());
        assert_eq!(neutral.find('d'), text.find('d'));
    }
}
