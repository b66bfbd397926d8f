//! Inventory scan: everything that an instance owns, wherever it is. Clusters that are connected are listed. Of the others
//! the last known objects are used, so that the order of deletion is kept and the status can name what the deletion waits
//! for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{self, StreamExt};
use jiff::Timestamp;
use kross_api::{
    ClusterId, ClusterInventory, ConnectionFailure, GroupKind, Inventory, ManagedResource, Operation,
    ResourceState, SyncMode, annotations, labels,
};
use kross_cluster::{ApiError, ApiKind, ClusterClient, ObjectKey, StoredObject};
use kross_graph::{Graph, Node, Placement};
use kross_plan::{
    DeletionPlan, EvaluatedLifecycle, Instance, InventoryCluster, ObservedObject, OwnedObject,
    PendingDeletion, ReferenceKey, ResourceFailure, UsedCluster, Wait,
};
use kross_value::{Object, Text, Value};
use tokio::time::Instant;

use super::child_caches::inventory_kinds;
use super::clients::ClientError;
use super::cluster_inventory;
use super::error::InstanceError;
use super::memory::Memory;
use super::observation::Observation;
use super::pass::Pass;

/// How many lists of one instance run at once.
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

/// What an instance owns, beside the objects in the observation of its pass.
#[derive(Default)]
pub(super) struct InventoryScan {
    /// Why nothing can be deleted in a cluster.
    blocked: BTreeMap<ClusterId, ResourceFailure>,
    /// Objects in such clusters of which only the kind is known.
    unnamed: Vec<OwnedObject>,
    /// Whether the observation has objects that only the status tells of: their deletion policies are not known from them.
    pub(super) from_status: bool,
    /// The remote clusters.
    pub(super) clusters: Vec<UsedCluster>,
    /// UIDs of objects that are left where they are, as their lifecycle says.
    pub(super) orphaned: BTreeSet<Text>,
}

/// A remote cluster, the name that messages call it by, and what the inventory has there.
struct RemoteInventory {
    cluster: ClusterId,
    name: Text,
    contents: Inventory,
}

impl InventoryScan {
    /// Whether nothing can be deleted in a cluster. What is observed of it is what was last known.
    pub(super) fn is_blocked(&self, cluster: &ClusterId) -> bool {
        self.blocked.contains_key(cluster)
    }

    /// Everything that is to be deleted.
    pub(super) fn objects(&self, observation: &Observation, memory: &Memory) -> Vec<OwnedObject> {
        let observed = observation.observed.objects.iter().map(|(key, object)| {
            let mut owned =
                OwnedObject::new(key.clone(), object).with_credentials_for(&observation.observed.recorded);
            owned.unavailable = self.blocked.get(&key.cluster).cloned();
            owned.failure = memory.failures.get(key).cloned();
            owned
        });
        let mut objects: Vec<OwnedObject> = observed.chain(self.unnamed.iter().cloned()).collect();
        objects.sort_by(|a, b| a.key.cmp(&b.key));
        objects
    }
}

impl Pass<'_> {
    /// Finds everything that the instance owns.
    ///
    /// # Errors
    /// The hub refuses or does not answer. A remote cluster that does so blocks the deletion there alone.
    pub(super) async fn scan_inventory(
        &mut self,
        graph: Option<&Graph>,
    ) -> Result<InventoryScan, InstanceError> {
        self.observation = self.list_local(Proof::Presence).await?;
        self.resolve_inventory_clusters();
        let mut remaining = self.inventory.remote.clone();
        cluster_inventory::record_uids(&mut remaining, &self.observation);
        for (reference, uid) in &self.observation.abandoned {
            remaining.retain(|cluster| cluster.reference != *reference || cluster.uid != *uid);
        }
        let mut scan = InventoryScan::default();
        for (cluster, (name, contents)) in cluster_inventory::contents_by_cluster(&remaining) {
            scan.clusters.extend(used_cluster(&self.observation, &remaining, &cluster));
            let remote = RemoteInventory { cluster, name, contents };
            match self.list_remote(&remote, &remaining, Proof::Presence).await {
                Ok(found) => {
                    self.watch_deletions(&remote, graph).await;
                    self.observation.extend(found);
                }
                Err(failure) => {
                    scan.blocked.insert(remote.cluster.clone(), failure);
                    self.recall_objects(&remote, graph, &mut scan);
                }
            }
        }
        Ok(scan)
    }

    /// Lists once more what the instance owns, as proof that nothing else exists. What is found is observed. A cluster that
    /// proves nothing is blocked; one that was blocked before is not listed, since its objects are known to be left there.
    ///
    /// # Errors
    /// As [`Pass::scan_inventory`].
    pub(super) async fn prove_absence(
        &mut self,
        graph: Option<&Graph>,
        scan: &mut InventoryScan,
    ) -> Result<(), InstanceError> {
        let found = self.list_local(Proof::Absence).await?;
        self.observation.extend(found.without(&scan.orphaned));
        let remaining = self.inventory.remote.clone();
        for (cluster, (name, contents)) in cluster_inventory::contents_by_cluster(&remaining) {
            let remote = RemoteInventory { cluster, name, contents };
            self.prove_absence_in(&remote, &remaining, graph, scan).await;
        }
        Ok(())
    }

    /// Proves that a remote cluster has nothing else. Returns whether it has nothing at all.
    async fn prove_absence_in(
        &mut self,
        remote: &RemoteInventory,
        remaining: &ClusterInventory,
        graph: Option<&Graph>,
        scan: &mut InventoryScan,
    ) -> bool {
        if scan.is_blocked(&remote.cluster) {
            return false;
        }
        match self.list_remote(remote, remaining, Proof::Absence).await {
            Ok(found) => {
                let found = found.without(&scan.orphaned);
                let is_empty = found.stored.is_empty();
                self.observation.extend(found);
                is_empty
            }
            Err(failure) => {
                scan.blocked.insert(remote.cluster.clone(), failure);
                self.recall_objects(remote, graph, scan);
                false
            }
        }
    }

    /// Removes the clusters from the inventory whose kubeconfigs are in Secrets that a plan deletes, or that wait for their
    /// finalizers: a protected Secret exists as long as an inventory names it. The clusters have to prove before that they have
    /// nothing else, unless their objects are orphaned. Returns false if one of them has objects, or does not prove that it
    /// has none.
    ///
    /// # Errors
    /// The inventory cannot be written.
    pub(super) async fn release_clusters(
        &mut self,
        plan: &DeletionPlan,
        graph: Option<&Graph>,
        scan: &mut InventoryScan,
    ) -> Result<bool, InstanceError> {
        let terminating = plan.waiting.iter().filter(|(_, wait)| matches!(wait, Wait::Deletion(_)));
        let deleted = plan.delete.iter().chain(terminating.map(|(pending, _)| pending));
        let deleted: Vec<&ObjectKey> = deleted.map(|pending| &pending.key).collect();
        let recorded = self.observation.observed.recorded.iter();
        let is_closing = |recorded: &&InventoryCluster| deleted.iter().any(|key| recorded.is_opened_by(key));
        let closing: Vec<InventoryCluster> = recorded.filter(is_closing).cloned().collect();
        if closing.is_empty() {
            return Ok(true);
        }
        let remaining = self.inventory.remote.clone();
        let contents = cluster_inventory::contents_by_cluster(&remaining);
        for InventoryCluster { id, holds_objects, .. } in &closing {
            let remote = contents.get(id).filter(|_| *holds_objects && !scan.is_blocked(id)).cloned();
            if let Some((name, contents)) = remote {
                let remote = RemoteInventory { cluster: id.clone(), name, contents };
                if !self.prove_absence_in(&remote, &remaining, graph, scan).await {
                    return Ok(false);
                }
            }
        }
        let is_in = |cluster: &ClusterId, pending: &PendingDeletion| pending.key.cluster == *cluster;
        let mut orphaned: Vec<PendingDeletion> = Vec::new();
        for InventoryCluster { key, id, holds_objects, .. } in &closing {
            if *holds_objects && scan.is_blocked(id) {
                if plan.waiting.iter().any(|(pending, _)| is_in(id, pending)) {
                    continue;
                }
                // All of its objects are orphaned, as their lifecycle says.
                orphaned.extend(plan.orphaned.iter().filter(|pending| is_in(id, pending)).cloned());
            }
            let is_closed = |reference: &str, uid: &str| reference == key.as_str() && uid == id.as_str();
            self.inventory.remote.retain(|cluster| !is_closed(&cluster.reference, &cluster.uid));
            self.observation
                .observed
                .recorded
                .retain(|cluster| !is_closed(cluster.key.as_str(), cluster.id.as_str()));
        }
        self.write_inventory().await?;
        // No later pass knows of them.
        self.report_orphaned(&orphaned, &scan.clusters);
        Ok(true)
    }

    /// Lists what the hub has of the instance.
    async fn list_local(&self, proof: Proof) -> Result<Observation, ApiError> {
        let local = &self.inventory.local;
        let kinds = local.group_kinds.iter().map(|kind| (kind, &self.context.client)).collect();
        self.list_members(kinds, &self.applyset_id(), local, proof).await
    }

    /// Lists what a remote cluster has of the instance.
    async fn list_remote(
        &self,
        remote: &RemoteInventory,
        remaining: &ClusterInventory,
        proof: Proof,
    ) -> Result<Observation, ResourceFailure> {
        let RemoteInventory { cluster, name, contents } = remote;
        if self.clients.client(cluster).is_err() {
            return Err(not_connected(&self.observation, remaining, cluster, name));
        }
        self.list_remote_members(cluster, name, contents, proof).await
    }

    /// Lists what a connected remote cluster has of the instance, of the kinds and in the namespaces of an inventory.
    pub(super) async fn list_remote_members(
        &self,
        cluster: &ClusterId,
        name: &str,
        contents: &Inventory,
        proof: Proof,
    ) -> Result<Observation, ResourceFailure> {
        let listed = async {
            if proof == Proof::Absence {
                self.verify_cluster(cluster, name).await?;
            }
            let kinds =
                self.clients.clients_for(cluster, contents).map_err(|error| unlisted(name, &error))?;
            let listed = self.list_members(kinds, &self.remote_applyset_id(), contents, proof).await;
            listed.map_err(|error| unlisted(name, &error.into()))
        };
        self.clients.request([cluster], listed).await
    }

    /// Makes sure that each reference to a cluster still leads to it.
    async fn verify_cluster(&self, cluster: &ClusterId, name: &str) -> Result<(), ResourceFailure> {
        for reference in self.clients.references(cluster) {
            let Some(handle) = self.memory.cluster_handles.get(reference) else { continue };
            if let Err(failure) = handle.verify().await {
                return Err(unverified(name, &failure));
            }
        }
        Ok(())
    }

    /// Watches the kinds of a remote cluster, so that the instance is requeued when an object is deleted. Not if the cluster
    /// is polled: then the deletion itself checks again.
    async fn watch_deletions(&mut self, remote: &RemoteInventory, graph: Option<&Graph>) {
        let RemoteInventory { cluster, contents, .. } = remote;
        let clusters = Instance::of(self.instance.value()).clusters();
        let is_polled = clusters
            .iter()
            .any(|entry| entry.uid.as_deref() == Some(cluster.as_str()) && entry.mode == SyncMode::Poll);
        if is_polled {
            return;
        }
        let contents = BTreeMap::from([(cluster.clone(), (Text::from(""), contents.clone()))]);
        // What the caches have is not observed: the lists are newer.
        let observation = std::mem::take(&mut self.observation);
        self.watch_and_observe(inventory_kinds(&contents, graph)).await;
        self.observation = observation;
    }

    /// Observes what was last known of a cluster that cannot be listed: from its caches, else from the status, else that
    /// there may be objects of each kind.
    fn recall_objects(&mut self, remote: &RemoteInventory, graph: Option<&Graph>, scan: &mut InventoryScan) {
        let RemoteInventory { cluster, name, contents } = remote;
        let before = self.observation.observed.objects.len();
        self.observe_last_known(cluster);
        if self.observation.observed.objects.len() > before {
            return;
        }
        let applyset = self.remote_applyset_id();
        let entries = Instance::of(self.instance.value()).resources();
        let there: Vec<&ManagedResource> =
            entries.iter().filter(|entry| entry.cluster.as_deref() == Some(name.as_str())).collect();
        let recalled: Vec<_> =
            there.iter().filter_map(|entry| from_entry(cluster, entry, graph, &applyset)).collect();
        let is_unknown = recalled.is_empty();
        for (key, object) in recalled {
            scan.from_status = true;
            self.observation.observed.objects.insert(key, object);
        }
        let collections: Vec<&ManagedResource> =
            entries.iter().filter(|entry| is_collection(entry, name, contents, graph)).collect();
        if is_unknown && collections.is_empty() {
            let blocked = scan.blocked.get(cluster);
            let unnamed = contents.group_kinds.iter().map(|kind| any_of_kind(cluster, kind, "", blocked));
            scan.unnamed.extend(unnamed.collect::<Vec<_>>());
            return;
        }
        self.recall_collections(cluster, &collections, graph, scan);
    }

    /// Observes the items of collections, of which the status has only a summary. The graph knows the items, unless it
    /// depends on what cannot be read now.
    fn recall_collections(
        &mut self,
        cluster: &ClusterId,
        collections: &[&ManagedResource],
        graph: Option<&Graph>,
        scan: &mut InventoryScan,
    ) {
        let applyset = self.remote_applyset_id();
        let blocked = scan.blocked.get(cluster).cloned();
        let plan = graph.filter(|_| !collections.is_empty()).map(|graph| {
            let (instance, now) = (self.instance.value(), Timestamp::now());
            kross_plan::plan(graph, instance, &self.observation.observed, &self.context.planning, now)
        });
        for entry in collections {
            let node = plan.as_ref().and_then(|plan| plan.node(&entry.id));
            let items = node.into_iter().flat_map(|node| &node.objects);
            let items: Vec<&ObjectKey> =
                items.map(|object| &object.key).filter(|key| key.cluster == *cluster).collect();
            if items.is_empty() {
                let unnamed =
                    kind_of(entry).map(|kind| any_of_kind(cluster, &kind, &entry.id, blocked.as_ref()));
                scan.unnamed.extend(unnamed);
            }
            for key in items {
                scan.from_status = true;
                let object = || placeholder(key, entry, graph, &applyset);
                self.observation.observed.objects.entry(key.clone()).or_insert_with(object);
            }
        }
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

/// Whether an entry of the status summarizes a collection that may have items in a cluster.
fn is_collection(
    entry: &ManagedResource,
    cluster: &str,
    contents: &Inventory,
    graph: Option<&Graph>,
) -> bool {
    let node = graph.and_then(|graph| graph.find(&entry.id)).map(|(_, node)| node);
    let remote = |node: &Node| matches!(node.placement, Placement::Remote(_));
    entry.name.is_none()
        && entry.state != ResourceState::Skipped
        // Items may be in several clusters.
        && entry.cluster.as_deref().is_none_or(|named| named == cluster)
        && kind_of(entry).is_some_and(|kind| contents.group_kinds.contains(&kind))
        && node.is_none_or(|node| node.is_list() && !node.is_external() && remote(node))
}

pub(super) fn kind_of(entry: &ManagedResource) -> Option<GroupKind> {
    let api_version = entry.api_version.as_deref().unwrap_or_default();
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    Some(GroupKind::new(group, entry.kind.as_deref()?))
}

/// An object as far as an entry of the status describes it.
fn from_entry(
    cluster: &ClusterId,
    entry: &ManagedResource,
    graph: Option<&Graph>,
    applyset: &str,
) -> Option<(ObjectKey, ObservedObject)> {
    // External objects are not deleted.
    let node = graph.and_then(|graph| graph.find(&entry.id)).map(|(_, node)| node);
    if node.is_some_and(Node::is_external) {
        return None;
    }
    let GroupKind { group, kind } = kind_of(entry)?;
    let key = ObjectKey {
        cluster: cluster.clone(),
        group: group.as_str().into(),
        kind: kind.as_str().into(),
        namespace: entry.namespace.as_deref().map(Text::from),
        name: entry.name.as_deref()?.into(),
    };
    let object = placeholder(&key, entry, graph, applyset);
    Some((key, object))
}

/// An object of which only the key is known and what the status has of its node.
fn placeholder(
    key: &ObjectKey,
    entry: &ManagedResource,
    graph: Option<&Graph>,
    applyset: &str,
) -> ObservedObject {
    // An object whose place in the order is unknown is deleted first.
    let node = graph.and_then(|graph| graph.find(&entry.id)).map(|(_, node)| node);
    let order = node.map_or_else(|| i64::MAX.to_string(), |node| node.apply_order.to_string());
    let mut metadata = Object::new();
    metadata.insert("name", key.name.clone().into());
    if let Some(namespace) = &key.namespace {
        metadata.insert("namespace", namespace.clone().into());
    }
    metadata.insert("uid", Value::from(entry.uid.as_deref().unwrap_or_default()));
    metadata.insert(
        "labels",
        Value::object([
            (labels::NODE_ID, Value::from(entry.id.as_str())),
            (labels::APPLYSET_PART_OF, Value::from(applyset)),
        ]),
    );
    metadata.insert("annotations", Value::object([(annotations::APPLY_ORDER, Value::from(order))]));
    ObservedObject::new(Value::object([
        ("apiVersion", Value::from(entry.api_version.as_deref().unwrap_or_default())),
        ("kind", Value::from(key.kind.clone())),
        ("metadata", Value::Object(metadata)),
    ]))
}

/// Stands for all objects of a kind. It is deleted first, since its place in the order is unknown.
fn any_of_kind(
    cluster: &ClusterId,
    kind: &GroupKind,
    node: &str,
    blocked: Option<&ResourceFailure>,
) -> OwnedObject {
    let key = ObjectKey {
        cluster: cluster.clone(),
        group: kind.group.as_str().into(),
        kind: kind.kind.as_str().into(),
        namespace: None,
        name: "(any)".into(),
    };
    OwnedObject {
        api_version: kind.group.as_str().into(),
        node: node.into(),
        uid: "".into(),
        generation: None,
        order: i64::MAX,
        apply_order: i64::MAX,
        terminating: false,
        finalizers: Vec::new(),
        defines: None,
        credentials_for: BTreeSet::new(),
        held: None,
        lifecycle: EvaluatedLifecycle::default(),
        unavailable: blocked.cloned(),
        failure: None,
        blocks: true,
        key,
    }
}

/// A cluster of the inventory, with its state as it was observed.
fn used_cluster(
    observation: &Observation,
    remaining: &ClusterInventory,
    cluster: &ClusterId,
) -> Option<UsedCluster> {
    let recorded = remaining.clusters().iter().find(|recorded| recorded.uid == cluster.as_str())?;
    let key = ReferenceKey::parse(&recorded.reference)?;
    let mut reference = key.resolved()?;
    reference.display.clone_from(&recorded.name);
    let state = observation.observed.clusters.get(&key).cloned();
    let (id, reference) = (cluster.clone(), Arc::new(reference));
    Some(UsedCluster { reference, key, id, state, needed: true, former: false })
}

/// Why a cluster is not connected.
fn not_connected(
    observation: &Observation,
    remaining: &ClusterInventory,
    cluster: &ClusterId,
    name: &Text,
) -> ResourceFailure {
    let references = remaining.clusters().iter().filter(|recorded| recorded.uid == cluster.as_str());
    let mut states = references.filter_map(|recorded| {
        observation.observed.clusters.get(&ReferenceKey::parse(&recorded.reference)?)?.connection.failure()
    });
    match states.next() {
        Some(failure) => ResourceFailure::not_connected(name, failure),
        None => ResourceFailure::connecting(name),
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
