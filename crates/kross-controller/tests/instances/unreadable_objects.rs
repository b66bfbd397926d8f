//! Objects that the controller cannot read: they are reported, and all other objects of their kind are reconciled.

use http::Request;
use k8s_openapi::api::core::v1::ConfigMap;
use kross_controller::Settings;
use kross_testing::{shared, wait};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value as Json, json};

use crate::instance_api::{InstanceApi, edit, value};
use crate::setup::{Objects, Running, condition, install};
use crate::world::{World, config_map};

/// A control plane whose controller this test starts and stops.
const PLANE: &str = "unreadable";
const METRIC: &str = "kross_unreadable_objects";
const PATH: &str = "/apis/kro.run/v1alpha1/namespaces/default/blobs";

/// A value that is nested 140 levels deep. It is sent as text, since the client of the tests cannot read it either.
fn deep() -> String {
    format!("{}1{}", r#"{"a":"#.repeat(140), "}".repeat(140))
}

/// Creates an instance whose `spec.blob` is nested too deeply.
async fn create_deep(client: &Client, name: &str) {
    let blob = deep();
    let instance = format!(
        r#"{{"apiVersion":"kro.run/v1alpha1","kind":"Blob","metadata":{{"name":"{name}"}},"spec":{{"blob":{blob}}}}}"#
    );
    let request = Request::post(PATH).header("content-type", "application/json");
    client.request_text(request.body(instance.into_bytes()).unwrap()).await.unwrap();
}

async fn until_unreadable(running: &Running, count: f64) {
    let metric = || running.metric(METRIC);
    wait::until_true(format!("{count} unreadable objects"), || (metric() - count).abs() < 0.5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_instance_does_not_stop_the_others() {
    let client = shared(PLANE).await.client().await.unwrap();
    install(&client).await;
    let objects = Objects { client: client.clone() };
    let instances = InstanceApi::new(&objects, "Blob", "default");
    let config_maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let running = Running::start(PLANE, Settings::default()).await;
    let schema = json!({"apiVersion": "v1alpha1", "kind": "Blob",
        "spec": {"note": "string | default=\"a\"", "blob": "object"}});
    let resources = json!([config_map("map", json!({"note": "${schema.spec.note}"}))]);
    objects
        .create(&json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
            "metadata": {"name": "blob"}, "spec": {"schema": schema, "resources": resources}}))
        .await;
    objects.until_ready("blob").await;
    for name in ["one", "two"] {
        instances.create(name, json!({})).await;
        instances.until_state(name, "ACTIVE").await;
    }
    create_deep(&client, "deep").await;
    running.stop().await;

    let running = Running::start(PLANE, Settings::default()).await;
    instances.patch("one", json!({"spec": {"note": "b"}})).await;
    wait::until_object(&config_maps, "one-map", |map| value(map, "note") == Some("b")).await;
    edit(&config_maps, "two-map", json!({"note": "edited"})).await;
    wait::until_object(&config_maps, "two-map", |map| value(map, "note") == Some("a")).await;
    instances.create("three", json!({})).await;
    instances.until_state("three", "ACTIVE").await;
    until_unreadable(&running, 1.0).await;
    until_event(&objects, "deep").await;
    assert!(config_maps.get_opt("deep-map").await.unwrap().is_none());

    // The watch reports an object that becomes unreadable, becomes readable again, or is deleted.
    create_deep(&client, "live").await;
    until_unreadable(&running, 2.0).await;
    until_event(&objects, "live").await;
    instances
        .instances
        .patch("live", &PatchParams::default(), &Patch::Merge(json!({"spec": {"blob": null}})))
        .await
        .unwrap();
    instances.until_state("live", "ACTIVE").await;
    until_unreadable(&running, 1.0).await;
    let delete = Request::delete(format!("{PATH}/deep")).body(Vec::new()).unwrap();
    client.request_text(delete).await.unwrap();
    until_unreadable(&running, 0.0).await;
    running.stop().await;
}

/// Waits until there is an Event that says why an instance cannot be read.
async fn until_event(objects: &Objects, instance: &str) {
    let (api, instance) = (objects.events("default"), instance.to_owned());
    wait::until(format!("an Event on `{instance}`"), move || {
        let (api, instance) = (api.clone(), instance.clone());
        async move {
            let events = api.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
            let mut notes = events.items.iter().filter(|event| {
                event.data["regarding"]["name"] == instance.as_str() && event.data["reason"] == "Unreadable"
            });
            notes.next().map(|event| event.data["note"].to_string()).ok_or("no Event".to_owned())
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_child_is_neither_pruned_nor_replaced() {
    let children =
        World::new("DeepChild", json!({"spec": {"note": "string", "blob": "object"}}), json!([])).await;
    let child = json!({"id": "child", "includeWhen": ["${schema.spec.more}"], "template": {
        "apiVersion": "kro.run/v1alpha1", "kind": "DeepChild",
        "metadata": {"name": "${schema.metadata.name}-child"}, "spec": {"note": "${schema.spec.note}"}}});
    let resources = json!([child, config_map("map", json!({"note": "${schema.spec.note}"}))]);
    let schema = json!({"spec": {"note": "string | default=\"a\"", "more": "boolean | default=true"}});
    let world = World::new("DeepParent", schema, resources).await;
    for name in ["x", "y"] {
        world.create(name, json!({})).await;
        world.until_state(name, "ACTIVE").await;
    }
    let client = &world.objects.client;
    let child = children.objects.namespaced("kro.run", "DeepChild", "deepchildren", &world.namespace);
    let uid = child.get("x-child").await.unwrap().metadata.uid;
    let path = format!("/apis/kro.run/v1alpha1/namespaces/{}/deepchildren/x-child", world.namespace);
    let patch = |blob: &str| {
        let request = Request::patch(&path).header("content-type", "application/merge-patch+json");
        request.body(format!(r#"{{"spec":{{"blob":{blob}}}}}"#).into_bytes()).unwrap()
    };
    client.request_text(patch(&deep())).await.unwrap();

    // Only the resource of that kind fails; the other one and the other instance are updated.
    let message = |instance: &Json| condition(instance, "ResourcesReady")["message"].to_string();
    world.patch("x", json!({"spec": {"note": "b"}})).await;
    let failed = world.until_state("x", "ERROR").await;
    let text = message(&failed);
    assert!(text.contains("x-child") && text.contains("nested too deeply"), "{text}");
    wait::until_object(&world.config_maps, "x-map", |map| value(map, "note") == Some("b")).await;
    world.patch("y", json!({"spec": {"note": "c"}})).await;
    world.until_state("y", "ACTIVE").await;
    // It is not pruned, and the deletion of the instance waits for it.
    world.patch("x", json!({"spec": {"more": false}})).await;
    world.until("x", |instance| condition(instance, "Ready")["observedGeneration"] == 3).await;
    world.delete("x").await;
    world.until("x", |instance| message(instance).contains("deletion blocked")).await;
    let found = client.request_text(Request::get(&path).body(Vec::new()).unwrap()).await.unwrap();
    assert!(found.contains(&format!(r#""uid":"{}""#, uid.unwrap())) && !found.contains("deletionTimestamp"));

    client.request_text(patch("null")).await.unwrap();
    wait::until_deleted(&world.instances, "x").await;
    wait::until_deleted(&child, "x-child").await;
}
