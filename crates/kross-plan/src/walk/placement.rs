//! Resolves the cluster of a node's objects, and whether it can be used.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kross_api::{
    Authority, ClusterId, ConnectStep, ConnectionFailure, LifecyclePhase, ObjectKey, ResolveError,
    ResolvedCluster, ResolvedCredentials,
};
use kross_graph::{Node, Placement, RemotePlacement, Scope};

use super::{Walk, not_rendered};
use crate::access_paths::AccessPath;
use crate::lifecycle::is_hook;
use crate::observed::{ObservedCluster, ReferenceKey};
use crate::plan::{PlannedObject, UsedCluster};
use crate::progress::{Progress, ResourceFailure};

/// The cluster of an object.
#[derive(Clone, Debug)]
pub(super) struct ResolvedPlacement {
    pub(super) cluster: ClusterId,
    /// Its access path; none for the local cluster.
    pub(super) access_path: Option<AccessPath>,
    /// Why it cannot be used, if so.
    pub(super) unavailable: Option<Progress>,
    /// Why it serves deletions only, if so.
    deletions_only: Option<Progress>,
    /// Whether nothing that is known of the cluster may be read by this reference: its credentials are used by the authority of
    /// their owner, who does not allow it, or it is not known yet whether that is so. Other references may lead to the cluster.
    pub(super) withheld: bool,
}

impl ResolvedPlacement {
    fn of(used: &UsedCluster) -> Self {
        let access_path = AccessPath { reference: Arc::clone(&used.reference), key: used.key.clone() };
        Self {
            cluster: used.id.clone(),
            access_path: Some(access_path),
            unavailable: used.unavailable(),
            deletions_only: used.deletions_only(),
            withheld: used.is_withheld(),
        }
    }

    /// Its name in messages; none for the local cluster.
    pub(super) fn display(&self) -> Option<&str> {
        self.access_path.as_ref().map(|access_path| access_path.reference.display.as_str())
    }

    /// The cluster as a part of a sentence: ``cluster `eu` ``.
    pub(super) fn in_words(&self) -> String {
        self.display().map_or_else(|| "the local cluster".to_owned(), |name| format!("cluster `{name}`"))
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
    /// Resolves the cluster of a node, or of one item of it.
    pub(super) fn place(&mut self, node: &Node, scope: &Scope<'_>) -> Result<ResolvedPlacement, Progress> {
        let Placement::Remote(remote) = &node.placement else {
            return Ok(ResolvedPlacement {
                cluster: ClusterId::local(),
                access_path: None,
                unavailable: None,
                deletions_only: None,
                withheld: false,
            });
        };
        let resolved = self.resolve(remote, scope).map_err(|error| match error {
            ResolveError::Expression(error) => not_rendered(&error),
            other => Progress::Failed(ResourceFailure::expression(other.to_string())),
        })?;
        let mut placement = self.used(resolved)?;
        // Deletion hooks are a part of the deletion.
        if self.input.phase == LifecyclePhase::Active && !is_hook(node) {
            placement.unavailable = placement.unavailable.or_else(|| placement.deletions_only.clone());
        }
        Ok(placement)
    }

    fn resolve(
        &self,
        remote: &RemotePlacement,
        scope: &Scope<'_>,
    ) -> Result<ResolvedCluster, ResolveError<kross_graph::RenderError>> {
        remote.resolve(self.input.instance.namespace(), scope)
    }

    /// The cluster of a node, if it can be resolved before the node is visited.
    pub(super) fn preview(&mut self, node: &Node, scope: &Scope<'_>) -> Option<ClusterId> {
        let Placement::Remote(remote) = &node.placement else {
            return None;
        };
        let resolved = self.resolve(remote, scope).ok()?;
        let placement = self.used(resolved).ok()?;
        self.access_paths.add_node(&node.id, placement.access_path);
        Some(placement.cluster)
    }

    fn used(&mut self, resolved: ResolvedCluster) -> Result<ResolvedPlacement, Progress> {
        let (resolved, selector) = self.input.observed.chosen(resolved);
        let key = ReferenceKey::of(&resolved);
        if let Some(selector) = selector {
            self.choices.insert(selector, key.clone());
        }
        let same_key = self.clusters_by_key.get(&key).into_iter().flatten();
        let mut same_key = same_key.filter_map(|at| self.clusters.get(*at));
        if let Some(known) = same_key.find(|known| *known.reference == resolved) {
            return Ok(ResolvedPlacement::of(known));
        }
        self.check_clusters(&resolved, &key)?;
        let state = self.input.observed.cluster(&key, resolved.authority).cloned();
        let id = state.as_ref().map_or_else(|| ClusterId::new(key.as_str()), |state| state.id.clone());
        let used =
            UsedCluster { reference: Arc::new(resolved), key, id, state, needed: false, former: false };
        let placement = ResolvedPlacement::of(&used);
        self.clusters_by_key.entry(used.key.clone()).or_default().push(self.clusters.len());
        self.add_cluster(used);
        Ok(placement)
    }

    fn add_cluster(&mut self, used: UsedCluster) {
        self.clusters_by_id.entry(used.id.clone()).or_default().push(self.clusters.len());
        self.clusters.push(used);
    }

    /// The references that resolve to a cluster, in the order of their first use.
    fn references_to(&self, cluster: &ClusterId) -> impl Iterator<Item = &UsedCluster> {
        let indexes = self.clusters_by_id.get(cluster).into_iter().flatten();
        indexes.filter_map(|at| self.clusters.get(*at))
    }

    /// Adds the clusters that no node uses any more, but that have objects of the instance, or may have.
    pub(super) fn add_former_clusters(&mut self) {
        let mut known: HashSet<ClusterId> = self.clusters.iter().map(|used| used.id.clone()).collect();
        for recorded in &self.input.observed.recorded {
            let is_known = self.clusters_by_key.contains_key(&recorded.key) || known.contains(&recorded.id);
            if !recorded.holds_objects || is_known {
                continue;
            }
            known.insert(recorded.id.clone());
            let state = self.input.observed.clusters.get(&recorded.key).cloned();
            let mut reference = recorded.key.resolved().unwrap_or_else(|| unknown(&recorded.id));
            reference.display = recorded.display.to_string();
            self.add_cluster(UsedCluster {
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
        ids.retain(|id| known.insert(id.clone()));
        let mut first: HashMap<&ClusterId, (&ReferenceKey, &ObservedCluster)> = HashMap::new();
        for (key, state) in self.input.observed.clusters.iter().filter(|_| !ids.is_empty()) {
            let known = first.entry(&state.id).or_insert((key, state));
            if key < known.0 {
                *known = (key, state);
            }
        }
        for id in ids {
            let found = first.get(&id).and_then(|(key, state)| Some((key.resolved()?, (*state).clone())));
            let (reference, state) = match found {
                Some((reference, state)) => (reference, Some(state)),
                None => (unknown(&id), None),
            };
            let key = ReferenceKey::of(&reference);
            let reference = Arc::new(reference);
            self.add_cluster(UsedCluster { reference, key, id, state, needed: false, former: true });
        }
    }

    /// Marks the clusters of a node that is not skipped as needed.
    pub(super) fn mark_needed(&mut self, cluster: Option<&ClusterId>, objects: &[PlannedObject]) {
        let in_use: HashSet<&ClusterId> =
            objects.iter().map(|object| &object.key.cluster).chain(cluster).collect();
        for used in self.clusters.iter_mut().filter(|used| !used.needed) {
            used.needed = in_use.contains(&used.id);
        }
    }

    /// The name of a cluster in messages; none for the local one.
    pub(crate) fn display(&self, cluster: &ClusterId) -> Option<&str> {
        Some(&self.references_to(cluster).next()?.reference.display)
    }

    /// The name of an object's cluster, by the reference that is used for it.
    pub(crate) fn display_of(&self, key: &ObjectKey) -> Option<&str> {
        match self.access_paths.to(key) {
            Some(access_path) => Some(&access_path.reference.display),
            None => self.display(&key.cluster),
        }
    }

    /// A cluster by one of its references, or by any.
    pub(crate) fn used_by(
        &self,
        access_path: Option<&AccessPath>,
        cluster: &ClusterId,
    ) -> Option<&UsedCluster> {
        let by_path = access_path.and_then(|access_path| {
            let indexes = self.clusters_by_key.get(&access_path.key)?.iter();
            let mut same_key = indexes.filter_map(|at| self.clusters.get(*at));
            same_key.find(|used| used.reference == access_path.reference)
        });
        by_path.or_else(|| self.references_to(cluster).next())
    }

    /// Why a cluster cannot be used, if none of its references is connected.
    pub(crate) fn unavailable(&self, cluster: &ClusterId) -> Option<ResourceFailure> {
        let unavailable: Option<Vec<Progress>> =
            self.references_to(cluster).map(UsedCluster::unavailable).collect();
        unavailable?.first().and_then(Progress::failure).cloned()
    }
}

/// A cluster of which only the id is known.
fn unknown(id: &ClusterId) -> ResolvedCluster {
    let credentials = ResolvedCredentials::Target { namespace: String::new(), name: id.to_string() };
    ResolvedCluster { display: id.to_string(), credentials, authority: Authority::ByOwner, poll: None }
}

impl UsedCluster {
    /// Why the cluster cannot be used: in progress before the first success there, an error after it.
    pub(crate) fn unavailable(&self) -> Option<Progress> {
        let display = &self.reference.display;
        let Some(state) = &self.state else {
            return Some(Progress::NotConnected(ResourceFailure::connecting(display)));
        };
        let failure = state.connection.failure()?;
        let reported = ResourceFailure::not_connected(display, failure);
        // Another cluster answers than the one with the instance's objects: only the owner can resolve that.
        let stopped = failure.step == ConnectStep::Identify;
        Some(if state.succeeded || stopped {
            Progress::Failed(reported)
        } else {
            Progress::NotConnected(reported)
        })
    }

    /// Why the cluster serves deletions only, if so.
    pub(crate) fn deletions_only(&self) -> Option<Progress> {
        let failure = self.state.as_ref()?.deletions_only.as_ref()?;
        let reported = ResourceFailure::not_connected(&self.reference.display, failure);
        let message = format!("cluster `{}`: {}", self.reference.display, failure.cause).into();
        Some(Progress::Failed(ResourceFailure { message, ..reported }))
    }

    /// Whether the owner of the credentials has to allow their use, and does not, as far as is known.
    fn is_withheld(&self) -> bool {
        let failure = self.state.as_ref().map(|state| state.connection.failure());
        let is_refused = match failure {
            None => true,
            Some(failure) => failure
                .is_some_and(|failure| matches!(failure.step, ConnectStep::Secret | ConnectStep::Target)),
        };
        self.reference.authority == Authority::ByOwner && is_refused
    }

    /// Why the cluster cannot be used, or serves deletions only.
    pub(crate) fn failure(&self) -> Option<&ConnectionFailure> {
        let state = self.state.as_ref()?;
        state.connection.failure().or(state.deletions_only.as_ref())
    }
}
