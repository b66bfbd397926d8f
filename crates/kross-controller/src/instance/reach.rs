//! Turns the cluster of an object into the connection that its requests take and the copies that know it. The local cluster
//! is one among others.

use std::collections::BTreeMap;
use std::sync::Arc;

use kross_api::{ClusterId, FailureReason};
use kross_cluster::{ApiError, Connection, StoredObject, Watch};

use crate::graphs::Served;
use crate::hub::Hub;

/// The clusters that a pass can reach.
pub(super) struct Reach<'a> {
    local: &'a Connection,
    local_children: &'a [Watch],
    remotes: BTreeMap<ClusterId, Site>,
}

/// A cluster that is connected.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) connection: Connection,
    /// The objects of instances there, one watch for each kind.
    pub(super) children: Vec<Arc<Watch>>,
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
    pub(super) fn local(hub: &'a Hub, served: &'a Served) -> Self {
        Self { local: &hub.connection, local_children: &served.children, remotes: BTreeMap::new() }
    }

    /// The connection to a cluster.
    pub(super) fn connection(&self, cluster: &ClusterId) -> Result<&Connection, ReachError> {
        if cluster.is_local() {
            return Ok(self.local);
        }
        let site = self.remotes.get(cluster);
        site.map(|site| &site.connection).ok_or_else(|| ReachError::NotConnected(cluster.clone()))
    }

    /// Every copy of objects of instances.
    pub(super) fn children(&self) -> impl Iterator<Item = &Watch> {
        let remote = self.remotes.values().flat_map(|site| &site.children);
        self.local_children.iter().chain(remote.map(|watch| &**watch))
    }

    /// The copy of a kind in a cluster.
    pub(super) fn child(&self, cluster: &ClusterId, group: &str, kind: &str) -> Option<&Watch> {
        self.children().find(|watch| {
            let key = watch.key();
            key.cluster == *cluster && key.group == *group && key.kind == *kind
        })
    }

    /// Gives what was written to the copies of its cluster; each takes what is of its kind.
    pub(super) fn observe(&self, cluster: &ClusterId, written: &StoredObject) {
        let there = self.children().filter(|watch| watch.key().cluster == *cluster);
        there.for_each(|watch| watch.observe(written));
    }
}
