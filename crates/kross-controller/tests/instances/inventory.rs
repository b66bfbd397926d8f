//! The inventory in an instance's annotations: written before objects are created, restored, and verified before deletion.

use kross_testing::{Action, Answer, Requests, Verb, wait};
use serde_json::{Value as Json, json};

use crate::setup::condition;
use crate::world::{World, config_map};

#[tokio::test(flavor = "multi_thread")]
async fn blocks_deletion_on_a_tampered_inventory() {
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
async fn blocks_deletion_on_an_incomplete_inventory() {
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
async fn restores_inventory_and_finalizer_that_were_removed_from_an_instance() {
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
async fn writes_a_kind_to_the_inventory_before_its_first_object() {
    let secret = json!({"id": "secret", "template": {"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "${map.metadata.name}"}}});
    let resources = json!([config_map("map", json!({})), secret]);
    let world = World::new("Foresighted", json!({"spec": {}}), resources).await;
    let kinds = "applyset.kubernetes.io/contains-group-kinds";
    let broken = || Action::Answer(Answer::status(500));
    let own = |resource: &str| Requests::any().resource(resource).namespace(&world.namespace);
    // As long as the instance cannot be held, nothing is made.
    let unheld = world.proxy.on(own("foresighteds.kro.run").verb(Verb::Patch), broken());
    world.create("x", json!({})).await;
    wait::until_true("the instance to be tried", || {
        world.sent().iter().any(|sent| sent.starts_with("patch foresighteds"))
    })
    .await;
    assert_eq!(world.sent().iter().filter(|sent| sent.starts_with("apply")).count(), 0);
    // Once it is, it says what is about to be made, and keeps that although it cannot be made.
    let unfinished_hooks = world.proxy.on(own("secrets").verb(Verb::Apply), broken());
    world.proxy.remove(unheld);
    let failed = |instance: &Json| {
        let message = &condition(instance, "ResourcesReady")["message"];
        message.as_str().is_some_and(|message| message.contains("Secret"))
    };
    let held = world.until("x", failed).await;
    assert_eq!(held["metadata"]["finalizers"], json!(["kro.run/finalizer"]));
    assert_eq!(held["metadata"]["annotations"][kinds], "ConfigMap,Secret");
    world.proxy.remove(unfinished_hooks);
    world.until_state("x", "ACTIVE").await;
}
