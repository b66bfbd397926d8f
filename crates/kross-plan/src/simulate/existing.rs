//! Objects that no simulated controller has applied: external ones, those that other clients create, and those that were released.

use kross_api::{ObjectKey, ResolvedCluster};
use kross_value::Value;

use super::clusters::is_named;

/// The cluster of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// Any cluster in which it is looked for.
    Anywhere,
    /// The cluster of the instance.
    Local,
    /// The cluster with this name.
    Cluster(String),
}

impl Location {
    /// Whether an object here is in a cluster; none is the local one.
    #[must_use]
    pub fn is_in(&self, cluster: Option<&ResolvedCluster>) -> bool {
        match (self, cluster) {
            (Self::Anywhere, _) | (Self::Local, None) => true,
            (Self::Cluster(name), Some(reference)) => is_named(reference, name),
            (Self::Local, Some(_)) | (Self::Cluster(_), None) => false,
        }
    }
}

/// An object with its cluster.
#[derive(Clone, Debug)]
pub(super) struct ExistingObject {
    pub(super) location: Location,
    pub(super) value: Value,
}

impl ExistingObject {
    /// Whether it has the group, kind, namespace and name of a key.
    pub(super) fn is(&self, key: &ObjectKey) -> bool {
        is_same(key, &self.value)
    }
}

/// Whether an object has the group, kind, namespace and name of a key.
pub(super) fn is_same(key: &ObjectKey, object: &Value) -> bool {
    let text = |path: &[&str]| object.at(path).and_then(Value::as_str).unwrap_or_default();
    let group = text(&["apiVersion"]).split_once('/').map_or("", |(group, _)| group);
    *key.group == *group
        && *key.kind == *text(&["kind"])
        && key.namespace.as_deref().unwrap_or_default() == text(&["metadata", "namespace"])
        && *key.name == *text(&["metadata", "name"])
}
