//! Asks one cluster once: which documents it has, those that are needed and not held yet, and what we may do.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use kross_cluster::{ApiError, Connection};
use kross_value::Text;
use serde::Deserialize;
use tokio::time::Instant;

use super::Findings;
use super::documents::{ClusterSchemas, Document, Documents, Unreadable};
use super::needs::Needs;
use super::permissions::{self, Denied};

const INDEX: &str = "/openapi/v3";
/// How long permissions are believed that are all there.
const PERMISSIONS_LIFE: Duration = Duration::from_secs(300);

/// A cluster that could not be asked.
#[derive(Debug, thiserror::Error)]
pub(super) enum SurveyError {
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

/// Asks one cluster about one set of needs.
pub(super) struct Surveyor {
    needs: Arc<Needs>,
    documents: Arc<Documents>,
    /// What was fetched under which address. The address carries the server's hash, so it is another one after a change.
    held: HashMap<String, Document>,
    schemas: Option<Arc<ClusterSchemas>>,
    permissions: Option<Permissions>,
}

struct Permissions {
    fingerprint: Text,
    asked: Instant,
    denied: Vec<Denied>,
    user: Option<Text>,
}

#[derive(Deserialize)]
struct Index {
    paths: HashMap<String, Entry>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "serverRelativeURL")]
    url: String,
}

impl Surveyor {
    pub(super) fn new(needs: Arc<Needs>, documents: Arc<Documents>) -> Self {
        Self { needs, documents, held: HashMap::new(), schemas: None, permissions: None }
    }

    pub(super) async fn survey(&mut self, connection: &Connection) -> Result<Findings, SurveyError> {
        let schemas = self.schemas(connection).await?;
        let (denied, user) = self.permissions(connection, &schemas).await?;
        Ok(Findings { schemas, denied, user })
    }

    async fn schemas(&mut self, connection: &Connection) -> Result<Arc<ClusterSchemas>, SurveyError> {
        let index = connection.fetch(INDEX).await?;
        let index: Index = serde_json::from_slice(&index).map_err(|_| SurveyError::Index)?;
        let mut documents = BTreeMap::new();
        let mut held = HashMap::new();
        for version in self.wanted(&index) {
            let Some(Entry { url }) = index.paths.get(&path(&version)) else { continue };
            let document = match self.held.get(url) {
                Some(document) => document.clone(),
                None => self.fetch(connection, &version, url).await?,
            };
            held.insert(url.clone(), document.clone());
            documents.insert(version, document);
        }
        self.held = held;
        let schemas = ClusterSchemas::new(documents, self.needs.kinds());
        let known = self.schemas.as_ref().filter(|known| known.fingerprint() == schemas.fingerprint());
        let schemas = known.cloned().unwrap_or_else(|| Arc::new(schemas));
        self.schemas = Some(Arc::clone(&schemas));
        Ok(schemas)
    }

    /// The versions to fetch: those that are needed, and of a group that lacks one all others, to say what is there instead.
    fn wanted(&self, index: &Index) -> BTreeSet<String> {
        let mut wanted = BTreeSet::new();
        for kind in self.needs.kinds() {
            let version = kind.api_version();
            if !index.paths.contains_key(&path(&version)) {
                let group = format!("apis/{}/", kind.group);
                let others = index.paths.keys().filter(|path| path.starts_with(&group));
                wanted.extend(others.filter_map(|path| path.strip_prefix("apis/").map(str::to_owned)));
            }
            wanted.insert(version);
        }
        wanted
    }

    async fn fetch(
        &self,
        connection: &Connection,
        version: &str,
        url: &str,
    ) -> Result<Document, SurveyError> {
        // The address must be one of this server: what it says is not followed elsewhere.
        if !url.starts_with("/openapi/v3/") {
            return Err(SurveyError::Index);
        }
        let bytes = connection.fetch(url).await?;
        let (documents, version) = (Arc::clone(&self.documents), version.to_owned());
        // Large documents take long enough to hold up others on the same thread.
        let read = tokio::task::spawn_blocking(move || documents.read(&version, &bytes)).await;
        match read {
            Ok(read) => Ok(read?),
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => Err(SurveyError::Index),
        }
    }

    async fn permissions(
        &mut self,
        connection: &Connection,
        schemas: &Arc<ClusterSchemas>,
    ) -> Result<(Vec<Denied>, Option<Text>), SurveyError> {
        let known = self.permissions.as_ref().filter(|known| {
            known.denied.is_empty()
                && known.fingerprint == *schemas.fingerprint()
                && known.asked.elapsed() < PERMISSIONS_LIFE
        });
        if let Some(known) = known {
            return Ok((known.denied.clone(), known.user.clone()));
        }
        let denied = permissions::missing(connection, &self.needs, &**schemas).await?;
        let user = if denied.is_empty() { None } else { permissions::user(connection).await };
        self.permissions = Some(Permissions {
            fingerprint: schemas.fingerprint().clone(),
            asked: Instant::now(),
            denied: denied.clone(),
            user: user.clone(),
        });
        Ok((denied, user))
    }
}

/// Where the index lists the document of a group and version.
fn path(version: &str) -> String {
    if version.contains('/') { format!("apis/{version}") } else { format!("api/{version}") }
}
