//! The inventory in an instance's annotations: written before the first object is created, restored when it is removed, and
//! verified before deletion.

use kross_testing::{Action, Answer, Requests, Verb, wait};
use serde_json::{Value as Json, json};

use crate::setup::condition;
use crate::world::{World, config_map};

#[tokio::test(flavor = "multi_thread")]
async fn blocks_deletion_on_a_tampered_inventory() {
    let world = World::new("Tampered", json!({"spec": {}}), json!([config_map("a", json!({}))])).await;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    let tampered = json!({"metadata": {"annotations": {
        "applyset.kubernetes.io/contains-group-kinds": "",
    }}});
    world.patch("x", tampered).await;
    let refused = world.until("x", |instance| instance["status"]["state"] == "ERROR").await;
    assert_eq!(condition(&refused, "InstanceManaged")["reason"], "ManagementFailed");
    world.delete("x").await;
    let blocked =
        world.until("x", |instance| condition(instance, "ResourcesReady")["reason"] == "UnderDeletion").await;
    let message = condition(&blocked, "ResourcesReady")["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("deletion blocked: "), "{message}");
    // Once the inventory is restored, the deletion continues.
    let repair = json!({"metadata": {"annotations": {
        "applyset.kubernetes.io/contains-group-kinds": "ConfigMap",
    }}});
    world.patch("x", repair).await;
    wait::woken(wait::until_deleted(&world.instances, "x")).await;
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
    for (name, missing, damage) in damages {
        let before = world.until_state(name, "ACTIVE").await["metadata"].clone();
        // The controller does not restore the inventory of a suspended instance.
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
        assert!(message.starts_with("deletion blocked: ") && message.contains(missing), "{name}: {message}");
        assert!(world.config_maps.get_opt(&format!("{name}-a")).await.unwrap().is_some(), "{name}");
        let repair = json!({"metadata": {"labels": before["labels"], "annotations": before["annotations"]}});
        world.patch(name, repair).await;
        wait::woken(wait::until_deleted(&world.instances, name)).await;
        assert!(world.config_maps.get_opt(&format!("{name}-a")).await.unwrap().is_none(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn restores_inventory_and_finalizer_that_were_removed_from_an_instance() {
    let world = World::new("Restored", json!({"spec": {}}), json!([config_map("a", json!({}))])).await;
    world.create("x", json!({})).await;
    let before = world.until_state("x", "ACTIVE").await["metadata"].clone();
    let removed = json!({"metadata": {"annotations": null, "labels": null}});
    world.patch("x", removed).await;
    let after = wait::woken(world.until("x", |instance| {
        let metadata = &instance["metadata"];
        metadata["annotations"] == before["annotations"] && metadata["labels"] == before["labels"]
    }))
    .await;
    assert_eq!(after["status"]["state"], "ACTIVE");
    // Without the finalizer the instance would be deleted before its objects.
    world.patch("x", json!({"metadata": {"finalizers": null}})).await;
    wait::woken(
        world.until("x", |instance| instance["metadata"]["finalizers"] == json!(["kro.run/finalizer"])),
    )
    .await;
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
    let failure = || Action::Answer(Answer::status(500));
    let own = |resource: &str| Requests::any().resource(resource).namespace(&world.namespace);
    // Nothing is created until the finalizer and the inventory are written.
    let finalizer_rule = world.proxy.on(own("foresighteds.kro.run").verb(Verb::Patch), failure());
    world.create("x", json!({})).await;
    wait::until_true("the finalizer to be attempted", || {
        world.sent_requests().iter().any(|sent| sent.starts_with("patch foresighteds"))
    })
    .await;
    assert_eq!(world.sent_requests().iter().filter(|sent| sent.starts_with("apply")).count(), 0);
    // The inventory then names the kinds that are about to be created, and keeps them although an apply fails.
    let secret_rule = world.proxy.on(own("secrets").verb(Verb::Apply), failure());
    world.proxy.remove(finalizer_rule);
    let failed = |instance: &Json| {
        let message = &condition(instance, "ResourcesReady")["message"];
        message.as_str().is_some_and(|message| message.contains("Secret"))
    };
    let managed = world.until("x", failed).await;
    assert_eq!(managed["metadata"]["finalizers"], json!(["kro.run/finalizer"]));
    assert_eq!(managed["metadata"]["annotations"][kinds], "ConfigMap,Secret");
    world.proxy.remove(secret_rule);
    world.until_state("x", "ACTIVE").await;
}
