//! Instances that move from one cluster to another, and the cleanup of the cluster that they left.

use kross_testing::{Fault, wait};
use serde_json::json;

use crate::setup::condition;
use crate::world::{World, cluster_entry, config_map};

pub fn one_region() -> serde_json::Value {
    json!({"schema": {"spec": {"region": "string", "text": "string | default=one"}}, "resources": [
        config_map("app", Some("${schema.spec.region}"), json!({"text": "${schema.spec.text}"})),
    ]})
}

#[tokio::test(flavor = "multi_thread")]
async fn deletes_the_objects_in_the_cluster_that_an_instance_left() {
    let world = World::new("Mover", one_region()).await;
    world.create("x", json!({"region": "eu"})).await;
    world.until_state("x", "ACTIVE").await;
    let (eu, us) = (world.region("eu"), world.region("us"));
    assert!(eu.config_maps.get_opt("x-app").await.unwrap().is_some());
    world.patch("x", json!({"spec": {"region": "us"}})).await;
    wait::until_object(&us.config_maps, "x-app", |_| true).await;
    wait::until_deleted(&eu.config_maps, "x-app").await;
    let moved = world
        .until("x", |instance| {
            let inventory = &instance["metadata"]["annotations"]["internal.kro.run/cluster-inventory"];
            instance["status"]["state"] == "ACTIVE"
                && inventory
                    .as_str()
                    .is_some_and(|text| text.contains("us-kubeconfig") && !text.contains("eu-kubeconfig"))
                && cluster_entry(instance, "eu-kubeconfig").is_null()
        })
        .await;
    assert_eq!(cluster_entry(&moved, "us-kubeconfig")["connected"], true);
    let note = format!(
        "ConfigMap {0}/x-app in cluster `{0}/eu-kubeconfig` was deleted: it is in cluster `{0}/us-kubeconfig` now",
        world.namespace
    );
    wait::until("an Event about the move", || async {
        let events = world.objects.events(&world.namespace).list(&Default::default()).await.unwrap().items;
        let is_it = |event: &kube::api::DynamicObject| {
            event.data["reason"] == "Moved" && event.data["note"] == note && event.data["type"] == "Normal"
        };
        if events.iter().any(is_it) { Ok(()) } else { Err(format!("{events:#?}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_the_cleanup_of_an_unreachable_cluster_pending_until_it_is_reachable() {
    let world = World::new("PendingCleanup", one_region()).await;
    world.create("x", json!({"region": "eu"})).await;
    world.until_state("x", "ACTIVE").await;
    let (eu, us) = (world.region("eu"), world.region("us"));
    eu.proxy.set(Fault::Refuse);
    world.until_condition("x", ("RemoteClusterConnected", "False", "Unreachable")).await;
    world.patch("x", json!({"spec": {"region": "us"}})).await;
    wait::until_object(&us.config_maps, "x-app", |_| true).await;
    let moved = world.until_state("x", "ACTIVE").await;
    let entry = cluster_entry(&moved, "eu-kubeconfig");
    assert_eq!(entry["connected"], false, "{moved:#}");
    let message = condition(&moved, "RemoteClusterConnected")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("eu-kubeconfig") && message.contains("cleanup pending in cluster"), "{message}");
    let inventory = moved["metadata"]["annotations"]["internal.kro.run/cluster-inventory"].to_string();
    assert!(inventory.contains("eu-kubeconfig"), "{inventory}");
    eu.proxy.set(Fault::Pass);
    wait::woken(wait::until_deleted(&eu.config_maps, "x-app")).await;
    wait::woken(world.until("x", |instance| cluster_entry(instance, "eu-kubeconfig").is_null())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cleanup_of_a_cluster_that_no_longer_exists_can_be_abandoned() {
    let world = World::new("AbandonedCleanup", one_region()).await;
    world.create("x", json!({"region": "eu"})).await;
    world.until_state("x", "ACTIVE").await;
    let us = world.region("us");
    world.region("eu").proxy.set(Fault::Refuse);
    world.secrets.delete("eu-kubeconfig", &Default::default()).await.unwrap();
    world.until_condition("x", ("RemoteClusterConnected", "False", "SecretNotAvailable")).await;
    world.patch("x", json!({"spec": {"region": "us"}})).await;
    wait::until_object(&us.config_maps, "x-app", |_| true).await;
    let moved =
        world.until("x", |instance| cluster_entry(instance, "eu-kubeconfig")["connected"] == false).await;
    let uid = cluster_entry(&moved, "eu-kubeconfig")["uid"].as_str().unwrap().to_owned();
    world.patch("x", json!({"metadata": {"annotations": {"kro.run/abandon-cluster": uid}}})).await;
    let abandoned = wait::woken(world.until("x", |instance| {
        let inventory = instance["metadata"]["annotations"]["internal.kro.run/cluster-inventory"].to_string();
        cluster_entry(instance, "eu-kubeconfig").is_null() && inventory.contains("us-kubeconfig")
    }))
    .await;
    assert_eq!(abandoned["status"]["state"], "ACTIVE", "{abandoned:#}");
    world.delete("x").await;
    wait::until_deleted(&world.instances, "x").await;
    assert!(us.config_maps.get_opt("x-app").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn deletes_a_secret_of_the_graph_after_cleaning_up_the_cluster_that_was_left() {
    let world = World::new("KeyChanger", crate::deletion::graph_with_secret()).await;
    let (eu, us) = (world.region("eu"), world.region("us"));
    let spec = |secret: &str, region: &str| json!({"secret": secret, "kubeconfig": world.kubeconfig(region).to_string()});
    world.create("x", spec("old", "us")).await;
    world.until_state("x", "ACTIVE").await;
    us.proxy.set(Fault::Refuse);
    world.until_condition("x", ("RemoteClusterConnected", "False", "Unreachable")).await;
    world.patch("x", json!({"spec": spec("new", "eu")})).await;
    wait::until_object(&eu.config_maps, "x-app", |_| true).await;
    world.until("x", |instance| cluster_entry(instance, "old-kubeconfig")["connected"] == false).await;
    assert!(
        world.secrets.get_opt("old-kubeconfig").await.unwrap().is_some(),
        "the pending cleanup still needs it"
    );
    us.proxy.set(Fault::Pass);
    wait::woken(wait::until_deleted(&us.config_maps, "x-app")).await;
    wait::woken(wait::until_deleted(&world.secrets, "old-kubeconfig")).await;
    world.until("x", |instance| cluster_entry(instance, "old-kubeconfig").is_null()).await;
    world.delete("x").await;
    wait::until_deleted(&world.instances, "x").await;
    assert!(eu.config_maps.get_opt("x-app").await.unwrap().is_none());
}
