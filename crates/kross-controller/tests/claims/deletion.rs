//! The deletion of claims: target, copy, managed resource, in this order, and not while somebody else publishes the cluster.

use k8s_openapi::api::core::v1::Namespace;
use kross_testing::{objects, wait};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::setup::{condition, until};
use crate::world::{World, create, get, patch};

const HOLD: &str = "example.com/hold";

#[tokio::test(flavor = "multi_thread")]
async fn deletes_target_then_secret_then_managed_resource() {
    let world = World::new().await;
    let managed = world.bound("dev", "Cloud", json!({})).await;
    // Somebody else's finalizers show the order.
    patch(&world.targets(), "dev", json!({"metadata": {"finalizers": [HOLD]}})).await;
    patch(&world.managed("Cloud"), &managed, json!({"metadata": {"finalizers": [HOLD]}})).await;
    world.delete_claim("dev").await;
    until(world.targets(), "dev".to_owned(), |target| !target["metadata"]["deletionTimestamp"].is_null())
        .await;
    let claim = world.until_condition("dev", ("Ready", "False", "InUse")).await;
    assert_eq!(claim["status"]["bindingPhase"], "Bound");
    let cloud = get(&world.managed("Cloud"), &managed).await;
    assert!(cloud["metadata"]["deletionTimestamp"].is_null());
    assert_eq!(world.secret_value("dev-conn", "kubeconfig").await.as_deref(), Some("first"));

    // Finalizers that other controllers added meanwhile stay theirs.
    let target = get(&world.targets(), "dev").await;
    let others: Vec<_> =
        target["metadata"]["finalizers"].as_array().unwrap().iter().filter(|name| **name != HOLD).collect();
    patch(&world.targets(), "dev", json!({"metadata": {"finalizers": others}})).await;
    until(world.managed("Cloud"), managed.clone(), |cloud| !cloud["metadata"]["deletionTimestamp"].is_null())
        .await;
    let claim = world.until_condition("dev", ("Ready", "False", "Deleting")).await;
    assert!(condition(&claim, "Ready")["message"].as_str().unwrap().contains(&managed));
    assert!(world.targets().get_opt("dev").await.unwrap().is_none());
    assert!(world.secrets().get_opt("dev-conn").await.unwrap().is_none());
    patch(&world.managed("Cloud"), &managed, json!({"metadata": {"finalizers": null}})).await;
    world.until_deleted("dev").await;
    assert!(world.managed("Cloud").get_opt(&managed).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn is_held_back_while_targets_in_any_namespace_publish_the_resource() {
    let world = World::new().await;
    let managed = world.bound("dev", "Cloud", json!({})).await;
    let elsewhere = world.named("elsewhere");
    let namespaces: Api<Namespace> = Api::all(world.objects.client.clone());
    namespaces.create(&PostParams::default(), &objects::namespace(&elsewhere)).await.unwrap();
    let reference = json!({"apiVersion": "cloud.example.com/v1", "kind": "Cloud", "name": managed});
    for (namespace, spec) in [
        (&elsewhere, json!({"clusterRef": reference})),
        (&world.namespace, json!({"connectionSecretRef": {"name": "dev-conn"}})),
    ] {
        let target = json!({"apiVersion": "workload.crossplane.io/v1alpha1", "kind": "KubernetesTarget",
            "metadata": {"name": "published"}, "spec": spec});
        create(&world.targets_in(namespace), target).await;
    }
    world.delete_claim("dev").await;
    let named = [format!("`{elsewhere}/published`"), format!("`{}/published`", world.namespace)];
    let names_all = named.clone();
    world
        .until_claim("dev", move |claim| {
            let ready = condition(claim, "Ready");
            let message = ready["message"].as_str().unwrap_or_default();
            ready["reason"] == "InUse" && names_all.iter().all(|name| message.contains(name))
        })
        .await;
    world.targets().delete("published", &DeleteParams::default()).await.unwrap();
    world
        .until_claim("dev", move |claim| {
            let message = condition(claim, "Ready")["message"].clone();
            let message = message.as_str().unwrap_or_default();
            message.contains(&named[0]) && !message.contains(&named[1])
        })
        .await;
    let cloud = get(&world.managed("Cloud"), &managed).await;
    assert!(cloud["metadata"]["deletionTimestamp"].is_null());
    world.targets_in(&elsewhere).delete("published", &DeleteParams::default()).await.unwrap();
    world.until_deleted("dev").await;
    assert!(world.managed("Cloud").get_opt(&managed).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retained_resource_is_released_and_offered_to_nobody() {
    for kind in ["Cloud", "Plain"] {
        let world = World::new().await;
        let managed = world.bound("dev", kind, json!({"spec": {"reclaimPolicy": "Retain"}})).await;
        world.delete_claim("dev").await;
        world.until_deleted("dev").await;
        let object = get(&world.managed(kind), &managed).await;
        assert!(object["metadata"]["deletionTimestamp"].is_null());
        let phase = if kind == "Cloud" {
            &object["status"]["bindingPhase"]
        } else {
            &object["metadata"]["annotations"]["kro.run/binding-phase"]
        };
        assert_eq!(phase, "Released");
        assert!(world.secrets().get_opt("dev-conn").await.unwrap().is_none());
        assert!(world.secrets().get_opt("source").await.unwrap().is_some());
        // A new claim of the same name does not get it.
        let reference = json!({"apiVersion": "cloud.example.com/v1", "kind": kind, "name": managed});
        world.claim("dev", json!({"resourceRef": reference})).await;
        world.until_condition("dev", ("Ready", "False", "NotOffered")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_owner_of_an_existing_resource_may_let_it_be_deleted_with_the_claim() {
    let world = World::new().await;
    let name = world.named("existing");
    let object = json!({"apiVersion": "cloud.example.com/v1", "kind": "Plain", "metadata": {"name": name, "annotations": {
        "kro.run/claim": format!("{}/dev", world.namespace), "kro.run/reclaim-policy": "Delete"}}, "spec": {}});
    create(&world.managed("Plain"), object).await;
    world.set_ready("Plain", &name, "True").await;
    let reference = json!({"apiVersion": "cloud.example.com/v1", "kind": "Plain", "name": name});
    world.claim("dev", json!({"resourceRef": reference})).await;
    world.until_ready("dev").await;
    world.delete_claim("dev").await;
    world.until_deleted("dev").await;
    wait::until_deleted(&world.managed("Plain"), &name).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_was_never_bound_takes_its_provisioned_resource_along() {
    let world = World::new().await;
    world.class("small", "Plain", json!({})).await;
    world.claim_of("dev", "small").await;
    let managed = world.provisioned("dev", "Plain").await;
    world.delete_claim("dev").await;
    world.until_deleted("dev").await;
    assert!(world.managed("Plain").get_opt(&managed).await.unwrap().is_none());
    // One that is only offered stays as it is.
    let name = world.named("offered");
    let object = json!({"apiVersion": "cloud.example.com/v1", "kind": "Plain", "metadata": {"name": name, "annotations": {
        "kro.run/claim": format!("{}/late", world.namespace), "kro.run/reclaim-policy": "Delete"}}, "spec": {}});
    create(&world.managed("Plain"), object).await;
    let reference = json!({"apiVersion": "cloud.example.com/v1", "kind": "Plain", "name": name});
    world.claim("late", json!({"resourceRef": reference})).await;
    world.until_condition("late", ("Ready", "False", "ManagedResourceNotReady")).await;
    world.delete_claim("late").await;
    world.until_deleted("late").await;
    assert!(world.managed("Plain").get_opt(&name).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_whose_kind_was_uninstalled_is_deleted() {
    let world = World::new().await;
    let crd = json!({"metadata": {"name": "fleetings.fleeting.example.com"}, "spec": {"group": "fleeting.example.com",
        "scope": "Cluster", "names": {"kind": "Fleeting", "plural": "fleetings"}, "versions": [{"name": "v1", "served": true,
            "storage": true, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": {"type": "object",
                "x-kubernetes-preserve-unknown-fields": true}}}]}});
    crate::setup::install_crds(&world.objects.client, vec![serde_json::from_value(crd).unwrap()]).await;
    let template = json!({"apiVersion": "fleeting.example.com/v1", "kind": "Fleeting"});
    world.class("fleeting", "Cloud", json!({"spec": {"template": template}})).await;
    world.claim_of("dev", "fleeting").await;
    let name = format!("cluster-{}", world.claim_uid("dev").await);
    let managed = world.objects.api("fleeting.example.com", "v1", "Fleeting", "fleetings");
    until(managed, name, |_| true).await;
    world.objects.crds().delete("fleetings.fleeting.example.com", &DeleteParams::default()).await.unwrap();
    wait::until_deleted(&world.objects.crds(), "fleetings.fleeting.example.com").await;
    world.until_condition("dev", ("Ready", "False", "ManagedKindNotServed")).await;
    world.delete_claim("dev").await;
    world.until_deleted("dev").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn finalizers_of_others_do_not_make_it_start_over() {
    let world = World::new().await;
    world.class("small", "Plain", json!({})).await;
    world.claim_of("dev", "small").await;
    let managed = world.provisioned("dev", "Plain").await;
    let finalizers = json!([HOLD, "kro.run/finalizer"]);
    patch(&world.claims(), "dev", json!({"metadata": {"finalizers": finalizers}})).await;
    world.delete_claim("dev").await;
    world.until_claim("dev", |claim| claim["metadata"]["finalizers"] == json!([HOLD])).await;
    assert!(world.managed("Plain").get_opt(&managed).await.unwrap().is_none());
    let none = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    world.claims().patch("dev", &PatchParams::default(), &none).await.unwrap();
    world.until_deleted("dev").await;
}
