//! Interned object keys. Field names repeat in every object, so they are stored once. The table is bounded, because
//! the keys of a malicious map never repeat.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::LazyLock;

use parking_lot::RwLock;

use crate::Text;

/// Maximum number of interned keys. The built-in Kubernetes APIs have about 6,000 field names.
const MAX_INTERNED: usize = 32_768;
/// Maximum length of an interned key. Longer keys are data (annotations, file names), not field names.
const MAX_INTERNED_LENGTH: usize = 64;

static TABLE: LazyLock<RwLock<HashSet<Text>>> = LazyLock::new(RwLock::default);

/// The key of an object entry.
#[derive(Clone, Eq)]
pub struct Key(Text);

impl Key {
    /// Interns a name, or stores it without interning if it is long or the table is full.
    #[must_use]
    pub fn new(name: &str) -> Self {
        if name.len() > MAX_INTERNED_LENGTH {
            return Self(name.into());
        }
        if let Some(shared) = TABLE.read().get(name) {
            return Self(shared.clone());
        }
        let mut table = TABLE.write();
        if let Some(shared) = table.get(name) {
            return Self(shared.clone());
        }
        let text = Text::from(name);
        if table.len() < MAX_INTERNED {
            table.insert(text.clone());
        }
        Self(text)
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether both share one allocation. Equal keys may not: long keys are not interned.
    #[must_use]
    #[inline]
    pub fn is(&self, other: &Self) -> bool {
        std::ptr::eq(self.as_str(), other.as_str())
    }

    /// The name as a shared string.
    #[must_use]
    pub fn text(&self) -> &Text {
        &self.0
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.is(other) || self.as_str() == other.as_str()
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl Deref for Key {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl From<&str> for Key {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl From<String> for Key {
    fn from(name: String) -> Self {
        Self::new(&name)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_share_one_allocation() {
        let (a, b) = (Key::new("replicas"), Key::new("replicas"));
        assert!(std::ptr::eq(a.as_str(), b.as_str()));
    }

    #[test]
    fn the_table_stays_bounded_for_any_number_of_names() {
        for n in 0..MAX_INTERNED + 100 {
            let name = format!("hostile-{n}");
            assert_eq!(Key::new(&name).as_str(), name);
        }
        assert!(TABLE.read().len() <= MAX_INTERNED);
        assert_eq!(Key::new("after-the-flood"), Key::new("after-the-flood"));
    }
}
