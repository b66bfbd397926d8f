//! A JSON object: entries sorted by key, shared by reference counting.

use std::sync::Arc;

use crate::{Key, Value};

/// The entries of an object, sorted by key, without duplicate keys. Clones share the entries.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object {
    entries: Arc<Vec<(Key, Value)>>,
}

/// Up to this many entries, a linear scan is faster than a binary search.
const LINEAR_SCAN_LIMIT: usize = 16;

impl Object {
    /// Creates an empty object.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        let at = self.entries.binary_search_by(|(name, _)| name.as_str().cmp(key)).ok()?;
        self.entries.get(at).map(|(_, value)| value)
    }

    /// The value of an interned key. Usually compares pointers only.
    #[must_use]
    #[inline]
    pub fn get_key(&self, key: &Key) -> Option<&Value> {
        if self.entries.len() <= LINEAR_SCAN_LIMIT
            && let Some((_, value)) = self.entries.iter().find(|(name, _)| name.is(key))
        {
            return Some(value);
        }
        self.get(key)
    }

    /// Whether the object has a key.
    #[must_use]
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Sets an entry and returns the value it replaces. Copies the entries if they are shared.
    pub fn insert(&mut self, key: impl Into<Key>, value: Value) -> Option<Value> {
        let key = key.into();
        let entries = Arc::make_mut(&mut self.entries);
        match entries.binary_search_by(|(name, _)| name.as_str().cmp(&key)) {
            Ok(at) => entries.get_mut(at).map(|entry| std::mem::replace(&mut entry.1, value)),
            Err(at) => {
                entries.insert(at, (key, value));
                None
            }
        }
    }

    /// Removes an entry. Copies the entries if they are shared and the key exists.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let at = self.entries.binary_search_by(|(name, _)| name.as_str().cmp(key)).ok()?;
        Some(Arc::make_mut(&mut self.entries).remove(at).1)
    }

    /// Mutable access to the value of a key. Copies the entries if they are shared.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        let at = self.entries.binary_search_by(|(name, _)| name.as_str().cmp(key)).ok()?;
        Arc::make_mut(&mut self.entries).get_mut(at).map(|(_, value)| value)
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The entries, sorted by key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Key, &Value)> + DoubleEndedIterator + Clone {
        self.entries.iter().map(|(key, value)| (key, value))
    }

    /// The entry at a position in key order.
    #[must_use]
    pub fn entry(&self, at: usize) -> Option<(&Key, &Value)> {
        self.entries.get(at).map(|(key, value)| (key, value))
    }

    /// The keys, sorted.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &Key> {
        self.entries.iter().map(|(key, _)| key)
    }

    /// Whether both share one allocation, and are therefore equal.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.entries, &other.entries)
    }
}

/// For duplicate keys the last entry wins, as in JSON.
impl<K: Into<Key>> FromIterator<(K, Value)> for Object {
    fn from_iter<T: IntoIterator<Item = (K, Value)>>(entries: T) -> Self {
        let mut sorted: Vec<(Key, Value)> =
            entries.into_iter().map(|(key, value)| (key.into(), value)).collect();
        sorted.sort_by(|a, b| a.0.cmp(&b.0));
        // `dedup_by` keeps the first of a run; swapping moves the last one there.
        sorted.dedup_by(|later, first| {
            let repeated = later.0 == first.0;
            if repeated {
                std::mem::swap(&mut later.1, &mut first.1);
            }
            repeated
        });
        sorted.shrink_to_fit();
        Self { entries: Arc::new(sorted) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_duplicate_keys_wins() {
        let object: Object =
            [("b", Value::Int(1)), ("a", Value::Int(2)), ("b", Value::Int(3)), ("b", Value::Int(4))]
                .into_iter()
                .collect();
        assert_eq!(object.len(), 2);
        assert_eq!(object.get("b"), Some(&Value::Int(4)));
    }

    #[test]
    fn editing_a_clone_does_not_change_the_original() {
        let original: Object = [("a", Value::Int(1))].into_iter().collect();
        let mut copy = original.clone();
        copy.insert("b", Value::Null);
        assert_eq!(copy.remove("a"), Some(Value::Int(1)));
        assert_eq!((original.len(), copy.len()), (1, 1));
    }
}
