//! Turns the rights of one user into the objects that pages show: caches that are filled with the user's own credential, and
//! a signal when something in them changes. Caches that no page has used for a while are closed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kross_api::WORKLOAD_GROUP;
use kross_cluster::{ApiError, ApiKind, Cache, CacheOptions, Caches, Change, Selection};
use parking_lot::Mutex;
use serde_json::Value as Json;
use tokio::sync::watch;

use crate::read_model::{DEFINITIONS, Definition, Hub, find_kind};

/// How long a page waits for the first list of a kind.
const FIRST_LIST: Duration = Duration::from_secs(5);
/// How long a cache is kept that no page uses.
const UNUSED: Duration = Duration::from_secs(90);

/// A hub as one user sees it.
#[derive(Clone)]
pub(super) struct Viewer(Arc<Inner>);

struct Inner {
    hub: Hub,
    caches: Caches,
    held: Mutex<HashMap<Held, (Cache, Instant)>>,
    changes: watch::Sender<u64>,
}

type Held = (Arc<ApiKind>, Option<String>);

/// Objects of a kind, or why they cannot be shown.
pub(super) type Listed = Result<Vec<Json>, ApiError>;

impl std::fmt::Debug for Viewer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Viewer").finish_non_exhaustive()
    }
}

impl Viewer {
    pub(super) fn new(hub: Hub) -> Self {
        let caches = Caches::new(CacheOptions::default());
        let mut events = caches.subscribe();
        let inner = Arc::new(Inner { hub, caches, held: Mutex::default(), changes: watch::Sender::new(0) });
        let weak = Arc::downgrade(&inner);
        tokio::spawn(async move {
            let mut sweep = tokio::time::interval(UNUSED / 3);
            loop {
                let changed = tokio::select! {
                    event = events.recv() => match event {
                        None => return,
                        Some(event) => !matches!(event.change, Change::Resumed),
                    },
                    _ = sweep.tick() => false,
                };
                let Some(inner) = weak.upgrade() else { return };
                if changed {
                    inner.changes.send_modify(|count| *count += 1);
                } else {
                    inner.close_unused();
                }
            }
        });
        Self(inner)
    }

    pub(super) fn hub(&self) -> &Hub {
        &self.0.hub
    }

    /// Completes when something has changed since it was last asked.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// The objects of a kind in a namespace, or in all.
    ///
    /// # Errors
    /// The user may not list them, or the hub does not answer.
    pub(super) async fn list(&self, kind: &Arc<ApiKind>, namespace: Option<&str>) -> Listed {
        let namespace = namespace.filter(|_| kind.namespaced);
        let cache = self.cache(kind, namespace);
        if !cache.has_synced() && cache.failure().is_none() {
            let mut events = cache.subscribe();
            let first = async {
                while !cache.has_synced() && cache.failure().is_none() && events.recv().await.is_some() {}
            };
            // A page says that a list is missing rather than not to come.
            let _ = tokio::time::timeout(FIRST_LIST, first).await;
        }
        if let (Some(failure), false) = (cache.failure(), cache.has_synced()) {
            return Err(failure);
        }
        let known = cache.known();
        Ok(known.iter().filter_map(|object| serde_json::to_value(object.value()).ok()).collect())
    }

    fn cache(&self, kind: &Arc<ApiKind>, namespace: Option<&str>) -> Cache {
        let Inner { hub, caches, held, changes: _ } = &*self.0;
        let mut held = held.lock();
        let entry = held.entry((Arc::clone(kind), namespace.map(str::to_owned))).or_insert_with(|| {
            let selection = match namespace {
                None => Selection::All,
                Some(namespace) => {
                    Selection::Labels { namespace: Some(namespace.into()), selector: "".into() }
                }
            };
            (caches.watch(&hub.client, kind, selection), Instant::now())
        });
        entry.1 = Instant::now();
        entry.0.clone()
    }

    /// Objects of a kind by its name with its group; none if it is not served.
    pub(super) async fn list_named(&self, kind: &str, namespace: Option<&str>) -> Option<Listed> {
        let kind = self.0.hub.kind(kind).ok()?;
        Some(self.list(&kind, namespace).await)
    }

    /// The definitions; an error if the user may not list them.
    pub(super) async fn definitions(&self) -> Result<Vec<Definition>, ApiError> {
        let Some(listed) = self.list_named(DEFINITIONS, None).await else { return Ok(Vec::new()) };
        let mut definitions: Vec<Definition> = listed?.into_iter().map(Definition::new).collect();
        definitions.sort_by(|a, b| a.name().cmp(b.name()));
        Ok(definitions)
    }

    /// The kinds of instances, with their definitions where the user may read them. Without definitions, every kind of kro's
    /// group is taken for one.
    pub(super) async fn instance_kinds(&self) -> Vec<(Arc<ApiKind>, Option<Definition>)> {
        match self.definitions().await {
            Ok(definitions) => {
                let mut kinds = Vec::new();
                for definition in definitions {
                    if let Some(kind) = self.kind_of(&definition).await {
                        kinds.push((kind, Some(definition)));
                    }
                }
                kinds
            }
            Err(_) => {
                let kinds = self.0.hub.client.discovery().kinds();
                let is_instance = |kind: &&Arc<ApiKind>| {
                    *kind.group == *kross_api::DEFAULT_GROUP
                        && !matches!(&*kind.kind, "ResourceGraphDefinition" | "ClusterConnection")
                };
                kinds.iter().filter(is_instance).map(|kind| (Arc::clone(kind), None)).collect()
            }
        }
    }

    /// The kind that a definition serves, if it is served already.
    pub(super) async fn kind_of(&self, definition: &Definition) -> Option<Arc<ApiKind>> {
        let (group, kind) = definition.served_kind();
        match self.0.hub.kind_of(&format!("{group}/"), kind) {
            Some(found) => Some(found),
            // It may be served since the kinds were discovered.
            None => self.0.hub.client.kind(group, None, kind).await.ok(),
        }
    }

    /// The kinds of applications, claims and targets that the hub serves.
    pub(super) fn workload_kinds(&self) -> Vec<Arc<ApiKind>> {
        let kinds = self.0.hub.client.discovery().kinds();
        let named = |name: &str| find_kind(&kinds, name).ok();
        let of_workload = |plural: &str| named(&format!("{plural}.{WORKLOAD_GROUP}"));
        [
            of_workload("kubernetestargets"),
            named(&format!("kubernetesclusters.{}", kross_api::COMPUTE_GROUP)),
            of_workload("kubernetesapplications"),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

impl Inner {
    fn close_unused(&self) {
        let unused: Vec<(Cache, Instant)> = {
            let mut held = self.held.lock();
            held.extract_if(|_, (_, used)| used.elapsed() > UNUSED).map(|(_, cache)| cache).collect()
        };
        // Outside the lock: this may close connections.
        drop(unused);
    }
}
