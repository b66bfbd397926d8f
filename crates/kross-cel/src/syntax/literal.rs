//! Parses number and string literals.

use std::sync::Arc;

use crate::ast::Literal;

/// An invalid escape in a string: its range in the token, the message and the help.
pub(super) struct InvalidEscape {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) message: String,
    pub(super) help: &'static str,
}

/// The value of an integer literal, with the sign before it.
pub(super) fn int(text: &str, negative: bool) -> Option<Literal> {
    let magnitude = magnitude(text)?;
    let value = if negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() };
    value.map(Literal::Int)
}

/// The value of an unsigned integer literal, with its suffix.
pub(super) fn uint(text: &str) -> Option<Literal> {
    magnitude(text.strip_suffix(['u', 'U'])?).map(Literal::UInt)
}

fn magnitude(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The value of a double literal. A number that is too large is rejected, as there is no literal for infinity.
pub(super) fn double(text: &str, negative: bool) -> Option<Literal> {
    let value: f64 = text.parse().ok().filter(|value: &f64| value.is_finite())?;
    Some(Literal::Double(if negative { -value } else { value }))
}

/// The value of a string literal, with its prefix and quotes.
pub(super) fn string(text: &str) -> Result<Literal, InvalidEscape> {
    let parts = Parts::of(text);
    if !parts.needs_decoding() {
        return Ok(Literal::String(parts.content.into()));
    }
    let mut out = String::with_capacity(parts.content.len());
    parts.decode(text, false, &mut |unit| match unit {
        Unit::Letter(letter) => out.push(letter),
        // In a string, a byte escape is a code point below 256.
        Unit::Byte(byte) => out.push(char::from(byte)),
    })?;
    Ok(Literal::String(out.into()))
}

/// The value of a byte string literal, with its prefix and quotes.
pub(super) fn bytes(text: &str) -> Result<Literal, InvalidEscape> {
    let parts = Parts::of(text);
    let mut out = Vec::with_capacity(parts.content.len());
    parts.decode(text, true, &mut |unit| match unit {
        Unit::Letter(letter) => {
            let mut buffer = [0; 4];
            out.extend_from_slice(letter.encode_utf8(&mut buffer).as_bytes());
        }
        Unit::Byte(byte) => out.push(byte),
    })?;
    Ok(Literal::Bytes(Arc::from(out)))
}

enum Unit {
    Letter(char),
    Byte(u8),
}

struct Parts<'a> {
    raw: bool,
    /// The offset of the content in the token.
    offset: usize,
    content: &'a str,
}

impl<'a> Parts<'a> {
    fn of(text: &'a str) -> Self {
        let quoted = text.trim_start_matches(['r', 'R', 'b', 'B']);
        let prefix = text.len() - quoted.len();
        let raw = text.get(..prefix).is_some_and(|prefix| prefix.contains(['r', 'R']));
        let triple = quoted.len() >= 6 && (quoted.starts_with("'''") || quoted.starts_with("\"\"\""));
        let width = if triple { 3 } else { 1 };
        let content = quoted.get(width..quoted.len().saturating_sub(width)).unwrap_or("");
        Self { raw, offset: prefix + width, content }
    }

    fn needs_decoding(&self) -> bool {
        self.content.contains('\r') || !self.raw && self.content.contains('\\')
    }

    fn decode(&self, token: &str, bytes: bool, out: &mut impl FnMut(Unit)) -> Result<(), InvalidEscape> {
        let mut letters = self.content.char_indices().peekable();
        while let Some((position, letter)) = letters.next() {
            match letter {
                // Line breaks are normalized to `\n`.
                '\r' => {
                    letters.next_if(|(_, next)| *next == '\n');
                    out(Unit::Letter('\n'));
                }
                '\\' if !self.raw => {
                    let rest = self.content.get(position + 1..).unwrap_or("");
                    let (unit, length) = escape(rest, bytes).map_err(|(length, message, help)| {
                        let start = self.offset + position;
                        let end = (start + 1 + length).min(token.len());
                        InvalidEscape { start, end, message, help }
                    })?;
                    out(unit);
                    for _ in 0..length {
                        letters.next();
                    }
                }
                letter => out(Unit::Letter(letter)),
            }
        }
        Ok(())
    }
}

type EscapeError = (usize, String, &'static str);

/// The value of an escape without its backslash, and its length in (one-byte) characters.
fn escape(rest: &str, bytes: bool) -> Result<(Unit, usize), EscapeError> {
    let letter = rest.chars().next().unwrap_or('\0');
    let simple = match letter {
        'a' => '\x07',
        'b' => '\x08',
        'f' => '\x0c',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\x0b',
        '\\' | '?' | '"' | '\'' | '`' => letter,
        'x' | 'X' => return digits(rest, 1, 2, 16).map(|value| (Unit::Byte(value as u8), 3)),
        '0'..='3' => return digits(rest, 0, 3, 8).map(|value| (Unit::Byte(value as u8), 3)),
        'u' | 'U' if !bytes => {
            let count = if letter == 'u' { 4 } else { 8 };
            let value = digits(rest, 1, count, 16)?;
            let Some(letter) = char::from_u32(value) else {
                let message = format!("`\\{}` is not a Unicode code point", head(rest, count + 1));
                return Err((count + 1, message, "code points go up to `\\U0010FFFF`, without surrogates"));
            };
            return Ok((Unit::Letter(letter), count + 1));
        }
        'u' | 'U' => {
            let message = format!("`\\{letter}` is not allowed in a byte string");
            return Err((1, message, "write each byte as `\\x` and two hexadecimal digits"));
        }
        _ => {
            let message = format!("unknown escape `\\{letter}`");
            return Err((
                letter.len_utf8(),
                message,
                "write `\\\\` for a backslash, or put `r` before the string",
            ));
        }
    };
    Ok((Unit::Letter(simple), 1))
}

fn digits(rest: &str, from: usize, count: usize, radix: u32) -> Result<u32, EscapeError> {
    let text = rest.get(from..from + count).unwrap_or("");
    let valid = text.len() == count && text.chars().all(|letter| letter.is_digit(radix));
    match u32::from_str_radix(text, radix) {
        Ok(value) if valid && (radix == 16 || value <= 255) => Ok(value),
        _ => {
            let kind = if radix == 16 { "hexadecimal" } else { "octal" };
            let found: String =
                rest.chars().skip(from).take(count).take_while(|letter| letter.is_digit(radix)).collect();
            let message = format!("expected {count} {kind} digits in the escape, found `{found}`");
            Err((from + found.len(), message, "write `\\\\` for a backslash, or put `r` before the string"))
        }
    }
}

fn head(text: &str, count: usize) -> &str {
    text.get(..count).unwrap_or(text)
}
