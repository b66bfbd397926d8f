//! The clients and caches that a pass uses, by cluster. The hub is one cluster among others.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::{self, StreamExt};
use kross_api::{ClusterId, FailureReason, GroupKind, Inventory};
use kross_cluster::{
    ApiError, ApiKind, Cache, ClusterClient, ObjectKey, Selection, StoredObject, SyncPolicy,
};
use kross_plan::{KindKey, ReferenceKey};
use kross_value::Text;

use super::account::ActingAccount;
use crate::context::Context;
use crate::graphs::Served;
use crate::permits::{ClusterPermits, Permit, WriteCredential};

/// How many clusters are asked at once on behalf of one instance. One that does not answer takes a place until its timeout.
const CONCURRENT_CLUSTERS: usize = 128;

/// The clients of the clusters that are connected, and the caches of an instance's objects there.
pub(super) struct InstanceClients<'a> {
    /// The client of the hub as the controller itself.
    local: &'a ClusterClient,
    /// The ServiceAccount that reads and writes the instance's objects in the hub; none for the controller itself.
    acting: Option<ActingAccount>,
    local_caches: &'a [Cache],
    permit: &'a Permit,
    /// Limits the reconciles that write to one cluster.
    writers: &'a ClusterPermits,
    remotes: BTreeMap<ClusterId, RemoteClients>,
    /// The reference whose credential is used for a kind in a cluster, where several references resolve to that cluster.
    routes: BTreeMap<KindKey, ReferenceKey>,
}

/// The clients and caches of one remote cluster.
#[derive(Debug)]
struct RemoteClients {
    /// One for each reference that resolves to the cluster, as its UID and its trust anchor prove. The first one serves requests
    /// that are about no reference.
    clients: Vec<(ReferenceKey, ClusterClient)>,
    /// The caches of the instance's objects, one for each kind.
    caches: Vec<Arc<Cache>>,
    /// Whether caches watch or poll the cluster.
    sync: SyncPolicy,
}

/// A request that failed, or that could not be sent.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClientError {
    /// It failed.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// Its cluster is not connected.
    #[error("cluster `{0}` is not connected")]
    NotConnected(ClusterId),
}

impl ClientError {
    /// The class of the failure.
    pub(super) fn reason(&self) -> FailureReason {
        match self {
            Self::Api(error) => error.reason(),
            Self::NotConnected(_) => FailureReason::Unreachable,
        }
    }

    /// The cause alone, without what was attempted.
    pub(super) fn message(&self) -> &str {
        match self {
            Self::Api(error) => error.message(),
            Self::NotConnected(_) => "its cluster is not connected",
        }
    }
}

impl<'a> InstanceClients<'a> {
    /// The client of the hub alone. Remote clusters are added as their references are resolved.
    pub(super) fn local(context: &'a Context, served: &'a Served, permit: &'a Permit) -> Self {
        let (local, local_caches) = (&context.client, &*served.children);
        let writers = &context.cluster_writers;
        let (remotes, routes) = (BTreeMap::new(), BTreeMap::new());
        Self { local, acting: None, local_caches, permit, writers, remotes, routes }
    }

    /// Reads and writes the instance's objects in the hub as this ServiceAccount.
    pub(super) fn act_as(&mut self, acting: ActingAccount) {
        self.acting = Some(acting);
    }

    /// The ServiceAccount that reads and writes the instance's objects in the hub, if there is one.
    pub(super) fn acting(&self) -> Option<&ActingAccount> {
        self.acting.as_ref()
    }

    /// Awaits requests to clusters. If one of them is remote the permit is released meanwhile, since that cluster may not
    /// answer for long.
    pub(super) async fn request<'c, T>(
        &self,
        clusters: impl IntoIterator<Item = &'c ClusterId>,
        requests: impl Future<Output = T>,
    ) -> T {
        if clusters.into_iter().all(ClusterId::is_local) {
            requests.await
        } else {
            self.permit.release_during(requests).await
        }
    }

    /// Awaits requests to many clusters, a number of them at once. The results come in any order.
    pub(super) async fn request_all<'f, T>(&self, requests: Vec<(&ClusterId, BoxFuture<'f, T>)>) -> Vec<T> {
        let (clusters, requests): (Vec<&ClusterId>, Vec<BoxFuture<'f, T>>) = requests.into_iter().unzip();
        // Once for all of them: a permit that is acquired after each would be held while the others run.
        let all = stream::iter(requests).buffer_unordered(CONCURRENT_CLUSTERS).collect();
        self.request(clusters, all).await
    }

    /// Awaits writes with a credential, after those of instances that asked before if there are many of them.
    pub(super) async fn write<T>(&self, credential: &WriteCredential, writes: impl Future<Output = T>) -> T {
        self.writers.write(credential, writes).await
    }

    /// Adds the client of a remote cluster that a reference resolves to.
    pub(super) fn add(&mut self, cluster: &ClusterId, reference: &ReferenceKey, client: ClusterClient) {
        let remote = || RemoteClients { clients: Vec::new(), caches: Vec::new(), sync: SyncPolicy::Watch };
        let remote = self.remotes.entry(cluster.clone()).or_insert_with(remote);
        remote.clients.push((reference.clone(), client));
    }

    /// Uses the credential of this reference for objects of a kind in a cluster.
    pub(super) fn route(&mut self, kind: KindKey, reference: &ReferenceKey) {
        self.routes.insert(kind, reference.clone());
    }

    /// Sets whether caches watch or poll a cluster.
    pub(super) fn set_sync(&mut self, cluster: &ClusterId, sync: SyncPolicy) {
        if let Some(remote) = self.remotes.get_mut(cluster) {
            remote.sync = sync;
        }
    }

    /// Whether caches watch or poll a cluster.
    pub(super) fn sync(&self, cluster: &ClusterId) -> SyncPolicy {
        self.remotes.get(cluster).map_or(SyncPolicy::Watch, |remote| remote.sync)
    }

    /// Adds a cache of the instance's objects in a remote cluster.
    pub(super) fn add_cache(&mut self, cluster: &ClusterId, cache: &Arc<Cache>) {
        if let Some(remote) = self.remotes.get_mut(cluster) {
            remote.caches.push(Arc::clone(cache));
        }
    }

    /// A client of a cluster.
    pub(super) fn client(&self, cluster: &ClusterId) -> Result<&ClusterClient, ClientError> {
        self.client_by(cluster, None)
    }

    /// The client of a cluster with the credential of a reference. If that reference does not resolve to the cluster now, it is
    /// that of another reference which is proven to lead to the same one; a server that only claims the same UID has another id.
    pub(super) fn client_by(
        &self,
        cluster: &ClusterId,
        reference: Option<&ReferenceKey>,
    ) -> Result<&ClusterClient, ClientError> {
        if cluster.is_local() {
            return Ok(self.acting.as_ref().map_or(self.local, |acting| &acting.client));
        }
        let clients = self.remotes.get(cluster).map_or(&[][..], |remote| &remote.clients);
        let found = clients.iter().find(|(by, _)| Some(by) == reference).or(clients.first());
        found.map(|(_, client)| client).ok_or_else(|| ClientError::NotConnected(cluster.clone()))
    }

    /// The credential for objects of a kind in a cluster, or that of a reference.
    pub(super) fn credential(&self, key: &ObjectKey, reference: Option<&ReferenceKey>) -> WriteCredential {
        let client = match reference {
            Some(_) => self.client_by(&key.cluster, reference),
            None => self.client_for(&key.cluster, &key.group, &key.kind),
        };
        let access = client.map_or_else(|_| "".into(), |client| client.access().clone());
        (key.cluster.clone(), access)
    }

    /// The references that resolve to a remote cluster.
    pub(super) fn references(&self, cluster: &ClusterId) -> impl Iterator<Item = &ReferenceKey> {
        self.remotes
            .get(cluster)
            .into_iter()
            .flat_map(|remote| &remote.clients)
            .map(|(reference, _)| reference)
    }

    /// The client for objects of a kind in a cluster, with the credential that they were applied with.
    pub(super) fn client_for(
        &self,
        cluster: &ClusterId,
        group: &Text,
        kind: &Text,
    ) -> Result<&ClusterClient, ClientError> {
        let reference = self.routes.get(&(cluster.clone(), group.clone(), kind.clone()));
        self.client_by(cluster, reference)
    }

    /// The client that finds out whether objects of a kind exist. In the hub that is the controller itself: nothing that it
    /// reads is given to expressions.
    pub(super) fn observer_of(
        &self,
        cluster: &ClusterId,
        group: &Text,
        kind: &Text,
    ) -> Result<&ClusterClient, ClientError> {
        if cluster.is_local() { Ok(self.local) } else { self.client_for(cluster, group, kind) }
    }

    /// The client for each kind of an inventory of a cluster.
    pub(super) fn clients_for<'i>(
        &self,
        cluster: &ClusterId,
        inventory: &'i Inventory,
    ) -> Result<Vec<(&'i GroupKind, &ClusterClient)>, ClientError> {
        let client_for = |kind: &'i GroupKind| {
            let (group, name) = (kind.group.as_str().into(), kind.kind.as_str().into());
            Ok((kind, self.client_for(cluster, &group, &name)?))
        };
        inventory.group_kinds.iter().map(client_for).collect()
    }

    /// Caches objects of a kind, by a watch or by polls as its cluster demands.
    pub(super) fn cache(
        &self,
        context: &Context,
        client: &ClusterClient,
        kind: &Arc<ApiKind>,
        selection: Selection,
    ) -> Cache {
        context.caches.cache_with(client, kind, selection, self.sync(client.cluster()))
    }

    /// The caches of the instance's objects in the hub.
    pub(super) fn local_caches(&self) -> &'a [Cache] {
        self.local_caches
    }

    /// The cache of the instance's objects of a kind in a cluster.
    pub(super) fn cache_of(&self, cluster: &ClusterId, group: &str, kind: &str) -> Option<&Cache> {
        self.caches(cluster).find(|cache| cache.key().group == *group && cache.key().kind == *kind)
    }

    /// Stores an object that was applied in the caches of its cluster; each takes objects of its own kind.
    pub(super) fn observe_applied(&self, cluster: &ClusterId, applied: &StoredObject) {
        self.caches(cluster).for_each(|cache| cache.observe(applied));
    }

    /// Removes an object that was found deleted from the caches of its cluster, which might learn of it much later.
    pub(super) fn observe_deleted(&self, cluster: &ClusterId, deleted: &StoredObject) {
        self.caches(cluster).for_each(|cache| cache.observe_deleted(deleted));
    }

    fn caches(&self, cluster: &ClusterId) -> impl Iterator<Item = &Cache> {
        let local = if cluster.is_local() { self.local_caches } else { &[] };
        let remote = self.remotes.get(cluster).map_or(&[][..], |remote| &remote.caches);
        local.iter().chain(remote.iter().map(|cache| &**cache))
    }
}
