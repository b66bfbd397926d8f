//! Deleting instances with objects in several clusters: in reverse order, from the inventory alone, and blocked by clusters
//! that are not connected.

use kross_testing::{Fault, Requests, Verb, wait};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::setup::condition;
use crate::world::{World, config_map};

fn chain() -> serde_json::Value {
    json!({"schema": {"spec": {}}, "resources": [
        config_map("a", Some("us"), json!({})),
        config_map("b", None, json!({"a": "${a.metadata.name}"})),
        config_map("c", Some("eu"), json!({"b": "${b.metadata.name}"})),
    ]})
}

#[tokio::test(flavor = "multi_thread")]
async fn deletes_objects_in_reverse_order_across_clusters() {
    let world = World::new("Reversed", chain()).await;
    world.create("x", json!({})).await;
    let instance = world.until_state("x", "ACTIVE").await;
    let inventory =
        instance["metadata"]["annotations"]["internal.kro.run/cluster-inventory"].as_str().unwrap();
    let inventory: serde_json::Value = serde_json::from_str(inventory).unwrap();
    assert_eq!(inventory["version"], 1);
    let kinds: Vec<_> =
        inventory["clusters"].as_array().unwrap().iter().map(|cluster| &cluster["kinds"]).collect();
    assert_eq!(kinds, ["ConfigMap", "ConfigMap"], "{inventory:#}");
    let (eu, us) = (world.region("eu"), world.region("us"));
    let hold = json!({"metadata": {"finalizers": ["test.kross.run/hold"]}});
    eu.config_maps.patch("x-c", &PatchParams::default(), &Patch::Merge(hold)).await.unwrap();
    world.delete("x").await;
    wait::until_object(&eu.config_maps, "x-c", |object| object.metadata.deletion_timestamp.is_some()).await;
    let deleting = world
        .until("x", |instance| {
            let message =
                condition(instance, "ResourcesReady")["message"].as_str().unwrap_or_default().to_owned();
            message.contains("x-c in cluster") && message.contains("test.kross.run/hold")
        })
        .await;
    assert_eq!(deleting["status"]["state"], "DELETING");
    assert!(world.config_maps.get("x-b").await.unwrap().metadata.deletion_timestamp.is_none());
    assert!(us.config_maps.get("x-a").await.unwrap().metadata.deletion_timestamp.is_none());
    let release = json!({"metadata": {"finalizers": []}});
    eu.config_maps.patch("x-c", &PatchParams::default(), &Patch::Merge(release)).await.unwrap();
    wait::woken(wait::until_deleted(&world.instances, "x")).await;
    assert!(us.config_maps.get_opt("x-a").await.unwrap().is_none());
    assert!(world.config_maps.get_opt("x-b").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_deletion_on_an_unreachable_cluster_and_reports_it() {
    let world = World::new("BlockedByCluster", chain()).await;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    let eu = world.region("eu");
    eu.proxy.set(Fault::Refuse);
    world.until_condition("x", ("RemoteClusterConnected", "False", "Unreachable")).await;
    world.delete("x").await;
    let waiting = world
        .until("x", |instance| {
            let message =
                condition(instance, "ResourcesReady")["message"].as_str().unwrap_or_default().to_owned();
            message.contains("ConfigMap")
                && message.contains("eu-kubeconfig")
                && message.contains("not connected")
                && message.contains("goes on by itself when it answers")
                && message.contains("remove its finalizer `kro.run/finalizer`")
        })
        .await;
    assert_eq!(waiting["metadata"]["finalizers"], json!(["kro.run/finalizer"]));
    let ready = condition(&waiting, "Ready")["message"].as_str().unwrap().to_owned();
    assert!(ready.starts_with("the deletion waits: cluster "), "{ready}");
    assert!(world.config_maps.get_opt("x-b").await.unwrap().is_some(), "`b` is deleted only after `c`");
    eu.proxy.set(Fault::Pass);
    wait::woken(wait::until_deleted(&world.instances, "x")).await;
    assert!(eu.config_maps.get_opt("x-c").await.unwrap().is_none());
    assert!(world.region("us").config_maps.get_opt("x-a").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_deletion_on_a_deleted_secret() {
    let world = World::new("BlockedBySecret", chain()).await;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    world.secrets.delete("eu-kubeconfig", &Default::default()).await.unwrap();
    world.delete("x").await;
    world
        .until("x", |instance| {
            let message =
                condition(instance, "ResourcesReady")["message"].as_str().unwrap_or_default().to_owned();
            let ready = condition(instance, "Ready")["message"].as_str().unwrap_or_default().to_owned();
            message.contains("eu-kubeconfig")
                && message.contains("not connected")
                && ready.starts_with("the deletion waits: cluster ")
        })
        .await;
    world.apply_secret("eu-kubeconfig", &world.kubeconfig("eu")).await;
    wait::woken(wait::until_deleted(&world.instances, "x")).await;
    assert!(world.region("eu").config_maps.get_opt("x-c").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn removing_the_finalizer_by_hand_releases_the_instance_and_affects_no_other() {
    let world = World::new("FinalizerRemoved", chain()).await;
    world.create("x", json!({})).await;
    world.create("y", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    world.until_state("y", "ACTIVE").await;
    let eu = world.region("eu");
    eu.proxy.set(Fault::Refuse);
    world.until_condition("x", ("RemoteClusterConnected", "False", "Unreachable")).await;
    world.delete("x").await;
    world.until("x", |instance| instance["status"]["state"] == "DELETING").await;
    world.patch("x", json!({"metadata": {"finalizers": null}})).await;
    wait::until_deleted(&world.instances, "x").await;
    eu.proxy.set(Fault::Pass);
    wait::woken(world.until_state("y", "ACTIVE")).await;
    assert!(eu.config_maps.get_opt("x-c").await.unwrap().is_some(), "no controller deletes it any more");
    assert!(eu.config_maps.get_opt("y-c").await.unwrap().is_some());
    let deletes = eu.proxy.count(&Requests::any().verb(Verb::Delete));
    assert_eq!(deletes, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_deletion_on_a_tampered_cluster_inventory() {
    let world = World::new("TamperedClusters", chain()).await;
    world.create("x", json!({})).await;
    let instance = world.until_state("x", "ACTIVE").await;
    let annotation = "internal.kro.run/cluster-inventory";
    let written = instance["metadata"]["annotations"][annotation].as_str().unwrap().to_owned();
    let tampered = written.replace("ConfigMap", "Secret");
    world.patch("x", json!({"metadata": {"annotations": {annotation: tampered}}})).await;
    let refused = world.until("x", |instance| instance["status"]["state"] == "ERROR").await;
    assert_eq!(condition(&refused, "InstanceManaged")["reason"], "ManagementFailed");
    world.delete("x").await;
    world
        .until("x", |instance| {
            let message =
                condition(instance, "ResourcesReady")["message"].as_str().unwrap_or_default().to_owned();
            message.starts_with("deletion blocked: ")
        })
        .await;
    world.patch("x", json!({"metadata": {"annotations": {annotation: written}}})).await;
    wait::woken(wait::until_deleted(&world.instances, "x")).await;
    assert!(world.region("eu").config_maps.get_opt("x-c").await.unwrap().is_none());
}

/// A graph that creates the Secret of a cluster that it uses, without a reference that makes a dependency.
pub fn graph_with_secret() -> serde_json::Value {
    let secret = json!({"id": "credentials", "template": {"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "${schema.spec.secret}-kubeconfig"},
        "stringData": {"kubeconfig": "${schema.spec.kubeconfig}"}}});
    let mut kept = config_map("kept", Some("${schema.spec.secret}"), json!({}));
    kept["lifecycle"] = json!({"delete": {"policy": "${schema.spec.keep ? 'Retain' : 'Delete'}"}});
    json!({
        "schema": {"spec": {"secret": "string", "kubeconfig": "string", "keep": "boolean | default=false"}},
        "resources": [secret, config_map("app", Some("${schema.spec.secret}"), json!({})), kept],
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn deletes_a_secret_of_the_graph_after_the_objects_in_its_cluster() {
    let world = World::new("KeyHolder", graph_with_secret()).await;
    let us = world.region("us");
    let kubeconfig = world.kubeconfig("us").to_string();
    for (name, keep) in [("x", false), ("y", true)] {
        let spec = json!({"secret": format!("own-{name}"), "kubeconfig": kubeconfig, "keep": keep});
        world.create(name, spec).await;
        world.until_state(name, "ACTIVE").await;
        world.delete(name).await;
        wait::until_deleted(&world.instances, name).await;
        assert!(us.config_maps.get_opt(&format!("{name}-app")).await.unwrap().is_none());
        assert!(world.secrets.get_opt(&format!("own-{name}-kubeconfig")).await.unwrap().is_none());
    }
    let kept = us.config_maps.get("y-kept").await.unwrap();
    assert!(
        kept.metadata.labels.unwrap_or_default().is_empty(),
        "it was released before the Secret was deleted"
    );
}
