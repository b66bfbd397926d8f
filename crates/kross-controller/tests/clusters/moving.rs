//! Instances that move from one cluster to another, and Secrets that lead elsewhere than before.

use kross_testing::{Fault, Requests, wait};
use serde_json::json;

use crate::setup::condition;
use crate::world::{World, cluster, config_map, value};

fn one_region() -> serde_json::Value {
    json!({"schema": {"spec": {"region": "string", "text": "string | default=one"}}, "resources": [
        config_map("app", Some("${schema.spec.region}"), json!({"text": "${schema.spec.text}"})),
    ]})
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_moves_leaves_nothing_behind() {
    let world = World::new("Mover", one_region()).await;
    world.create("x", json!({"region": "eu"})).await;
    world.until_state("x", "ACTIVE").await;
    let (eu, us) = (world.region("eu"), world.region("us"));
    assert!(eu.config_maps.get_opt("x-app").await.unwrap().is_some());
    world.patch("x", json!({"spec": {"region": "us"}})).await;
    wait::until_object(&us.config_maps, "x-app", |_| true).await;
    wait::until_gone(&eu.config_maps, "x-app").await;
    let moved = world
        .until("x", |instance| {
            let inventory = &instance["metadata"]["annotations"]["internal.kro.run/cluster-inventory"];
            instance["status"]["state"] == "ACTIVE"
                && inventory
                    .as_str()
                    .is_some_and(|text| text.contains("us-kubeconfig") && !text.contains("eu-kubeconfig"))
                && cluster(instance, "eu-kubeconfig").is_null()
        })
        .await;
    assert_eq!(cluster(&moved, "us-kubeconfig")["connected"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_owed_to_a_dark_cluster_is_kept_and_paid() {
    let world = World::new("Debtor", one_region()).await;
    world.create("x", json!({"region": "eu"})).await;
    world.until_state("x", "ACTIVE").await;
    let (eu, us) = (world.region("eu"), world.region("us"));
    eu.proxy.set(Fault::Refuse);
    world.until_condition("x", ("RemoteClusterConnected", "False", "Unreachable")).await;
    world.patch("x", json!({"spec": {"region": "us"}})).await;
    wait::until_object(&us.config_maps, "x-app", |_| true).await;
    let owing = world.until_state("x", "ACTIVE").await;
    let entry = cluster(&owing, "eu-kubeconfig");
    assert_eq!(entry["connected"], false, "{owing:#}");
    let message = condition(&owing, "RemoteClusterConnected")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("eu-kubeconfig") && message.contains("cleanup pending in cluster"), "{message}");
    let inventory = owing["metadata"]["annotations"]["internal.kro.run/cluster-inventory"].to_string();
    assert!(inventory.contains("eu-kubeconfig"), "{inventory}");
    eu.proxy.set(Fault::Pass);
    wait::until_gone(&eu.config_maps, "x-app").await;
    world.until("x", |instance| cluster(instance, "eu-kubeconfig").is_null()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_owed_to_a_cluster_that_is_gone_for_good_can_be_given_up() {
    let world = World::new("Bankrupt", one_region()).await;
    world.create("x", json!({"region": "eu"})).await;
    world.until_state("x", "ACTIVE").await;
    let us = world.region("us");
    world.region("eu").proxy.set(Fault::Refuse);
    world.secrets.delete("eu-kubeconfig", &Default::default()).await.unwrap();
    world.until_condition("x", ("RemoteClusterConnected", "False", "SecretNotAvailable")).await;
    world.patch("x", json!({"spec": {"region": "us"}})).await;
    wait::until_object(&us.config_maps, "x-app", |_| true).await;
    world.until("x", |instance| cluster(instance, "eu-kubeconfig")["connected"] == false).await;
    world
        .patch("x", json!({"metadata": {"annotations": {"internal.kro.run/cluster-inventory": null}}}))
        .await;
    let free = world
        .until("x", |instance| {
            let inventory =
                instance["metadata"]["annotations"]["internal.kro.run/cluster-inventory"].to_string();
            cluster(instance, "eu-kubeconfig").is_null() && inventory.contains("us-kubeconfig")
        })
        .await;
    assert_eq!(free["status"]["state"], "ACTIVE", "{free:#}");
    world.delete("x").await;
    wait::until_gone(&world.instances, "x").await;
    assert!(us.config_maps.get_opt("x-app").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_leads_to_another_cluster_stops_everything_until_it_is_confirmed() {
    let world = World::new("Swapped", one_region()).await;
    for (name, region) in [("x", "eu"), ("y", "us")] {
        world.create(name, json!({"region": region})).await;
        world.until_state(name, "ACTIVE").await;
    }
    let (eu, us) = (world.region("eu"), world.region("us"));
    // Nobody else is there any more who would ask for anything in the namespace.
    world.delete("y").await;
    wait::until_gone(&world.instances, "y").await;
    us.proxy.forget();
    let swapped = jiff::Timestamp::now();
    world.secret("eu-kubeconfig", &world.kubeconfig("us")).await;
    let stopped = world.until_condition("x", ("RemoteClusterConnected", "False", "IdentityChanged")).await;
    assert_eq!(stopped["status"]["state"], "ERROR");
    let since: jiff::Timestamp =
        cluster(&stopped, "eu-kubeconfig")["since"].as_str().unwrap().parse().unwrap();
    assert!(since.as_second() >= swapped.as_second(), "{since} is when the other cluster was connected");
    let message = condition(&stopped, "RemoteClusterConnected")["message"].as_str().unwrap().to_owned();
    let uid = message.split("kro.run/confirm-cluster=").nth(1).unwrap().split('`').next().unwrap().to_owned();
    world.patch("x", json!({"spec": {"text": "two"}})).await;
    world
        .until("x", |instance| {
            condition(instance, "Ready")["observedGeneration"] == instance["metadata"]["generation"]
        })
        .await;
    assert!(us.config_maps.get_opt("x-app").await.unwrap().is_none());
    assert_eq!(value(&eu.config_maps.get("x-app").await.unwrap(), "text"), Some("one"));
    let namespaced = Requests::any().namespace(&world.namespace);
    assert_eq!(us.proxy.count(&namespaced), 0, "{:?}", us.proxy.requests(&namespaced));
    world.patch("x", json!({"metadata": {"annotations": {"kro.run/confirm-cluster": uid}}})).await;
    world.until_state("x", "ACTIVE").await;
    assert_eq!(value(&us.config_maps.get("x-app").await.unwrap(), "text"), Some("two"));
    assert_eq!(
        value(&eu.config_maps.get("x-app").await.unwrap(), "text"),
        Some("one"),
        "it is given up, not removed"
    );
    world.delete("x").await;
    wait::until_gone(&world.instances, "x").await;
    assert!(us.config_maps.get_opt("x-app").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_was_swapped_by_mistake_can_be_restored() {
    let world = World::new("Unswapped", one_region()).await;
    world.create("x", json!({"region": "eu"})).await;
    world.until_state("x", "ACTIVE").await;
    world.secret("eu-kubeconfig", &world.kubeconfig("us")).await;
    world.until_condition("x", ("RemoteClusterConnected", "False", "IdentityChanged")).await;
    world.secret("eu-kubeconfig", &world.kubeconfig("eu")).await;
    world.until_state("x", "ACTIVE").await;
    assert!(world.region("us").config_maps.get_opt("x-app").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn deletion_stops_as_well_until_it_is_confirmed() {
    let world = World::new("Unreturned", one_region()).await;
    world.create("x", json!({"region": "eu"})).await;
    world.until_state("x", "ACTIVE").await;
    world.secret("eu-kubeconfig", &world.kubeconfig("us")).await;
    // Until it is known, the old credential is used, and rightly so.
    world.until_condition("x", ("RemoteClusterConnected", "False", "IdentityChanged")).await;
    world.delete("x").await;
    let stopped = world
        .until("x", |instance| {
            let message =
                condition(instance, "ResourcesReady")["message"].as_str().unwrap_or_default().to_owned();
            message.contains("kro.run/confirm-cluster=")
        })
        .await;
    assert_eq!(stopped["metadata"]["finalizers"], json!(["kro.run/finalizer"]));
    let message = condition(&stopped, "ResourcesReady")["message"].as_str().unwrap().to_owned();
    let uid = message.split("kro.run/confirm-cluster=").nth(1).unwrap().split('`').next().unwrap().to_owned();
    world.patch("x", json!({"metadata": {"annotations": {"kro.run/confirm-cluster": uid}}})).await;
    wait::until_gone(&world.instances, "x").await;
    assert!(world.region("eu").config_maps.get_opt("x-app").await.unwrap().is_some(), "it is given up");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotated_credential_is_taken_over_without_a_failed_request() {
    let world = World::new("Rotated", one_region()).await;
    world.create("x", json!({"region": "eu"})).await;
    world.until_state("x", "ACTIVE").await;
    let eu = world.region("eu");
    let access = kross_local::Access::all();
    let (plane, namespace) = (eu.cluster.plane, &world.namespace);
    let first = plane.mint_token(namespace, "first", &access).await.unwrap();
    world.secret("eu-kubeconfig", &eu.proxy.kubeconfig(&first).unwrap()).await;
    wait::until_true("the new credential to be used", || {
        eu.proxy.requests(&Requests::any()).iter().any(|record| record.status() == Some(200))
    })
    .await;
    for round in 0..3 {
        let next = plane.mint_token(namespace, &format!("next-{round}"), &access).await.unwrap();
        world.secret("eu-kubeconfig", &eu.proxy.kubeconfig(&next).unwrap()).await;
        let text = format!("round {round}");
        world.patch("x", json!({"spec": {"text": text}})).await;
        wait::until_object(&eu.config_maps, "x-app", |object| value(object, "text") == Some(&text)).await;
    }
    world.until_state("x", "ACTIVE").await;
    let refused = eu.proxy.requests(&Requests::any());
    let refused: Vec<_> = refused
        .iter()
        .filter(|record| record.status().is_some_and(|status| status == 401 || status == 403))
        .collect();
    assert!(refused.is_empty(), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_the_graph_made_itself_goes_when_its_cluster_was_left() {
    let world = World::new("KeyChanger", crate::delete::own_credentials()).await;
    let (eu, us) = (world.region("eu"), world.region("us"));
    let spec = |secret: &str, region: &str| json!({"secret": secret, "kubeconfig": world.kubeconfig(region).to_string()});
    world.create("x", spec("old", "us")).await;
    world.until_state("x", "ACTIVE").await;
    us.proxy.set(Fault::Refuse);
    world.until_condition("x", ("RemoteClusterConnected", "False", "Unreachable")).await;
    world.patch("x", json!({"spec": spec("new", "eu")})).await;
    wait::until_object(&eu.config_maps, "x-app", |_| true).await;
    world.until("x", |instance| cluster(instance, "old-kubeconfig")["connected"] == false).await;
    assert!(world.secrets.get_opt("old-kubeconfig").await.unwrap().is_some(), "it is still needed");
    us.proxy.set(Fault::Pass);
    wait::until_gone(&us.config_maps, "x-app").await;
    wait::until_gone(&world.secrets, "old-kubeconfig").await;
    world.until("x", |instance| cluster(instance, "old-kubeconfig").is_null()).await;
    world.delete("x").await;
    wait::until_gone(&world.instances, "x").await;
    assert!(eu.config_maps.get_opt("x-app").await.unwrap().is_none());
}
