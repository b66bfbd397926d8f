//! The identity of an object across clusters.

use std::fmt;

use kross_value::Text;

/// The id of a cluster. The local cluster has an id like any other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClusterId(Text);

impl ClusterId {
    /// Creates an id.
    #[must_use]
    pub fn new(id: &str) -> Self {
        Self(id.into())
    }

    /// The cluster kross runs in.
    #[must_use]
    pub fn local() -> Self {
        Self::new("local")
    }

    /// Whether it is the cluster kross runs in.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.0 == *"local"
    }

    /// The id.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Identifies an object in caches, queues, indexes, inventories and metrics. It does not include the API version.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Its cluster.
    pub cluster: ClusterId,
    /// The API group of its kind; empty for the core group.
    pub group: Text,
    /// Its kind.
    pub kind: Text,
    /// Its namespace; `None` for a cluster-scoped object.
    pub namespace: Option<Text>,
    /// Its name.
    pub name: Text,
}

impl ObjectKey {
    /// `Kind.group`, or `Kind` in the core group, as inventories write it.
    #[must_use]
    pub fn group_kind(&self) -> String {
        if self.group.is_empty() { self.kind.to_string() } else { format!("{}.{}", self.kind, self.group) }
    }

    /// `namespace/name`, or `name` for a cluster-scoped object.
    #[must_use]
    pub fn namespaced_name(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}/{}", self.name),
            None => self.name.to_string(),
        }
    }
}

impl fmt::Display for ObjectKey {
    /// `Kind.group namespace/name in cluster`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} in {}", self.group_kind(), self.namespaced_name(), self.cluster)
    }
}
