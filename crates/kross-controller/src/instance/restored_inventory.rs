//! Restores the inventory of remote clusters that somebody removed from an instance by accident, as `kubectl replace` does, from
//! what the status says of clusters and resources. What the status does not tell makes the inventory incomplete: then nothing is
//! deleted until a reconcile of the living instance has applied everything.

use kross_api::{
    ClusterInventory, ClusterStatus, GroupKind, Inventory, InventoryError, MORE_CLUSTERS, ManagedResource,
    RecordedCluster, ResolvedCluster, ResolvedCredentials, ResourceState, SecretAddress, annotations,
};
use kross_cluster::StoredObject;
use kross_graph::{Graph, Node, Placement};
use kross_plan::{Instance, ReferenceKey};

use super::cluster_inventory::given_up;
use super::inventory_scan::kind_of;

/// How many resources the status of an instance that is being deleted lists at most.
const LISTED_IN_DELETION: usize = 80;

/// The inventory of remote clusters that the status of an instance tells. Empty if the instance has no object in any.
pub(super) fn restore(instance: &StoredObject, graph: Option<&Graph>) -> ClusterInventory {
    let mut restored = ClusterInventory::default();
    // The status of an existing kind is not the controller's.
    if instance.annotation(annotations::STATE).is_some() {
        return restored;
    }
    let status = Instance::of(instance.value());
    let clusters = status.clusters();
    if clusters.is_empty() {
        return restored;
    }
    let resources = status.resources();
    // A deletion lists only a part of what is left.
    restored.set_incomplete(resources.len() >= LISTED_IN_DELETION);
    let home = instance.namespace().map(|namespace| &**namespace);
    let given_up = given_up(instance);
    for cluster in &clusters {
        if cluster.name.ends_with(MORE_CLUSTERS) {
            restored.set_incomplete(true);
        }
        let Some((reference, uid)) = identity(cluster).filter(|(_, uid)| !given_up.contains(uid)) else {
            continue;
        };
        let (contents, is_complete) = contents(cluster, &resources, home, graph);
        if !is_complete {
            restored.set_incomplete(true);
        }
        restored.add(RecordedCluster {
            reference,
            uid: uid.to_owned(),
            unverified: cluster.unverified == Some(true),
            name: cluster.name.clone(),
            contents,
        });
    }
    restored
}

/// Refuses an inventory that may lack clusters.
///
/// # Errors
/// It may.
pub(super) fn check_complete(inventory: &ClusterInventory) -> Result<(), InventoryError> {
    if inventory.is_incomplete() {
        let why = "the status lists only a part of the clusters and resources";
        return Err(InventoryError::Removed(why.to_owned()));
    }
    Ok(())
}

/// The reference and the UID of a cluster that the instance was connected to.
fn identity(cluster: &ClusterStatus) -> Option<(String, &str)> {
    let secret = SecretAddress::from_status(cluster.secret.as_deref()?)?;
    let credentials = ResolvedCredentials::Secret(secret);
    let resolved = ResolvedCluster { display: String::new(), credentials, poll: None };
    Some((ReferenceKey::of(&resolved).as_str().to_owned(), cluster.uid.as_deref()?))
}

/// What an instance may have in a cluster, and whether that is everything.
fn contents(
    cluster: &ClusterStatus,
    resources: &[ManagedResource],
    home: Option<&str>,
    graph: Option<&Graph>,
) -> (Inventory, bool) {
    let (mut contents, mut is_complete) = (Inventory::default(), true);
    // Everything that the graph may have applied there; a kind without objects costs one list.
    for node in graph.into_iter().flat_map(|graph| &graph.nodes).filter(|node| is_remote(node)) {
        contents.group_kinds.insert(GroupKind::new(&node.kind.group, &node.kind.kind));
    }
    for entry in resources.iter().filter(|entry| entry.state != ResourceState::Skipped) {
        let node = graph.and_then(|graph| graph.find(&entry.id)).map(|(_, node)| node);
        if node.is_some_and(|node| node.is_external() || matches!(node.placement, Placement::Local)) {
            continue;
        }
        let is_there = entry.cluster.as_deref() == Some(cluster.name.as_str());
        match &entry.name {
            Some(_) if is_there => {
                contents.group_kinds.extend(kind_of(entry));
                let namespace = entry.namespace.as_deref().filter(|namespace| Some(*namespace) != home);
                contents.namespaces.extend(namespace.map(str::to_owned));
            }
            // The summary of a collection: its items may be in other namespaces.
            None if node.is_none_or(Node::is_list)
                && (is_there || node.is_some() || entry.cluster.is_some()) =>
            {
                contents.group_kinds.extend(kind_of(entry));
                is_complete = false;
            }
            _ => {}
        }
    }
    (contents, is_complete)
}

fn is_remote(node: &Node) -> bool {
    matches!(node.placement, Placement::Remote(_)) && !node.is_external()
}
