//! Encodes and decodes base64.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::arguments::{bytes, functions, grow, text, write_bytes};
use super::{Call, Library};
use crate::error::Fault;
use crate::value::Value;

/// Base64.
pub static LIBRARY: Library = Library {
    name: "encoders",
    functions: functions! {
        "base64.decode": "Decodes a base64 string, with or without padding." {
            "base64.decode(string) -> bytes" => decode,
        }
        "base64.encode": "Encodes bytes as a base64 string with padding." {
            "base64.encode(bytes) -> string" => encode,
        }
    },
};

/// Accepts the same input as Go's decoder: padding is optional, bits after the last whole byte are ignored.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Decodes base64 as Go does: line breaks are skipped.
pub(in crate::library) fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let joined: String;
    let text = if text.contains(['\r', '\n']) {
        joined = text.replace(['\r', '\n'], "");
        &joined
    } else {
        text
    };
    let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
    // Padding must be complete or absent.
    (padding == 0 || text.len().is_multiple_of(4)).then(|| LENIENT.decode(text).ok()).flatten()
}

fn decode(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let text = text(arguments, 0)?;
    write_bytes(call, text.len())?;
    decode_base64(text)
        .map(|bytes| Value::Bytes(bytes.into()))
        .ok_or_else(|| Fault::invalid("base64.decode: invalid base64"))
}

fn encode(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let bytes = bytes(arguments, 0)?;
    grow(call, "base64.encode", bytes.len().saturating_mul(4) / 3)?;
    Ok(Value::string(LENIENT.encode(bytes)))
}

#[cfg(test)]
mod tests {
    use super::super::arguments::testing::{err, ok};
    use super::*;

    #[test]
    fn padding_is_written_and_optional_in_the_input() {
        assert_eq!(ok(encode, [Value::Bytes((*b"hello").into())]), "\"aGVsbG8=\"");
        for text in ["aGVsbG8=", "aGVsbG8", "aGVs\nbG8=\r\n", "aGVsbG9="] {
            let decoded = ok(decode, [Value::string(text)]);
            assert!(decoded.starts_with("b[104, 101, 108, 108, 111"), "{text}: {decoded}");
        }
        assert_eq!(ok(decode, [Value::string("")]), "b[]");
    }

    #[test]
    fn invalid_base64_is_rejected() {
        for text in ["a", "aGVsbG8==", "aGVs bG8=", "aGV_", "=", "aGVsbG=8"] {
            assert_eq!(err(decode, [Value::string(text)]), "base64.decode: invalid base64", "{text}");
        }
    }
}
