//! The connection Secret of a target that applications use: it is exchanged for that of another cluster, or deleted.

use k8s_openapi::api::core::v1::Secret;
use kross_testing::wait;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value as Json, json};

use crate::setup::{condition, until};
use crate::world::{World, has_state, message, template, value};

const PROTECT: &str = "kro.run/protect";

#[tokio::test(flavor = "multi_thread")]
async fn a_target_on_another_cluster_stops_its_applications_until_that_is_confirmed() {
    let world = World::new().await;
    world.publish("a", "eu", json!({})).await;
    world.create("web", &[("web", "1")], json!({})).await;
    world.until_state("web", "Submitted").await;
    let (eu, us) = (world.region("eu"), world.region("us"));
    let kubeconfig = us.proxy.kubeconfig(us.cluster.plane.admin()).unwrap();
    let secret = json!({"metadata": {"name": "other"}, "stringData": {"kubeconfig": kubeconfig.to_string()}});
    world.secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
    let patch = async |patch: Json| {
        world.targets.patch("a", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    };
    patch(json!({"spec": {"connectionSecretRef": {"name": "other"}}})).await;
    let is_stopped = |it: &Json| condition(it, "RemoteClusterConnected")["reason"] == "IdentityChanged";
    let stopped = wait::woken(until(world.resources.clone(), "web".to_owned(), is_stopped)).await;
    let text = message(&stopped, "RemoteClusterConnected");
    let command =
        format!("kubectl annotate kubernetestarget a -n {} kro.run/confirm-cluster=", world.namespace);
    assert!(text.contains(&command), "{text}");
    // At first because the target is not ready, then because of the resource.
    let has_failed = |it: &Json| has_state(it, "Failed") && message(it, "Ready").contains("`web`");
    world.until("web", has_failed).await;
    // Nothing is applied there, and nothing is deleted in the first cluster, also by a change or by another application.
    world.patch("web", json!({"spec": {"resourceTemplates": [template("web", "2")]}})).await;
    world.until_state("web", "Failed").await;
    assert!(us.config_maps.get_opt("web").await.unwrap().is_none());
    assert_eq!(value(&eu.config_maps.get("web").await.unwrap(), "text"), Some("1"));

    let after = text.split(&command).nth(1).unwrap();
    let uid: String =
        after.chars().take_while(|letter| letter.is_ascii_alphanumeric() || *letter == '-').collect();
    patch(json!({"metadata": {"annotations": {"kro.run/confirm-cluster": uid}}})).await;
    wait::woken(async {
        wait::until_object(&us.config_maps, "web", |map| value(map, "text") == Some("2")).await;
        world.until_state("web", "Submitted").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_protected_secret_is_kept_until_the_last_object_behind_its_target_is_deleted() {
    let world = World::new().await;
    world.publish("a", "eu", json!({})).await;
    let has_finalizer = |secret: &Secret| secret.metadata.finalizers.iter().flatten().any(|it| it == PROTECT);
    let label = Patch::Merge(json!({"metadata": {"labels": {PROTECT: "true"}}}));
    world.secrets.patch("a-connection", &PatchParams::default(), &label).await.unwrap();
    // It is kept only while somebody uses it.
    world.create("first", &[("first", "1")], json!({})).await;
    world.until_state("first", "Submitted").await;
    wait::woken(wait::until_object(&world.secrets, "a-connection", has_finalizer)).await;
    world.delete("first").await;
    wait::until_deleted(&world.applications, "first").await;
    wait::woken(wait::until_object(&world.secrets, "a-connection", |secret| !has_finalizer(secret))).await;

    world.create("web", &[("web", "1")], json!({})).await;
    world.until_state("web", "Submitted").await;
    wait::woken(wait::until_object(&world.secrets, "a-connection", has_finalizer)).await;
    world.secrets.delete("a-connection", &DeleteParams::default()).await.unwrap();
    let is_deleting = |it: &Json| condition(it, "ConnectionSecretPropagated")["reason"] == "Deleting";
    let target = wait::woken(until(world.targets.clone(), "a".to_owned(), is_deleting)).await;
    assert_eq!(condition(&target, "Reachable")["status"], "True", "{target:#}");
    assert_eq!(condition(&target, "Ready")["status"], "False", "{target:#}");
    // It serves deletions only.
    world.create("late", &[("late", "1")], json!({"targetRef": {"name": "a"}})).await;
    world
        .until("late", |it| condition(it, "Ready")["status"] == "False" && !has_state(it, "Scheduled"))
        .await;
    let maps = &world.region("eu").config_maps;
    assert!(maps.get_opt("late").await.unwrap().is_none());
    wait::woken(async {
        world.delete("late").await;
        world.delete("web").await;
        wait::until_deleted(&world.applications, "web").await;
        wait::until_deleted(&world.applications, "late").await;
        wait::until_deleted(&world.secrets, "a-connection").await;
    })
    .await;
    assert!(maps.get_opt("web").await.unwrap().is_none());
}
