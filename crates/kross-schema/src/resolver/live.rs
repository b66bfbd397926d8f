//! The schemas of a live cluster, from the OpenAPI v3 documents that somebody fetches: one for each group and version,
//! known by the hash that the server gives it.

use std::sync::Arc;

use kross_value::Text;

use super::document::{self, DocumentError};
use super::store::Store;
use super::{GroupVersionKind, ResolvedKind, SchemaResolver};

/// The schemas of a cluster. Holds compressed bytes, and parses what is asked for.
#[derive(Debug, Default)]
pub struct LiveSchemas {
    store: Store,
}

impl LiveSchemas {
    /// No documents yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The hash of the document that is held for a group and version, such as `apps/v1`.
    #[must_use]
    pub fn hash(&self, group_version: &str) -> Option<Text> {
        self.store.hash(group_version)
    }

    /// Takes a document, unless it is held already under this hash. Says whether anything changed.
    ///
    /// # Errors
    /// The bytes are no OpenAPI document; what was held before stays.
    pub fn insert(&self, group_version: &str, hash: &str, bytes: &[u8]) -> Result<bool, DocumentError> {
        if self.store.hash(group_version).is_some_and(|held| held == hash) {
            return Ok(false);
        }
        let document = document::read(bytes)?;
        self.store.put(group_version, hash, &document.kinds, &document.definitions);
        Ok(true)
    }

    /// Forgets the documents that the server no longer lists.
    pub fn retain(&self, listed: impl Fn(&str) -> bool) {
        for name in self.store.names() {
            if !listed(&name) {
                self.store.remove(&name);
            }
        }
    }

    /// How many bytes are held.
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
