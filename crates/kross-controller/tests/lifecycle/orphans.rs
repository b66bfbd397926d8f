//! Instances whose definition cannot help any more: what is kept on their objects is enough.

use kross_testing::wait;
use serde_json::json;

use crate::own::marks;
use crate::retain::event;
use crate::world::{World, config_map};

#[tokio::test(flavor = "multi_thread")]
async fn instances_of_a_definition_that_is_gone_go_as_it_said() {
    let mut data = config_map("data", json!({"a": "1"}));
    data["lifecycle"] = json!({"delete": {"policy": "${schema.spec.keep ? 'Retain' : 'Delete'}"}});
    let mut precious = config_map("precious", json!({"b": "2"}));
    precious["lifecycle"] = json!({"delete": {"after": ["backup"]}});
    let mut backup = config_map("backup", json!({}));
    backup["lifecycle"] = json!({"when": "Deletion"});
    backup["readyWhen"] = json!(["${has(backup.data.done)}"]);
    let resources = json!([data, precious, config_map("web", json!({})), backup]);
    let world = World::new("Orphan", json!({"spec": {"keep": "boolean"}}), resources).await;
    world.create("x", json!({"keep": true})).await;
    world.until_state("x", "ACTIVE").await;
    // Somebody takes the definition away by force, though it waits for its instance.
    world.objects.delete("orphan").await;
    world.objects.until_condition("orphan", "ControllerReady", "Unknown").await;
    world.objects.patch("orphan", &json!({"metadata": {"finalizers": null}})).await;
    wait::until_gone(&world.objects.definitions(), "orphan").await;
    world.delete("x").await;
    wait::until_gone(&world.instances, "x").await;
    assert!(world.config_maps.get_opt("x-web").await.unwrap().is_none());
    assert!(world.config_maps.get_opt("x-backup").await.unwrap().is_none());
    for name in ["x-data", "x-precious"] {
        assert_eq!(marks(&world.config_maps.get(name).await.unwrap()), [""; 0], "{name}");
    }
    let note = event(&world, "x", "LeftBehind").await;
    assert!(note.contains("x-precious") && note.contains("`backup`, whose definition was deleted"), "{note}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_that_is_being_deleted_still_backs_up_what_goes_with_it() {
    let mut backup = config_map("backup", json!({"of": "${data.metadata.name}"}));
    backup["lifecycle"] = json!({"when": "Deletion"});
    backup["readyWhen"] = json!(["${has(backup.data.done)}"]);
    let world =
        World::new("Farewell", json!({"spec": {}}), json!([config_map("data", json!({})), backup])).await;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    world
        .objects
        .patch("farewell", &json!({"metadata": {"annotations": {"kro.run/delete-instances": "true"}}}))
        .await;
    world.objects.delete("farewell").await;
    wait::until_object(&world.config_maps, "x-backup", |_| true).await;
    assert!(world.config_maps.get_opt("x-data").await.unwrap().is_some());
    crate::world::edit(&world.config_maps, "x-backup", json!({"done": "yes"})).await;
    wait::until_gone(&world.objects.definitions(), "farewell").await;
    assert!(world.config_maps.get_opt("x-data").await.unwrap().is_none());
}
