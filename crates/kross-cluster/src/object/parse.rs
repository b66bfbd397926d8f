//! Parses an object, or a page of a list, straight into stored objects. Managed fields are scanned but not built: only
//! those of our own manager are read. An object that cannot be read, such as one that is nested too deeply, does not
//! hide the others of its list: what is stored of it is an outline.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use kross_api::managers;
use kross_value::{Key, Object, Text, Value};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::StoredObject;
use super::fields::{FieldSet, Ownership};

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The problem of an object that has more levels than `serde_json` reads.
const DEEP: &str = "nested too deeply";

/// A response is not an object, or not a list.
///
/// Says where parsing stopped, and never what was there, because that may be a Secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot parse the object in the response: {problem} at byte {column} of line {line}")]
pub struct UnreadableObject {
    problem: &'static str,
    line: usize,
    column: usize,
}

impl UnreadableObject {
    /// Whether it is not the response of an API server at all, such as an HTML page.
    pub(crate) fn is_foreign(&self) -> bool {
        self.problem != DEEP
    }

    fn new(error: &serde_json::Error) -> Self {
        let problem = match error.classify() {
            // There is no category for it.
            _ if error.to_string().starts_with("recursion limit exceeded") => DEEP,
            serde_json::error::Category::Eof => "unexpected end",
            serde_json::error::Category::Data => "not a Kubernetes object",
            serde_json::error::Category::Syntax | serde_json::error::Category::Io => "not JSON",
        };
        Self { problem, line: error.line(), column: error.column() }
    }
}

/// The kind of the items of a list, because lists of built-in kinds do not repeat it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KindNames {
    api_version: Text,
    kind: Text,
}

/// A page of a list.
#[derive(Debug, Default)]
pub struct ObjectList {
    /// The API version that the list itself has; empty if it has none.
    pub api_version: String,
    /// The kind that the list itself has, such as `ConfigMapList`; empty if it has none.
    pub kind: String,
    /// The objects. Those that cannot be read are outlines ([`StoredObject::unreadable`]).
    pub items: Vec<StoredObject>,
    /// The resource version of the list, to watch from.
    pub resource_version: String,
    /// The continue token of the next page, if there is one.
    pub next: Option<String>,
    /// How many items were left out because not even their names can be read. Objects that are not in the list may be among them.
    pub dropped: usize,
}

/// Parses an object.
///
/// # Errors
/// It is not JSON, has no name, or is not a Kubernetes object for another reason.
pub fn read_object(bytes: &[u8]) -> Result<StoredObject, UnreadableObject> {
    read(bytes, ObjectSeed { kind: None })
}

/// Parses an object, or its outline if it cannot be read.
///
/// # Errors
/// It is not JSON, has no name, or is not a Kubernetes object for another reason.
pub(crate) fn read_object_or_outline(bytes: &[u8]) -> Result<StoredObject, UnreadableObject> {
    let object = read_object(bytes).or_else(|error| outline(bytes, None, error))?;
    Ok(object.sized(bytes.len()))
}

/// Parses a page of a list of a known kind. Of an item that cannot be read its outline is returned; one whose name cannot be
/// read either is only counted.
///
/// # Errors
/// It is not a list.
pub fn read_list(bytes: &[u8], api_version: &str, kind: &str) -> Result<ObjectList, UnreadableObject> {
    let kind = KindNames { api_version: api_version.into(), kind: kind.into() };
    // Almost all lists can be read in one go, which is faster than to find the end of each item first.
    let mut list = read(bytes, ListSeed { kind: &kind }).or_else(|_| read_items(bytes, &kind))?;
    let size = bytes.len() / list.items.len().max(1);
    list.items = list.items.into_iter().map(|object| object.sized(size)).collect();
    Ok(list)
}

/// A list whose items are not parsed yet.
#[derive(Deserialize)]
struct RawList<'a> {
    #[serde(default, rename = "apiVersion")]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: ListMetadata,
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

/// Parses the items of a list one by one.
fn read_items(bytes: &[u8], kind: &KindNames) -> Result<ObjectList, UnreadableObject> {
    let RawList { api_version, kind: list_kind, metadata, items } =
        serde_json::from_slice(bytes).map_err(|error| UnreadableObject::new(&error))?;
    let item = |raw: &RawValue| {
        let bytes = raw.get().as_bytes();
        read(bytes, ObjectSeed { kind: Some(kind) }).or_else(|error| outline(bytes, Some(kind), error))
    };
    let all = items.len();
    let items: Vec<StoredObject> = items.into_iter().filter_map(|raw| item(raw).ok()).collect();
    Ok(ObjectList {
        api_version,
        kind: list_kind,
        dropped: all - items.len(),
        items,
        resource_version: metadata.resource_version,
        next: metadata.next.filter(|next| !next.is_empty()),
    })
}

/// What identifies an object. `serde_json` finds the end of a raw or ignored value without recursion, so their depth does
/// not matter.
#[derive(Deserialize)]
struct RawObject<'a> {
    #[serde(rename = "apiVersion")]
    api_version: Option<String>,
    kind: Option<String>,
    #[serde(borrow)]
    metadata: BTreeMap<String, &'a RawValue>,
}

/// The outline of an object that cannot be read: its kind, and what can be read of its metadata.
///
/// # Errors
/// Not even its name can be read.
fn outline(
    bytes: &[u8],
    kind: Option<&KindNames>,
    error: UnreadableObject,
) -> Result<StoredObject, UnreadableObject> {
    let Ok(raw) = serde_json::from_slice::<RawObject<'_>>(bytes) else { return Err(error) };
    let mut metadata = Object::default();
    for (name, value) in raw.metadata.iter().filter(|(name, _)| *name != "managedFields") {
        let value = serde_json::from_str::<Value>(value.get()).ok();
        let value = if name == "annotations" { value.and_then(annotations) } else { value };
        if let Some(value) = value {
            metadata.insert(name.as_str(), value);
        }
    }
    let mut object = Object::default();
    let api_version = raw.api_version.map(Text::from).or_else(|| kind.map(|kind| kind.api_version.clone()));
    let kind = raw.kind.map(Text::from).or_else(|| kind.map(|kind| kind.kind.clone()));
    for (name, value) in [("apiVersion", api_version), ("kind", kind)] {
        if let Some(value) = value {
            object.insert(name, Value::String(value));
        }
    }
    object.insert("metadata", Value::Object(metadata));
    match stored(Value::Object(object), None) {
        Some(object) => Ok(StoredObject { unreadable: Some(Box::new(error)), ..object }),
        None => Err(error),
    }
}

fn read<'de, S: DeserializeSeed<'de>>(bytes: &'de [u8], seed: S) -> Result<S::Value, UnreadableObject> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = seed.deserialize(&mut deserializer).map_err(|error| UnreadableObject::new(&error))?;
    deserializer.end().map_err(|error| UnreadableObject::new(&error))?;
    Ok(value)
}

#[derive(Clone, Copy)]
struct ObjectSeed<'k> {
    kind: Option<&'k KindNames>,
}

impl<'de> DeserializeSeed<'de> for ObjectSeed<'_> {
    type Value = StoredObject;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<StoredObject, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ObjectSeed<'_> {
    type Value = StoredObject;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<StoredObject, A::Error> {
        let mut entries: Vec<(Key, Value)> = Vec::with_capacity(8);
        let mut managed = None;
        while let Some(key) = map.next_key::<Key>()? {
            if key.as_str() == "metadata" {
                let metadata: Metadata<'de> = map.next_value()?;
                managed = metadata.managed;
                entries.push((key, Value::Object(metadata.entries)));
            } else {
                entries.push((key, map.next_value()?));
            }
        }
        let mut object: Object = entries.into_iter().collect();
        if let Some(kind) = self.kind {
            if !object.contains_key("apiVersion") {
                object.insert("apiVersion", Value::String(kind.api_version.clone()));
            }
            if !object.contains_key("kind") {
                object.insert("kind", Value::String(kind.kind.clone()));
            }
        }
        stored(Value::Object(object), managed).ok_or_else(|| A::Error::custom("an object without a name"))
    }
}

fn stored(value: Value, managed: Option<Managed<'_>>) -> Option<StoredObject> {
    let metadata = value.get("metadata")?.as_object()?;
    let text = |name: &str| match metadata.get(name) {
        Some(Value::String(text)) if !text.is_empty() => Some(text.clone()),
        _ => None,
    };
    let ownership = managed.and_then(|managed| {
        let fields = FieldSet::read(managed.fields)?;
        // The fields of another version do not match the values here, but the set itself is still comparable.
        let digest = if value.get("apiVersion").and_then(Value::as_str) == Some(&managed.api_version) {
            fields.digest(&value)
        } else {
            fields.digest(&Value::Null)
        };
        Some(Ownership { digest, fields })
    });
    Some(StoredObject {
        name: text("name")?,
        namespace: text("namespace"),
        uid: text("uid").unwrap_or_else(|| "".into()),
        resource_version: text("resourceVersion").unwrap_or_else(|| "".into()),
        labels: metadata.get("labels").and_then(Value::as_object).cloned().unwrap_or_default(),
        generation: metadata.get("generation").and_then(Value::as_int),
        deletion: text("deletionTimestamp"),
        ownership,
        unreadable: None,
        size: 0,
        foreign: false,
        value,
    })
}

/// Metadata without managed fields, and the fields of our manager.
struct Metadata<'de> {
    entries: Object,
    managed: Option<Managed<'de>>,
}

struct Managed<'de> {
    api_version: Cow<'de, str>,
    fields: &'de str,
}

#[derive(Deserialize)]
struct ManagedEntry<'a> {
    #[serde(borrow, default)]
    manager: Cow<'a, str>,
    #[serde(borrow, default)]
    operation: Cow<'a, str>,
    #[serde(borrow, default)]
    subresource: Cow<'a, str>,
    #[serde(borrow, default, rename = "apiVersion")]
    api_version: Cow<'a, str>,
    #[serde(borrow, default, rename = "fieldsV1")]
    fields: Option<&'a RawValue>,
}

impl<'de> Deserialize<'de> for Metadata<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MetadataVisitor)
    }
}

struct MetadataVisitor;

impl<'de> Visitor<'de> for MetadataVisitor {
    type Value = Metadata<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the metadata of an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Metadata<'de>, A::Error> {
        let mut entries: Vec<(Key, Value)> = Vec::with_capacity(10);
        let mut managed = None;
        while let Some(key) = map.next_key::<Key>()? {
            match key.as_str() {
                "managedFields" => {
                    let all: Option<Vec<ManagedEntry<'de>>> = map.next_value()?;
                    managed = ours(all.unwrap_or_default());
                }
                "annotations" => {
                    if let Some(kept) = annotations(map.next_value()?) {
                        entries.push((key, kept));
                    }
                }
                _ => entries.push((key, map.next_value()?)),
            }
        }
        Ok(Metadata { entries: entries.into_iter().collect(), managed })
    }
}

fn ours(all: Vec<ManagedEntry<'_>>) -> Option<Managed<'_>> {
    all.into_iter()
        .find(|entry| {
            entry.manager == managers::APPLYSET && entry.operation == "Apply" && entry.subresource.is_empty()
        })
        .and_then(|entry| Some(Managed { api_version: entry.api_version, fields: entry.fields?.get() }))
}

fn annotations(mut value: Value) -> Option<Value> {
    let object = value.as_object_mut()?;
    object.remove(LAST_APPLIED);
    (!object.is_empty()).then_some(value)
}

struct ListSeed<'k> {
    kind: &'k KindNames,
}

impl<'de> DeserializeSeed<'de> for ListSeed<'_> {
    type Value = ObjectList;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<ObjectList, D::Error> {
        deserializer.deserialize_map(self)
    }
}

#[derive(Default, Deserialize)]
struct ListMetadata {
    #[serde(default, rename = "resourceVersion")]
    resource_version: String,
    #[serde(default, rename = "continue")]
    next: Option<String>,
}

impl<'de> Visitor<'de> for ListSeed<'_> {
    type Value = ObjectList;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ObjectList, A::Error> {
        let (mut api_version, mut kind, mut items) = (String::new(), String::new(), None);
        let mut metadata = ListMetadata::default();
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            match &*key {
                "items" => items = Some(map.next_value_seed(ItemsSeed { kind: self.kind })?),
                "metadata" => metadata = map.next_value()?,
                "apiVersion" => api_version = map.next_value()?,
                "kind" => kind = map.next_value()?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(ObjectList {
            api_version,
            kind,
            items: items.ok_or_else(|| A::Error::custom("a list without items"))?,
            dropped: 0,
            resource_version: metadata.resource_version,
            next: metadata.next.filter(|next| !next.is_empty()),
        })
    }
}

struct ItemsSeed<'k> {
    kind: &'k KindNames,
}

impl<'de> DeserializeSeed<'de> for ItemsSeed<'_> {
    type Value = Vec<StoredObject>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<StoredObject>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ItemsSeed<'_> {
    type Value = Vec<StoredObject>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the items of a list")
    }

    /// Some servers write `null` for an empty list.
    fn visit_unit<E>(self) -> Result<Vec<StoredObject>, E> {
        Ok(Vec::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Vec<StoredObject>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = sequence.next_element_seed(ObjectSeed { kind: Some(self.kind) })? {
            items.push(item);
        }
        Ok(items)
    }
}

#[cfg(test)]
mod tests;
