//! Suspended instances.

use kross_testing::wait;
use serde_json::json;

use crate::setup::condition;
use crate::world::{World, config_map, value};

#[tokio::test(flavor = "multi_thread")]
async fn does_not_reconcile_a_suspended_instance() {
    let schema = json!({"spec": {"text": "string"}});
    let world =
        World::new("Suspended", schema, json!([config_map("a", json!({"x": "${schema.spec.text}"}))])).await;
    world.create("x", json!({"text": "1"})).await;
    world.until_state("x", "ACTIVE").await;
    let suspend =
        json!({"metadata": {"annotations": {"kro.run/reconcile": "Suspended"}}, "spec": {"text": "2"}});
    world.patch("x", suspend).await;
    let suspended = world
        .until("x", |instance| condition(instance, "ResourcesReady")["reason"] == "ReconciliationSuspended")
        .await;
    assert_eq!(suspended["status"]["state"], "ACTIVE");
    assert_eq!(value(&world.config_maps.get("x-a").await.unwrap(), "x"), Some("1"));
    world.patch("x", json!({"metadata": {"annotations": {"kro.run/reconcile": null}}})).await;
    wait::until_object(&world.config_maps, "x-a", |object| value(object, "x") == Some("2")).await;
    world.until_state("x", "ACTIVE").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deletes_a_suspended_instance() {
    let world = World::new("Resting", json!({"spec": {}}), json!([config_map("a", json!({}))])).await;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    for word in ["suspended", "DISABLED"] {
        world.patch("x", json!({"metadata": {"annotations": {"kro.run/reconcile": word}}})).await;
        world
            .until("x", |instance| {
                condition(instance, "ResourcesReady")["reason"] == "ReconciliationSuspended"
            })
            .await;
        if word == "suspended" {
            world.patch("x", json!({"metadata": {"annotations": {"kro.run/reconcile": null}}})).await;
            world.until_state("x", "ACTIVE").await;
        }
    }
    world.delete("x").await;
    wait::until_deleted(&world.instances, "x").await;
    assert!(world.config_maps.get_opt("x-a").await.unwrap().is_none());
}
