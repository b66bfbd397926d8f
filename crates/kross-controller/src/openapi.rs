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
/// How many versions of a group are fetched where the wanted one is missing. They only serve a message.
const MAX_OTHER_VERSIONS: usize = 20;
/// How many documents of a remote cluster are held, and how many bytes of their schemas.
const MAX_DOCUMENTS: usize = 1000;
const MAX_DOCUMENT_BYTES: usize = 64 << 20;

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
    /// The documents that are needed exceed a limit.
    #[error("cannot hold the schemas: those that are needed of this cluster exceed {}", limit(*documents, *bytes))]
    TooLarge {
        /// The limit of documents.
        documents: usize,
        /// The limit of bytes.
        bytes: usize,
    },
    /// The server did not send all documents in time.
    #[error("cannot fetch the schemas: the API server did not send all of them within {} s", .0.as_secs())]
    Late(Duration),
}

fn limit(documents: usize, bytes: usize) -> String {
    format!("{documents} documents or {} MiB", bytes >> 20)
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

    /// The group and version of the documents of a named group, a few if there are many.
    pub(crate) fn versions_of(&self, group: &str) -> Vec<String> {
        let prefix = format!("apis/{group}/");
        let versions = self.paths.keys().filter_map(|path| path.strip_prefix(&prefix));
        let mut versions: Vec<&str> = versions.filter(|version| is_version(version)).collect();
        versions.sort_unstable();
        versions.truncate(MAX_OTHER_VERSIONS);
        versions.into_iter().map(|version| format!("{group}/{version}")).collect()
    }
}

/// Whether a text can be the name of a version: a label of DNS.
fn is_version(text: &str) -> bool {
    let is_alphanumeric = |character: char| character.is_ascii_lowercase() || character.is_ascii_digit();
    text.len() <= 63
        && text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.ends_with(is_alphanumeric)
        && text.chars().all(|character| is_alphanumeric(character) || character == '-')
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
    documents: tokio::sync::Mutex<FetchedDocuments>,
}

/// The documents of a server that were fetched, by their paths, which change with the content.
#[derive(Debug)]
struct FetchedDocuments {
    by_path: HashMap<String, Document>,
    max_documents: usize,
    max_bytes: usize,
}

impl FetchedDocuments {
    /// Stores a document. If there is no room, those that nobody uses make room.
    ///
    /// # Errors
    /// The others are in use.
    fn insert(&mut self, path: &str, document: &Document) -> Result<(), SchemaError> {
        if !self.has_room_for(document) {
            self.by_path.retain(|_, other| Arc::strong_count(&other.schemas) > 1);
        }
        if !self.has_room_for(document) {
            return Err(SchemaError::TooLarge { documents: self.max_documents, bytes: self.max_bytes });
        }
        self.by_path.insert(path.to_owned(), document.clone());
        Ok(())
    }

    fn has_room_for(&self, document: &Document) -> bool {
        let held: usize = self.by_path.values().map(|other| other.schemas.held_bytes()).sum();
        self.by_path.len() < self.max_documents
            && held.saturating_add(document.schemas.held_bytes()) <= self.max_bytes
    }
}

impl OpenApi {
    /// Of the hub, whose documents are not limited.
    pub(crate) fn local(store: Arc<DocumentStore>) -> Self {
        Self::with_limits(store, usize::MAX, usize::MAX)
    }

    /// Of a remote cluster.
    pub(crate) fn remote(store: Arc<DocumentStore>) -> Self {
        Self::with_limits(store, MAX_DOCUMENTS, MAX_DOCUMENT_BYTES)
    }

    fn with_limits(store: Arc<DocumentStore>, max_documents: usize, max_bytes: usize) -> Self {
        let documents = FetchedDocuments { by_path: HashMap::new(), max_documents, max_bytes };
        Self { store, index: tokio::sync::Mutex::default(), documents: tokio::sync::Mutex::new(documents) }
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
        documents.by_path.retain(|url, _| index.paths.values().any(|entry| entry.url == *url));
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
        if let Some(document) = documents.by_path.get(url) {
            return Ok(Some(document.clone()));
        }
        let fetched = self.fetch(client, api_version, url).await;
        if let Ok(document) = &fetched {
            documents.insert(url, document)?;
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
    fn a_few_valid_versions_of_a_group_are_fetched_however_many_an_index_lists() {
        let mut paths: HashMap<String, Entry> = HashMap::new();
        let listed = (0..100_000).map(|number| format!("apis/apps/v{number}"));
        let invalid =
            ["apis/apps/", "apis/apps/V1", "apis/apps/v1/x", "apis/apps/\u{202e}", "apis/apps.x/v1"];
        for path in listed.chain(invalid.map(str::to_owned)) {
            let url = format!("/openapi/v3/{path}");
            paths.insert(path, Entry { url });
        }
        let index = Index { paths };
        let versions = index.versions_of("apps");
        assert_eq!(versions.len(), MAX_OTHER_VERSIONS);
        assert!(versions.iter().all(|version| index.lists(version) && version.starts_with("apps/v")));

        let few = ["apis/apps/v1", "apis/apps/v1beta1", "apis/apps/V2", "apis/batch/v1"];
        let entry = |path: &str| (path.to_owned(), Entry { url: format!("/openapi/v3/{path}") });
        let index = Index { paths: few.map(entry).into() };
        assert_eq!(index.versions_of("apps"), ["apps/v1", "apps/v1beta1"]);
    }

    #[test]
    fn a_cluster_holds_a_limited_number_of_documents_and_bytes_in_use() {
        let store = DocumentStore::default();
        let document = |number: usize| {
            let schemas = format!(
                r#"{{"components": {{"schemas": {{"example.Kind{number}": {{"type": "object",
                "x-kubernetes-group-version-kind": [{{"group": "", "version": "v1", "kind": "Kind{number}"}}]}}}}}}}}"#
            );
            store.parse("v1", schemas.as_bytes()).unwrap()
        };
        let size = document(1).schemas.held_bytes();
        assert!(size > 0);
        for (max_documents, max_bytes) in [(3, usize::MAX), (usize::MAX, 3 * size)] {
            let mut fetched = FetchedDocuments { by_path: HashMap::new(), max_documents, max_bytes };
            let mut used: Vec<_> = (1..=3).map(document).collect();
            for (number, document) in used.iter().enumerate() {
                fetched.insert(&format!("/{number}"), document).unwrap();
            }
            let error = fetched.insert("/more", &document(4)).unwrap_err();
            assert!(error.to_string().starts_with("cannot hold the schemas"), "{error}");
            assert!(!fetched.by_path.contains_key("/more"));
            used.pop();
            fetched.insert("/more", &document(4)).unwrap();
            assert_eq!(fetched.by_path.len(), 3, "the one that nobody uses was dropped");
        }
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
