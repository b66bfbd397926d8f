//! Where the schemas of kinds come from: the bundle of built-in kinds, CRDs, a live cluster, or several of them, the
//! first that knows a kind deciding. Asking never waits: what has to be fetched is fetched before.

mod bundle;
mod crds;
mod document;
mod live;
mod nearest;
mod pack;
mod store;

use std::fmt;
use std::sync::Arc;

use kross_value::Text;

use crate::view::SchemaView;

pub use bundle::{Bundle, BundleError, generate};
pub use crds::CrdSchemas;
pub use document::DocumentError;
pub use live::LiveSchemas;
pub use nearest::{Nearest, nearest};

/// A kind in a version of its group.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersionKind {
    /// The group; empty for Kubernetes' core.
    pub group: Text,
    /// The version.
    pub version: Text,
    /// The kind.
    pub kind: Text,
}

impl GroupVersionKind {
    /// A kind from an object's `apiVersion` and `kind`.
    #[must_use]
    pub fn new(api_version: &str, kind: &str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }

    /// What an object of the kind has as `apiVersion`.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

impl fmt::Display for GroupVersionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.api_version(), self.kind)
    }
}

/// A kind and everything that is known of it.
#[derive(Clone, Debug)]
pub struct ResolvedKind {
    /// The kind.
    pub kind: GroupVersionKind,
    /// The schema of its objects. Its [`SchemaView::cel_type`] is the type in expressions.
    pub schema: SchemaView,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// What the API calls it in paths: `deployments`.
    pub plural: Text,
}

/// Knows the schemas of kinds.
pub trait SchemaResolver: fmt::Debug + Send + Sync {
    /// What is known of a kind. The same kind gives the same types every time, until its schema changes.
    fn resolve(&self, kind: &GroupVersionKind) -> Option<Arc<ResolvedKind>>;

    /// Every kind it knows, sorted, for suggestions.
    fn kinds(&self) -> Vec<GroupVersionKind>;
}

impl<T: SchemaResolver + ?Sized> SchemaResolver for Arc<T> {
    fn resolve(&self, kind: &GroupVersionKind) -> Option<Arc<ResolvedKind>> {
        (**self).resolve(kind)
    }

    fn kinds(&self) -> Vec<GroupVersionKind> {
        (**self).kinds()
    }
}

/// Several resolvers, the first that knows a kind deciding.
#[derive(Clone, Debug, Default)]
pub struct Overlay {
    resolvers: Vec<Arc<dyn SchemaResolver>>,
}

impl Overlay {
    /// These resolvers, the first deciding.
    #[must_use]
    pub fn new(resolvers: Vec<Arc<dyn SchemaResolver>>) -> Self {
        Self { resolvers }
    }
}

impl SchemaResolver for Overlay {
    fn resolve(&self, kind: &GroupVersionKind) -> Option<Arc<ResolvedKind>> {
        self.resolvers.iter().find_map(|resolver| resolver.resolve(kind))
    }

    fn kinds(&self) -> Vec<GroupVersionKind> {
        let mut kinds: Vec<_> = self.resolvers.iter().flat_map(|resolver| resolver.kinds()).collect();
        kinds.sort();
        kinds.dedup();
        kinds
    }
}
