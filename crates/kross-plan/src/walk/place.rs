//! In which cluster a node's objects are, and whether that cluster answers.

use std::sync::Arc;

use kross_api::{ClusterId, ConnectStep, ObjectKey, ResolveError, ResolvedCluster, ResolvedCredentials};
use kross_graph::{Node, Placement, RemotePlacement, Scope};

use super::{Walk, not_rendered};
use crate::access_paths::AccessPath;
use crate::observed::ReferenceKey;
use crate::plan::{PlannedObject, UsedCluster};
use crate::progress::{Progress, ResourceFailure};

/// Where an object is.
#[derive(Clone, Debug)]
pub(super) struct Site {
    pub(super) cluster: ClusterId,
    /// How it is reached; none for the local cluster.
    pub(super) access_path: Option<AccessPath>,
    /// Why nothing can be done there, if so.
    pub(super) closed: Option<Progress>,
}

impl Site {
    fn of(used: &UsedCluster) -> Self {
        let access_path = AccessPath { reference: Arc::clone(&used.reference), key: used.key.clone() };
        Self { cluster: used.id.clone(), access_path: Some(access_path), closed: used.closed() }
    }

    /// The name that people know it by; none for the local cluster.
    pub(super) fn display(&self) -> Option<&str> {
        self.access_path.as_ref().map(|access_path| access_path.reference.display.as_str())
    }

    /// `Deployment shop/web in cluster eu`.
    pub(super) fn describe(&self, key: &ObjectKey) -> String {
        describe(key, self.display())
    }
}

/// `Deployment shop/web in cluster eu`.
pub(crate) fn describe(key: &ObjectKey, cluster: Option<&str>) -> String {
    let object = format!("{} {}", key.kind, key.namespaced_name());
    match cluster {
        Some(cluster) => format!("{object} in cluster `{cluster}`"),
        None => object,
    }
}

impl<'a> Walk<'a> {
    /// The cluster of a node, or of one item of it.
    pub(super) fn site(&mut self, node: &Node, scope: &Scope<'_>) -> Result<Site, Progress> {
        let Placement::Remote(remote) = &node.placement else {
            return Ok(Site { cluster: ClusterId::local(), access_path: None, closed: None });
        };
        let resolved = self.resolve(remote, scope).map_err(|error| match error {
            ResolveError::Expression(error) => not_rendered(&error),
            other => Progress::Failed(ResourceFailure::expression(other.to_string())),
        })?;
        Ok(self.used(resolved))
    }

    fn resolve(
        &self,
        remote: &RemotePlacement,
        scope: &Scope<'_>,
    ) -> Result<ResolvedCluster, ResolveError<kross_graph::RenderError>> {
        remote.resolve(self.input.instance.namespace(), scope)
    }

    /// Where a node is, or would be, if that can be told before its turn.
    pub(super) fn preview(&mut self, node: &Node, scope: &Scope<'_>) -> Option<ClusterId> {
        let Placement::Remote(remote) = &node.placement else {
            return None;
        };
        let resolved = self.resolve(remote, scope).ok()?;
        let site = self.used(resolved);
        self.access_paths.add_node(&node.id, site.access_path);
        Some(site.cluster)
    }

    fn used(&mut self, resolved: ResolvedCluster) -> Site {
        if let Some(known) = self.clusters.iter().find(|known| *known.reference == resolved) {
            return Site::of(known);
        }
        let key = ReferenceKey::of(&resolved);
        let state = self.input.observed.clusters.get(&key).cloned();
        let id = state.as_ref().map_or_else(|| ClusterId::new(key.as_str()), |state| state.id.clone());
        let used =
            UsedCluster { reference: Arc::new(resolved), key, id, state, needed: false, former: false };
        let site = Site::of(&used);
        self.clusters.push(used);
        site
    }

    /// Clusters that no node uses any more, but that still hold objects of the instance, or may.
    pub(super) fn add_former_clusters(&mut self) {
        for recorded in &self.input.observed.recorded {
            let known = |used: &UsedCluster| used.key == recorded.key || used.id == recorded.id;
            if !recorded.holds_objects || self.clusters.iter().any(known) {
                continue;
            }
            let state = self.input.observed.clusters.get(&recorded.key).cloned();
            let mut reference = recorded.key.resolved().unwrap_or_else(|| unknown(&recorded.id));
            reference.display = recorded.display.to_string();
            self.clusters.push(UsedCluster {
                reference: Arc::new(reference),
                key: recorded.key.clone(),
                id: recorded.id.clone(),
                state,
                needed: false,
                former: true,
            });
        }
        let keys = self.own_objects().map(|(key, _)| key.cluster.clone());
        let mut ids: Vec<ClusterId> = keys.filter(|id| !id.is_local()).collect();
        ids.sort();
        ids.dedup();
        for id in ids {
            if self.clusters.iter().any(|used| used.id == id) {
                continue;
            }
            let mut known: Vec<_> =
                self.input.observed.clusters.iter().filter(|(_, state)| state.id == id).collect();
            known.sort_by_key(|(key, _)| *key);
            let found = known.first().and_then(|(key, state)| Some((key.resolved()?, (*state).clone())));
            let (reference, state) = match found {
                Some((reference, state)) => (reference, Some(state)),
                None => (unknown(&id), None),
            };
            let key = ReferenceKey::of(&reference);
            let reference = Arc::new(reference);
            self.clusters.push(UsedCluster { reference, key, id, state, needed: false, former: true });
        }
    }

    /// Remembers that nodes that are not skipped use these clusters.
    pub(super) fn mark_needed(&mut self, cluster: Option<&ClusterId>, objects: &[PlannedObject]) {
        for used in self.clusters.iter_mut().filter(|used| !used.needed) {
            let mut in_use = objects.iter().map(|object| &object.key.cluster).chain(cluster);
            used.needed = in_use.any(|id| *id == used.id);
        }
    }

    /// The name that people know a cluster by; none for the local one.
    pub(crate) fn display(&self, cluster: &ClusterId) -> Option<&str> {
        let used = self.clusters.iter().find(|used| used.id == *cluster)?;
        Some(&used.reference.display)
    }

    /// The same, for the way by which an object is reached.
    pub(crate) fn display_of(&self, key: &ObjectKey) -> Option<&str> {
        match self.access_paths.to(key) {
            Some(access_path) => Some(&access_path.reference.display),
            None => self.display(&key.cluster),
        }
    }

    /// A cluster by one of the ways into it, or by any.
    pub(crate) fn used_by(
        &self,
        access_path: Option<&AccessPath>,
        cluster: &ClusterId,
    ) -> Option<&UsedCluster> {
        let by_way = access_path.and_then(|access_path| {
            self.clusters.iter().find(|used| used.reference == access_path.reference)
        });
        by_way.or_else(|| self.clusters.iter().find(|used| used.id == *cluster))
    }

    /// Why nothing can be done in a cluster, if no way leads there.
    pub(crate) fn closed(&self, cluster: &ClusterId) -> Option<ResourceFailure> {
        let access_paths = self.clusters.iter().filter(|used| used.id == *cluster);
        let closed: Option<Vec<Progress>> = access_paths.map(UsedCluster::closed).collect();
        closed?.first().and_then(Progress::failure).cloned()
    }
}

/// A cluster of which only the id is left.
fn unknown(id: &ClusterId) -> ResolvedCluster {
    let credentials = ResolvedCredentials::Target { namespace: String::new(), name: id.to_string() };
    ResolvedCluster { display: id.to_string(), credentials, poll: None }
}

impl UsedCluster {
    /// What keeps us from doing anything there: in progress before the first success there, an error after it.
    pub(crate) fn closed(&self) -> Option<Progress> {
        let display = &self.reference.display;
        let Some(state) = &self.state else {
            return Some(Progress::Unconnected(ResourceFailure::connecting(display)));
        };
        let failure = state.connection.failure()?;
        let reported = ResourceFailure::not_connected(display, failure);
        // Another cluster answers than the one with the instance's objects: that never passes by itself.
        let stopped = failure.step == ConnectStep::Identify;
        Some(if state.succeeded || stopped {
            Progress::Failed(reported)
        } else {
            Progress::Unconnected(reported)
        })
    }
}
