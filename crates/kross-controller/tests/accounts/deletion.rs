//! Instances that are deleted: as their ServiceAccount, unless that is deleted with their namespace.

use kross_testing::wait;
use kube::api::{Patch, PatchParams};
use serde_json::{Value as Json, json};

use crate::instance_api::InstanceApi;
use crate::world::{World, config_map, until_says};

/// A ConfigMap in the namespace of the instance, and one that the instance places.
async fn define(world: &World, kind: &str) -> InstanceApi {
    let placed = json!({"id": "placed", "template": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "${schema.metadata.name}-placed", "namespace": "${schema.spec.namespace}"},
        "data": {"x": "1"}}});
    let schema = json!({"spec": {"namespace": "string"}});
    world.define(kind, schema, Some("deployer"), json!([config_map("own", json!({"x": "1"})), placed])).await
}

/// An instance with objects in two namespaces, whose account may not delete them.
async fn without_delete(world: &World, kind: &str, other: &str) -> InstanceApi {
    world.account("deployer").await;
    for namespace in [&world.namespace, other] {
        world.grant("deployer", namespace, "configmaps", &["get", "create", "patch"]).await;
    }
    let instances = define(world, kind).await;
    instances.create("x", json!({"namespace": other})).await;
    instances.until_state("x", "ACTIVE").await;
    instances
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_is_deleted_as_its_account() {
    let world = World::new().await;
    let (home, other) = (world.namespace.clone(), world.other_namespace().await);
    let instances = without_delete(&world, "Deleted", &other).await;
    instances.delete("x").await;
    let user = format!(
        "User \\\"system:serviceaccount:{home}:deployer\\\" cannot delete resource \\\"configmaps\\\""
    );
    until_says(&instances, "x", &[&user, "grant the permission to ServiceAccount"]).await;
    assert!(world.data(&home, "x-own").await.is_some() && world.data(&other, "x-placed").await.is_some());
    for namespace in [&home, &other] {
        world.grant("deployer", namespace, "configmaps", &["get", "delete"]).await;
    }
    wait::until_deleted(&instances.instances, "x").await;
    assert!(world.data(&home, "x-own").await.is_none() && world.data(&other, "x-placed").await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_account_an_instance_is_deleted_in_its_own_namespace_and_others_wait() {
    let world = World::new().await;
    let (home, other) = (world.namespace.clone(), world.other_namespace().await);
    let instances = without_delete(&world, "Abandoned", &other).await;
    world.remove(world.account_object("deployer")).await;
    instances.delete("x").await;
    wait::until_deleted(&world.api("", "v1", "ConfigMap", Some(&home)), "x-own").await;
    let message = format!("ServiceAccount `{home}/deployer` cannot act any more: it does not exist");
    until_says(&instances, "x", &[&message, "x-placed"]).await;
    assert!(world.data(&other, "x-placed").await.is_some());
    world.account("deployer").await;
    world.grant("deployer", &other, "configmaps", &["get", "delete"]).await;
    wait::until_deleted(&instances.instances, "x").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_is_deleted_with_its_namespace() {
    let world = World::new().await;
    let home = world.namespace.clone();
    let instances = without_delete(&world, "WithNamespace", &home).await;
    // As the namespace controller does: everything in it is deleted, in any order.
    world.remove(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": home}})).await;
    world.revoke("deployer", &home, "configmaps").await;
    world.remove(world.account_object("deployer")).await;
    instances.delete("x").await;
    wait::until_deleted(&instances.instances, "x").await;
    assert!(world.data(&home, "x-own").await.is_none() && world.data(&home, "x-placed").await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_outlives_its_definition_is_deleted_as_its_account() {
    let world = World::new().await;
    let (home, other) = (world.namespace.clone(), world.other_namespace().await);
    let instances = without_delete(&world, "Outlived", &other).await;
    let crd = world.objects.crds().get("outliveds.kro.run").await.unwrap();
    let record = &crd.metadata.annotations.unwrap()["internal.kro.run/access"];
    assert_eq!(serde_json::from_str::<Json>(record).unwrap(), json!({"serviceAccountName": "deployer"}));
    world.objects.delete("outlived").await;
    let definitions = world.objects.definitions();
    let patch = json!({"metadata": {"finalizers": null}});
    definitions.patch("outlived", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    wait::until_deleted(&definitions, "outlived").await;
    // Whoever may edit the instance cannot make it another account's.
    let forged = json!({"metadata": {"annotations": {"internal.kro.run/access": ""}}});
    instances.patch("x", forged).await;
    instances.delete("x").await;
    let user = format!(
        "User \\\"system:serviceaccount:{home}:deployer\\\" cannot delete resource \\\"configmaps\\\""
    );
    until_says(&instances, "x", &[&user]).await;
    assert!(world.data(&home, "x-own").await.is_some() && world.data(&other, "x-placed").await.is_some());
    for namespace in [&home, &other] {
        world.grant("deployer", namespace, "configmaps", &["get", "delete"]).await;
    }
    wait::until_deleted(&instances.instances, "x").await;
}
