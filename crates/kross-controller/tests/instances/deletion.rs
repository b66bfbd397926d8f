//! How an instance goes.

use kross_testing::{Action, Answer, Requests, Verb, wait};
use kube::api::{Patch, PatchParams};
use serde_json::{Value as Json, json};

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
    wait::until_deleted(&world.instances, "x").await;
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
    wait::until_deleted(&world.instances, "x").await;
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
    wait::until_deleted(&world.instances, "x").await;
    assert!(world.config_maps.get_opt("x-a").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_without_a_complete_inventory_is_not_let_go() {
    let world = World::new("Uncertain", json!({"spec": {}}), json!([config_map("a", json!({}))])).await;
    let (kinds, spaces) =
        ("applyset.kubernetes.io/contains-group-kinds", "applyset.kubernetes.io/additional-namespaces");
    let (hash, tooling) = ("internal.kro.run/applyset-inventory-hash", "applyset.kubernetes.io/tooling");
    let id = "applyset.kubernetes.io/id";
    let annotations = |annotations: Json| json!({"metadata": {"annotations": annotations}});
    let damages = [
        ("nothing", kinds, annotations(json!({kinds: null, spaces: null, hash: null, tooling: null}))),
        ("kinds", kinds, annotations(json!({kinds: null, hash: null}))),
        ("spaces", spaces, annotations(json!({spaces: null, hash: null}))),
        ("tooling", tooling, annotations(json!({tooling: "kubectl/v1.36.0"}))),
        ("id", id, json!({"metadata": {"labels": {id: null}}})),
    ];
    for (name, _, _) in &damages {
        world.create(name, json!({})).await;
    }
    for (name, said, damage) in damages {
        let before = world.until_state(name, "ACTIVE").await["metadata"].clone();
        // While it is suspended nobody repairs it.
        world.patch(name, annotations(json!({"kro.run/reconcile": "suspended"}))).await;
        world
            .until(name, |instance| {
                condition(instance, "ResourcesReady")["reason"] == "ReconciliationSuspended"
            })
            .await;
        world.patch(name, damage).await;
        world.delete(name).await;
        let blocked = world
            .until(name, |instance| condition(instance, "ResourcesReady")["reason"] == "UnderDeletion")
            .await;
        let message = condition(&blocked, "ResourcesReady")["message"].as_str().unwrap().to_owned();
        assert!(message.starts_with("deletion blocked: ") && message.contains(said), "{name}: {message}");
        assert!(world.config_maps.get_opt(&format!("{name}-a")).await.unwrap().is_some(), "{name}");
        let repair = json!({"metadata": {"labels": before["labels"], "annotations": before["annotations"]}});
        world.patch(name, repair).await;
        wait::until_deleted(&world.instances, name).await;
        assert!(world.config_maps.get_opt(&format!("{name}-a")).await.unwrap().is_none(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_inventory_that_is_taken_off_a_living_instance_comes_back() {
    let world = World::new("Restored", json!({"spec": {}}), json!([config_map("a", json!({}))])).await;
    world.create("x", json!({})).await;
    let before = world.until_state("x", "ACTIVE").await["metadata"].clone();
    let bare = json!({"metadata": {"annotations": null, "labels": null}});
    world.patch("x", bare).await;
    let after = world
        .until("x", |instance| {
            let metadata = &instance["metadata"];
            metadata["annotations"] == before["annotations"] && metadata["labels"] == before["labels"]
        })
        .await;
    assert_eq!(after["status"]["state"], "ACTIVE");
    // Without the finalizer it would go before its objects do.
    world.patch("x", json!({"metadata": {"finalizers": null}})).await;
    world.until("x", |instance| instance["metadata"]["finalizers"] == json!(["kro.run/finalizer"])).await;
    world.delete("x").await;
    wait::until_deleted(&world.instances, "x").await;
    assert!(world.config_maps.get_opt("x-a").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delete_that_meets_another_object_is_followed_by_another_look() {
    let mut second = config_map("b", json!({}));
    second["includeWhen"] = json!(["${schema.spec.both}"]);
    let resources = json!([config_map("a", json!({})), second]);
    let world = World::new("Mistaken", json!({"spec": {"both": "boolean"}}), resources).await;
    world.create("x", json!({"both": true})).await;
    world.until_state("x", "ACTIVE").await;
    let deletes = |name: &str| Requests::any().verb(Verb::Delete).namespace(&world.namespace).name(name);
    let conflict =
        || Action::Answer(Answer::status(409).message("the UID in the precondition is another one"));
    world.proxy.on_next(1, deletes("x-b"), conflict());
    world.patch("x", json!({"spec": {"both": false}})).await;
    wait::until_deleted(&world.config_maps, "x-b").await;
    world.proxy.on_next(1, deletes("x-a"), conflict());
    world.delete("x").await;
    wait::until_deleted(&world.instances, "x").await;
    assert!(world.config_maps.get_opt("x-a").await.unwrap().is_none());
}
