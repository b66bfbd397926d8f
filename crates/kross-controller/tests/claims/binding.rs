//! Which managed resources a claim binds, and when it stays bound.

use kross_testing::wait;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::setup::{condition, until};
use crate::world::{World, create, get, patch};

/// Creates a managed resource that no claim provisioned.
async fn existing(world: &World, kind: &str, name: &str, offer: serde_json::Value) {
    let mut object = json!({"apiVersion": "cloud.example.com/v1", "kind": kind, "metadata": {"name": name}, "spec": {
        "zone": "b", "writeConnectionSecretToRef": {"namespace": world.namespace, "name": "source"}}});
    if kind == "Cloud" {
        object["spec"]["claimRef"] = offer;
    } else {
        object["metadata"]["annotations"] = offer;
    }
    create(&world.managed(kind), object).await;
    world.make_ready(kind, name).await;
}

fn reference(kind: &str, name: &str) -> serde_json::Value {
    json!({"resourceRef": {"apiVersion": "cloud.example.com/v1", "kind": kind, "name": name},
        "writeConnectionSecretToRef": {"name": "conn"}})
}

#[tokio::test(flavor = "multi_thread")]
async fn binds_an_existing_resource_only_if_it_names_the_claim() {
    let world = World::new().await;
    // Offered to nobody, to a claim of the same name elsewhere, and to an earlier claim of the name.
    for (claim, offer) in [
        ("unoffered", json!(null)),
        ("elsewhere", json!({"namespace": "elsewhere", "name": "elsewhere"})),
        ("prod", json!({"namespace": world.namespace, "name": "prod", "uid": "of-an-earlier-claim"})),
    ] {
        existing(&world, "Cloud", &world.named(claim), offer).await;
        world.claim(claim, reference("Cloud", &world.named(claim))).await;
        let refused = world.until_condition(claim, ("Ready", "False", "NotOffered")).await;
        assert_eq!(refused["status"]["bindingPhase"], "Unbindable");
        assert_eq!(
            get(&world.managed("Cloud"), &world.named(claim)).await["status"]["bindingPhase"],
            json!(null)
        );
    }
    assert!(world.secrets().get_opt("conn").await.unwrap().is_none());

    let name = world.named("prod");
    world.write_source("Cloud", &name, "first").await;
    let offer = json!({"namespace": world.namespace, "name": "prod", "uid": null});
    patch(&world.managed("Cloud"), &name, json!({"spec": {"claimRef": offer}})).await;
    world.until_ready("prod").await;
    let cloud = get(&world.managed("Cloud"), &name).await;
    assert_eq!(cloud["status"]["bindingPhase"], "Bound");
    assert_eq!(cloud["spec"]["claimRef"]["uid"], json!(world.claim_uid("prod").await));
    assert_eq!(cloud["metadata"]["annotations"]["kro.run/reclaim-policy"], "Retain");
}

#[tokio::test(flavor = "multi_thread")]
async fn binds_by_annotation_where_the_kind_has_no_claim_ref() {
    let world = World::new().await;
    let name = world.named("plain");
    let offer = format!("{}/dev", world.namespace);
    existing(&world, "Plain", &name, json!({"kro.run/claim": offer})).await;
    world.claim("dev", reference("Plain", &name)).await;
    world.until_ready("dev").await;
    let annotations = get(&world.managed("Plain"), &name).await["metadata"]["annotations"].clone();
    assert_eq!(annotations["kro.run/claim"], format!("{offer}/{}", world.claim_uid("dev").await));
    assert_eq!(annotations["kro.run/binding-phase"], "Bound");
}

#[tokio::test(flavor = "multi_thread")]
async fn stays_bound_when_the_resource_is_not_ready_any_more() {
    let world = World::new().await;
    let managed = world.bound("dev", "Cloud", json!({})).await;
    world.set_ready("Cloud", &managed, "False").await;
    let claim = world
        .until_claim("dev", |claim| {
            condition(claim, "Synced")["message"]
                .as_str()
                .is_some_and(|message| message.contains("not Ready"))
        })
        .await;
    assert_eq!(claim["status"]["bindingPhase"], "Bound");
    assert_eq!(condition(&claim, "Ready")["status"], "True");
    // A provider that replaces its status does not unbind it either.
    let status = Patch::Merge(json!({"status": {"bindingPhase": null}}));
    world.managed("Cloud").patch_status(&managed, &PatchParams::default(), &status).await.unwrap();
    until(world.managed("Cloud"), managed, |cloud| cloud["status"]["bindingPhase"] == "Bound").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_managed_resource_is_reported_and_not_replaced() {
    let world = World::new().await;
    let managed = world.bound("dev", "Plain", json!({})).await;
    world.managed("Plain").delete(&managed, &DeleteParams::default()).await.unwrap();
    let claim = world.until_condition("dev", ("Ready", "False", "ManagedResourceNotFound")).await;
    assert_eq!(claim["status"]["bindingPhase"], "Released");
    until(world.targets(), "dev".to_owned(), |target| {
        let propagated = condition(target, "ConnectionSecretPropagated");
        propagated["reason"] == "Released" && condition(target, "Ready")["status"] == "False"
    })
    .await;
    patch(&world.claims(), "dev", json!({"metadata": {"labels": {"touched": "yes"}}})).await;
    world.until_condition("dev", ("Ready", "False", "ManagedResourceNotFound")).await;
    assert!(world.managed("Plain").get_opt(&managed).await.unwrap().is_none());
    world.delete_claim("dev").await;
    world.until_deleted("dev").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_server_refuses_changes_that_would_lose_a_cluster() {
    let world = World::new().await;
    world.bound("dev", "Cloud", json!({})).await;
    for (change, expected) in [
        (json!({"spec": {"resourceRef": {"name": "another"}}}), "`resourceRef` is immutable"),
        (json!({"spec": {"resourceRef": null}}), "`resourceRef` is immutable"),
        (json!({"spec": {"writeConnectionSecretToRef": null}}), "`writeConnectionSecretToRef` is immutable"),
        (json!({"spec": {"classRef": {"kind": "GKEClusterClass"}}}), "must be `KubernetesClusterClass`"),
    ] {
        let error =
            world.claims().patch("dev", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{change}: {error}");
    }
    let named = json!({"apiVersion": "compute.crossplane.io/v1alpha1", "kind": "KubernetesCluster",
        "metadata": {"name": "other"}, "spec": {"writeConnectionSecretToRef": {"name": "eu-kubeconfig"}}});
    let named = serde_json::from_value(named).unwrap();
    let error = world.claims().create(&kube::api::PostParams::default(), &named).await.unwrap_err();
    assert!(error.to_string().contains("must not end with `-kubeconfig`"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_whose_managed_resource_is_deleted_keeps_what_its_users_need() {
    let world = World::new().await;
    let managed = world.bound("dev", "Cloud", json!({})).await;
    patch(&world.managed("Cloud"), &managed, json!({"metadata": {"finalizers": ["example.com/hold"]}})).await;
    world.managed("Cloud").delete(&managed, &Default::default()).await.unwrap();
    let claim = wait::woken(world.until_condition("dev", ("Ready", "False", "Deleting"))).await;
    assert_eq!(claim["status"]["bindingPhase"], "Bound", "{claim:#}");
    assert!(condition(&claim, "Ready")["message"].as_str().unwrap().contains(&managed), "{claim:#}");
    // Another claim does not get it.
    let reference = json!({"apiVersion": "cloud.example.com/v1", "kind": "Cloud", "name": managed});
    world.claim("late", json!({"resourceRef": reference})).await;
    world.until_condition("late", ("Ready", "False", "NotOffered")).await;
    let kept = async || {
        assert_eq!(world.secret_value("dev-conn", "kubeconfig").await.as_deref(), Some("first"));
        let target = get(&world.targets(), "dev").await;
        assert!(target["metadata"]["deletionTimestamp"].is_null(), "{target:#}");
    };
    kept().await;

    patch(&world.managed("Cloud"), &managed, json!({"metadata": {"finalizers": null}})).await;
    let claim =
        wait::woken(world.until_condition("dev", ("Ready", "False", "ManagedResourceNotFound"))).await;
    assert_eq!(claim["status"]["bindingPhase"], "Released", "{claim:#}");
    let is_released = |target: &serde_json::Value| {
        condition(target, "ConnectionSecretPropagated")["reason"] == "Released"
            && condition(target, "Ready")["status"] == "False"
    };
    until(world.targets(), "dev".to_owned(), is_released).await;
    kept().await;
    world.delete_claim("dev").await;
    world.until_deleted("dev").await;
    assert!(world.targets().get_opt("dev").await.unwrap().is_none());
    assert!(world.secrets().get_opt("dev-conn").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_managed_resource_that_cannot_be_read_is_reported_and_holds_the_deletion_of_its_claim() {
    let world = World::new().await;
    let managed = world.bound("dev", "Cloud", json!({})).await;
    let path = format!("/apis/cloud.example.com/v1/clouds/{managed}/status");
    // As text, since the client of the tests cannot read it either.
    let patch_status = async |conditions: String| {
        let request = http::Request::patch(&path).header("content-type", "application/merge-patch+json");
        let patch = format!(r#"{{"status":{{"conditions":{conditions}}}}}"#);
        world.objects.client.request_text(request.body(patch.into_bytes()).unwrap()).await.unwrap();
    };
    let deep = format!("{}1{}", r#"{"a":"#.repeat(140), "}".repeat(140));
    patch_status(format!(r#"[{{"type":"Ready","status":"True","deep":{deep}}}]"#)).await;
    let unreadable = ("Synced", "False", "ManagedResourceUnreadable");
    let reported = wait::woken(world.until_condition("dev", unreadable)).await;
    assert_eq!(reported["status"]["bindingPhase"], "Bound");
    let text = condition(&reported, "Synced")["message"].to_string();
    assert!(text.contains(&managed) && text.contains("nested too deeply"), "{text}");

    world.delete_claim("dev").await;
    wait::until_deleted(&world.targets(), "dev").await;
    let waiting = world.until_condition("dev", unreadable).await;
    assert_eq!(waiting["metadata"]["finalizers"], json!(["kro.run/finalizer"]), "{waiting:#}");
    patch_status("null".to_owned()).await;
    wait::woken(async {
        world.until_deleted("dev").await;
        wait::until_deleted(&world.managed("Cloud"), &managed).await;
    })
    .await;
}
