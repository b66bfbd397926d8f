//! Objects as caches store them: a compact tree without managed fields, frequently used metadata, and a digest of the
//! fields that we own, which is computed before the managed fields are dropped.

use std::fmt;

use jiff::Timestamp;
use kross_api::ObjectFacts;
use kross_value::{Object, Text, Value};

mod digest;
mod fields;
mod parse;

pub use digest::Digest;
pub use fields::ChangedFields;
pub(crate) use fields::changed_fields;
pub use kross_api::{ClusterId, ObjectKey};
pub(crate) use parse::read_object_or_outline;
pub use parse::{ObjectList, UnreadableObject, read_list, read_object};

use fields::Ownership;

/// An object as caches store it, without managed fields and `kubectl`'s last-applied annotation.
///
/// ```
/// use kross_cluster::{StoredObject, read_object};
///
/// let object: StoredObject = read_object(br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":
///     {"name":"a","namespace":"shop","uid":"7","resourceVersion":"12","labels":{"tier":"web"}}}"#).unwrap();
/// assert_eq!(object.label("tier"), Some("web"));
/// assert_eq!(object.version(), Some(12));
/// ```
///
/// Its `Debug` output has its kind and name, and nothing that is in it: that may be a Secret.
#[derive(Clone)]
pub struct StoredObject {
    value: Value,
    name: Text,
    namespace: Option<Text>,
    uid: Text,
    resource_version: Text,
    labels: Object,
    generation: Option<i64>,
    deletion: Option<Text>,
    ownership: Option<Ownership>,
    unreadable: Option<Box<UnreadableObject>>,
    /// How many bytes of a response it came from.
    size: usize,
    /// Whether a server under another trust anchor than that of the client answered with it.
    foreign: bool,
}

impl fmt::Debug for StoredObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let namespace = self.namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
        let kind = self.value.get("kind").and_then(Value::as_str).unwrap_or_default();
        write!(f, "StoredObject({kind} {namespace}{}, version {})", self.name, self.resource_version)
    }
}

impl StoredObject {
    /// Why the object cannot be read, if so. Then it is an outline: it has its kind and its metadata, and nothing else.
    #[must_use]
    pub fn unreadable(&self) -> Option<&UnreadableObject> {
        self.unreadable.as_deref()
    }

    /// How many bytes of a response it came from: of a list its average share. Zero if that is not known.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Whether a server under another trust anchor than that of the client answered with it: the certificate authority in the Secret
    /// was replaced meanwhile. Caches, which the users of other Secrets may share, must not have it.
    pub(crate) fn is_foreign(&self) -> bool {
        self.foreign
    }

    /// The same object, from this response.
    pub(crate) fn answered(self, foreign: bool) -> Self {
        Self { foreign, ..self }
    }

    /// The same object, which came from this many bytes.
    pub(crate) fn sized(self, size: usize) -> Self {
        Self { size, ..self }
    }

    /// The object itself.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Its API version, such as `apps/v1`.
    #[must_use]
    pub fn api_version(&self) -> &str {
        self.value.get("apiVersion").and_then(Value::as_str).unwrap_or_default()
    }

    /// Its API group; empty for the core group.
    #[must_use]
    pub fn group(&self) -> &str {
        self.api_version().split_once('/').map_or("", |(group, _)| group)
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.value.get("kind").and_then(Value::as_str).unwrap_or_default()
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &Text {
        &self.name
    }

    /// Its namespace, unless it is cluster-scoped.
    #[must_use]
    pub fn namespace(&self) -> Option<&Text> {
        self.namespace.as_ref()
    }

    /// Its UID.
    #[must_use]
    pub fn uid(&self) -> &Text {
        &self.uid
    }

    /// Its resource version, for preconditions.
    #[must_use]
    pub fn resource_version(&self) -> &Text {
        &self.resource_version
    }

    /// Its resource version as a number, to compare versions. Servers other than kube-apiserver may have versions that
    /// are not numbers.
    #[must_use]
    pub fn version(&self) -> Option<u64> {
        self.resource_version.parse().ok()
    }

    /// Its generation.
    #[must_use]
    pub fn generation(&self) -> Option<i64> {
        self.generation
    }

    /// Its deletion timestamp, if it is being deleted.
    #[must_use]
    pub fn deletion_timestamp(&self) -> Option<&str> {
        self.deletion.as_deref()
    }

    /// The facts that its conditions depend on.
    #[must_use]
    pub fn facts(&self) -> ObjectFacts {
        let created = self.value.at(&["metadata", "creationTimestamp"]).and_then(Value::as_str);
        ObjectFacts {
            generation: self.generation.unwrap_or(0),
            created: created.and_then(|text| text.parse::<Timestamp>().ok()),
            deleting: self.deletion.is_some(),
        }
    }

    /// Its labels.
    #[must_use]
    pub fn labels(&self) -> &Object {
        &self.labels
    }

    /// The value of a label.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.get(name).and_then(Value::as_str)
    }

    /// The value of an annotation.
    #[must_use]
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.value.at(&["metadata", "annotations"])?.get(name)?.as_str()
    }

    /// The digest of the fields that we own and their values, if we own any. It changes when somebody changes, removes
    /// or takes over one of them, and otherwise never.
    #[must_use]
    pub fn owned_digest(&self) -> Option<Digest> {
        self.ownership.as_ref().map(|ownership| ownership.digest)
    }

    /// Whether we own exactly the fields of `desired`, with their values: then applying it again changes nothing.
    ///
    /// `false` does not prove drift, because the server may write a value differently (`1000m` as `1`). So remember the
    /// digest after an apply, and call this only for objects without a remembered digest.
    #[must_use]
    pub fn is_applied(&self, desired: &Value) -> bool {
        self.ownership.as_ref().is_some_and(|ownership| ownership.fields.cover(&self.value, desired))
    }

    /// Whether we own a field: the names of its parents and its own.
    #[must_use]
    pub fn owns(&self, path: &[&str]) -> bool {
        self.ownership.as_ref().is_some_and(|ownership| ownership.fields.contains(path))
    }

    /// The value of this object with the fields that we own in `applied`, an earlier version, as they were there. Fields of
    /// others stay as they are.
    #[must_use]
    pub fn with_fields_of(&self, applied: &Self) -> Value {
        match &applied.ownership {
            Some(ownership) => ownership.fields.overlay(Some(&self.value), &applied.value),
            None => self.value.clone(),
        }
    }

    /// The same object with another value.
    pub(crate) fn with_value(&self, value: Value) -> Self {
        Self { value, ..self.clone() }
    }

    /// The key of this object in a cluster.
    #[must_use]
    pub fn key(&self, cluster: &ClusterId) -> ObjectKey {
        ObjectKey {
            cluster: cluster.clone(),
            group: self.group().into(),
            kind: self.kind().into(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }
}

/// Equal if they are the same version of the same object.
impl PartialEq for StoredObject {
    fn eq(&self, other: &Self) -> bool {
        self.uid == other.uid && self.resource_version == other.resource_version && self.value == other.value
    }
}
