//! Lists what clusters have of an instance: as proof that objects exist, or that no others do. Many clusters are listed at once,
//! so that the time does not grow with their number, and one that does not answer delays none of the others.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{self, StreamExt};
use kross_api::{ClusterId, ConnectionFailure, GroupKind, Inventory, Operation, labels};
use kross_cluster::{ApiError, ApiKind, ClusterClient, StoredObject};
use kross_plan::ResourceFailure;
use tokio::time::Instant;

use super::clients::ClientError;
use super::cluster_inventory::RemoteInventory;
use super::observation::Observation;
use super::pass::Pass;

/// How many lists of one instance run at once in one cluster.
const CONCURRENT_LISTS: usize = 8;

/// What a list has to prove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// That the objects in it exist.
    Presence,
    /// That no other objects exist: it is complete, of a version that the cluster serves now, and from the cluster that the
    /// inventory names. A kind that a complete discovery does not list has no objects.
    Absence,
}

impl Pass<'_> {
    /// Lists what the hub has of the instance.
    pub(super) async fn list_local(&self, proof: Proof) -> Result<Observation, ApiError> {
        let local = &self.inventory.local;
        let kinds = local.group_kinds.iter().map(|kind| (kind, &self.context.client)).collect();
        self.list_members(kinds, &self.applyset_id(), local, proof).await
    }

    /// Lists what remote clusters have of the instance, in any order.
    pub(super) async fn list_remotes<'r>(
        &self,
        remotes: impl IntoIterator<Item = &'r RemoteInventory>,
        proof: Proof,
    ) -> Vec<(&'r RemoteInventory, Result<Observation, ResourceFailure>)> {
        // Boxed one by one: the compiler cannot infer the lifetimes of a stream of borrowing futures.
        let lists = remotes.into_iter().map(|remote| {
            let list = async move { (remote, self.list_remote(remote, proof).await) };
            (&remote.cluster, list.boxed())
        });
        self.clients.request_all(lists.collect()).await
    }

    async fn list_remote(
        &self,
        remote: &RemoteInventory,
        proof: Proof,
    ) -> Result<Observation, ResourceFailure> {
        let RemoteInventory { cluster, name, contents, .. } = remote;
        if self.clients.client(cluster).is_err() {
            return Err(not_connected(&self.observation, remote));
        }
        self.list_remote_members(cluster, name, contents, proof).await
    }

    /// Lists what a connected remote cluster has of the instance, of the kinds and in the namespaces of an inventory. Only as
    /// one of [`InstanceClients::request_all`](super::clients::InstanceClients::request_all).
    pub(super) async fn list_remote_members(
        &self,
        cluster: &ClusterId,
        name: &str,
        contents: &Inventory,
        proof: Proof,
    ) -> Result<Observation, ResourceFailure> {
        if proof == Proof::Absence {
            self.verify_cluster(cluster, name).await?;
        }
        let kinds = self.clients.clients_for(cluster, contents).map_err(|error| unlisted(name, &error))?;
        let listed = self.list_members(kinds, &self.remote_applyset_id(), contents, proof).await;
        listed.map_err(|error| unlisted(name, &error.into()))
    }

    /// Makes sure that each reference to a cluster still leads to it.
    pub(super) async fn verify_cluster(
        &self,
        cluster: &ClusterId,
        name: &str,
    ) -> Result<(), ResourceFailure> {
        for reference in self.clients.references(cluster) {
            let Some(handle) = self.memory.cluster_handles.get(reference) else { continue };
            if let Err(failure) = handle.verify().await {
                return Err(unverified(name, &failure));
            }
        }
        Ok(())
    }

    /// Lists the members of an apply set in a cluster: the objects of each kind of an inventory, with the client of that
    /// kind. Instances that do so at the same time share the lists.
    pub(super) async fn list_members(
        &self,
        wanted: Vec<(&GroupKind, &ClusterClient)>,
        applyset: &str,
        inventory: &Inventory,
        proof: Proof,
    ) -> Result<Observation, ApiError> {
        let asked = Instant::now();
        let mut kinds: Vec<(Arc<ApiKind>, &ClusterClient)> = Vec::new();
        for (kind, client) in wanted {
            let known = client.discovery().cached(&kind.group, None, &kind.kind);
            let found = match known.filter(|_| proof == Proof::Presence) {
                Some(known) => Some(known),
                None => client.served_kind(&kind.group, &kind.kind, asked).await?,
            };
            // A kind that is not served has no objects: they were deleted with its CRD.
            kinds.extend(found.map(|kind| (kind, client)));
        }
        let home = self.instance.namespace().map(|namespace| &**namespace);
        let namespaces: BTreeSet<&str> =
            inventory.namespaces.iter().map(String::as_str).chain(home).collect();
        let mut places: Vec<(&ClusterClient, &Arc<ApiKind>, Option<&str>)> = Vec::new();
        for (kind, client) in &kinds {
            if kind.namespaced {
                places.extend(namespaces.iter().map(|namespace| (*client, kind, Some(*namespace))));
            } else {
                places.push((client, kind, None));
            }
        }
        let lists: Vec<BoxFuture<'_, _>> = places
            .iter()
            .map(|(client, kind, namespace)| {
                let listed = client.list_shared(kind, *namespace, labels::APPLYSET_PART_OF, applyset);
                async move { (client.cluster(), listed.await) }.boxed()
            })
            .collect();
        let listed: Vec<_> = stream::iter(lists).buffer_unordered(CONCURRENT_LISTS).collect().await;
        let mut observation = Observation::default();
        for (cluster, objects) in listed {
            for object in empty_if_not_served(objects)? {
                observation.add(object.key(cluster), object, self.memory);
            }
        }
        Ok(observation)
    }
}

/// Why a cluster is not connected.
fn not_connected(observation: &Observation, remote: &RemoteInventory) -> ResourceFailure {
    let states = remote.references.iter().filter_map(|(key, _)| observation.observed.clusters.get(key));
    match states.filter_map(|state| state.connection.failure()).next() {
        Some(failure) => ResourceFailure::not_connected(&remote.name, failure),
        None => ResourceFailure::connecting(&remote.name),
    }
}

/// The failure to list what a connected cluster has.
fn unlisted(name: &str, error: &ClientError) -> ResourceFailure {
    ResourceFailure {
        operation: Some(Operation::Get),
        reason: error.reason(),
        message: format!("cannot list the objects of the instance in cluster `{name}`: {}", error.message())
            .into(),
        error: error.message().into(),
        since: None,
        connection: None,
    }
}

/// The failure to verify that a cluster is the one that has the objects.
fn unverified(name: &str, failure: &ConnectionFailure) -> ResourceFailure {
    let advice = failure.advice.to_string();
    let advice = if advice.is_empty() { advice } else { format!("; {advice}") };
    let message =
        format!("cannot verify that cluster `{name}` is the one with the objects: {}{advice}", failure.cause);
    ResourceFailure {
        operation: Some(Operation::Get),
        reason: failure.reason,
        message: message.into(),
        error: failure.cause.clone(),
        since: None,
        connection: None,
    }
}

/// The objects of a list; none if the kind stopped being served meanwhile, as its objects were deleted with it.
fn empty_if_not_served(
    objects: Result<Vec<Arc<StoredObject>>, ApiError>,
) -> Result<Vec<Arc<StoredObject>>, ApiError> {
    match objects {
        Err(error) if error.is_kind_not_served() => Ok(Vec::new()),
        objects => objects,
    }
}
