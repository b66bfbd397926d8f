//! Restores the inventory of remote clusters that somebody removed from an instance by accident, as `kubectl replace` does, from
//! what the status says of clusters and resources. What the status does not tell makes the inventory incomplete: then nothing is
//! deleted until a reconcile of the living instance has applied everything.

use kross_api::{
    ClusterInventory, ClusterStatus, GroupKind, Inventory, InventoryError, MORE_CLUSTERS, ManagedResource,
    RecordedCluster, ResolvedCredentials, ResourceState, SecretAddress, annotations,
};
use kross_cluster::StoredObject;
use kross_graph::{Graph, Node, Placement};
use kross_plan::{Instance, ReferenceKey};

use super::cluster_inventory::GivenUp;
use super::recalled_objects::kind_of;

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
    let home = instance.namespace().map(|namespace| &**namespace);
    let given_up = GivenUp::of(instance);
    for cluster in &clusters {
        let identity = identity(cluster);
        let is_given_up = given_up.all || identity.as_ref().is_some_and(|(_, uid)| given_up.contains(uid));
        let (contents, is_complete) = contents(cluster, &resources, home, graph);
        let is_summary = cluster.name.ends_with(MORE_CLUSTERS);
        // A deletion lists only a part of what is left.
        let is_part = is_summary || resources.len() >= LISTED_IN_DELETION;
        if !is_given_up && (is_part || (!is_complete && identity.is_some())) {
            restored.set_incomplete(true);
        }
        let (reference, uid) = match identity {
            Some((reference, uid)) => (reference, uid.to_owned()),
            // Those that are not listed are given up, and reported, under the name of the summary.
            None if given_up.all && is_summary => (String::new(), String::new()),
            None => continue,
        };
        let (name, unverified) = (cluster.name.clone(), cluster.unverified == Some(true));
        // One that is given up as well: it is reported when it is removed.
        let contents = contents.into();
        restored.add(RecordedCluster { reference, uid, unverified, name, contents });
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

/// Whether the instances of a graph keep an inventory of remote clusters from their first reconcile on, even if it is empty: those of
/// existing kinds, since their status could not tell what was in it.
pub(super) fn is_always_kept(graph: &Graph) -> bool {
    graph.instance.external && graph.nodes.iter().any(is_remote)
}

/// Refuses an instance of an existing kind without the inventory that it must have had, unless all clusters are given up.
///
/// # Errors
/// It has none.
pub(super) fn check_kept(instance: &StoredObject, graph: Option<&Graph>) -> Result<(), InventoryError> {
    let is_present = instance.annotation(annotations::CLUSTER_INVENTORY).is_some();
    if is_present || !graph.is_some_and(is_always_kept) || GivenUp::of(instance).all {
        return Ok(());
    }
    Err(InventoryError::Removed("the status belongs to another controller".to_owned()))
}

/// The reference and the UID of a cluster that the instance was connected to.
fn identity(cluster: &ClusterStatus) -> Option<(String, &str)> {
    let credentials = match cluster.target.as_deref() {
        Some(target) => {
            let (namespace, name) = target.split_once('/')?;
            ResolvedCredentials::Target { namespace: namespace.to_owned(), name: name.to_owned() }
        }
        None => ResolvedCredentials::Secret(SecretAddress::from_status(cluster.secret.as_deref()?)?),
    };
    Some((ReferenceKey::of_credentials(&credentials).as_str().to_owned(), cluster.uid.as_deref()?))
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

#[cfg(test)]
mod tests {
    use kross_cluster::read_object;
    use serde_json::{Value as Json, json};

    use super::*;

    const MANY: usize = LISTED_IN_DELETION;

    /// An instance that is being deleted, with two clusters and so many resources.
    fn deleted(resources: usize, abandon: &str) -> Json {
        let cluster = |name: &str| {
            json!({"name": format!("shop/{name}"), "secret": format!("shop/{name}"), "uid": format!("uid-{name}"),
                "mode": "Watch", "connected": false, "ready": 0, "total": 1})
        };
        let resource = |at: usize| {
            json!({"id": format!("r{at}"), "apiVersion": "v1", "kind": "ConfigMap", "name": format!("x{at}"),
                "namespace": "shop", "cluster": "shop/eu", "state": "Deleting"})
        };
        let resources: Vec<Json> = (0..resources).map(resource).collect();
        json!({"apiVersion": "kro.run/v1alpha1", "kind": "App",
            "metadata": {"name": "x", "namespace": "shop", "deletionTimestamp": "2026-01-02T03:04:05Z",
                "annotations": {"kro.run/abandon-cluster": abandon}},
            "status": {"clusters": [cluster("eu"), cluster("us")], "managedResources": resources}})
    }

    fn restored(instance: &Json) -> ClusterInventory {
        restore(&read_object(instance.to_string().as_bytes()).unwrap(), None)
    }

    fn names(inventory: &ClusterInventory) -> Vec<&str> {
        inventory.clusters().iter().map(|cluster| cluster.name.as_str()).collect()
    }

    #[test]
    fn a_part_of_the_resources_is_incomplete_unless_all_clusters_are_given_up() {
        assert!(!restored(&deleted(MANY - 1, "")).is_incomplete());
        for abandon in ["", "uid-eu", "another"] {
            assert!(restored(&deleted(MANY, abandon)).is_incomplete(), "{abandon}");
        }
        for abandon in ["uid-us, uid-eu", "*"] {
            let restored = restored(&deleted(MANY, abandon));
            assert!(!restored.is_incomplete(), "{abandon}");
            assert_eq!(names(&restored), ["shop/eu", "shop/us"], "they are reported when they are removed");
        }
    }

    #[test]
    fn clusters_that_are_not_listed_are_given_up_by_a_deletion_alone() {
        let with_more = |abandon: &str| {
            let mut instance = deleted(1, abandon);
            let more = json!({"name": "1900 more clusters", "mode": "Watch", "connected": true, "ready": 0, "total": 1});
            instance["status"]["clusters"].as_array_mut().unwrap().push(more);
            instance
        };
        assert!(restored(&with_more("uid-eu,uid-us")).is_incomplete());
        let all = restored(&with_more("*"));
        assert!(!all.is_incomplete());
        assert_eq!(names(&all), ["1900 more clusters", "shop/eu", "shop/us"]);
        let mut living = with_more("*");
        living["metadata"].as_object_mut().unwrap().remove("deletionTimestamp");
        assert!(restored(&living).is_incomplete());
    }
}
