//! Turns the rights of one user into the objects that pages show: caches that are filled with the user's own credential, and
//! a signal when something in them changes. Caches that no page has used for a while are closed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kross_api::WORKLOAD_GROUP;
use kross_cluster::{ApiError, ApiKind, Cache, CacheOptions, Caches, Change, Selection};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use tokio::sync::watch;

use crate::read_model::{DEFINITIONS, Definition, Hub, find_kind};

/// How long a page waits for the first list of a kind.
const FIRST_LIST: Duration = Duration::from_secs(5);
/// How long a cache is kept that no page uses.
const UNUSED: Duration = Duration::from_secs(90);
/// How many caches a user may hold. A further one takes the place of the one that was not used for longest.
const MAX_HELD: usize = 96;
/// How long a user sees a kind after the right to list it was taken away.
const REVIEW_AGE: Duration = Duration::from_secs(60);
const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// A hub as one user sees it.
#[derive(Clone)]
pub(super) struct Viewer(Arc<Inner>);

struct Inner {
    hub: Hub,
    caches: Caches,
    held: Mutex<HashMap<Key, Held>>,
    changes: watch::Sender<u64>,
}

/// A kind in a namespace, or in all.
type Key = (Arc<ApiKind>, Option<String>);

struct Held {
    cache: Cache,
    used: Instant,
    /// When the user was allowed to list it.
    reviewed: Instant,
}

#[derive(Deserialize)]
struct Review {
    status: ReviewStatus,
}

#[derive(Deserialize)]
struct ReviewStatus {
    allowed: bool,
}

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

    /// Has every page that is watched made again.
    pub(super) fn wake(&self) {
        self.0.changes.send_modify(|count| *count += 1);
    }

    /// The objects of a kind in a namespace, or in all.
    ///
    /// # Errors
    /// The user may not list them, or the hub does not answer.
    pub(super) async fn list(&self, kind: &Arc<ApiKind>, namespace: Option<&str>) -> Listed {
        let namespace = namespace.filter(|_| kind.namespaced);
        if namespace.is_some_and(|namespace| !is_namespace(namespace)) {
            return Ok(Vec::new());
        }
        let (cache, is_due) = self.cache(kind, namespace);
        if is_due && !self.may_list(kind, namespace).await {
            drop(cache);
            self.0.held.lock().remove(&(Arc::clone(kind), namespace.map(str::to_owned)));
            // The API server says best why not.
            return self.0.hub.list(kind, namespace, None).await;
        }
        if !cache.has_synced() && cache.failure().is_none() {
            let mut events = cache.subscribe();
            let first = async {
                while !cache.has_synced() && cache.failure().is_none() && events.recv().await.is_some() {}
            };
            // A page says that a list is missing rather than not to come.
            let _ = tokio::time::timeout(FIRST_LIST, first).await;
        }
        match cache.failure() {
            Some(failure) if !cache.has_synced() => return Err(failure),
            // The user may list and not watch, or may not list any more: then what is cached is no longer theirs to see.
            Some(failure) if matches!(failure.code(), Some(401 | 403)) => {
                return self.0.hub.list(kind, namespace, None).await;
            }
            _ => {}
        }
        let known = cache.known();
        Ok(known.iter().filter_map(|object| serde_json::to_value(object.value()).ok()).collect())
    }

    /// The cache of a kind, and whether the right to list it has to be reviewed: a watch goes on without it.
    fn cache(&self, kind: &Arc<ApiKind>, namespace: Option<&str>) -> (Cache, bool) {
        let Inner { hub, caches, held, changes: _ } = &*self.0;
        let now = Instant::now();
        let mut held = held.lock();
        let key = (Arc::clone(kind), namespace.map(str::to_owned));
        let mut displaced = None;
        if held.len() >= MAX_HELD && !held.contains_key(&key) {
            let oldest = held.iter().min_by_key(|(_, held)| held.used).map(|(key, _)| key.clone());
            displaced = oldest.and_then(|oldest| held.remove(&oldest));
        }
        let entry = held.entry(key).or_insert_with(|| {
            let selection = match namespace {
                None => Selection::All,
                Some(namespace) => {
                    Selection::Labels { namespace: Some(namespace.into()), selector: "".into() }
                }
            };
            Held { cache: caches.watch(&hub.client, kind, selection), used: now, reviewed: now }
        });
        entry.used = now;
        let is_due = entry.reviewed.elapsed() > REVIEW_AGE;
        if is_due {
            entry.reviewed = now;
        }
        let cache = entry.cache.clone();
        drop(held);
        // Outside the lock: this may close connections.
        drop(displaced);
        (cache, is_due)
    }

    /// Whether the user may still list a kind. What cannot be decided is allowed: the watch itself is the user's.
    async fn may_list(&self, kind: &ApiKind, namespace: Option<&str>) -> bool {
        let attributes = json!({"verb": "list", "group": &*kind.group, "resource": &*kind.plural,
            "namespace": namespace.unwrap_or_default()});
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes}});
        match self.0.hub.client.submit(ACCESS_REVIEWS, review.to_string().into()).await {
            Ok(answer) => {
                serde_json::from_slice(&answer).map_or(true, |Review { status }: Review| status.allowed)
            }
            Err(_) => true,
        }
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
        let unused: Vec<Held> = {
            let mut held = self.held.lock();
            held.extract_if(|_, held| held.used.elapsed() > UNUSED).map(|(_, held)| held).collect()
        };
        // Outside the lock: this may close connections.
        drop(unused);
    }
}

/// Whether a text can be a namespace. Nothing else is asked for.
fn is_namespace(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.len() <= 63 && text.bytes().all(is_part)
}
