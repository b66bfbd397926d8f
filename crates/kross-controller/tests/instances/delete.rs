//! How an instance goes.

use kross_testing::wait;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::setup::condition;
use crate::world::{World, config_map};

#[tokio::test(flavor = "multi_thread")]
async fn objects_go_in_reverse_order_and_the_instance_last() {
    let resources = json!([config_map("a", json!({})), config_map("b", json!({"a": "${a.metadata.name}"}))]);
    let world = World::new("Leaving", json!({"spec": {}}), resources).await;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    let hold = |finalizers| json!({"metadata": {"finalizers": finalizers}});
    let hold_it = hold(json!(["test.kross.run/hold"]));
    world.config_maps.patch("x-b", &PatchParams::default(), &Patch::Merge(hold_it)).await.unwrap();
    world.delete("x").await;
    let leaving =
        world.until("x", |instance| condition(instance, "ResourcesReady")["reason"] == "UnderDeletion").await;
    assert_eq!(leaving["status"]["state"], "DELETING");
    wait::until_object(&world.config_maps, "x-b", |object| object.metadata.deletion_timestamp.is_some())
        .await;
    // `b` needs `a`, so `a` stays as long as `b` is there.
    assert!(world.config_maps.get("x-a").await.unwrap().metadata.deletion_timestamp.is_none());
    let release = hold(json!([]));
    world.config_maps.patch("x-b", &PatchParams::default(), &Patch::Merge(release)).await.unwrap();
    wait::until_gone(&world.instances, "x").await;
    assert!(world.config_maps.get_opt("x-a").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_without_finalizers_goes_in_one_pass() {
    let resources = json!([
        config_map("a", json!({})),
        config_map("b", json!({"a": "${a.metadata.name}"})),
        config_map("c", json!({"b": "${b.metadata.name}"})),
    ]);
    let world = World::new("Swift", json!({"spec": {}}), resources).await;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    let before = world.sent().len();
    world.delete("x").await;
    wait::until_gone(&world.instances, "x").await;
    let ns = &world.namespace;
    let sent = world.sent();
    let expected = [
        format!("list configmaps {ns}"),
        format!("update swifts.kro.run/status {ns}/x"),
        format!("delete configmaps {ns}/x-c"),
        format!("delete configmaps {ns}/x-b"),
        format!("delete configmaps {ns}/x-a"),
        format!("patch swifts.kro.run {ns}/x"),
    ];
    assert_eq!(sent.get(before..).unwrap(), expected);
    for id in ["a", "b", "c"] {
        assert!(world.config_maps.get_opt(&format!("x-{id}")).await.unwrap().is_none(), "{id}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_inventory_that_was_tampered_with_blocks_deletion() {
    let world = World::new("Tampered", json!({"spec": {}}), json!([config_map("a", json!({}))])).await;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    let suspend = json!({"metadata": {"annotations": {
        "applyset.kubernetes.io/contains-group-kinds": "",
    }}});
    world.patch("x", suspend).await;
    let refused = world.until("x", |instance| instance["status"]["state"] == "ERROR").await;
    assert_eq!(condition(&refused, "InstanceManaged")["reason"], "ManagementFailed");
    world.delete("x").await;
    let blocked =
        world.until("x", |instance| condition(instance, "ResourcesReady")["reason"] == "UnderDeletion").await;
    let message = condition(&blocked, "ResourcesReady")["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("deletion blocked: "), "{message}");
    // Whoever repairs it lets it go.
    let repair = json!({"metadata": {"annotations": {
        "applyset.kubernetes.io/contains-group-kinds": "ConfigMap",
    }}});
    world.patch("x", repair).await;
    wait::until_gone(&world.instances, "x").await;
    assert!(world.config_maps.get_opt("x-a").await.unwrap().is_none());
}
