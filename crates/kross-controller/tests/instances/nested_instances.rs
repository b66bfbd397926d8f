//! Graphs whose resources are instances of other definitions, or definitions.

use kross_testing::wait;
use serde_json::json;

use crate::setup::until;
use crate::world::{World, config_map, value};

#[tokio::test(flavor = "multi_thread")]
async fn creates_instances_of_another_definition() {
    let inner = json!({"spec": {"text": "string"}, "status": {"said": "${a.data.x}"}});
    let inner =
        World::new("Nested", inner, json!([config_map("a", json!({"x": "${schema.spec.text}!"}))])).await;
    let outer = json!([
        {"id": "inner", "template": {"apiVersion": "kro.run/v1alpha1", "kind": "Nested",
            "metadata": {"name": "${schema.metadata.name}-inner"}, "spec": {"text": "${schema.spec.text}"}}},
        config_map("b", json!({"x": "${inner.status.said}"})),
    ]);
    let outer = World::new("Nesting", json!({"spec": {"text": "string"}}), outer).await;
    outer.create("x", json!({"text": "hello"})).await;
    outer.until_state("x", "ACTIVE").await;
    let copied = outer.config_maps.get("x-b").await.unwrap();
    assert_eq!(value(&copied, "x"), Some("hello!"));
    outer.patch("x", json!({"spec": {"text": "bye"}})).await;
    wait::until_object(&outer.config_maps, "x-b", |object| value(object, "x") == Some("bye!")).await;
    outer.delete("x").await;
    wait::until_deleted(&outer.instances, "x").await;
    assert!(outer.config_maps.get_opt("x-inner-a").await.unwrap().is_none());
    drop(inner);
}

#[tokio::test(flavor = "multi_thread")]
async fn children_have_no_definition_labels_even_if_they_are_instances() {
    let inner = World::new("Unlabelled", json!({"spec": {}}), json!([config_map("a", json!({}))])).await;
    let nested = json!({"id": "inner", "template": {"apiVersion": "kro.run/v1alpha1", "kind": "Unlabelled",
        "metadata": {"name": "${schema.metadata.name}-inner"}, "spec": {}}});
    let outer = World::new("Unlabelling", json!({"spec": {}}), json!([nested])).await;
    outer.create("x", json!({})).await;
    outer.until_state("x", "ACTIVE").await;
    let instances = inner.objects.namespaced("kro.run", "Unlabelled", "unlabelleds", &outer.namespace);
    let inner_instance =
        until(instances.clone(), "x-inner".to_owned(), |instance| instance["status"]["state"] == "ACTIVE")
            .await;
    // As an instance it has the label of its own definition, which the outer instance does not remove.
    let name = &inner_instance["metadata"]["labels"]["kro.run/resource-graph-definition-name"];
    assert_eq!(name, "unlabelled");
    let child = outer.config_maps.get("x-inner-a").await.unwrap();
    let labels = child.metadata.labels.unwrap();
    assert!(labels.keys().all(|label| !label.contains("resource-graph-definition")), "{labels:?}");
    assert_eq!(child.metadata.owner_references, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_and_deletes_a_definition_that_a_graph_creates_like_any_object() {
    let template = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": "made-by-a-graph"},
        "spec": {"schema": {"apiVersion": "v1alpha1", "kind": "MadeByAGraph", "group": "kro.run",
            "scope": "Namespaced", "spec": {"a": "string"}}, "resources": []}});
    let made = json!({"id": "made", "readyWhen": ["${made.status.state == 'Active'}"], "template": template});
    let world = World::new("Maker", json!({"spec": {}}), json!([made])).await;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    world.delete("x").await;
    wait::until_deleted(&world.objects.definitions(), "made-by-a-graph").await;
    wait::until_deleted(&world.instances, "x").await;
}
