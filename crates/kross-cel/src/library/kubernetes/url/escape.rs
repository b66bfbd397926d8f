//! Percent-encoding in the parts of a URL, each of which allows different unescaped characters.

/// The part of a URL that a text belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Path,
    Host,
    Zone,
    UserPassword,
    Query,
    Fragment,
}

impl Part {
    /// Whether the byte needs no escape in this part.
    fn is_plain(self, byte: u8) -> bool {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            return true;
        }
        let plain: &[u8] = match self {
            Self::Path => b"$&+,/:;=@",
            Self::Host | Self::Zone => b"!$&'()*+,;=:[]<>\"",
            Self::UserPassword => b"$&+,;=",
            Self::Query => b"",
            Self::Fragment => b"$&+,/:;=?@!()*",
        };
        plain.contains(&byte)
    }
}

/// Escapes all bytes that need it.
pub(super) fn escape(bytes: &[u8], part: Part) -> String {
    let mut out = String::with_capacity(bytes.len());
    for byte in bytes {
        if part.is_plain(*byte) {
            out.push(char::from(*byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Decodes escapes.
pub(super) fn unescape(text: &str, part: Part) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        match first {
            b'%' => {
                let (byte, tail) = escaped(tail, part)?;
                out.push(byte);
                rest = tail;
            }
            b'+' if part == Part::Query => out.push(b' '),
            byte if matches!(part, Part::Host | Part::Zone) && byte.is_ascii() && !part.is_plain(*byte) => {
                return Err("invalid character in host name".to_owned());
            }
            byte => out.push(*byte),
        }
    }
    Ok(out)
}

/// The byte of an escape's two digits. Hosts may only have escapes of non-ASCII bytes and of `%`.
fn escaped(rest: &[u8], part: Part) -> Result<(u8, &[u8]), String> {
    let wrong = || "invalid URL escape".to_owned();
    let (Some(digits), Some(tail)) = (rest.get(..2), rest.get(2..)) else { return Err(wrong()) };
    let value = std::str::from_utf8(digits)
        .ok()
        .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
        .and_then(|digits| u8::from_str_radix(digits, 16).ok())
        .ok_or_else(wrong)?;
    let allowed = match part {
        Part::Host => !value.is_ascii() || digits == b"25",
        Part::Zone => digits == b"25" || value == b' ' || Part::Host.is_plain(value),
        _ => true,
    };
    if allowed { Ok((value, tail)) } else { Err(wrong()) }
}

/// Whether text is a valid encoding.
pub(super) fn is_valid_encoded(text: &str, part: Part) -> bool {
    text.bytes().all(|byte| b"!$&'()*+,;=:@[]%".contains(&byte) || part.is_plain(byte))
}
