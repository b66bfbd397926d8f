//! A kind stays served when another definition that uses or claims it is deleted; stale schema documents are fetched again.

use std::time::Duration;

use kross_testing::{Action, Answer, Requests, Stopwatch, wait};
use serde_json::{Value as Json, json};

use crate::setup::{condition, definition};
use crate::world::{World, config_map, edit, value};

#[tokio::test(flavor = "multi_thread")]
async fn keeps_serving_a_kind_after_a_graph_that_used_it_is_deleted() {
    let inner = World::new(
        "Lasting",
        json!({"spec": {"text": "string"}}),
        json!([config_map("a", json!({"x": "${schema.spec.text}"}))]),
    )
    .await;
    let nested = json!({"id": "inner", "template": {"apiVersion": "kro.run/v1alpha1", "kind": "Lasting",
        "metadata": {"name": "${schema.metadata.name}-inner"}, "spec": {"text": "outer"}}});
    let outer = World::new("Passing", json!({"spec": {}}), json!([nested])).await;
    inner.create("own", json!({"text": "1"})).await;
    outer.create("x", json!({})).await;
    outer.until_state("x", "ACTIVE").await;
    outer.delete("x").await;
    wait::until_deleted(&outer.instances, "x").await;
    outer.objects.delete("passing").await;
    wait::until_deleted(&outer.objects.definitions(), "passing").await;
    inner.patch("own", json!({"spec": {"text": "2"}})).await;
    wait::until_object(&inner.config_maps, "own-a", |object| value(object, "x") == Some("2")).await;
    edit(&inner.config_maps, "own-a", json!({"x": "3"})).await;
    wait::woken(wait::until_object(&inner.config_maps, "own-a", |object| value(object, "x") == Some("2")))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_contending_definition_leaves_the_kind_to_its_owner() {
    let resources = json!([config_map("a", json!({"x": "${schema.spec.text}"}))]);
    let world = World::new("Contested", json!({"spec": {"text": "string"}}), resources).await;
    world.create("x", json!({"text": "1"})).await;
    world.until_state("x", "ACTIVE").await;
    let contender = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": "contested-contender"},
        "spec": {"schema": {"apiVersion": "v1alpha1", "kind": "Contested", "spec": {"text": "string"}}, "resources": []}});
    world.objects.create(&contender).await;
    world.objects.until_condition("contested-contender", "KindReady", "False").await;
    world.objects.delete("contested-contender").await;
    wait::until_deleted(&world.objects.definitions(), "contested-contender").await;
    world.patch("x", json!({"spec": {"text": "2"}})).await;
    wait::until_object(&world.config_maps, "x-a", |object| value(object, "x") == Some("2")).await;
    world.objects.until_ready("contested").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fetches_a_stale_openapi_index_again_at_once() {
    let world = World::new("Listed", json!({"spec": {}}), json!([config_map("a", json!({}))])).await;
    let index = Requests::any().resource("/openapi/v3");
    let document = Requests::any().resource("/openapi/v3/apis/discovery.k8s.io/v1");
    // The API server redirects requests for a document with an outdated hash.
    let rule = world.proxy.on(document.clone(), Action::Answer(Answer::status(301)));
    let slice = json!({"id": "slice", "template": {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": "${schema.metadata.name}"}, "addressType": "IPv4", "endpoints": []}});
    let mut definition = definition("unlisted", "Unlisted");
    definition["spec"] = json!({"schema": {"apiVersion": "v1alpha1", "kind": "Unlisted", "spec": {}},
        "resources": [slice]});
    world.objects.create(&definition).await;
    wait::until_true("the document to be requested", || world.proxy.count(&document) > 0).await;
    let (requests, stopwatch) = (world.proxy.count(&index), Stopwatch::start());
    wait::until_true("the index to be requested", || world.proxy.count(&index) > requests).await;
    stopwatch.assert_within(Duration::from_secs(5));
    // Meanwhile the definition reports what it waits for.
    let waits = |definition: &Json| {
        let accepted = condition(definition, "GraphAccepted");
        let message = accepted["message"].as_str().unwrap_or_default();
        accepted["status"] == "Unknown" && message.starts_with("cannot fetch the schemas")
    };
    world.objects.until("unlisted", waits).await;
    world.proxy.remove(rule);
    world.objects.until_ready("unlisted").await;
}
