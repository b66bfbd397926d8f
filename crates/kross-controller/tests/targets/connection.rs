//! The connection of a target: what the status says about the cluster, how it follows an outage, and that an idle target costs
//! nothing.

use std::time::{Duration, Instant};

use kross_testing::{Fault, Requests, wait};
use kube::api::PostParams;
use serde_json::json;

use crate::setup::condition;
use crate::world::{World, message};

#[tokio::test(flavor = "multi_thread")]
async fn the_status_shows_version_uid_and_round_trip_time() {
    let world = World::new().await;
    let target = world.publish("dev").await;
    let cluster = &target["status"]["cluster"];
    assert_eq!(cluster["uid"], world.remote.uid);
    assert!(cluster["version"].as_str().unwrap().starts_with('v'), "{cluster}");
    assert!(cluster["roundTripTime"].as_str().unwrap().ends_with("ms"), "{cluster}");
    assert!(cluster["unverified"].is_null());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_cluster_is_reported_and_so_is_its_return() {
    let world = World::new().await;
    world.publish("dev").await;
    world.remote.proxy.set(Fault::Refuse);
    let target = world.until_condition("dev", ("Reachable", "False", "Unreachable")).await;
    assert_eq!(condition(&target, "Ready")["status"], "False");
    assert_eq!(condition(&target, "ConnectionSecretPropagated")["status"], "True");
    assert_eq!(target["status"]["cluster"]["uid"], world.remote.uid, "what was known is kept");
    assert!(message(&target, "Reachable").contains("dev"), "{target:#}");
    world.remote.proxy.set(Fault::Pass);
    world.until_ready("dev").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_or_useless_secret_of_the_user_is_reported_until_it_is_there() {
    let world = World::new().await;
    world.create_target("dev", json!({"connectionSecretRef": {"name": "mine"}})).await;
    let target = world.until_condition("dev", ("Reachable", "False", "SecretNotAvailable")).await;
    assert_eq!(condition(&target, "ConnectionSecretPropagated")["reason"], "LocalSecret");
    wait::woken(async {
        let secret = json!({"metadata": {"name": "mine"}, "stringData": {"kubeconfig": "nonsense"}});
        let secrets = world.secrets(&world.namespace);
        secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
        let target = world.until_condition("dev", ("Reachable", "False", "KubeconfigInvalid")).await;
        assert!(!target["status"].to_string().contains("nonsense"));
        let patch = json!({"stringData": {"kubeconfig": world.remote.kubeconfig.to_string()}});
        let patch = kube::api::Patch::Merge(patch);
        secrets.patch("mine", &kube::api::PatchParams::default(), &patch).await.unwrap();
        world.until_ready("dev").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_target_costs_no_request() {
    let world = World::new().await;
    world.publish("dev").await;
    let requests = || {
        let sent = world.proxy().requests(&Requests::any().namespace(&world.namespace));
        let sent = sent.iter().map(|record| record.request.to_string());
        sent.filter(|request| !request.contains("events")).collect::<Vec<String>>()
    };
    // What the last event caused may still be on its way.
    let (mut last, mut since) = (requests().len(), Instant::now());
    wait::until_true("the target to be idle", || {
        if requests().len() != last {
            (last, since) = (requests().len(), Instant::now());
        }
        since.elapsed() > Duration::from_secs(3)
    })
    .await;
    let sent = requests();
    assert!(sent.len() <= 12, "{} requests for one target: {sent:#?}", sent.len());
}
