//! Fetches the OpenAPI v3 documents of an API server and turns them into schemas, for the hub and for every other cluster. A
//! parsed document is held once, however many clusters serve it.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Arc, Weak};
use std::time::Duration;

use kross_cluster::{ApiError, ClusterClient, Task, catch_blocking};
use kross_schema::{GroupVersionKind, LiveSchemas, ResolvedKind, SchemaResolver};
use kross_value::Text;
use parking_lot::Mutex;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

/// The path of the index of documents.
const INDEX: &str = "/openapi/v3";
/// Errors of the parser quote what they found, and a server must not choose what is shown.
const NOT_OPENAPI: &str = "the response is not an OpenAPI document";
/// The longest path of a document.
const MAX_PATH: usize = 1024;

/// Schemas that could not be fetched.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum SchemaError {
    /// A request failed.
    #[error("cannot fetch the schemas: {0}")]
    Fetch(#[from] ApiError),
    /// The index of documents, or a document, cannot be parsed.
    #[error("cannot read the schemas `{path}`: {problem}")]
    Unreadable {
        /// The path of the request.
        path: String,
        /// What is wrong with the response.
        problem: String,
    },
}

/// The index of an API server's documents, by paths such as `apis/apps/v1`.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Index {
    paths: HashMap<String, Entry>,
}

/// Where a document is.
#[derive(Debug, Deserialize)]
struct Entry {
    /// The path carries the server's hash of the document, so that a changed document has another path.
    #[serde(rename = "serverRelativeURL")]
    url: String,
}

impl Index {
    /// The path of the document of a group and version, if the server has one.
    fn url(&self, api_version: &str) -> Option<&str> {
        let prefix = if api_version.contains('/') { "apis" } else { "api" };
        self.paths.get(&format!("{prefix}/{api_version}")).map(|entry| entry.url.as_str())
    }

    /// Whether the server has a document of a group and version.
    pub(crate) fn lists(&self, api_version: &str) -> bool {
        self.url(api_version).is_some()
    }

    /// The group and version of every document of a named group.
    pub(crate) fn versions_of(&self, group: &str) -> impl Iterator<Item = String> {
        let prefix = format!("apis/{group}/");
        let paths = self.paths.keys().filter(move |path| path.starts_with(&prefix));
        paths.filter_map(|path| path.strip_prefix("apis/").map(str::to_owned))
    }
}

/// The schemas of one group and version.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    /// The digest of its bytes. The hash that a server gives it is not trusted: it could be another document's.
    digest: Text,
    schemas: Arc<LiveSchemas>,
}

impl Document {
    pub(crate) fn digest(&self) -> &Text {
        &self.digest
    }

    pub(crate) fn resolve(&self, kind: &GroupVersionKind) -> Option<Arc<ResolvedKind>> {
        self.schemas.resolve(kind)
    }

    pub(crate) fn kinds(&self) -> Vec<GroupVersionKind> {
        self.schemas.kinds()
    }
}

/// The parsed documents of all clusters, by their digests.
///
/// # Lock order
///
/// The lock is a leaf.
#[derive(Debug, Default)]
pub(crate) struct DocumentStore(Mutex<HashMap<Text, Weak<LiveSchemas>>>);

impl DocumentStore {
    /// Parses a document, unless a cluster has served the same bytes before.
    fn parse(&self, api_version: &str, bytes: &[u8]) -> Result<Document, String> {
        let digest = digest(api_version, bytes);
        let known = self.0.lock().get(&digest).and_then(Weak::upgrade);
        if let Some(schemas) = known {
            return Ok(Document { digest, schemas });
        }
        // Without the lock: a document that takes long delays no other cluster.
        let schemas = LiveSchemas::new();
        schemas.insert(api_version, &digest, bytes).map_err(|_| NOT_OPENAPI.to_owned())?;
        let schemas = Arc::new(schemas);
        let mut documents = self.0.lock();
        if let Some(schemas) = documents.get(&digest).and_then(Weak::upgrade) {
            return Ok(Document { digest, schemas });
        }
        documents.retain(|_, schemas| schemas.strong_count() > 0);
        documents.insert(digest.clone(), Arc::downgrade(&schemas));
        Ok(Document { digest, schemas })
    }
}

fn digest(api_version: &str, bytes: &[u8]) -> Text {
    let hash = Sha256::new().chain_update(api_version).chain_update([0]).chain_update(bytes).finalize();
    hash.iter()
        .take(12)
        .fold(String::new(), |mut text, byte| {
            // Writing to a string does not fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
        .into()
}

/// Fetches the documents of one API server, each of them once.
///
/// # Lock order
///
/// Both locks are held across requests, so that concurrent callers share one response. They are never held together.
#[derive(Debug)]
pub(crate) struct OpenApi {
    store: Arc<DocumentStore>,
    index: tokio::sync::Mutex<Option<(Instant, Arc<Index>)>>,
    /// By the path, which changes with the content.
    documents: tokio::sync::Mutex<HashMap<String, Document>>,
}

impl OpenApi {
    pub(crate) fn new(store: Arc<DocumentStore>) -> Self {
        Self { store, index: tokio::sync::Mutex::default(), documents: tokio::sync::Mutex::default() }
    }

    /// The index of documents, fetched unless it is known and no older than `max_age`.
    ///
    /// # Errors
    /// The request fails, or the response is no index.
    pub(crate) async fn index(
        &self,
        client: &ClusterClient,
        max_age: Duration,
    ) -> Result<Arc<Index>, SchemaError> {
        let mut cached = self.index.lock().await;
        if let Some((_, index)) = cached.as_ref().filter(|(fetched, _)| fetched.elapsed() < max_age) {
            return Ok(Arc::clone(index));
        }
        let bytes = client.fetch(INDEX).await?;
        let index: Arc<Index> =
            Arc::new(serde_json::from_slice(&bytes).map_err(|_| SchemaError::Unreadable {
                path: INDEX.to_owned(),
                problem: "the response is not an index of OpenAPI documents".to_owned(),
            })?);
        *cached = Some((Instant::now(), Arc::clone(&index)));
        drop(cached);
        // The server does not serve the others any more.
        let mut documents = self.documents.lock().await;
        documents.retain(|url, _| index.paths.values().any(|entry| entry.url == *url));
        Ok(index)
    }

    /// The document of a group and version, fetched unless it is known; none if the index does not list it.
    ///
    /// # Errors
    /// The request fails, or the response is no OpenAPI document. The index is fetched again then: one that is out of date
    /// has paths that the server answers with a redirect.
    pub(crate) async fn document(
        &self,
        client: &ClusterClient,
        index: &Index,
        api_version: &str,
    ) -> Result<Option<Document>, SchemaError> {
        let Some(url) = index.url(api_version) else { return Ok(None) };
        let mut documents = self.documents.lock().await;
        if let Some(document) = documents.get(url) {
            return Ok(Some(document.clone()));
        }
        let fetched = self.fetch(client, api_version, url).await;
        if let Ok(document) = &fetched {
            documents.insert(url.to_owned(), document.clone());
        }
        drop(documents);
        if fetched.is_err() {
            *self.index.lock().await = None;
        }
        fetched.map(Some)
    }

    async fn fetch(
        &self,
        client: &ClusterClient,
        api_version: &str,
        url: &str,
    ) -> Result<Document, SchemaError> {
        // The path is the server's choice, must not lead to another API, and is shown.
        if !is_document(url) {
            return Err(SchemaError::Unreadable {
                path: INDEX.to_owned(),
                problem: "the index has a path that is not one of a document".to_owned(),
            });
        }
        let unreadable = |problem: &dyn ToString| SchemaError::Unreadable {
            path: url.split('?').next().unwrap_or_default().to_owned(),
            problem: problem.to_string(),
        };
        let bytes = client.fetch(url).await?;
        let (store, api_version) = (Arc::clone(&self.store), api_version.to_owned());
        // Parsing a large document would block the other tasks of this thread.
        match catch_blocking(Task::Compile, move || store.parse(&api_version, &bytes)).await {
            Ok(parsed) => parsed.map_err(|error| unreadable(&error)),
            Err(panicked) => Err(unreadable(&panicked)),
        }
    }
}

/// Whether a path leads to a document.
fn is_document(url: &str) -> bool {
    url.len() <= MAX_PATH
        && url.starts_with("/openapi/v3/")
        && url.chars().all(|character| character.is_ascii_graphic())
        && !url.contains("..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_an_unreadable_document_is_shown() {
        let documents = DocumentStore::default();
        for bytes in [
            &b"<html>hunter2</html>"[..],
            br#"{"components": "hunter2"}"#,
            br#"{"components": {"schemas": {"a": "hunter2"}}}"#,
        ] {
            let found = documents.parse("v1", bytes);
            assert!(found.is_err_and(|error| !error.contains("hunter2")));
        }
    }

    #[test]
    fn a_path_leads_to_a_document() {
        assert!(is_document("/openapi/v3/apis/apps/v1?hash=0A1B"));
        for other in [
            "/api/v1/secrets",
            "/openapi/v3/../../api/v1/secrets",
            "/openapi/v3/a\u{1b}[31m",
            "/openapi/v3/\u{202e}",
        ] {
            assert!(!is_document(other), "{other:?}");
        }
        assert!(!is_document(&format!("/openapi/v3/{}", "a".repeat(MAX_PATH))));
    }

    #[test]
    fn a_document_is_parsed_once_and_dropped_with_its_last_user() {
        let documents = DocumentStore::default();
        let first = documents.parse("v1", b"{}").unwrap();
        let second = documents.parse("v1", b"{}").unwrap();
        assert!(Arc::ptr_eq(&first.schemas, &second.schemas));
        assert!(!Arc::ptr_eq(&first.schemas, &documents.parse("v2", b"{}").unwrap().schemas));
        drop((first, second));
        documents.parse("v3", b"{}").unwrap();
        assert_eq!(documents.0.lock().len(), 1);
        assert!(documents.parse("v1", b"<html>").is_err());
    }
}
