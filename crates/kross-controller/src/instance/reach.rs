//! Turns the cluster of an object into the connection that its requests take and the copies that know it. The local cluster
//! is one among others.

use std::collections::BTreeMap;
use std::sync::Arc;

use kross_api::{ClusterId, FailureReason};
use kross_cluster::{ApiError, ApiKind, Connection, Selection, StoredObject, Sync, Watch};

use crate::graphs::Served;
use crate::hub::Hub;
use crate::turns::Turn;

/// The clusters that a pass can reach.
pub(super) struct Reach<'a> {
    local: &'a Connection,
    local_children: &'a [Watch],
    turn: &'a Turn,
    remotes: BTreeMap<ClusterId, Site>,
}

/// A remote cluster that is connected.
#[derive(Debug)]
struct Site {
    connection: Connection,
    /// The objects of instances there, one watch for each kind.
    children: Vec<Arc<Watch>>,
    /// How it is followed.
    sync: Sync,
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
    pub(super) fn local(hub: &'a Hub, served: &'a Served, turn: &'a Turn) -> Self {
        let (local, local_children) = (&hub.connection, &*served.children);
        Self { local, local_children, turn, remotes: BTreeMap::new() }
    }

    /// Waits for clusters; without our turn where one of them is remote, since that one may not answer.
    pub(super) async fn wait<'c, T>(
        &self,
        clusters: impl IntoIterator<Item = &'c ClusterId>,
        work: impl Future<Output = T>,
    ) -> T {
        if clusters.into_iter().all(ClusterId::is_local) { work.await } else { self.turn.away(work).await }
    }

    /// A remote cluster is connected. Of several ways to one cluster the first is taken.
    pub(super) fn join(&mut self, cluster: &ClusterId, connection: Connection) {
        let site = || Site { connection, children: Vec::new(), sync: Sync::Watch };
        self.remotes.entry(cluster.clone()).or_insert_with(site);
    }

    /// How a cluster is followed.
    pub(super) fn follow_by(&mut self, cluster: &ClusterId, sync: Sync) {
        if let Some(site) = self.remotes.get_mut(cluster) {
            site.sync = sync;
        }
    }

    /// How a cluster is followed.
    pub(super) fn sync(&self, cluster: &ClusterId) -> Sync {
        self.remotes.get(cluster).map_or(Sync::Watch, |site| site.sync)
    }

    /// Adds a copy to those of its cluster.
    pub(super) fn attach(&mut self, cluster: &ClusterId, watch: &Arc<Watch>) {
        if let Some(site) = self.remotes.get_mut(cluster) {
            site.children.push(Arc::clone(watch));
        }
    }

    /// The connection to a cluster.
    pub(super) fn connection(&self, cluster: &ClusterId) -> Result<&Connection, ReachError> {
        if cluster.is_local() {
            return Ok(self.local);
        }
        let site = self.remotes.get(cluster);
        site.map(|site| &site.connection).ok_or_else(|| ReachError::NotConnected(cluster.clone()))
    }

    /// Follows objects of a kind, in the way that their cluster is followed.
    pub(super) fn follow(
        &self,
        hub: &Hub,
        connection: &Connection,
        kind: &Arc<ApiKind>,
        selection: Selection,
    ) -> Watch {
        hub.watches.follow(connection, kind, selection, self.sync(connection.cluster()))
    }

    /// The copies of the local cluster.
    pub(super) fn local_children(&self) -> &'a [Watch] {
        self.local_children
    }

    /// The copy of a kind in a cluster.
    pub(super) fn child(&self, cluster: &ClusterId, group: &str, kind: &str) -> Option<&Watch> {
        self.children(cluster).find(|watch| watch.key().group == *group && watch.key().kind == *kind)
    }

    /// Gives what was written to the copies of its cluster; each takes what is of its kind.
    pub(super) fn observe(&self, cluster: &ClusterId, written: &StoredObject) {
        self.children(cluster).for_each(|watch| watch.observe(written));
    }

    fn children(&self, cluster: &ClusterId) -> impl Iterator<Item = &Watch> {
        let local = if cluster.is_local() { self.local_children } else { &[] };
        let remote = self.remotes.get(cluster).map_or(&[][..], |site| &site.children);
        local.iter().chain(remote.iter().map(|watch| &**watch))
    }
}
