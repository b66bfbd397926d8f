//! The schemas of one cluster, as far as a preflight needs them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use kross_schema::{GroupVersionKind, ResolvedKind, SchemaResolver};
use kross_value::Text;

use crate::openapi::Document;

/// The schemas of one cluster.
#[derive(Debug)]
pub(crate) struct ClusterSchemas {
    /// By group and version.
    documents: BTreeMap<String, Document>,
    fingerprint: Text,
    /// Whether the cluster serves every kind that is needed.
    complete: bool,
}

impl ClusterSchemas {
    pub(super) fn new<'k>(
        documents: BTreeMap<String, Document>,
        needed: impl IntoIterator<Item = &'k GroupVersionKind>,
    ) -> Self {
        let mut fingerprint = String::new();
        for (version, document) in &documents {
            // Writing to a string does not fail.
            let _ = write!(fingerprint, "{version}@{};", document.digest());
        }
        let mut schemas = Self { documents, fingerprint: fingerprint.into(), complete: true };
        schemas.complete = needed.into_iter().all(|kind| schemas.resolve(kind).is_some());
        schemas
    }

    /// A text that changes whenever one of the schemas does.
    pub(super) fn fingerprint(&self) -> &Text {
        &self.fingerprint
    }

    pub(super) fn is_complete(&self) -> bool {
        self.complete
    }
}

impl SchemaResolver for ClusterSchemas {
    fn resolve(&self, kind: &GroupVersionKind) -> Option<Arc<ResolvedKind>> {
        self.documents.get(&kind.api_version())?.resolve(kind)
    }

    fn kinds(&self) -> Vec<GroupVersionKind> {
        let mut kinds: Vec<_> = self.documents.values().flat_map(Document::kinds).collect();
        kinds.sort();
        kinds.dedup();
        kinds
    }
}
