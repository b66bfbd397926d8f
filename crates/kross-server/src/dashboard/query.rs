//! The query of an address, as filters and selections of a page: every view has an address of its own.

use std::collections::BTreeMap;

/// The parameters of an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Query(BTreeMap<String, String>);

impl Query {
    /// Parses the part of an address after `?`.
    pub(super) fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        Self(pairs.map(|(key, value)| (decoded(key), decoded(value))).collect())
    }

    /// A parameter; empty if it is not given.
    pub(super) fn get(&self, key: &str) -> &str {
        self.0.get(key).map(String::as_str).unwrap_or_default()
    }

    /// A parameter, if it is not empty.
    pub(super) fn given(&self, key: &str) -> Option<&str> {
        Some(self.get(key)).filter(|value| !value.is_empty())
    }

    /// A number; 0 if it is none.
    pub(super) fn number(&self, key: &str) -> usize {
        self.get(key).parse().unwrap_or_default()
    }

    /// The address with one parameter changed, as `?…`.
    pub(super) fn with(&self, key: &str, value: &str) -> String {
        let mut changed = self.clone();
        if value.is_empty() {
            changed.0.remove(key)
        } else {
            changed.0.insert(key.to_owned(), value.to_owned())
        };
        let pairs: Vec<String> =
            changed.0.iter().map(|(key, value)| format!("{}={}", encoded(key), encoded(value))).collect();
        format!("?{}", pairs.join("&"))
    }
}

/// A segment or a value of an address.
pub(super) fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// The text of a segment or a value. What is no valid escape stays as it is.
pub(super) fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let escape = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match (first, escape.and_then(|digits| u8::from_str_radix(digits, 16).ok())) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            (b'+', _) => {
                bytes.push(b' ');
                rest = after;
            }
            _ => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_survives_in_an_address() {
        for text in ["shop/web", "a b&c=d", "größe 100%", "%2", "<x>\"'"] {
            let query = Query::default().with("q", text);
            assert_eq!(Query::parse(query.trim_start_matches('?')).get("q"), text);
        }
        assert_eq!(Query::parse("a=1&b=2").with("a", ""), "?b=2");
        assert_eq!(decoded("%zz%"), "%zz%");
    }
}
