//! Access to maps of every representation. A numeric key is found by any number of the same value.

use std::cmp::Ordering;
use std::sync::{Arc, OnceLock};

use super::{BuiltMap, Map, TypedObject, Value, numeric_as_int};
use crate::error::Fault;
use crate::types::Type;

/// Up to this many entries a linear search is faster than an index.
const SMALL: usize = 8;

/// A key in the order of the index; numbers of the same value are equal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum KeyRef<'a> {
    Bool(bool),
    Number(i128),
    Text(&'a str),
}

impl<'a> KeyRef<'a> {
    #[inline]
    fn of(key: &'a Value) -> Option<Self> {
        match key {
            Value::String(text) => Some(Self::Text(text)),
            Value::Bool(value) => Some(Self::Bool(*value)),
            other => numeric_as_int(other).map(Self::Number),
        }
    }
}

impl BuiltMap {
    /// A map of these entries, whose keys are distinct.
    #[must_use]
    pub fn new(entries: Vec<(Value, Value)>) -> Self {
        Self { entries, sorted: OnceLock::new() }
    }

    /// A map of these entries, after checking the keys.
    ///
    /// # Errors
    /// If a key is duplicate, or not a bool, int, uint or string.
    pub fn checked(entries: Vec<(Value, Value)>) -> Result<Self, Fault> {
        for (key, _) in &entries {
            check_key(key)?;
        }
        let map = Self::new(entries);
        match map.duplicate_key() {
            Some(_) => Err(Fault::invalid("duplicate map key")),
            None => Ok(map),
        }
    }

    /// The entries, in insertion order.
    #[must_use]
    pub fn entries(&self) -> &[(Value, Value)] {
        &self.entries
    }

    fn into_entries(self) -> Vec<(Value, Value)> {
        self.entries
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &Value) -> Option<&Value> {
        self.find(KeyRef::of(key)?)
    }

    /// The value of a string key.
    #[must_use]
    pub fn get_str(&self, key: &str) -> Option<&Value> {
        self.find(KeyRef::Text(key))
    }

    fn find(&self, key: KeyRef<'_>) -> Option<&Value> {
        if self.entries.len() <= SMALL {
            return self
                .entries
                .iter()
                .find(|(name, _)| KeyRef::of(name) == Some(key))
                .map(|(_, value)| value);
        }
        let sorted = self.sorted();
        let at = sorted.binary_search_by(|&at| self.key_at(at).cmp(&Some(key))).ok()?;
        self.entries.get(*sorted.get(at)? as usize).map(|(_, value)| value)
    }

    fn key_at(&self, at: u32) -> Option<KeyRef<'_>> {
        self.entries.get(at as usize).and_then(|(name, _)| KeyRef::of(name))
    }

    fn sorted(&self) -> &[u32] {
        self.sorted.get_or_init(|| {
            let mut positions: Vec<u32> =
                (0..u32::try_from(self.entries.len()).unwrap_or(u32::MAX)).collect();
            positions.sort_by(|a, b| self.key_at(*a).cmp(&self.key_at(*b)));
            positions.into_boxed_slice()
        })
    }

    fn duplicate_key(&self) -> Option<&Value> {
        if self.entries.len() <= SMALL {
            return self.entries.iter().enumerate().find_map(|(at, (key, _))| {
                let earlier = self.entries.get(..at)?;
                earlier.iter().any(|(other, _)| KeyRef::of(other) == KeyRef::of(key)).then_some(key)
            });
        }
        self.sorted().windows(2).find_map(|pair| match pair {
            [a, b] if self.key_at(*a).cmp(&self.key_at(*b)) == Ordering::Equal => {
                self.entries.get(*b as usize).map(|(key, _)| key)
            }
            _ => None,
        })
    }
}

/// Checks that a value can be the key of a map.
///
/// # Errors
/// If the value is not a bool, int, uint or string.
pub(crate) fn check_key(key: &Value) -> Result<(), Fault> {
    match key {
        Value::Bool(_) | Value::Int(_) | Value::UInt(_) | Value::String(_) => Ok(()),
        other => Err(Fault::WrongType {
            expected: "a bool, int, uint or string as map key".into(),
            found: other.type_name().into(),
        }),
    }
}

impl TypedObject {
    /// The type of the value of a key.
    fn type_of(&self, key: &str) -> Option<Type> {
        match &self.object_type {
            Type::Object(object) => object.field(key),
            Type::Map(entry) => Some(entry.1.clone()),
            _ => None,
        }
    }

    fn get(&self, key: &str) -> Option<Value> {
        let data = self.object.get(key)?;
        Some(Value::from_data(data, self.type_of(key).as_ref()))
    }
}

impl Map {
    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Built(map) => map.entries.len(),
            Self::Data(object) => object.len(),
            Self::Typed(typed) => typed.object.len(),
        }
    }

    /// Whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &Value) -> Option<Value> {
        match (self, key) {
            (Self::Built(map), key) => map.get(key).cloned(),
            (_, Value::String(key)) => self.get_str(key),
            _ => None,
        }
    }

    /// The value of a string key.
    #[must_use]
    pub fn get_str(&self, key: &str) -> Option<Value> {
        match self {
            Self::Built(map) => map.get_str(key).cloned(),
            Self::Data(object) => object.get(key).map(Value::from),
            Self::Typed(typed) => typed.get(key),
        }
    }

    /// Whether a key exists.
    #[must_use]
    pub fn contains_key(&self, key: &Value) -> bool {
        match (self, key) {
            (Self::Built(map), key) => map.get(key).is_some(),
            (_, Value::String(key)) => self.contains_str(key),
            _ => false,
        }
    }

    /// Whether a string key exists.
    #[must_use]
    pub fn contains_str(&self, key: &str) -> bool {
        match self {
            Self::Built(map) => map.get_str(key).is_some(),
            Self::Data(object) => object.contains_key(key),
            Self::Typed(typed) => typed.object.contains_key(key),
        }
    }

    /// The entries: those of raw JSON sorted by key, others in insertion order.
    #[must_use]
    pub fn iter(&self) -> MapIter<'_> {
        MapIter { map: self, at: 0 }
    }

    /// The keys, in the order of [`Map::iter`].
    pub fn keys(&self) -> impl Iterator<Item = Value> + '_ {
        (0..self.len()).filter_map(|at| self.key(at))
    }

    /// The key at a position in the order of [`Map::iter`].
    #[must_use]
    pub fn key(&self, at: usize) -> Option<Value> {
        match self {
            Self::Built(map) => map.entries.get(at).map(|(key, _)| key.clone()),
            Self::Data(object) => object.entry(at).map(|(key, _)| Value::String(key.text().clone())),
            Self::Typed(typed) => typed.object.entry(at).map(|(key, _)| Value::String(key.text().clone())),
        }
    }

    /// The entry at a position in the order of [`Map::iter`].
    #[must_use]
    pub fn entry(&self, at: usize) -> Option<(Value, Value)> {
        match self {
            Self::Built(map) => map.entries.get(at).cloned(),
            Self::Data(object) => {
                object.entry(at).map(|(key, value)| (Value::String(key.text().clone()), Value::from(value)))
            }
            Self::Typed(typed) => typed.object.entry(at).map(|(key, value)| {
                let value = Value::from_data(value, typed.type_of(key).as_ref());
                (Value::String(key.text().clone()), value)
            }),
        }
    }

    /// The entries as a vector; they are cloned only if the map is shared.
    #[must_use]
    pub fn into_entries(self) -> Vec<(Value, Value)> {
        match self {
            Self::Built(map) => {
                Arc::try_unwrap(map).map_or_else(|shared| shared.entries.clone(), BuiltMap::into_entries)
            }
            other => other.iter().collect(),
        }
    }
}

impl<'a> IntoIterator for &'a Map {
    type Item = (Value, Value);
    type IntoIter = MapIter<'a>;

    fn into_iter(self) -> MapIter<'a> {
        self.iter()
    }
}

/// Iterates over the entries of a map.
#[derive(Clone, Debug)]
pub struct MapIter<'a> {
    map: &'a Map,
    at: usize,
}

impl Iterator for MapIter<'_> {
    type Item = (Value, Value);

    fn next(&mut self) -> Option<(Value, Value)> {
        let entry = self.map.entry(self.at)?;
        self.at += 1;
        Some(entry)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.map.len().saturating_sub(self.at);
        (left, Some(left))
    }
}

impl ExactSizeIterator for MapIter<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_finds_any_key_of_the_same_value() {
        for size in [3_i64, 100] {
            let map = BuiltMap::new((0..size).map(|at| (Value::Int(at), Value::Int(at * 10))).collect());
            for key in [Value::Int(2), Value::UInt(2), Value::Double(2.0)] {
                assert!(matches!(map.get(&key), Some(Value::Int(20))), "{key} in a map of {size}");
            }
            assert!(map.get(&Value::Double(2.5)).is_none());
            assert!(map.get(&Value::string("2")).is_none());
        }
    }

    #[test]
    fn duplicate_keys_are_rejected_in_small_and_large_maps() {
        let mut entries: Vec<_> = (0..40).map(|at| (Value::Int(at), Value::Null)).collect();
        entries.push((Value::UInt(7), Value::Null));
        assert!(BuiltMap::checked(entries).is_err());
        assert!(
            BuiltMap::checked(vec![(Value::Int(0), Value::Null), (Value::UInt(0), Value::Null)]).is_err()
        );
        assert!(
            BuiltMap::checked(vec![(Value::Bool(true), Value::Null), (Value::Int(1), Value::Null)]).is_ok()
        );
        assert!(BuiltMap::checked(vec![(Value::Null, Value::Null)]).is_err());
    }
}
