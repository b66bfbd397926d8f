//! A list field that remembers whether it was present. It dereferences to an empty slice if it was absent, and is
//! omitted again when it is serialized, so that a round trip neither adds nor removes the field.

use std::borrow::Cow;
use std::ops::{Deref, DerefMut};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A list that may be absent on the wire; it dereferences to a slice.
///
/// ```
/// use kross_api::List;
///
/// let absent: List<String> = List::default();
/// assert!(absent.is_empty() && absent.is_absent());
/// assert!(!List::<String>::from(vec![]).is_absent());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<T>(Option<Vec<T>>);

impl<T> List<T> {
    /// Whether the field was absent.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        self.0.is_none()
    }

    /// Adds an item, making the list present.
    pub fn push(&mut self, item: T) {
        self.0.get_or_insert_default().push(item);
    }
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> DerefMut for List<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.0.as_deref_mut().unwrap_or_default()
    }
}

impl<T> Deref for List<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl<T> From<Vec<T>> for List<T> {
    fn from(items: Vec<T>) -> Self {
        Self(Some(items))
    }
}

impl<T> FromIterator<T> for List<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Self(Some(items.into_iter().collect()))
    }
}

impl<'a, T> IntoIterator for &'a List<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T: Serialize> Serialize for List<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::deserialize(deserializer).map(Self)
    }
}

impl<T: JsonSchema> JsonSchema for List<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        Vec::<T>::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Vec::<T>::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Holder {
        #[serde(default, skip_serializing_if = "List::is_absent")]
        items: List<i64>,
    }

    fn through(text: &str) -> String {
        serde_json::to_string(&serde_json::from_str::<Holder>(text).unwrap()).unwrap()
    }

    #[test]
    fn absent_empty_and_filled_lists_round_trip() {
        assert_eq!(through("{}"), "{}");
        assert_eq!(through(r#"{"items":[]}"#), r#"{"items":[]}"#);
        assert_eq!(through(r#"{"items":[1,2]}"#), r#"{"items":[1,2]}"#);
    }

    #[test]
    fn null_is_the_same_as_absent() {
        assert_eq!(through(r#"{"items":null}"#), "{}");
    }

    #[test]
    fn pushing_makes_the_list_present() {
        let mut list = List::default();
        list.push(7);
        assert_eq!(&*list, &[7]);
        assert!(!list.is_absent());
    }
}
