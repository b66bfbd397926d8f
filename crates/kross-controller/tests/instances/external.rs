//! Objects that a graph only reads.

use kross_testing::{objects, wait};
use kube::api::PostParams;
use serde_json::json;

use crate::world::{World, config_map, edit, value};

#[tokio::test(flavor = "multi_thread")]
async fn an_external_object_is_waited_for_and_followed() {
    let outside = json!({"id": "outside", "externalRef": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "${schema.spec.from}"}}});
    let copy = config_map("copy", json!({"x": "${outside.data.x}"}));
    let world = World::new("Reader", json!({"spec": {"from": "string"}}), json!([outside, copy])).await;
    world.create("x", json!({"from": "elsewhere"})).await;
    world.until_state("x", "IN_PROGRESS").await;
    let elsewhere = objects::config_map("elsewhere", &[("x", "1")]);
    world.config_maps.create(&PostParams::default(), &elsewhere).await.unwrap();
    world.until_state("x", "ACTIVE").await;
    edit(&world.config_maps, "elsewhere", json!({"x": "2"})).await;
    wait::until_object(&world.config_maps, "x-copy", |object| value(object, "x") == Some("2")).await;
    // It is never ours.
    let elsewhere = world.config_maps.get("elsewhere").await.unwrap();
    assert_eq!(elsewhere.metadata.labels, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn external_objects_are_found_by_their_labels() {
    let outside = json!({"id": "outside", "externalRef": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "${schema.metadata.namespace}", "selector": {"matchLabels": {"tier": "web"}}}}});
    let count = config_map("count", json!({"n": "${string(size(outside))}"}));
    let world = World::new("Counter", json!({"spec": {}}), json!([outside, count])).await;
    world.create("x", json!({})).await;
    wait::until_object(&world.config_maps, "x-count", |object| value(object, "n") == Some("0")).await;
    for (name, seen) in [("one", "1"), ("two", "2")] {
        let mut found = objects::config_map(name, &[]);
        found.metadata.labels = Some([("tier".to_owned(), "web".to_owned())].into());
        world.config_maps.create(&PostParams::default(), &found).await.unwrap();
        wait::until_object(&world.config_maps, "x-count", |object| value(object, "n") == Some(seen)).await;
    }
}
