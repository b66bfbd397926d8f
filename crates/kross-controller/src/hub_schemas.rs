//! The schemas of the hub: those of custom resources from the cache of CRDs, all others from OpenAPI documents, which are
//! fetched when a definition first names their group. Compiling then resolves kinds without waiting.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use kross_cluster::{Cache, ClusterClient, Lookup, StoredObject};
use kross_schema::{CrdSchemas, GroupVersionKind, ResolvedKind, SchemaResolver};
use kross_value::Text;
use parking_lot::{Mutex, RwLock};

use crate::kinds;
use crate::openapi::{Document, DocumentStore, OpenApi, SchemaError};

/// How long the index of documents is used. A server that was upgraded lists other hashes.
const INDEX_MAX_AGE: Duration = Duration::from_secs(300);
/// How long it is used while a group is not in it.
const INDEX_MAX_AGE_IF_MISSING: Duration = Duration::from_secs(10);

/// The schemas of the hub.
///
/// # Lock order
///
/// `syncing` first, then `served` or the locks of the cache of CRDs. `served` and `documents` are leaves.
#[derive(Debug)]
pub(crate) struct HubSchemas {
    client: ClusterClient,
    crds: CrdSchemas,
    /// The CRD that serves a group and kind.
    served: RwLock<HashMap<(Text, Text), ServedCrd>>,
    /// Held from reading a CRD from the cache until its schema is stored.
    syncing: Mutex<()>,
    openapi: OpenApi,
    /// By group and version, for groups without a CRD.
    documents: RwLock<BTreeMap<String, Document>>,
}

/// A CRD, and the version of its spec.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ServedCrd {
    name: Text,
    generation: i64,
    uid: Text,
}

impl HubSchemas {
    pub(crate) fn new(client: ClusterClient, documents: Arc<DocumentStore>) -> Self {
        Self {
            client,
            crds: CrdSchemas::new(),
            served: RwLock::default(),
            syncing: Mutex::default(),
            openapi: OpenApi::local(documents),
            documents: RwLock::default(),
        }
    }

    /// Stores the schema of a CRD as the cache has it now, and forgets it while the CRD is not established.
    pub(crate) fn sync_crd(&self, crds: &Cache, crd: &StoredObject) {
        let Some(kind) = kinds::served_by(crd.value()) else { return };
        let (key, name) = ((kind.group.clone(), kind.kind), format!("{}.{}", kind.plural, kind.group));
        // The lookup is inside the lock, so that a slower caller does not store an older version.
        let _syncing = self.syncing.lock();
        let current = match crds.get(None, crd.name()) {
            Lookup::Found(current) if kinds::is_established(current.value()) => current,
            Lookup::Found(_) | Lookup::Absent | Lookup::Unknown => {
                self.crds.remove(&name);
                self.served.write().remove(&key);
                return;
            }
        };
        let served = ServedCrd {
            name: name.as_str().into(),
            generation: current.generation().unwrap_or(0),
            uid: current.uid().clone(),
        };
        if self.served.read().get(&key) == Some(&served) {
            return;
        }
        if let Err(problems) = self.crds.insert(current.value()) {
            let problem = problems.first().map(|problem| problem.message.clone()).unwrap_or_default();
            tracing::warn!(crd = name, problem, "cannot use the schema of a CustomResourceDefinition");
            return;
        }
        self.served.write().insert(key, served);
    }

    /// Fetches the documents that are missing to resolve these kinds. Kinds that the hub does not serve stay unknown.
    ///
    /// # Errors
    /// A request fails, or a response is no schema.
    pub(crate) async fn prepare(&self, wanted: &[GroupVersionKind]) -> Result<(), SchemaError> {
        let versions: BTreeSet<String> = wanted
            .iter()
            .filter(|kind| !self.is_custom_group(&kind.group))
            .map(GroupVersionKind::api_version)
            .collect();
        if versions.is_empty() {
            return Ok(());
        }
        let known = versions.iter().all(|version| self.documents.read().contains_key(version));
        let max_age = if known { INDEX_MAX_AGE } else { INDEX_MAX_AGE_IF_MISSING };
        let index = self.openapi.index(&self.client, max_age).await?;
        for version in versions {
            if let Some(document) = self.openapi.document(&self.client, &index, &version).await? {
                self.documents.write().insert(version, document);
            }
        }
        Ok(())
    }

    /// A text that changes whenever the schema of one of these kinds does.
    pub(crate) fn fingerprint(&self, wanted: &[GroupVersionKind]) -> Text {
        let mut text = String::new();
        for kind in wanted {
            let crd = self.served.read().get(&(kind.group.clone(), kind.kind.clone())).cloned();
            let version = kind.api_version();
            // Writing to a string does not fail.
            let _ = match crd {
                Some(ServedCrd { name, generation, .. }) => write!(text, "{name}@{generation};"),
                None => match self.documents.read().get(&version) {
                    Some(document) => write!(text, "{version}@{};", document.digest()),
                    None => write!(text, "{version}?;"),
                },
            };
        }
        text.into()
    }

    /// Whether a CRD that is created later may define a kind that is not served now.
    pub(crate) fn may_appear(&self, kind: &GroupVersionKind) -> bool {
        // The groups of CRDs have a dot. A group with a document and no CRD is served by the API server itself, or by another.
        kind.group.contains('.')
            && (self.is_custom_group(&kind.group) || !self.documents.read().contains_key(&kind.api_version()))
    }

    /// Whether a CRD defines a kind of the group. Its schemas come from CRDs alone: OpenAPI documents of the group lag
    /// behind its CRDs.
    fn is_custom_group(&self, group: &Text) -> bool {
        self.served.read().keys().any(|(known, _)| known == group)
    }
}

impl SchemaResolver for HubSchemas {
    fn resolve(&self, kind: &GroupVersionKind) -> Option<Arc<ResolvedKind>> {
        let from_crd = self.crds.resolve(kind);
        from_crd.or_else(|| self.documents.read().get(&kind.api_version())?.resolve(kind))
    }

    fn kinds(&self) -> Vec<GroupVersionKind> {
        let mut kinds = self.crds.kinds();
        kinds.extend(self.documents.read().values().flat_map(Document::kinds));
        kinds.sort();
        kinds.dedup();
        kinds
    }
}
