//! The schemas of a live cluster, from its OpenAPI v3 documents: one per group and version, with the hash that the
//! server assigns. The caller fetches the documents.

use std::sync::Arc;

use kross_value::Text;

use super::document::{self, DocumentError};
use super::store::Store;
use super::{GroupVersionKind, ResolvedKind, SchemaResolver};

/// The schemas of a cluster. Stores them compressed, and parses them on demand.
#[derive(Debug, Default)]
pub struct LiveSchemas {
    store: Store,
}

impl LiveSchemas {
    /// Creates an empty collection.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The hash of the stored document of a group and version, such as `apps/v1`.
    #[must_use]
    pub fn hash(&self, group_version: &str) -> Option<Text> {
        self.store.hash(group_version)
    }

    /// Adds or replaces a document, unless it is already stored with this hash. Returns whether anything changed.
    ///
    /// # Errors
    /// The bytes are not an OpenAPI document. The previous document is then kept.
    pub fn insert(&self, group_version: &str, hash: &str, bytes: &[u8]) -> Result<bool, DocumentError> {
        if self.store.hash(group_version).is_some_and(|held| held == hash) {
            return Ok(false);
        }
        let document = document::read(bytes)?;
        self.store.put(group_version, hash, &document.kinds, &document.definitions);
        Ok(true)
    }

    /// Removes the documents that the server no longer lists.
    pub fn retain(&self, listed: impl Fn(&str) -> bool) {
        for name in self.store.names() {
            if !listed(&name) {
                self.store.remove(&name);
            }
        }
    }

    /// The size of the stored data in bytes.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.store.packed_size()
    }
}

impl SchemaResolver for LiveSchemas {
    fn resolve(&self, kind: &GroupVersionKind) -> Option<Arc<ResolvedKind>> {
        self.store.resolve(kind)
    }

    fn kinds(&self) -> Vec<GroupVersionKind> {
        self.store.kinds()
    }
}
