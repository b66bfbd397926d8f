//! Deleting instances whose definition was deleted or is being deleted: the annotations on their objects decide.

use kross_testing::wait;
use serde_json::json;

use crate::instance_api::ownership_metadata;
use crate::retain_and_adopt::event;
use crate::world::{World, config_map};

#[tokio::test(flavor = "multi_thread")]
async fn deletes_instances_of_a_deleted_definition_as_it_last_specified() {
    let mut data = config_map("data", json!({"a": "1"}));
    data["lifecycle"] = json!({"delete": {"policy": "${schema.spec.keep ? 'Retain' : 'Delete'}"}});
    let mut precious = config_map("precious", json!({"b": "2"}));
    precious["lifecycle"] = json!({"delete": {"after": ["backup"]}});
    let mut backup = config_map("backup", json!({}));
    backup["lifecycle"] = json!({"when": "Deletion"});
    backup["readyWhen"] = json!(["${has(backup.data.done)}"]);
    let resources = json!([data, precious, config_map("web", json!({})), backup]);
    let world = World::new("DefinitionDeleted", json!({"spec": {"keep": "boolean"}}), resources).await;
    world.create("x", json!({"keep": true})).await;
    world.until_state("x", "ACTIVE").await;
    // The finalizer of the definition is removed by hand, although its deletion is blocked by the instance.
    world.objects.delete("definitiondeleted").await;
    world.objects.until_condition("definitiondeleted", "ControllerReady", "Unknown").await;
    world.objects.patch("definitiondeleted", &json!({"metadata": {"finalizers": null}})).await;
    wait::until_deleted(&world.objects.definitions(), "definitiondeleted").await;
    world.delete("x").await;
    wait::until_deleted(&world.instances, "x").await;
    assert!(world.config_maps.get_opt("x-web").await.unwrap().is_none());
    assert!(world.config_maps.get_opt("x-backup").await.unwrap().is_none());
    for name in ["x-data", "x-precious"] {
        assert_eq!(ownership_metadata(&world.config_maps.get(name).await.unwrap()), [""; 0], "{name}");
    }
    let note = event(&world, "x", "LeftBehind").await;
    assert!(note.contains("x-precious") && note.contains("`backup`, whose definition is gone"), "{note}");
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_deletion_hooks_while_the_definition_is_being_deleted() {
    let mut backup = config_map("backup", json!({"of": "${data.metadata.name}"}));
    backup["lifecycle"] = json!({"when": "Deletion"});
    backup["readyWhen"] = json!(["${has(backup.data.done)}"]);
    let world =
        World::new("Cascade", json!({"spec": {}}), json!([config_map("data", json!({})), backup])).await;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    world
        .objects
        .patch("cascade", &json!({"metadata": {"annotations": {"kro.run/delete-instances": "true"}}}))
        .await;
    world.objects.delete("cascade").await;
    wait::until_object(&world.config_maps, "x-backup", |_| true).await;
    assert!(world.config_maps.get_opt("x-data").await.unwrap().is_some());
    crate::world::edit(&world.config_maps, "x-backup", json!({"done": "yes"})).await;
    wait::woken(wait::until_deleted(&world.objects.definitions(), "cascade")).await;
    assert!(world.config_maps.get_opt("x-data").await.unwrap().is_none());
}
