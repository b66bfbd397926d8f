//! Drift: the controller applies objects again that others edited, deleted or stripped of labels.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kross_testing::{objects, wait};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value as Json, json};

use crate::collections::collection;
use crate::instance_api::ownership_metadata;
use crate::setup::until;
use crate::world::{World, config_map, edit, value};

#[tokio::test(flavor = "multi_thread")]
async fn repairs_an_object_that_was_edited_or_deleted() {
    let world = World::new("Drift", json!({"spec": {}}), json!([config_map("a", json!({"x": "1"}))])).await;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    edit(&world.config_maps, "x-a", json!({"x": "2"})).await;
    wait::woken(wait::until_object(&world.config_maps, "x-a", |object| value(object, "x") == Some("1")))
        .await;
    // A field that the controller does not own is kept.
    edit(&world.config_maps, "x-a", json!({"other": "3"})).await;
    edit(&world.config_maps, "x-a", json!({"x": "4"})).await;
    let repaired =
        wait::woken(wait::until_object(&world.config_maps, "x-a", |object| value(object, "x") == Some("1")))
            .await;
    assert_eq!(value(&repaired, "other"), Some("3"));
    world.config_maps.delete("x-a", &DeleteParams::default()).await.unwrap();
    let uid = repaired.metadata.uid;
    wait::woken(wait::until_object(&world.config_maps, "x-a", |object| object.metadata.uid != uid)).await;
    world.until_state("x", "ACTIVE").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn repairs_the_object_of_an_instance_whose_name_is_longer_than_a_label() {
    let mut note = config_map("note", json!({"x": "1"}));
    note["lifecycle"] = json!({"delete": {"policy": "Retain"}});
    let resources = json!([config_map("a", json!({"x": "1"})), note]);
    let world = World::new("LongName", json!({"spec": {}}), resources).await;
    let names = ["n".repeat(248), format!("{}x", "n".repeat(247))];
    for name in &names {
        world.create(name, json!({})).await;
    }
    for name in &names {
        world.until_state(name, "ACTIVE").await;
        let child = format!("{name}-a");
        edit(&world.config_maps, &child, json!({"x": "2"})).await;
        let is_repaired = |object: &ConfigMap| value(object, "x") == Some("1");
        wait::woken(wait::until_object(&world.config_maps, &child, is_repaired)).await;
    }
    for name in &names {
        world.delete(name).await;
        wait::until_deleted(&world.instances, name).await;
        assert!(world.config_maps.get_opt(&format!("{name}-a")).await.unwrap().is_none());
        let retained = world.config_maps.get(&format!("{name}-note")).await.unwrap();
        assert_eq!(ownership_metadata(&retained), [""; 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn restores_the_labels_of_an_object_that_were_removed() {
    let world =
        World::new("Stripped", json!({"spec": {}}), json!([config_map("a", json!({"x": "1"}))])).await;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    let before = world.config_maps.get("x-a").await.unwrap();
    let stripped = json!({"metadata": {"labels": null, "annotations": null}, "data": {"x": "2"}});
    world.config_maps.patch("x-a", &PatchParams::default(), &Patch::Merge(stripped)).await.unwrap();
    let after = wait::woken(wait::until_object(&world.config_maps, "x-a", |object| {
        object.metadata.labels == before.metadata.labels
            && object.metadata.annotations == before.metadata.annotations
    }))
    .await;
    assert_eq!((value(&after, "x"), &after.metadata.uid), (Some("1"), &before.metadata.uid));
    world.until_state("x", "ACTIVE").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn repairs_an_item_in_another_namespace() {
    let mut maps = config_map("maps", json!({"x": "1"}));
    maps["forEach"] = json!([{"space": "${schema.spec.spaces}"}]);
    maps["template"]["metadata"] = json!({"name": "${schema.metadata.name}-far", "namespace": "${space}"});
    let world = World::new("Faraway", json!({"spec": {"spaces": "[]string"}}), json!([maps])).await;
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(world.objects.client.clone());
    let other = format!("{}-far", world.namespace);
    namespaces.create(&PostParams::default(), &objects::namespace(&other)).await.unwrap();
    world.create("x", json!({"spaces": [other]})).await;
    world.until_state("x", "ACTIVE").await;
    let far: Api<ConfigMap> = Api::namespaced(world.objects.client.clone(), &other);
    edit(&far, "x-far", json!({"x": "2"})).await;
    wait::woken(wait::until_object(&far, "x-far", |object| value(object, "x") == Some("1"))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn repairs_every_item_of_a_collection() {
    let maps = collection(
        "maps",
        "name",
        "${schema.spec.names}",
        "${schema.metadata.name}-${name}",
        json!({"x": "1"}),
    );
    let world = World::new("EachItem", json!({"spec": {"names": "[]string"}}), json!([maps])).await;
    world.create("x", json!({"names": ["a", "b", "c"]})).await;
    world.until_state("x", "ACTIVE").await;
    for name in ["x-a", "x-b", "x-c"] {
        edit(&world.config_maps, name, json!({"x": "2"})).await;
        wait::woken(wait::until_object(&world.config_maps, name, |object| value(object, "x") == Some("1")))
            .await;
        world.config_maps.delete(name, &DeleteParams::default()).await.unwrap();
        wait::woken(wait::until_object(&world.config_maps, name, |object| {
            value(object, "x") == Some("1") && object.metadata.deletion_timestamp.is_none()
        }))
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_wake_the_instance_of_their_own_kind() {
    let one = World::new("SameNameA", json!({"spec": {}}), json!([config_map("a", json!({"x": "a"}))])).await;
    let two = World::new("SameNameB", json!({"spec": {}}), json!([config_map("b", json!({"x": "b"}))])).await;
    // The instances have the same name and namespace.
    let instance =
        json!({"apiVersion": "kro.run/v1alpha1", "kind": "SameNameB", "metadata": {"name": "x"}, "spec": {}});
    let others = two.objects.namespaced("kro.run", "SameNameB", "samenamebs", &one.namespace);
    others.create(&PostParams::default(), &serde_json::from_value(instance).unwrap()).await.unwrap();
    one.create("x", json!({})).await;
    one.until_state("x", "ACTIVE").await;
    until(others, "x".to_owned(), |instance| instance["status"]["state"] == "ACTIVE").await;
    for (name, own) in [("x-a", "a"), ("x-b", "b")] {
        edit(&one.config_maps, name, json!({"x": "changed"})).await;
        wait::woken(wait::until_object(&one.config_maps, name, |object| value(object, "x") == Some(own)))
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn creates_an_object_again_although_somebody_changed_its_labels_while_it_was_being_deleted() {
    let world = World::new("Disguised", json!({"spec": {}}), json!([config_map("a", json!({}))])).await;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    let uid = world.config_maps.get("x-a").await.unwrap().metadata.uid;
    let patch = async |metadata: Json| {
        let patch = Patch::Merge(json!({"metadata": metadata}));
        world.config_maps.patch("x-a", &PatchParams::default(), &patch).await.unwrap();
    };
    patch(json!({"finalizers": ["test.kross.run/hold"]})).await;
    world.config_maps.delete("x-a", &DeleteParams::default()).await.unwrap();
    world.until_state("x", "IN_PROGRESS").await;
    patch(json!({"labels": {"kro.run/instance-name": "another"}})).await;
    world.until_quiet(Duration::from_secs(1)).await;
    patch(json!({"finalizers": []})).await;
    wait::woken(wait::until_object(&world.config_maps, "x-a", |object| object.metadata.uid != uid)).await;
    world.until_state("x", "ACTIVE").await;
}
