//! `lifecycle.delete.forceAfter` and `forceWhen`: how long a deletion waits before the object is orphaned.

use kross_testing::wait;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::instance_api::ownership_metadata;
use crate::retain_and_adopt::event;
use crate::world::{World, config_map};

#[tokio::test(flavor = "multi_thread")]
async fn orphans_an_object_that_is_not_deleted_within_force_after_and_names_it() {
    let mut stuck = config_map("stuck", json!({"a": "1"}));
    stuck["lifecycle"] = json!({"delete": {"forceAfter": "8s"}});
    let resources = json!([config_map("base", json!({})), stuck]);
    let world = World::new("ForceAfter", json!({"spec": {}}), resources).await;
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
    // Times are stored in whole seconds.
    assert!(started.elapsed().as_secs() >= 7, "orphaned before `forceAfter`");
    let orphaned = world.config_maps.get("x-stuck").await.unwrap();
    assert!(orphaned.metadata.deletion_timestamp.is_some());
    assert_eq!(ownership_metadata(&orphaned), [""; 0]);
    assert!(world.config_maps.get_opt("x-base").await.unwrap().is_none());
    let note = event(&world, "x", "LeftBehind").await;
    assert!(note.contains(&format!("ConfigMap {}/x-stuck", world.namespace)), "{note}");
    assert!(note.contains("test.kross.run/hold"), "{note}");
    world.config_maps.patch("x-stuck", &PatchParams::default(), &hold(json!([]))).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn force_after_applies_only_once_force_when_is_true() {
    let mut stuck = config_map("stuck", json!({"a": "1"}));
    stuck["lifecycle"] = json!({"delete": {"forceAfter": "1s", "forceWhen": ["${schema.spec.force}"]}});
    let world = World::new("ForceWhen", json!({"spec": {"force": "boolean"}}), json!([stuck])).await;
    world.create("x", json!({"force": false})).await;
    world.until_state("x", "ACTIVE").await;
    let hold = |finalizers| Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
    let held = hold(json!(["test.kross.run/hold"]));
    world.config_maps.patch("x-stuck", &PatchParams::default(), &held).await.unwrap();
    world.delete("x").await;
    // Creating and deleting another instance takes longer than a second: the deletion still waits.
    let waiting = world
        .until("x", |instance| {
            instance["metadata"]["annotations"]["internal.kro.run/delete-attempts"].is_string()
        })
        .await;
    assert!(
        waiting["metadata"]["annotations"]["internal.kro.run/delete-attempts"].as_str().unwrap().len() > 30
    );
    world.create("y", json!({"force": false})).await;
    world.until_state("y", "ACTIVE").await;
    world.delete("y").await;
    wait::until_deleted(&world.instances, "y").await;
    assert!(world.instances.get_opt("x").await.unwrap().is_some());
    world.patch("x", json!({"spec": {"force": true}})).await;
    wait::woken(wait::until_deleted(&world.instances, "x")).await;
    assert_eq!(ownership_metadata(&world.config_maps.get("x-stuck").await.unwrap()), [""; 0]);
    world.config_maps.patch("x-stuck", &PatchParams::default(), &hold(json!([]))).await.unwrap();
}
