//! Waiting that ends.

use kross_testing::wait;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::instance_api::marks;
use crate::retain_and_adopt::event;
use crate::world::{World, config_map};

#[tokio::test(flavor = "multi_thread")]
async fn orphans_an_object_that_is_not_deleted_within_force_after_and_names_it() {
    let mut stuck = config_map("stuck", json!({"a": "1"}));
    stuck["lifecycle"] = json!({"delete": {"forceAfter": "8s"}});
    let resources = json!([config_map("base", json!({})), stuck]);
    let world = World::new("Impatient", json!({"spec": {}}), resources).await;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    let hold = |finalizers| Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
    let held = hold(json!(["test.kross.run/hold"]));
    world.config_maps.patch("x-stuck", &PatchParams::default(), &held).await.unwrap();
    let started = std::time::Instant::now();
    world.delete("x").await;
    let waiting = world
        .until("x", |instance| {
            let entries = instance["status"]["managedResources"].as_array().cloned().unwrap_or_default();
            entries
                .iter()
                .any(|entry| entry["message"].as_str().is_some_and(|it| it.contains("test.kross.run/hold")))
        })
        .await;
    assert_eq!(waiting["status"]["state"], "DELETING");
    wait::until_deleted(&world.instances, "x").await;
    // Times are kept in whole seconds.
    assert!(started.elapsed().as_secs() >= 7, "it was waited for");
    let left = world.config_maps.get("x-stuck").await.unwrap();
    assert!(left.metadata.deletion_timestamp.is_some());
    assert_eq!(marks(&left), [""; 0]);
    assert!(world.config_maps.get_opt("x-base").await.unwrap().is_none());
    let note = event(&world, "x", "LeftBehind").await;
    assert!(note.contains(&format!("ConfigMap {}/x-stuck", world.namespace)), "{note}");
    assert!(note.contains("test.kross.run/hold"), "{note}");
    world.config_maps.patch("x-stuck", &PatchParams::default(), &hold(json!([]))).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn force_after_applies_only_once_force_when_is_true() {
    let mut stuck = config_map("stuck", json!({"a": "1"}));
    stuck["lifecycle"] = json!({"delete": {"forceAfter": "1s", "forceWhen": ["${schema.spec.givenUp}"]}});
    let world = World::new("Undecided", json!({"spec": {"givenUp": "boolean"}}), json!([stuck])).await;
    world.create("x", json!({"givenUp": false})).await;
    world.until_state("x", "ACTIVE").await;
    let hold = |finalizers| Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
    let held = hold(json!(["test.kross.run/hold"]));
    world.config_maps.patch("x-stuck", &PatchParams::default(), &held).await.unwrap();
    world.delete("x").await;
    // Another instance comes and goes, well after the second: this one still waits.
    let kept = world
        .until("x", |instance| {
            instance["metadata"]["annotations"]["internal.kro.run/delete-attempts"].is_string()
        })
        .await;
    assert!(kept["metadata"]["annotations"]["internal.kro.run/delete-attempts"].as_str().unwrap().len() > 30);
    world.create("y", json!({"givenUp": false})).await;
    world.until_state("y", "ACTIVE").await;
    world.delete("y").await;
    wait::until_deleted(&world.instances, "y").await;
    assert!(world.instances.get_opt("x").await.unwrap().is_some());
    world.patch("x", json!({"spec": {"givenUp": true}})).await;
    wait::until_deleted(&world.instances, "x").await;
    assert_eq!(marks(&world.config_maps.get("x-stuck").await.unwrap()), [""; 0]);
    world.config_maps.patch("x-stuck", &PatchParams::default(), &hold(json!([]))).await.unwrap();
}
