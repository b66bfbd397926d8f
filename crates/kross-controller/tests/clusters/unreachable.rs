//! Unreachable clusters: what waits for them, what does not, what the status reports, and what happens when they reconnect.

use std::time::Duration;

use kross_testing::{Action, Fault, FaultProxy, Requests, Stopwatch, wait};
use serde_json::json;

use crate::setup::condition;
use crate::world::{World, cluster_entry, config_map, edit, resource_entry, value};

fn two_regions() -> serde_json::Value {
    json!({"schema": {"spec": {"text": "string"}}, "resources": [
        config_map("east", Some("eu"), json!({"text": "${schema.spec.text}"})),
        config_map("west", Some("us"), json!({"text": "${schema.spec.text}"})),
    ]})
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_cluster_neither_blocks_other_clusters_nor_loses_its_last_observed_state() {
    let mut spec = two_regions();
    spec["schema"]["status"] = json!({"east": "${east.metadata.uid}"});
    let world = World::new("PartlyUnreachable", spec).await;
    world.create("x", json!({"text": "one"})).await;
    let before = world.until_state("x", "ACTIVE").await;
    let eu = world.region("eu");
    eu.proxy.set(Fault::Refuse);
    let unreachable = world.until_condition("x", ("RemoteClusterConnected", "False", "Unreachable")).await;
    let message = condition(&unreachable, "RemoteClusterConnected")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("eu-kubeconfig") && message.contains("last seen at"), "{message}");
    world.patch("x", json!({"spec": {"text": "two"}})).await;
    let west = &world.region("us").config_maps;
    wait::woken(wait::until_object(west, "x-west", |object| value(object, "text") == Some("two"))).await;
    let unreachable = world.until_state("x", "ERROR").await;
    let (east, east_before) = (resource_entry(&unreachable, "east"), resource_entry(&before, "east"));
    assert_eq!((&east["state"], &east["reason"]), (&json!("Error"), &json!("Unreachable")), "{east:#}");
    assert_eq!((&east["uid"], &east["operation"]), (&east_before["uid"], &json!("connect")));
    assert_eq!(unreachable["status"]["east"], before["status"]["east"]);
    let entry = cluster_entry(&unreachable, "eu-kubeconfig");
    assert_eq!(entry["connected"], false, "{entry:#}");
    assert!(entry["lastContact"].as_str().is_some(), "{entry:#}");
    assert_eq!(cluster_entry(&unreachable, "us-kubeconfig")["connected"], true);
    let stopwatch = Stopwatch::start();
    eu.proxy.set(Fault::Pass);
    wait::woken(wait::until_object(&eu.config_maps, "x-east", |object| value(object, "text") == Some("two")))
        .await;
    wait::woken(world.until_state("x", "ACTIVE")).await;
    stopwatch.assert_within(Duration::from_secs(5));
}

#[tokio::test(flavor = "multi_thread")]
async fn detects_a_cluster_that_accepts_connections_and_never_answers_within_fifteen_seconds() {
    detects_the_outage_and_recovers("Silent", |proxy| proxy.set(Fault::Hang)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn detects_a_cluster_whose_packets_are_dropped_within_fifteen_seconds() {
    detects_the_outage_and_recovers("Dropped", |proxy| proxy.set(Fault::Drop)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn detects_a_cluster_that_accepts_requests_and_never_answers_within_fifteen_seconds() {
    detects_the_outage_and_recovers("Mute", |proxy| {
        proxy.on(Requests::any(), Action::Hang);
    })
    .await;
}

async fn detects_the_outage_and_recovers(kind: &str, inject: impl Fn(&FaultProxy)) {
    let world = World::new(kind, two_regions()).await;
    world.create("x", json!({"text": "one"})).await;
    world.until_state("x", "ACTIVE").await;
    let eu = world.region("eu");
    let stopwatch = Stopwatch::start();
    inject(&eu.proxy);
    let lost =
        world.until("x", |instance| condition(instance, "RemoteClusterConnected")["status"] == "False").await;
    assert_eq!(
        resource_entry(&lost, "east")["reason"],
        "Unreachable",
        "graphs react to this reason: {lost:#}"
    );
    stopwatch.assert_within(Duration::from_secs(15));
    world.patch("x", json!({"spec": {"text": "two"}})).await;
    let west = &world.region("us").config_maps;
    wait::woken(wait::until_object(west, "x-west", |object| value(object, "text") == Some("two"))).await;
    let stopwatch = Stopwatch::start();
    eu.proxy.clear();
    wait::woken(world.until_state("x", "ACTIVE")).await;
    stopwatch.assert_within(Duration::from_secs(5));
    assert_eq!(value(&eu.config_maps.get("x-east").await.unwrap(), "text"), Some("two"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_created_while_its_cluster_is_unreachable_becomes_active_on_reconnect() {
    let world = World::new("Early", two_regions()).await;
    world.region("eu").proxy.set(Fault::Refuse);
    world.create("x", json!({"text": "one"})).await;
    let waiting = world.until_condition("x", ("RemoteClusterConnected", "False", "Unreachable")).await;
    assert_eq!(
        waiting["status"]["state"], "IN_PROGRESS",
        "the cluster was never connected, so nothing has failed"
    );
    wait::until_object(&world.region("us").config_maps, "x-west", |_| true).await;
    world.region("eu").proxy.set(Fault::Pass);
    wait::woken(world.until_state("x", "ACTIVE")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_a_deleted_secret_and_recovers_when_it_is_restored() {
    let world = World::new("Keyless", two_regions()).await;
    world.create("x", json!({"text": "one"})).await;
    world.until_state("x", "ACTIVE").await;
    world.secrets.delete("eu-kubeconfig", &Default::default()).await.unwrap();
    let degraded =
        wait::woken(world.until_condition("x", ("RemoteClusterConnected", "False", "SecretNotAvailable")))
            .await;
    assert_eq!(condition(&degraded, "ClusterResolved")["reason"], "SecretNotAvailable");
    assert_eq!(resource_entry(&degraded, "east")["reason"], "Credentials");
    world.patch("x", json!({"spec": {"text": "two"}})).await;
    let west = &world.region("us").config_maps;
    wait::woken(wait::until_object(west, "x-west", |object| value(object, "text") == Some("two"))).await;
    world.apply_secret("eu-kubeconfig", &world.kubeconfig("eu")).await;
    wait::woken(world.until_state("x", "ACTIVE")).await;
    assert_eq!(value(&world.region("eu").config_maps.get("x-east").await.unwrap(), "text"), Some("two"));
}

#[tokio::test(flavor = "multi_thread")]
async fn repairs_drift_that_happened_while_the_cluster_was_unreachable() {
    let world = World::new("Gap", two_regions()).await;
    world.create("x", json!({"text": "one"})).await;
    world.until_state("x", "ACTIVE").await;
    let eu = world.region("eu");
    eu.proxy.set(Fault::Refuse);
    world.until_condition("x", ("RemoteClusterConnected", "False", "Unreachable")).await;
    edit(&eu.config_maps, "x-east", json!({"text": "edited while unreachable"})).await;
    eu.proxy.set(Fault::Pass);
    wait::woken(wait::until_object(&eu.config_maps, "x-east", |object| value(object, "text") == Some("one")))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn misses_no_event_when_connections_are_cut() {
    let world = World::new("Cut", two_regions()).await;
    world.create("x", json!({"text": "one"})).await;
    world.until_state("x", "ACTIVE").await;
    let eu = world.region("eu");
    for round in 0..3 {
        eu.proxy.cut_connections();
        edit(&eu.config_maps, "x-east", json!({"text": format!("edited {round}")})).await;
        wait::woken(wait::until_object(&eu.config_maps, "x-east", |object| {
            value(object, "text") == Some("one")
        }))
        .await;
    }
    world.until_state("x", "ACTIVE").await;
}
