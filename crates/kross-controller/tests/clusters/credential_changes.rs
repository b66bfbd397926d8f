//! Secrets whose kubeconfig changes: rotated credentials of the same cluster, and credentials of another cluster.

use kross_testing::{Requests, wait};
use serde_json::json;

use crate::moving::one_region;
use crate::setup::condition;
use crate::world::{World, cluster_entry, value};

#[tokio::test(flavor = "multi_thread")]
async fn writes_nothing_to_a_secret_of_another_cluster_until_it_is_confirmed() {
    let world = World::new("Swapped", one_region()).await;
    for (name, region) in [("x", "eu"), ("y", "us")] {
        world.create(name, json!({"region": region})).await;
        world.until_state(name, "ACTIVE").await;
    }
    let (eu, us) = (world.region("eu"), world.region("us"));
    // No other instance is left that could send requests for the namespace.
    world.delete("y").await;
    wait::until_deleted(&world.instances, "y").await;
    us.proxy.clear_requests();
    let swapped = jiff::Timestamp::now();
    world.apply_secret("eu-kubeconfig", &world.kubeconfig("us")).await;
    let stopped =
        wait::woken(world.until_condition("x", ("RemoteClusterConnected", "False", "IdentityChanged"))).await;
    assert_eq!(stopped["status"]["state"], "ERROR");
    let since: jiff::Timestamp =
        cluster_entry(&stopped, "eu-kubeconfig")["since"].as_str().unwrap().parse().unwrap();
    assert!(
        since.as_second() >= swapped.as_second(),
        "`since` is {since}, from before the Secret was changed"
    );
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
    wait::woken(world.until_state("x", "ACTIVE")).await;
    assert_eq!(value(&us.config_maps.get("x-app").await.unwrap(), "text"), Some("two"));
    assert_eq!(
        value(&eu.config_maps.get("x-app").await.unwrap(), "text"),
        Some("one"),
        "the object in the old cluster is orphaned, not deleted"
    );
    world.delete("x").await;
    wait::until_deleted(&world.instances, "x").await;
    assert!(us.config_maps.get_opt("x-app").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn recovers_when_a_swapped_secret_is_restored() {
    let world = World::new("Unswapped", one_region()).await;
    world.create("x", json!({"region": "eu"})).await;
    world.until_state("x", "ACTIVE").await;
    world.apply_secret("eu-kubeconfig", &world.kubeconfig("us")).await;
    wait::woken(world.until_condition("x", ("RemoteClusterConnected", "False", "IdentityChanged"))).await;
    world.apply_secret("eu-kubeconfig", &world.kubeconfig("eu")).await;
    wait::woken(world.until_state("x", "ACTIVE")).await;
    assert!(world.region("us").config_maps.get_opt("x-app").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_no_deletion_to_a_secret_of_another_cluster_until_it_is_confirmed() {
    let world = World::new("Unreturned", one_region()).await;
    world.create("x", json!({"region": "eu"})).await;
    world.until_state("x", "ACTIVE").await;
    world.apply_secret("eu-kubeconfig", &world.kubeconfig("us")).await;
    // Until the new cluster is identified, the old credential is used.
    wait::woken(world.until_condition("x", ("RemoteClusterConnected", "False", "IdentityChanged"))).await;
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
    wait::woken(wait::until_deleted(&world.instances, "x")).await;
    assert!(
        world.region("eu").config_maps.get_opt("x-app").await.unwrap().is_some(),
        "the object in the old cluster is orphaned"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn uses_a_rotated_credential_without_a_failed_request() {
    let world = World::new("Rotated", one_region()).await;
    world.create("x", json!({"region": "eu"})).await;
    world.until_state("x", "ACTIVE").await;
    let eu = world.region("eu");
    let access = kross_local::Access::all();
    let (plane, namespace) = (eu.cluster.plane, &world.namespace);
    let first = plane.mint_token(namespace, "first", &access).await.unwrap();
    world.apply_secret("eu-kubeconfig", &eu.proxy.kubeconfig(&first).unwrap()).await;
    wait::until_true("the new credential to be used", || {
        eu.proxy.requests(&Requests::any()).iter().any(|record| record.status() == Some(200))
    })
    .await;
    for round in 0..3 {
        let next = plane.mint_token(namespace, &format!("next-{round}"), &access).await.unwrap();
        world.apply_secret("eu-kubeconfig", &eu.proxy.kubeconfig(&next).unwrap()).await;
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
