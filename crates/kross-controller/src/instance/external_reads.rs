//! Reads external references: opens a cache for what a reference selects, and observes what the cache has.

use std::collections::HashSet;
use std::sync::Arc;

use jiff::Timestamp;
use kross_api::{FailureReason, Operation, labels};
use kross_cluster::{
    ApiError, ApiKind, Cache, CacheKey, ClusterClient, Lookup, ObjectKey, Selection, StoredObject,
};
use kross_plan::{CollectionQuery, ExternalRead, ObservedObject, OperationFailure, Plan};
use kross_value::Text;

use super::account::Denial;
use super::child_caches::read_failure;
use super::observation::Observation;
use super::pass::Pass;
use crate::analysis::Check;
use crate::selector::text;

impl Pass<'_> {
    /// Reads the external references of a plan. Returns whether one of them has another content than before.
    pub(super) async fn read_externals(&mut self, plan: &Plan) -> bool {
        let mut learned = false;
        for read in &plan.reads {
            learned |= self.read_external(plan, read).await;
        }
        learned
    }

    async fn read_external(&mut self, plan: &Plan, read: &ExternalRead) -> bool {
        let access_path = plan.access_paths.to_read(read).map(|(_, access_path)| &access_path.key);
        // Without a client the cluster is not connected. What the caches had last is used then.
        let client = self.clients.client_by(read.cluster(), access_path).ok().cloned();
        if let Err(Denial { reason, message }) = self.review_read(read).await {
            return self.unreadable(read, Operation::Get, reason, message);
        }
        if let Some(client) = &client {
            match self.check_read(plan, read, client) {
                Check::Passed => {}
                // A reference that is read already has passed before; only a new one waits.
                Check::Pending if self.memory.external_caches.contains_key(read) => {}
                Check::Pending => return false,
                Check::Failed { reason, message } => {
                    return self.unreadable(read, Operation::Get, reason, message);
                }
            }
            if let Err(error) = self.open_external(client, read).await {
                return self.cannot_read(read, Operation::Get, &error);
            }
        }
        let Some(caches) = self.memory.external_caches.get(read) else { return false };
        // The resource of an application refuses such a Secret by name, so that its author learns why.
        let hide: Hide = if self.served.own_graphs { |_, _| false } else { is_connection_copy };
        let learned = match read {
            ExternalRead::Object { key, .. } => observe_object(key, caches, hide, &mut self.observation),
            ExternalRead::Collection(query) => observe_collection(query, caches, hide, &mut self.observation),
        };
        // What the cache had last is used, but nothing is pruned because of it.
        let is_stale = caches.iter().any(|cache| cache.failure().is_some());
        let learned = is_stale && self.observation.observed.stale.insert(read.clone()) || learned;
        let failure = caches.iter().filter(|cache| !cache.is_complete()).find_map(Cache::failure);
        self.observation.listing |= failure.is_none() && caches.iter().any(|cache| !cache.has_synced());
        match failure {
            Some(error) => self.cannot_read(read, Operation::Watch, &error) || learned,
            None => {
                self.memory.unreadable.remove(read);
                learned
            }
        }
    }

    /// Makes sure that what a reference selects is cached, with the credential and the sync policy that count now.
    async fn open_external(&mut self, client: &ClusterClient, read: &ExternalRead) -> Result<(), ApiError> {
        let sync = self.clients.sync(read.cluster());
        let is_current = |cache: &Cache| cache.key().access == *client.access() && cache.key().sync == sync;
        let known = self.memory.external_caches.get(read);
        if known.is_some_and(|known| known.iter().all(is_current)) {
            return Ok(());
        }
        let caches = self.clients.request([read.cluster()], self.cache_external(client, read)).await?;
        caches.iter().for_each(|cache| self.context.instances.watch(self.key, cache.key()));
        for previous in self.memory.external_caches.insert(read.clone(), caches).into_iter().flatten() {
            self.context.instances.unwatch(self.key, previous.key());
        }
        Ok(())
    }

    /// Caches what a reference selects; with a namespace selector a second cache has the namespaces.
    async fn cache_external(
        &self,
        client: &ClusterClient,
        read: &ExternalRead,
    ) -> Result<Vec<Cache>, ApiError> {
        let cache =
            |kind: &Arc<ApiKind>, selection| self.clients.cache(self.context, client, kind, selection);
        match read {
            ExternalRead::Object { key, version } => {
                let kind = client.kind(&key.group, Some(version), &key.kind).await?;
                let (namespace, name) = (key.namespace.clone(), key.name.clone());
                Ok(vec![cache(&kind, Selection::Name { namespace, name })])
            }
            ExternalRead::Collection(query) => {
                let kind = client.kind(&query.group, Some(&query.version), &query.kind).await?;
                let (namespace, selector) = (query.namespace.clone(), text(&query.selector()));
                let mut caches = vec![cache(&kind, Selection::Labels { namespace, selector })];
                if let Some(namespaces) = query.namespace_selector() {
                    let kind = client.kind("", Some("v1"), "Namespace").await?;
                    let selector = text(&namespaces);
                    caches.push(cache(&kind, Selection::Labels { namespace: None, selector }));
                }
                Ok(caches)
            }
        }
    }

    fn cannot_read(&mut self, read: &ExternalRead, operation: Operation, error: &ApiError) -> bool {
        let OperationFailure { reason, message, .. } = read_failure(read.cluster(), operation, error, None);
        self.unreadable(read, operation, reason, message)
    }

    /// Remembers that a reference cannot be read. Returns whether that is new in this pass.
    fn unreadable(
        &mut self,
        read: &ExternalRead,
        operation: Operation,
        reason: FailureReason,
        message: Text,
    ) -> bool {
        let before = self.memory.unreadable.get(read).filter(|before| before.reason == reason);
        let since = before.map_or_else(Timestamp::now, |before| before.since);
        let failure = OperationFailure { node: "".into(), operation, reason, message, since };
        self.memory.unreadable.insert(read.clone(), failure.clone());
        self.observation.observed.unreadable.insert(read.clone(), failure).is_none()
    }

    /// Drops the caches of external references that the plan does not have.
    pub(super) fn drop_external_caches(&mut self, plan: &Plan) {
        let is_wanted = |read: &ExternalRead| plan.reads.contains(read);
        let wanted = self.memory.external_caches.iter().filter(|(read, _)| is_wanted(read));
        // Two references may share a cache, such as one of namespaces.
        let kept: HashSet<Arc<CacheKey>> =
            wanted.flat_map(|(_, caches)| caches).map(|cache| Arc::clone(cache.key())).collect();
        self.memory.external_caches.retain(|read, caches| {
            let wanted = is_wanted(read);
            for cache in caches.iter().filter(|cache| !wanted && !kept.contains(cache.key())) {
                self.context.instances.unwatch(self.key, cache.key());
            }
            wanted
        });
        self.memory.unreadable.retain(|read, _| is_wanted(read));
    }
}

/// Tells which objects an external reference does not find.
type Hide = fn(&Cache, &StoredObject) -> bool;

/// Whether an object is a copy of a connection Secret in the hub. Nothing but its target leads to it.
fn is_connection_copy(cache: &Cache, object: &StoredObject) -> bool {
    cache.key().cluster.is_local()
        && object.group().is_empty()
        && object.kind() == "Secret"
        && object.label(labels::CONNECTION_COPY).is_some()
}

fn observe_object(key: &ObjectKey, caches: &[Cache], hide: Hide, observation: &mut Observation) -> bool {
    let Some(cache) = caches.first() else { return false };
    let found = match cache.get(key.namespace.as_deref(), &key.name) {
        Lookup::Found(object) if hide(cache, &object) => None,
        Lookup::Found(object) => Some(ObservedObject::new(object.value().clone())),
        Lookup::Absent => None,
        Lookup::Unknown => return false,
    };
    let before = observation.observed.externals.insert(key.clone(), found.clone());
    before != Some(found)
}

fn observe_collection(
    query: &CollectionQuery,
    caches: &[Cache],
    hide: Hide,
    observation: &mut Observation,
) -> bool {
    let Some(cache) = caches.first() else { return false };
    let Some(mut objects) = cache.list() else { return false };
    objects.retain(|object| !hide(cache, object));
    if let Some(namespaces) = caches.get(1) {
        let Some(namespaces) = namespaces.list() else { return false };
        let is_selected = |namespace: Option<&Text>| {
            namespace.is_some_and(|name| namespaces.iter().any(|selected| selected.name() == name))
        };
        objects.retain(|object| is_selected(object.namespace()));
    }
    objects.sort_by(|a, b| (a.namespace(), a.name()).cmp(&(b.namespace(), b.name())));
    let found: Vec<_> = objects.iter().map(|object| ObservedObject::new(object.value().clone())).collect();
    let before = observation.observed.collections.insert(query.clone(), found.clone());
    before != Some(found)
}
