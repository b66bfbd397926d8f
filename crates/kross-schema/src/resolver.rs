//! Resolves the schemas of kinds: from the bundle of built-in kinds, from CRDs, from a live cluster, or from several of
//! them, of which the first one that has a kind takes precedence. Resolving never blocks: documents are fetched before.

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

/// A group, version and kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersionKind {
    /// The group; empty for the core group.
    pub group: Text,
    /// The version.
    pub version: Text,
    /// The kind.
    pub kind: Text,
}

impl GroupVersionKind {
    /// Creates it from an object's `apiVersion` and `kind`.
    #[must_use]
    pub fn new(api_version: &str, kind: &str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }

    /// The `apiVersion` of its objects.
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

/// The groups that the API server itself serves.
const BUILT_IN_GROUPS: [&str; 24] = [
    "",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "extensions",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];

/// Whether the kinds of a group are built into Kubernetes, and not defined by CRDs.
#[must_use]
pub fn is_built_in_group(group: &str) -> bool {
    BUILT_IN_GROUPS.contains(&group)
}

/// A kind with its schema, scope and plural.
#[derive(Clone, Debug)]
pub struct ResolvedKind {
    /// The kind.
    pub kind: GroupVersionKind,
    /// The schema of its objects. [`SchemaView::cel_type`] is their type in expressions.
    pub schema: SchemaView,
    /// Whether its objects are namespaced.
    pub namespaced: bool,
    /// Its plural in API paths: `deployments`.
    pub plural: Text,
}

/// Resolves the schemas of kinds.
pub trait SchemaResolver: fmt::Debug + Send + Sync {
    /// Resolves a kind. The same kind has the same types every time, until its schema changes.
    fn resolve(&self, kind: &GroupVersionKind) -> Option<Arc<ResolvedKind>>;

    /// All known kinds, sorted, for suggestions.
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

/// Several resolvers; the first one that has a kind takes precedence.
#[derive(Clone, Debug, Default)]
pub struct Overlay {
    resolvers: Vec<Arc<dyn SchemaResolver>>,
}

impl Overlay {
    /// Creates an overlay; earlier resolvers take precedence.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_group_of_the_bundles_is_built_in() {
        for version in Bundle::versions() {
            for kind in Bundle::of_version(version).unwrap().kinds() {
                assert!(is_built_in_group(&kind.group), "{kind}");
            }
        }
        assert!(!is_built_in_group("gateway.networking.k8s.io") && !is_built_in_group("example.com"));
    }
}
