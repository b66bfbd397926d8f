//! What one credential has found out about one cluster, shared by all who ask about it: which documents there are, those
//! that were fetched, and the answers to questions about permissions.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kross_cluster::{ApiError, ClusterClient};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::documents::{Document, Documents, Unreadable};
use super::permissions::Question;
use crate::openapi::{INDEX, Index};

/// How long a permission is believed that is there.
const ALLOWED_LIFE: Duration = Duration::from_secs(300);

/// A cluster that could not be asked.
#[derive(Debug, thiserror::Error)]
pub(super) enum PreflightError {
    /// A request failed.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The list of documents cannot be read.
    #[error("cannot read the list of schemas `{INDEX}`")]
    Index,
    /// A document cannot be read.
    #[error(transparent)]
    Document(#[from] Unreadable),
}

/// What is known of one cluster, as one credential sees it.
#[derive(Debug, Default)]
pub(super) struct Site {
    /// Held by whoever fetches, so that the others get what it brings.
    index: tokio::sync::Mutex<Option<(Instant, Arc<Index>)>>,
    /// By the address, which carries the server's hash, so that it is another one after a change.
    documents: tokio::sync::Mutex<HashMap<String, Document>>,
    answers: Mutex<HashMap<Question, (Instant, Option<bool>)>>,
}

impl Site {
    /// The list of documents, no older than this.
    pub(super) async fn index(
        &self,
        client: &ClusterClient,
        age: Duration,
    ) -> Result<Arc<Index>, PreflightError> {
        let mut held = self.index.lock().await;
        if let Some((_, index)) = held.as_ref().filter(|(fetched, _)| fetched.elapsed() < age) {
            return Ok(Arc::clone(index));
        }
        let bytes = client.fetch(INDEX).await?;
        let index: Arc<Index> = Arc::new(serde_json::from_slice(&bytes).map_err(|_| PreflightError::Index)?);
        *held = Some((Instant::now(), Arc::clone(&index)));
        drop(held);
        // What the server has no more, nobody needs.
        let mut documents = self.documents.lock().await;
        documents.retain(|url, _| index.paths.values().any(|entry| entry.url == *url));
        Ok(index)
    }

    /// The document of a group and version at an address.
    pub(super) async fn document(
        &self,
        client: &ClusterClient,
        documents: &Arc<Documents>,
        version: &str,
        url: &str,
    ) -> Result<Document, PreflightError> {
        let mut held = self.documents.lock().await;
        if let Some(document) = held.get(url) {
            return Ok(document.clone());
        }
        // The address must be one of this server: what it says is not followed elsewhere.
        if !url.starts_with("/openapi/v3/") {
            return Err(PreflightError::Index);
        }
        let bytes = client.fetch(url).await?;
        let (documents, version) = (Arc::clone(documents), version.to_owned());
        // Large documents take long enough to hold up others on the same thread.
        let read = tokio::task::spawn_blocking(move || documents.read(&version, &bytes)).await;
        let document = match read {
            Ok(read) => read?,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => return Err(PreflightError::Index),
        };
        held.insert(url.to_owned(), document.clone());
        Ok(document)
    }

    /// An answer that is known already. Only permissions that are there are believed for long.
    pub(super) fn answer(&self, question: &Question, age: Duration) -> Option<Option<bool>> {
        let answers = self.answers.lock();
        let (asked, answer) = answers.get(question)?;
        let life = if *answer == Some(true) { ALLOWED_LIFE } else { age };
        (asked.elapsed() < life).then_some(*answer)
    }

    /// Remembers an answer.
    pub(super) fn keep(&self, question: Question, answer: Option<bool>) {
        let mut answers = self.answers.lock();
        answers.retain(|_, (asked, _)| asked.elapsed() < ALLOWED_LIFE);
        answers.insert(question, (Instant::now(), answer));
    }
}
