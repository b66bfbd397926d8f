//! The fields of a manager (`fieldsV1`): computes a digest of their values, and decides whether an object already is as
//! it would be applied.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use kross_value::{Key, Object, Value};
use parking_lot::Mutex;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

use super::digest::{Digest, Digester, whole};

mod changes;
mod overlay;

pub use changes::ChangedFields;
pub(crate) use changes::changed_fields;

/// The maximum number of cached field sets. Objects of one template have the same set, so there are about as many as
/// templates.
const MAX_CACHED: usize = 2048;
/// Longer sets are not cached.
const MAX_CACHED_LENGTH: usize = 16 * 1024;

/// A leaf lock: nothing else is locked while it is held.
static CACHED: LazyLock<Mutex<HashMap<Box<str>, Arc<FieldSet>>>> = LazyLock::new(Mutex::default);

/// What we own of an object.
#[derive(Clone, Debug)]
pub(super) struct Ownership {
    pub(super) digest: Digest,
    pub(super) fields: Arc<FieldSet>,
}

/// The fields of a manager, as a tree.
#[derive(Debug, Default, PartialEq)]
pub(super) struct FieldSet {
    /// Whether the container itself is owned, not only some of its content.
    itself: bool,
    children: Box<[(PathElement, FieldSet)]>,
}

/// An element of a path.
#[derive(Debug, PartialEq)]
enum PathElement {
    /// `f:`: a field of an object.
    Field(Key),
    /// `k:`: the item of a list that has these keys.
    Keyed(Object),
    /// `v:`: the item of a list that has this value.
    Value(Value),
    /// `i:`: the item of a list at this index.
    Index(usize),
}

impl FieldSet {
    /// Parses a field set, or returns a cached one.
    pub(super) fn read(text: &str) -> Option<Arc<Self>> {
        if text.len() > MAX_CACHED_LENGTH {
            return serde_json::from_str(text).ok().map(Arc::new);
        }
        if let Some(known) = CACHED.lock().get(text) {
            return Some(Arc::clone(known));
        }
        let set: Arc<Self> = Arc::new(serde_json::from_str(text).ok()?);
        let mut cached = CACHED.lock();
        if cached.len() >= MAX_CACHED {
            cached.clear();
        }
        cached.insert(text.into(), Arc::clone(&set));
        Some(set)
    }

    /// The digest of this set and of the values of its fields.
    pub(super) fn digest(&self, object: &Value) -> Digest {
        let mut digester = Digester::new();
        self.feed(Some(object), &mut digester);
        digester.finish()
    }

    /// Whether the set has the field of this path of field names.
    pub(super) fn contains(&self, path: &[&str]) -> bool {
        let Some((first, rest)) = path.split_first() else { return true };
        self.children.iter().any(|(element, child)| {
            matches!(element, PathElement::Field(name) if name.as_str() == *first) && child.contains(rest)
        })
    }

    fn feed(&self, value: Option<&Value>, digester: &mut Digester) {
        if self.children.is_empty() {
            return match value {
                Some(value) => digester.value(value),
                None => digester.mark(b'-'),
            };
        }
        digester.mark(if self.itself { b'.' } else { b'(' });
        for (element, child) in &self.children {
            element.feed(digester);
            child.feed(value.and_then(|value| element.resolve(value)), digester);
        }
        digester.mark(b')');
    }

    /// Whether `desired` has exactly these fields, with the values of `live`.
    pub(super) fn cover(&self, live: &Value, desired: &Value) -> bool {
        let Some(desired) = desired.as_object() else { return false };
        let applied = desired
            .iter()
            .filter(|(key, _)| !matches!(key.as_str(), "apiVersion" | "kind"))
            .filter_map(|(key, value)| match key.as_str() {
                "metadata" => applied_metadata(value).map(|metadata| (key.clone(), metadata)),
                _ => Some((key.clone(), value.clone())),
            })
            .collect();
        self.covers(Some(live), Some(&Value::Object(applied)))
    }

    fn covers(&self, live: Option<&Value>, desired: Option<&Value>) -> bool {
        if self.children.is_empty() {
            return same(live, desired);
        }
        let entries = match desired {
            Some(Value::Object(object)) => object.iter().filter(|(_, value)| !value.is_null()).count(),
            Some(Value::List(items)) => items.len(),
            _ => return false,
        };
        entries == self.children.len()
            && self.children.iter().all(|(element, child)| {
                let wanted = desired.and_then(|value| element.resolve_desired(value));
                let there = live.and_then(|value| element.resolve(value));
                wanted.is_some() && there.is_some_and(|there| child.covers(Some(there), wanted))
            })
    }
}

/// Metadata without the fields that identify an object, which managers never own.
fn applied_metadata(metadata: &Value) -> Option<Value> {
    let kept: Object = metadata
        .as_object()?
        .iter()
        .filter(|(key, value)| {
            !value.is_null()
                && !matches!(
                    key.as_str(),
                    "name"
                        | "namespace"
                        | "uid"
                        | "resourceVersion"
                        | "generation"
                        | "creationTimestamp"
                        | "managedFields"
                        | "selfLink"
                )
        })
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    (!kept.is_empty()).then_some(Value::Object(kept))
}

/// Whether a field that only the live object has is a default of the server. Within a value that is owned as a whole
/// this is no difference: applying without it brings it back.
fn is_default(key: &str, value: &Value, live: &Object) -> bool {
    let claim = live.get("kind").and_then(Value::as_str) == Some("PersistentVolumeClaim");
    match (key, value.as_str()) {
        ("apiVersion", Some("v1")) => claim || live.contains_key("fieldPath"),
        ("kind", Some(_)) | ("status", None) => claim && live.contains_key("spec"),
        ("volumeMode", Some("Filesystem")) => live.contains_key("accessModes"),
        ("divisor", Some("0")) => live.contains_key("resource"),
        ("protocol", Some("TCP")) => true,
        _ => false,
    }
}

/// Equality as in Kubernetes: an integral double equals an integer, and `null` or an empty container equals an absent
/// value. `a` is the live value, which may have defaults.
fn same(a: Option<&Value>, b: Option<&Value>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(only), None) | (None, Some(only)) => match only {
            Value::Null => true,
            Value::Object(object) => object.iter().all(|(_, value)| same(Some(value), None)),
            Value::List(items) => items.is_empty(),
            _ => false,
        },
        (Some(Value::Int(int)), Some(Value::Float(float)))
        | (Some(Value::Float(float)), Some(Value::Int(int))) => whole(*float) == Some(*int),
        (Some(Value::List(a)), Some(Value::List(b))) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| same(Some(a), Some(b)))
        }
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            a.iter().all(|(key, value)| {
                same(Some(value), b.get(key)) || (!b.contains_key(key) && is_default(key, value, a))
            }) && b.iter().all(|(key, value)| a.contains_key(key) || same(None, Some(value)))
        }
        (Some(a), Some(b)) => a == b,
    }
}

impl PathElement {
    /// Unknown types of elements are ignored, and their fields not compared.
    fn read(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(':')?;
        match kind {
            "f" => Some(Self::Field(Key::new(rest))),
            "k" => serde_json::from_str(rest).ok().map(Self::Keyed),
            "v" => serde_json::from_str(rest).ok().map(Self::Value),
            "i" => rest.parse().ok().map(Self::Index),
            _ => None,
        }
    }

    fn resolve<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        match self {
            Self::Field(name) => value.get(name),
            Self::Keyed(keys) => value
                .as_list()?
                .iter()
                .find(|item| keys.iter().all(|(key, expected)| same(item.get(key), Some(expected)))),
            Self::Value(expected) => value.as_list()?.iter().find(|item| same(Some(item), Some(expected))),
            Self::Index(at) => value.as_list()?.get(*at),
        }
    }

    /// Like [`PathElement::resolve`], in a desired object, in which keys that the server defaults may be missing.
    fn resolve_desired<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        let Self::Keyed(keys) = self else { return self.resolve(value) };
        self.resolve(value).or_else(|| {
            value.as_list()?.iter().find(|item| {
                keys.iter().any(|(key, _)| item.get(key).is_some())
                    && keys.iter().all(|(key, expected)| {
                        item.get(key).is_none_or(|there| same(Some(there), Some(expected)))
                    })
            })
        })
    }

    fn feed(&self, digester: &mut Digester) {
        match self {
            Self::Field(name) => {
                digester.mark(b'F');
                digester.text(name);
            }
            Self::Keyed(keys) => {
                digester.mark(b'K');
                digester.value(&Value::Object(keys.clone()));
            }
            Self::Value(value) => {
                digester.mark(b'V');
                digester.value(value);
            }
            Self::Index(at) => {
                digester.mark(b'I');
                digester.text(&at.to_string());
            }
        }
    }
}

impl<'de> Deserialize<'de> for FieldSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SetVisitor;
        impl<'de> Visitor<'de> for SetVisitor {
            type Value = FieldSet;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a field set")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<FieldSet, A::Error> {
                let mut itself = false;
                let mut children = Vec::new();
                while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
                    let child: FieldSet = map.next_value()?;
                    if key == "." {
                        itself = true;
                    } else if let Some(element) = PathElement::read(&key) {
                        children.push((element, child));
                    }
                }
                Ok(FieldSet { itself, children: children.into() })
            }
        }
        deserializer.deserialize_map(SetVisitor)
    }
}
