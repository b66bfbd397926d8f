//! Turns the cluster of an object into the connection that its requests take and the copies that know it. The local cluster
//! is one among others.

use std::collections::BTreeMap;
use std::sync::Arc;

use kross_api::{ClusterId, FailureReason, GroupKind, Inventory};
use kross_cluster::{ApiError, ApiKind, Cache, ClusterClient, Selection, StoredObject, SyncPolicy};
use kross_plan::{KindKey, ReferenceKey};
use kross_value::Text;

use crate::context::Context;
use crate::graphs::Served;
use crate::permits::Permit;

/// The clusters that a pass can reach.
pub(super) struct Reach<'a> {
    local: &'a ClusterClient,
    local_children: &'a [Cache],
    permit: &'a Permit,
    remotes: BTreeMap<ClusterId, Site>,
    /// By which reference a kind in a cluster is reached, where several lead there.
    kinds: BTreeMap<KindKey, ReferenceKey>,
}

/// A remote cluster that is connected.
#[derive(Debug)]
struct Site {
    /// One for each reference that leads there, the first one for whoever does not care.
    connections: Vec<(ReferenceKey, ClusterClient)>,
    /// The objects of instances there, one watch for each kind.
    children: Vec<Arc<Cache>>,
    /// How it is followed.
    sync: SyncPolicy,
}

/// A request that failed, or that could not be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReachError {
    /// It failed.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// Its cluster is not connected.
    #[error("cluster `{0}` is not connected")]
    NotConnected(ClusterId),
}

impl ReachError {
    /// The class of the failure.
    pub(super) fn reason(&self) -> FailureReason {
        match self {
            Self::Api(error) => error.reason(),
            Self::NotConnected(_) => FailureReason::Unreachable,
        }
    }

    /// What is known of it, in its own words.
    pub(super) fn message(&self) -> &str {
        match self {
            Self::Api(error) => error.message(),
            Self::NotConnected(_) => "its cluster is not connected",
        }
    }
}

impl<'a> Reach<'a> {
    /// The local cluster alone.
    pub(super) fn local(context: &'a Context, served: &'a Served, permit: &'a Permit) -> Self {
        let (local, local_children) = (&context.client, &*served.children);
        Self { local, local_children, permit, remotes: BTreeMap::new(), kinds: BTreeMap::new() }
    }

    /// Waits for clusters; without our turn where one of them is remote, since that one may not answer.
    pub(super) async fn wait<'c, T>(
        &self,
        clusters: impl IntoIterator<Item = &'c ClusterId>,
        work: impl Future<Output = T>,
    ) -> T {
        if clusters.into_iter().all(ClusterId::is_local) { work.await } else { self.permit.away(work).await }
    }

    /// A remote cluster is connected by a reference.
    pub(super) fn join(&mut self, cluster: &ClusterId, reference: &ReferenceKey, client: ClusterClient) {
        let site = || Site { connections: Vec::new(), children: Vec::new(), sync: SyncPolicy::Watch };
        let site = self.remotes.entry(cluster.clone()).or_insert_with(site);
        site.connections.push((reference.clone(), client));
    }

    /// Objects of a kind in a cluster go by this reference.
    pub(super) fn route(&mut self, kind: KindKey, reference: &ReferenceKey) {
        self.kinds.insert(kind, reference.clone());
    }

    /// How a cluster is followed.
    pub(super) fn follow_by(&mut self, cluster: &ClusterId, sync: SyncPolicy) {
        if let Some(site) = self.remotes.get_mut(cluster) {
            site.sync = sync;
        }
    }

    /// How a cluster is followed.
    pub(super) fn sync(&self, cluster: &ClusterId) -> SyncPolicy {
        self.remotes.get(cluster).map_or(SyncPolicy::Watch, |site| site.sync)
    }

    /// Adds a copy to those of its cluster.
    pub(super) fn attach(&mut self, cluster: &ClusterId, watch: &Arc<Cache>) {
        if let Some(site) = self.remotes.get_mut(cluster) {
            site.children.push(Arc::clone(watch));
        }
    }

    /// The connection to a cluster.
    pub(super) fn client(&self, cluster: &ClusterId) -> Result<&ClusterClient, ReachError> {
        if cluster.is_local() {
            return Ok(self.local);
        }
        self.connection_by(cluster, None)
    }

    /// The connection to a cluster by a reference; by another one if that does not lead there now.
    pub(super) fn connection_by(
        &self,
        cluster: &ClusterId,
        reference: Option<&ReferenceKey>,
    ) -> Result<&ClusterClient, ReachError> {
        if cluster.is_local() {
            return Ok(self.local);
        }
        let connections = self.remotes.get(cluster).map_or(&[][..], |site| &site.connections);
        let by = connections.iter().find(|(by, _)| Some(by) == reference).or(connections.first());
        by.map(|(_, client)| client).ok_or_else(|| ReachError::NotConnected(cluster.clone()))
    }

    /// The connection to a cluster for objects of a kind, by the reference that they were made by.
    pub(super) fn connection_for(
        &self,
        cluster: &ClusterId,
        group: &Text,
        kind: &Text,
    ) -> Result<&ClusterClient, ReachError> {
        let route = self.kinds.get(&(cluster.clone(), group.clone(), kind.clone()));
        self.connection_by(cluster, route)
    }

    /// The connections for the kinds of an inventory of a cluster.
    pub(super) fn connections<'i>(
        &self,
        cluster: &ClusterId,
        inventory: &'i Inventory,
    ) -> Result<Vec<(&'i GroupKind, &ClusterClient)>, ReachError> {
        let of = |kind: &'i GroupKind| {
            let (group, name) = (kind.group.as_str().into(), kind.kind.as_str().into());
            Ok((kind, self.connection_for(cluster, &group, &name)?))
        };
        inventory.group_kinds.iter().map(of).collect()
    }

    /// Follows objects of a kind, in the way that their cluster is followed.
    pub(super) fn follow(
        &self,
        context: &Context,
        client: &ClusterClient,
        kind: &Arc<ApiKind>,
        selection: Selection,
    ) -> Cache {
        context.watches.cache_with(client, kind, selection, self.sync(client.cluster()))
    }

    /// The copies of the local cluster.
    pub(super) fn local_children(&self) -> &'a [Cache] {
        self.local_children
    }

    /// The copy of a kind in a cluster.
    pub(super) fn child(&self, cluster: &ClusterId, group: &str, kind: &str) -> Option<&Cache> {
        self.children(cluster).find(|watch| watch.key().group == *group && watch.key().kind == *kind)
    }

    /// Gives what was written to the copies of its cluster; each takes what is of its kind.
    pub(super) fn observe(&self, cluster: &ClusterId, written: &StoredObject) {
        self.children(cluster).for_each(|watch| watch.observe(written));
    }

    /// Takes what was found gone out of the copies of its cluster, where they would not be told for a while.
    pub(super) fn observe_gone(&self, cluster: &ClusterId, gone: &StoredObject) {
        self.children(cluster).for_each(|watch| watch.observe_deleted(gone));
    }

    fn children(&self, cluster: &ClusterId) -> impl Iterator<Item = &Cache> {
        let local = if cluster.is_local() { self.local_children } else { &[] };
        let remote = self.remotes.get(cluster).map_or(&[][..], |site| &site.children);
        local.iter().chain(remote.iter().map(|watch| &**watch))
    }
}
