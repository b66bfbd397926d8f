//! Digests of values, which are the same in every process and every release.

use std::fmt;

use kross_value::Value;
use sha2::{Digest as _, Sha256};

/// Half of a SHA-256: enough to distinguish any two states of an object.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 16]);

impl Digest {
    /// The digest of a value.
    #[must_use]
    pub fn of(value: &Value) -> Self {
        let mut digester = Digester::new();
        digester.value(value);
        digester.finish()
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Feeds values to a hash so that different sequences of calls never look the same to it.
pub(super) struct Digester(Sha256);

impl Digester {
    pub(super) fn new() -> Self {
        Self(Sha256::new())
    }

    /// A byte that says what follows.
    pub(super) fn mark(&mut self, mark: u8) {
        self.0.update([mark]);
    }

    pub(super) fn text(&mut self, text: &str) {
        self.0.update(u64::try_from(text.len()).unwrap_or(u64::MAX).to_le_bytes());
        self.0.update(text.as_bytes());
    }

    pub(super) fn value(&mut self, value: &Value) {
        match value {
            Value::Null => self.mark(b'n'),
            Value::Bool(value) => self.mark(if *value { b't' } else { b'f' }),
            Value::Int(number) => self.integer(*number),
            // Clients differ in how they write integral doubles.
            Value::Float(number) => match whole(*number) {
                Some(number) => self.integer(number),
                None => {
                    self.mark(b'd');
                    self.0.update(number.to_bits().to_le_bytes());
                }
            },
            Value::String(text) => {
                self.mark(b's');
                self.text(text);
            }
            Value::List(items) => {
                self.mark(b'[');
                items.iter().for_each(|item| self.value(item));
                self.mark(b']');
            }
            Value::Object(object) => {
                self.mark(b'{');
                for (key, value) in object.iter() {
                    self.text(key);
                    self.value(value);
                }
                self.mark(b'}');
            }
        }
    }

    fn integer(&mut self, number: i64) {
        self.mark(b'i');
        self.0.update(number.to_le_bytes());
    }

    pub(super) fn finish(self) -> Digest {
        let full: [u8; 32] = self.0.finalize().into();
        Digest(std::array::from_fn(|at| full.get(at).copied().unwrap_or_default()))
    }
}

/// The integer that a double stands for, in the range where doubles are exact.
#[expect(clippy::cast_possible_truncation, reason = "the range is checked first")]
pub(super) fn whole(number: f64) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    (number.fract() == 0.0 && number.abs() <= EXACT).then_some(number as i64)
}
