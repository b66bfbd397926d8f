//! An instance that loses its inventory of remote clusters by accident, and clusters that are given up on purpose.

use kross_testing::{Fault, wait};
use kube::api::DynamicObject;
use serde_json::{Value as Json, json};

use crate::setup::condition;
use crate::world::{World, cluster_entry, config_map};

const INVENTORY: &str = "internal.kro.run/cluster-inventory";

fn one_region() -> Json {
    let mut app = config_map("app", None, json!({}));
    app["cluster"] = json!({"name": "${schema.spec.region}-kubeconfig"});
    json!({"schema": {"spec": {"region": "string"}}, "resources": [app]})
}

fn inventory(instance: &Json) -> String {
    instance["metadata"]["annotations"][INVENTORY].as_str().unwrap_or_default().to_owned()
}

/// Replaces an instance by its manifest, as `kubectl replace` does: annotations, labels and finalizers are lost.
async fn replace(world: &World, name: &str, spec: Json) {
    let version = world.get(name).await["metadata"]["resourceVersion"].clone();
    let manifest = json!({"apiVersion": "kro.run/v1alpha1", "kind": world.kind,
        "metadata": {"name": name, "resourceVersion": version}, "spec": spec});
    let manifest: DynamicObject = serde_json::from_value(manifest).unwrap();
    world.instances.replace(name, &Default::default(), &manifest).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_instance_keeps_the_objects_in_an_unreachable_cluster() {
    let world = World::new("ReplacedByManifest", one_region()).await;
    world.create("x", json!({"region": "eu"})).await;
    world.until_state("x", "ACTIVE").await;
    let (eu, us) = (world.region("eu"), world.region("us"));
    eu.proxy.set(Fault::Refuse);
    world.until_condition("x", ("RemoteClusterConnected", "False", "Unreachable")).await;
    // It moves away with the same replace: nothing but the status names the cluster that has to be cleaned up.
    replace(&world, "x", json!({"region": "us"})).await;
    wait::until_object(&us.config_maps, "x-app", |_| true).await;
    let restored = world.until("x", |instance| inventory(instance).contains("us-kubeconfig")).await;
    assert!(inventory(&restored).contains("eu-kubeconfig"), "{restored:#}");
    world.delete("x").await;
    world
        .until("x", |instance| {
            let message =
                condition(instance, "ResourcesReady")["message"].as_str().unwrap_or_default().to_owned();
            message.contains("eu-kubeconfig") && message.contains("not connected")
        })
        .await;
    eu.proxy.set(Fault::Pass);
    wait::woken(wait::until_deleted(&world.instances, "x")).await;
    assert!(eu.config_maps.get_opt("x-app").await.unwrap().is_none());
    assert!(us.config_maps.get_opt("x-app").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_inventory_that_is_removed_during_a_deletion_is_restored_from_the_status() {
    let world = World::new("RemovedInDeletion", one_region()).await;
    world.create("x", json!({"region": "eu"})).await;
    world.until_state("x", "ACTIVE").await;
    let eu = world.region("eu");
    eu.proxy.set(Fault::Refuse);
    world.until_condition("x", ("RemoteClusterConnected", "False", "Unreachable")).await;
    world.delete("x").await;
    world.until("x", |instance| instance["status"]["state"] == "DELETING").await;
    world.patch("x", json!({"metadata": {"annotations": {INVENTORY: null}}})).await;
    wait::woken(world.until("x", |instance| inventory(instance).contains("eu-kubeconfig"))).await;
    eu.proxy.set(Fault::Pass);
    wait::woken(wait::until_deleted(&world.instances, "x")).await;
    assert!(eu.config_maps.get_opt("x-app").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_inventory_that_the_status_does_not_tell_blocks_the_deletion() {
    let mut spec = one_region();
    spec["schema"]["spec"]["count"] = json!("integer");
    spec["resources"][0]["forEach"] = json!([{"i": "${lists.range(schema.spec.count)}"}]);
    spec["resources"][0]["template"]["metadata"]["name"] = json!("${schema.metadata.name}-${string(i)}");
    let world = World::new("SummarizedItems", spec).await;
    // So many items that the status has only a summary of them.
    for name in ["x", "y"] {
        world.create(name, json!({"region": "eu", "count": 25})).await;
        world.until_state(name, "ACTIVE").await;
    }
    let eu = world.region("eu");
    eu.proxy.set(Fault::Refuse);
    let lost = world.until_condition("x", ("RemoteClusterConnected", "False", "Unreachable")).await;
    let uid = cluster_entry(&lost, "eu-kubeconfig")["uid"].as_str().unwrap().to_owned();
    for name in ["x", "y"] {
        // A suspended instance is not reconciled, so its inventory is not written again.
        let annotations = json!({"kro.run/reconcile": "suspended", "kro.run/abandon-cluster": "another-uid"});
        world.patch(name, json!({"metadata": {"annotations": annotations}})).await;
        world.until_condition(name, ("ResourcesReady", "False", "ReconciliationSuspended")).await;
        world.patch(name, json!({"metadata": {"annotations": {INVENTORY: null}}})).await;
        world.delete(name).await;
        let is_blocked = |instance: &Json| {
            let message =
                condition(instance, "ResourcesReady")["message"].as_str().unwrap_or_default().to_owned();
            message.starts_with("deletion blocked: ") && message.contains("was removed")
        };
        let blocked = world.until(name, is_blocked).await;
        assert_eq!(blocked["metadata"]["finalizers"], json!(["kro.run/finalizer"]));
    }
    // Giving a cluster up is explicit: it is named, or all are.
    for (name, abandoned) in [("x", uid.as_str()), ("y", "*")] {
        world.patch(name, json!({"metadata": {"annotations": {"kro.run/abandon-cluster": abandoned}}})).await;
        wait::woken(wait::until_deleted(&world.instances, name)).await;
        let given_up = wait::until("an Event about the cluster", || async {
            let events =
                world.objects.events(&world.namespace).list(&Default::default()).await.unwrap().items;
            let is_it = |event: &&DynamicObject| {
                event.data["reason"] == "ClusterGivenUp" && event.data["regarding"]["name"] == name
            };
            events.iter().find(is_it).map(|event| event.data["note"].clone()).ok_or_else(|| "none".to_owned())
        });
        let note = given_up.await;
        assert!(note.as_str().unwrap().contains(&uid), "{note}");
    }
    eu.proxy.set(Fault::Pass);
    for name in ["x-0", "y-0"] {
        assert!(eu.config_maps.get_opt(name).await.unwrap().is_some(), "given up, not deleted");
    }
}
