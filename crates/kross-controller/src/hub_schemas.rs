//! The schemas of the cluster that the controller runs in: CRD kinds from the CRD objects, everything else from OpenAPI
//! documents, fetched when a definition first names their group. Compiling then asks without waiting.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use kross_cluster::{Cache, ClusterClient, Lookup, StoredObject};
use kross_schema::{CrdSchemas, GroupVersionKind, LiveSchemas, Overlay, ResolvedKind, SchemaResolver};
use kross_value::Text;
use kube::client::Body;
use kube::core::Status;
use parking_lot::{Mutex, RwLock};
use tokio::time::Instant;

use crate::kinds;
use crate::openapi::{INDEX, Index};

/// How long the list of documents is believed. A server that was upgraded lists other hashes.
const INDEX_LIFE: Duration = Duration::from_secs(300);
/// How long a group that is not listed is believed to be missing.
const MISS_LIFE: Duration = Duration::from_secs(10);

/// The schemas of one cluster.
#[derive(Debug)]
pub(crate) struct Schemas {
    client: ClusterClient,
    crds: Arc<CrdSchemas>,
    live: Arc<LiveSchemas>,
    both: Overlay,
    /// Group and kind of every CRD, and the version of its spec.
    served: RwLock<HashMap<(Text, Text), Definition>>,
    /// Held by whoever takes a CRD.
    learning: Mutex<()>,
    /// The list of documents, held by whoever fetches.
    index: tokio::sync::Mutex<Option<(Instant, Index)>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Definition {
    name: Text,
    generation: i64,
    uid: Text,
}

/// A schema that could not be fetched.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SchemaError {
    /// The API server did not answer as it should.
    #[error("cannot fetch the schemas `{path}` from the API server: {problem}")]
    Fetch {
        /// What was asked for.
        path: String,
        /// What came instead.
        problem: String,
    },
    /// The answer cannot be read.
    #[error("cannot read the schemas `{path}`: {problem}")]
    Unreadable {
        /// What was asked for.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
}

impl Schemas {
    pub(crate) fn new(client: ClusterClient) -> Self {
        let (crds, live) = (Arc::new(CrdSchemas::new()), Arc::new(LiveSchemas::new()));
        let both =
            Overlay::new(vec![Arc::<CrdSchemas>::clone(&crds) as _, Arc::<LiveSchemas>::clone(&live) as _]);
        Self {
            client,
            crds,
            live,
            both,
            served: RwLock::default(),
            learning: Mutex::default(),
            index: tokio::sync::Mutex::default(),
        }
    }

    /// Takes a CRD as it is in the copy by now, whoever comes first with it. Kinds that are not served, not yet or not any
    /// more, are as good as unknown.
    pub(crate) fn follow(&self, crds: &Cache, crd: &StoredObject) {
        let Some(kind) = kinds::served_by(crd.value()) else { return };
        let (key, name) = ((kind.group.clone(), kind.kind), format!("{}.{}", kind.plural, kind.group));
        // One after the other: whoever comes later has looked later.
        let _turn = self.learning.lock();
        let current = match crds.get(None, crd.name()) {
            Lookup::Found(current) if kinds::is_established(current.value()) => current,
            Lookup::Found(_) | Lookup::Absent | Lookup::Unknown => {
                self.crds.remove(&name);
                self.served.write().remove(&key);
                return;
            }
        };
        let definition = Definition {
            name: name.as_str().into(),
            generation: current.generation().unwrap_or(0),
            uid: current.uid().clone(),
        };
        if self.served.read().get(&key) == Some(&definition) {
            return;
        }
        if let Err(problems) = self.crds.insert(current.value()) {
            let problem = problems.first().map(|problem| problem.message.clone()).unwrap_or_default();
            tracing::warn!(crd = name, problem, "the schema of a CustomResourceDefinition cannot be used");
            return;
        }
        self.served.write().insert(key, definition);
    }

    /// Fetches what is missing to know these kinds. What the cluster does not have stays unknown.
    ///
    /// # Errors
    /// The API server does not answer, or not with schemas.
    pub(crate) async fn prepare(&self, wanted: &[GroupVersionKind]) -> Result<(), SchemaError> {
        let missing: BTreeSet<String> = wanted
            .iter()
            .filter(|kind| !self.is_custom_group(&kind.group))
            .map(GroupVersionKind::api_version)
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let mut held = self.index.lock().await;
        let life = if missing.iter().all(|version| self.live.hash(version).is_some()) {
            INDEX_LIFE
        } else {
            MISS_LIFE
        };
        let index = match held.take().filter(|(fetched, _)| fetched.elapsed() <= life) {
            Some(index) => index,
            None => {
                let index = self.fetch_index().await?;
                (Instant::now(), index)
            }
        };
        // A list that is out of date leads to documents that have moved: it is kept only once it has proved right.
        self.fetch_all(&index.1, missing).await?;
        *held = Some(index);
        Ok(())
    }

    /// Fetches the documents of these versions, as far as they are listed and not known.
    async fn fetch_all(&self, index: &Index, versions: BTreeSet<String>) -> Result<(), SchemaError> {
        for version in versions {
            let Some(address) = index.url(&version) else { continue };
            let hash = address.rsplit_once("hash=").map_or("", |(_, hash)| hash);
            if self.live.hash(&version).is_some_and(|held| held == hash) {
                continue;
            }
            let document = self.fetch(address).await?;
            self.live.insert(&version, hash, document.as_bytes()).map_err(|error| {
                SchemaError::Unreadable { path: address.to_owned(), problem: error.to_string() }
            })?;
        }
        Ok(())
    }

    /// What the schemas of these kinds are at the moment: another text after any of them changed.
    pub(crate) fn fingerprint(&self, wanted: &[GroupVersionKind]) -> Text {
        let mut text = String::new();
        let served = self.served.read();
        for kind in wanted {
            // Writing to a string cannot fail.
            let _ = match served.get(&(kind.group.clone(), kind.kind.clone())) {
                Some(Definition { name, generation, .. }) => write!(text, "{name}@{generation};"),
                None => match self.live.hash(&kind.api_version()) {
                    Some(hash) => write!(text, "{}@{hash};", kind.api_version()),
                    None => write!(text, "{}?;", kind.api_version()),
                },
            };
        }
        text.into()
    }

    /// A group with a CRD is served from CRDs alone: what OpenAPI says about it comes late, and stays too long.
    fn is_custom_group(&self, group: &Text) -> bool {
        let served = self.served.read();
        served.keys().any(|(known, _)| known == group)
    }

    async fn fetch_index(&self) -> Result<Index, SchemaError> {
        let text = self.fetch(INDEX).await?;
        serde_json::from_str(&text)
            .map_err(|error| SchemaError::Unreadable { path: INDEX.to_owned(), problem: error.to_string() })
    }

    async fn fetch(&self, path: &str) -> Result<String, SchemaError> {
        let failed = |problem: String| SchemaError::Fetch { path: path.to_owned(), problem };
        let request =
            http::Request::get(path).body(Body::empty()).map_err(|error| failed(error.to_string()))?;
        let answer = self.client.client().send(request).await;
        let answer = answer.map_err(|error| failed(error.to_string()))?;
        let status = answer.status();
        let body = answer.into_body().collect_bytes().await.map_err(|error| failed(error.to_string()))?;
        // Who asks for a document as it was is sent elsewhere: that is no document either.
        if !status.is_success() {
            let said = serde_json::from_slice::<Status>(&body).map(|status| status.message);
            return Err(failed(said.ok().filter(|said| !said.is_empty()).unwrap_or(status.to_string())));
        }
        String::from_utf8(body.into()).map_err(|error| failed(error.to_string()))
    }
}

impl SchemaResolver for Schemas {
    fn resolve(&self, kind: &GroupVersionKind) -> Option<Arc<ResolvedKind>> {
        self.both.resolve(kind)
    }

    fn kinds(&self) -> Vec<GroupVersionKind> {
        self.both.kinds()
    }
}
