//! Watches the kinds that an instance has in remote clusters, and observes the instance's objects in their caches. A cache
//! is kept as long as the instance needs it.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use futures::future::FutureExt;
use jiff::Timestamp;
use kross_api::{ClusterId, FailureReason, Inventory, Operation, SyncMode, labels};
use kross_cluster::{ApiError, ApiKind, Cache, ClusterClient, ObjectKey, Selection};
use kross_graph::Graph;
use kross_plan::{KindKey, OperationFailure, Plan};
use kross_value::Text;

use super::observation::version_of;
use super::pass::Pass;

/// A kind in a remote cluster, and the version to read it in; none for the one that the cluster prefers.
pub(super) type WantedKind = (KindKey, Option<Text>);

/// The cache of a kind in a remote cluster.
#[derive(Debug)]
pub(super) struct ChildCache {
    pub(super) cache: Arc<Cache>,
    /// The one before it, which is read until the new one has synced: a rotated credential must not hide the objects.
    previous: Option<Arc<Cache>>,
}

impl ChildCache {
    /// The cache to read from.
    fn current(&mut self) -> &Arc<Cache> {
        if self.cache.has_synced() {
            self.previous = None;
        }
        self.previous.as_ref().unwrap_or(&self.cache)
    }
}

/// The kinds that an inventory of remote clusters has.
pub(super) fn inventory_kinds(
    contents: &BTreeMap<ClusterId, (Text, Inventory)>,
    graph: Option<&Graph>,
) -> Vec<WantedKind> {
    let mut wanted = Vec::new();
    for (cluster, (_, inventory)) in contents {
        for kind in &inventory.group_kinds {
            let used = graph.into_iter().flat_map(|graph| &graph.nodes);
            let version = used
                .map(|node| &node.kind)
                .find(|used| used.group == *kind.group.as_str() && used.kind == *kind.kind.as_str());
            let key = (cluster.clone(), kind.group.as_str().into(), kind.kind.as_str().into());
            wanted.push((key, version.map(|used| used.version.clone())));
        }
    }
    wanted
}

/// The kinds in remote clusters that a plan applies objects of.
fn planned_kinds(plan: &Plan) -> Vec<WantedKind> {
    let objects = plan.nodes.iter().flat_map(|node| &node.objects);
    let remote = objects.filter(|object| object.desired.is_some() && !object.key.cluster.is_local());
    let mut wanted: Vec<WantedKind> = remote
        .map(|object| {
            let ObjectKey { cluster, group, kind, .. } = &object.key;
            ((cluster.clone(), group.clone(), kind.clone()), Some(version_of(&object.api_version)))
        })
        .collect();
    wanted.sort();
    wanted.dedup();
    wanted
}

impl Pass<'_> {
    /// Resolves the scope of kinds that a plan does not know: whether they are namespaced. Returns whether it resolved any.
    pub(super) async fn resolve_scopes(&mut self, plan: &Plan) -> bool {
        let observed = &self.observation.observed;
        let is_open =
            |key: &KindKey| !observed.scopes.contains_key(key) && !observed.unlisted.contains_key(key);
        let open = plan.unscoped.iter().filter(|(key, _)| is_open(key));
        let requests = open.filter_map(|(key, version)| {
            let client = self.clients.client(&key.0).ok()?;
            let request = async move { (key, client.kind(&key.1, Some(version), &key.2).await) };
            Some((&key.0, request.boxed()))
        });
        let resolved = self.clients.request_all(requests.collect()).await;
        let is_resolved = !resolved.is_empty();
        for (key, kind) in resolved {
            match kind {
                Ok(kind) => {
                    self.memory.unlisted.remove(key);
                    self.observation.observed.scopes.insert(key.clone(), kind.namespaced);
                }
                Err(error) => {
                    let failure = self.unlisted(key, Operation::Get, &error);
                    self.observation.observed.unlisted.insert(key.clone(), Some(failure));
                }
            }
        }
        is_resolved
    }

    /// Watches the kinds in remote clusters that the inventory has and those that a plan applies objects of. Returns whether
    /// there was a new one.
    pub(super) async fn watch_kinds(&mut self, inventory: &[WantedKind], plan: &Plan) -> bool {
        let wanted = inventory.iter().cloned().chain(planned_kinds(plan)).collect();
        self.watch_and_observe(wanted).await
    }

    /// Watches kinds in the remote clusters that are connected, and observes the instance's objects of them. Returns whether
    /// there was a new kind.
    pub(super) async fn watch_and_observe(&mut self, wanted: Vec<WantedKind>) -> bool {
        let (mut current, mut missing) = (Vec::new(), Vec::new());
        for (key, version) in wanted {
            let Ok(client) = self.clients.client_for(&key.0, &key.1, &key.2).cloned() else { continue };
            if !self.observation.kinds.insert(key.clone()) {
                continue;
            }
            if self.is_cached(&client, &key, version.as_ref()) {
                current.push(key);
            } else {
                missing.push((key, version, client));
            }
        }
        let learned = !current.is_empty() || !missing.is_empty();
        current.iter().for_each(|key| self.observe_kind(key));
        let requests = missing.iter().map(|wanted| {
            let (key, version, client) = wanted;
            let request = async move { (wanted, client.kind(&key.1, version.as_deref(), &key.2).await) };
            (&key.0, request.boxed())
        });
        for ((key, version, client), kind) in self.clients.request_all(requests.collect()).await {
            match kind {
                Ok(kind) => {
                    self.open_cache(client, key, &kind);
                    self.observe_kind(key);
                }
                // Nobody wants the kind any more, and its objects were deleted with its CRD.
                Err(error) if version.is_none() && error.is_kind_not_served() => {}
                Err(error) => {
                    let failure = self.unlisted(key, Operation::Get, &error);
                    self.observation.observed.unlisted.insert(key.clone(), Some(failure));
                }
            }
        }
        learned
    }

    /// Whether a kind is cached in this version, with the credential and the sync policy that count now.
    fn is_cached(&self, client: &ClusterClient, key: &KindKey, version: Option<&Text>) -> bool {
        self.memory.child_caches.get(key).is_some_and(|child| {
            let cache = child.cache.key();
            cache.access == *client.access()
                && cache.sync == self.clients.sync(&key.0)
                && version.is_none_or(|version| cache.version == *version)
        })
    }

    /// Caches a kind, in place of the cache that it had before.
    fn open_cache(&mut self, client: &ClusterClient, key: &KindKey, kind: &Arc<ApiKind>) {
        let cache = Arc::new(self.clients.cache(self.context, client, kind, Selection::Managed));
        self.context.instances.watch(self.key, cache.key());
        let previous = self.memory.child_caches.remove(key).map(|child| child.cache);
        if let Some(previous) = &previous {
            self.context.instances.unwatch(self.key, previous.key());
        }
        self.memory.child_caches.insert(key.clone(), ChildCache { cache, previous });
    }

    /// Observes the instance's objects of a kind in the cache of a remote cluster.
    fn observe_kind(&mut self, key: &KindKey) {
        let Some(child) = self.memory.child_caches.get_mut(key) else { return };
        let cache = Arc::clone(child.current());
        self.clients.add_cache(&key.0, &cache);
        if !Arc::ptr_eq(&cache, &child.cache) {
            // It will be read soon, and must have what this pass applies.
            self.clients.add_cache(&key.0, &child.cache);
        }
        if cache.mode() == SyncMode::Poll {
            self.observation.set_polled(self.clients.references(&key.0));
        }
        match cache.list_by_label(labels::INSTANCE_ID, self.instance.uid()) {
            Some(objects) => {
                self.memory.unlisted.remove(key);
                for object in objects {
                    self.observation.add(object.key(&key.0), object, self.memory);
                }
            }
            None => {
                let failure = cache.failure_by_label(labels::INSTANCE_ID, self.instance.uid());
                let failure = failure.map(|error| self.unlisted(key, Operation::Watch, &error));
                self.observation.listing |= failure.is_none();
                self.observation.observed.unlisted.insert(key.clone(), failure);
            }
        }
    }

    /// Observes what the caches of clusters that are not connected had last. Returns the clusters of which they had something.
    pub(super) fn observe_last_known<'c>(
        &mut self,
        clusters: impl Iterator<Item = &'c ClusterId>,
    ) -> HashSet<ClusterId> {
        let clusters: HashSet<&ClusterId> = clusters.collect();
        if clusters.is_empty() {
            return HashSet::new();
        }
        let mut known = Vec::new();
        let children = self.memory.child_caches.iter_mut();
        for ((cluster, ..), child) in children.filter(|((there, ..), _)| clusters.contains(there)) {
            let objects = child.current().known_by_label(labels::INSTANCE_ID, self.instance.uid());
            known.extend(objects.into_iter().map(|object| (object.key(cluster), object)));
        }
        let found = known.iter().map(|(key, _)| key.cluster.clone()).collect();
        for (key, object) in known {
            self.observation.add(key, object, self.memory);
        }
        found
    }

    /// Remembers that a kind cannot be listed. Returns the failure with the time since when it has had this reason.
    pub(super) fn unlisted(
        &mut self,
        key: &KindKey,
        operation: Operation,
        error: &ApiError,
    ) -> OperationFailure {
        let before = self.memory.unlisted.get(key).filter(|before| before.reason == error.reason());
        let failure = read_failure(&key.0, operation, error, before.map(|before| before.since));
        self.memory.unlisted.insert(key.clone(), failure.clone());
        failure
    }
}

/// The failure to read a kind or an external object, of no node.
pub(super) fn read_failure(
    cluster: &ClusterId,
    operation: Operation,
    error: &ApiError,
    since: Option<Timestamp>,
) -> OperationFailure {
    let advice = match error.reason() {
        FailureReason::Forbidden if cluster.is_local() => {
            "; `kross rbac FILE` prints the permissions that the controller needs"
        }
        FailureReason::Forbidden => {
            "; `kross rbac FILE --remote` prints the permissions that the credential needs"
        }
        _ => "",
    };
    OperationFailure {
        node: "".into(),
        operation,
        reason: error.reason(),
        message: format!("{}{advice}", error.message()).into(),
        since: since.unwrap_or_else(Timestamp::now),
    }
}
