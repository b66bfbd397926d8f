//! The OpenAPI documents of other clusters, each held once however many clusters have it, and the schemas of one cluster
//! made of them.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::sync::{Arc, Weak};

use kross_schema::{GroupVersionKind, LiveSchemas, ResolvedKind, SchemaResolver};
use kross_value::Text;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

/// A document that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the schemas of `{version}`: {problem}")]
pub(super) struct Unreadable {
    version: String,
    problem: String,
}

/// A document of one group and version.
#[derive(Clone, Debug)]
pub(super) struct Document {
    /// The digest of its bytes. What a server calls it is not believed: it could be another's.
    digest: Text,
    schemas: Arc<LiveSchemas>,
}

/// The documents of all clusters.
#[derive(Debug, Default)]
pub(super) struct Documents(Mutex<HashMap<Text, Weak<LiveSchemas>>>);

impl Documents {
    /// The document with these bytes, read only if nobody has it yet.
    pub(super) fn read(&self, version: &str, bytes: &[u8]) -> Result<Document, Unreadable> {
        let digest = digest(version, bytes);
        let mut held = self.0.lock();
        if let Some(schemas) = held.get(&digest).and_then(Weak::upgrade) {
            return Ok(Document { digest, schemas });
        }
        let schemas = LiveSchemas::new();
        schemas
            .insert(version, &digest, bytes)
            .map_err(|error| Unreadable { version: version.to_owned(), problem: error.to_string() })?;
        let schemas = Arc::new(schemas);
        held.retain(|_, document| document.strong_count() > 0);
        held.insert(digest.clone(), Arc::downgrade(&schemas));
        Ok(Document { digest, schemas })
    }
}

fn digest(version: &str, bytes: &[u8]) -> Text {
    let hash = Sha256::new().chain_update(version).chain_update([0]).chain_update(bytes).finalize();
    hash.iter()
        .take(12)
        .fold(String::new(), |mut text, byte| {
            // Writing to a string does not fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
        .into()
}

/// The schemas of one cluster, as far as they were asked for.
#[derive(Debug)]
pub(crate) struct ClusterSchemas {
    documents: BTreeMap<String, Document>,
    fingerprint: Text,
    /// Whether the cluster has every kind that is needed.
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
            let _ = write!(fingerprint, "{version}@{};", document.digest);
        }
        let mut schemas = Self { documents, fingerprint: fingerprint.into(), complete: true };
        schemas.complete = needed.into_iter().all(|kind| schemas.resolve(kind).is_some());
        schemas
    }

    pub(super) fn fingerprint(&self) -> &Text {
        &self.fingerprint
    }

    pub(super) fn is_complete(&self) -> bool {
        self.complete
    }
}

impl SchemaResolver for ClusterSchemas {
    fn resolve(&self, kind: &GroupVersionKind) -> Option<Arc<ResolvedKind>> {
        self.documents.get(&kind.api_version())?.schemas.resolve(kind)
    }

    fn kinds(&self) -> Vec<GroupVersionKind> {
        let mut kinds: Vec<_> =
            self.documents.values().flat_map(|document| document.schemas.kinds()).collect();
        kinds.sort();
        kinds.dedup();
        kinds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_read_once_and_let_go() {
        let documents = Documents::default();
        let first = documents.read("v1", b"{}").unwrap();
        let second = documents.read("v1", b"{}").unwrap();
        assert!(Arc::ptr_eq(&first.schemas, &second.schemas));
        assert!(!Arc::ptr_eq(&first.schemas, &documents.read("v2", b"{}").unwrap().schemas));
        drop((first, second));
        documents.read("v3", b"{}").unwrap();
        assert_eq!(documents.0.lock().len(), 1);
        assert!(documents.read("v1", b"<html>").is_err());
    }
}
