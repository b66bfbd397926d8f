//! The connection Secret and the target of a bound claim.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kross_testing::{Requests, Verb, wait};
use kube::api::{DeleteParams, ObjectMeta, PostParams};
use serde_json::{Value as Json, json};

use crate::setup::{condition, until};
use crate::world::{World, bytes, create, get, is_write, patch};

#[tokio::test(flavor = "multi_thread")]
async fn copies_the_connection_secret_and_keeps_it_in_step() {
    let world = World::new().await;
    let managed = world.bound("dev", "Cloud", json!({})).await;
    let copy = world.secrets().get("dev-conn").await.unwrap();
    assert_eq!(
        copy.data,
        Some(bytes(&[("kubeconfig", "first")])),
        "only the keys of a connection are copied"
    );
    assert_eq!(copy.metadata.owner_references.unwrap()[0].uid, world.claim_uid("dev").await);
    world.write_source("Cloud", &managed, "second").await;
    let has = |key: &'static str| move |copy: &Secret| copy.data == Some(bytes(&[("kubeconfig", key)]));
    wait::until_object(&world.secrets(), "dev-conn", has("second")).await;
    // A copy that somebody edits, or deletes, is written again.
    let mut edited = world.secrets().get("dev-conn").await.unwrap();
    edited.data = Some(bytes(&[("kubeconfig", "edited")]));
    world.secrets().replace("dev-conn", &PostParams::default(), &edited).await.unwrap();
    wait::until_object(&world.secrets(), "dev-conn", has("second")).await;
    let uid = world.secrets().get("dev-conn").await.unwrap().metadata.uid;
    world.secrets().delete("dev-conn", &DeleteParams::default()).await.unwrap();
    wait::until_object(&world.secrets(), "dev-conn", |copy| copy.metadata.uid != uid && has("second")(copy))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn never_overwrites_a_foreign_secret_and_publishes_nothing_then() {
    let world = World::new().await;
    let metadata = ObjectMeta { name: Some("dev-conn".to_owned()), ..ObjectMeta::default() };
    let foreign = Secret { metadata, data: Some(bytes(&[("kubeconfig", "foreign")])), ..Secret::default() };
    world.secrets().create(&PostParams::default(), &foreign).await.unwrap();
    world.class("small", "Cloud", json!({})).await;
    world.claim_of("dev", "small").await;
    let managed = world.provisioned("dev", "Cloud").await;
    world.make_ready("Cloud", &managed).await;
    let claim = world.until_condition("dev", ("ConnectionSecretPropagated", "False", "SecretConflict")).await;
    assert_eq!(claim["status"]["bindingPhase"], "Bound");
    assert_eq!(condition(&claim, "TargetPublished")["status"], "Unknown");
    assert!(world.targets().get_opt("dev").await.unwrap().is_none());
    assert_eq!(world.secret_value("dev-conn", "kubeconfig").await.as_deref(), Some("foreign"));
    world.secrets().delete("dev-conn", &DeleteParams::default()).await.unwrap();
    world.until_ready("dev").await;
    assert_eq!(world.secret_value("dev-conn", "kubeconfig").await.as_deref(), Some("first"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_the_resource_does_not_control_is_not_copied() {
    let world = World::new().await;
    world.class("small", "Cloud", json!({})).await;
    world.claim_of("dev", "small").await;
    let managed = world.provisioned("dev", "Cloud").await;
    let metadata = ObjectMeta { name: Some("source".to_owned()), ..ObjectMeta::default() };
    let source = Secret { metadata, data: Some(bytes(&[("kubeconfig", "stolen")])), ..Secret::default() };
    world.secrets().create(&PostParams::default(), &source).await.unwrap();
    world.set_ready("Cloud", &managed, "True").await;
    world.until_condition("dev", ("ConnectionSecretPropagated", "False", "SecretNotControlled")).await;
    assert!(world.secrets().get_opt("dev-conn").await.unwrap().is_none());
    world.write_source("Cloud", &managed, "own").await;
    world.until_ready("dev").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_without_a_secret_is_bound_and_says_that_it_is_not_published() {
    let world = World::new().await;
    world.class("small", "Cloud", json!({})).await;
    world.claim("dev", json!({"classRef": {"name": world.named("small")}})).await;
    let managed = world.provisioned("dev", "Cloud").await;
    world.make_ready("Cloud", &managed).await;
    let claim = world.until_ready("dev").await;
    for kind in ["ConnectionSecretPropagated", "TargetPublished"] {
        let found = condition(&claim, kind);
        assert_eq!((&found["status"], &found["reason"]), (&json!("False"), &json!("NotRequested")));
    }
    assert!(world.targets().get_opt("dev").await.unwrap().is_none());
    // It can be asked for later.
    patch(&world.claims(), "dev", json!({"spec": {"writeConnectionSecretToRef": {"name": "conn"}}})).await;
    until(world.targets(), "dev".to_owned(), |target| {
        target["spec"]["connectionSecretRef"]["name"] == "conn"
    })
    .await;
    world.until_condition("dev", ("TargetPublished", "True", "Published")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_target_has_the_name_the_labels_and_the_secret_of_the_claim() {
    let world = World::new().await;
    world.bound("dev", "Cloud", json!({})).await;
    let target = get(&world.targets(), "dev").await;
    assert_eq!(target["spec"], json!({"connectionSecretRef": {"name": "dev-conn"}}));
    assert_eq!(target["metadata"]["labels"], json!({"env": "dev"}));
    let owner = &target["metadata"]["ownerReferences"][0];
    assert_eq!(owner["uid"], json!(world.claim_uid("dev").await));
    assert_eq!(owner["controller"], true);

    patch(&world.targets(), "dev", json!({"metadata": {"labels": {"added": "by-a-publisher"}}})).await;
    patch(&world.claims(), "dev", json!({"metadata": {"labels": {"env": null, "tier": "web"}}})).await;
    let expected = json!({"tier": "web", "added": "by-a-publisher"});
    until(world.targets(), "dev".to_owned(), move |target| target["metadata"]["labels"] == expected).await;
    // A label that somebody removes from the target comes back, and so does the target.
    patch(&world.targets(), "dev", json!({"metadata": {"labels": {"tier": null}}})).await;
    until(world.targets(), "dev".to_owned(), |target| target["metadata"]["labels"]["tier"] == "web").await;
    let uid = get(&world.targets(), "dev").await["metadata"]["uid"].clone();
    world.targets().delete("dev", &DeleteParams::default()).await.unwrap();
    until(world.targets(), "dev".to_owned(), move |target| target["metadata"]["uid"] != uid).await;
    world.until_ready("dev").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_name_that_is_taken_is_reported_and_left_alone() {
    let world = World::new().await;
    let target = json!({"apiVersion": "workload.crossplane.io/v1alpha1", "kind": "KubernetesTarget",
        "metadata": {"name": "dev"}, "spec": {"connectionSecretRef": {"name": "mine"}}});
    create(&world.targets(), target).await;
    world.class("small", "Cloud", json!({})).await;
    world.claim_of("dev", "small").await;
    let managed = world.provisioned("dev", "Cloud").await;
    world.make_ready("Cloud", &managed).await;
    let claim = world.until_condition("dev", ("TargetPublished", "False", "NameTaken")).await;
    assert_eq!(claim["status"]["bindingPhase"], "Bound");
    let target = get(&world.targets(), "dev").await;
    assert_eq!(
        (&target["spec"]["connectionSecretRef"]["name"], &target["metadata"]["labels"]),
        (&json!("mine"), &Json::Null)
    );
    world.targets().delete("dev", &DeleteParams::default()).await.unwrap();
    world.until_ready("dev").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_published_claim_causes_no_requests() {
    let world = World::new().await;
    let managed = world.bound("dev", "Cloud", json!({})).await;
    let proxy = world.proxy.unwrap();
    let of_claim = || {
        let requests = proxy.requests(&Requests::any());
        let requests = requests.iter().map(|record| record.request.clone());
        let is_it = |request: &kross_testing::Request| {
            (request.namespace.as_deref() == Some(&*world.namespace)
                || request.name.as_deref() == Some(&*managed))
                && request.verb != Verb::Watch
                && !request.resource.starts_with("events")
        };
        requests.filter(is_it).collect::<Vec<_>>()
    };
    // Nothing more for a second: then nothing is left to do.
    let mut last = (of_claim().len(), std::time::Instant::now());
    wait::until_true("the claim to be idle", || {
        let count = of_claim().len();
        if count != last.0 {
            last = (count, std::time::Instant::now());
        }
        last.1.elapsed() > Duration::from_secs(2)
    })
    .await;
    let writes = of_claim().into_iter().filter(|request| is_write(request.verb)).count();
    assert!(writes <= 12, "{:#?}", of_claim());
    assert!(of_claim().len() <= 20, "{:#?}", of_claim());
}
