//! Deletion hooks with `forEach`, and how many requests hooks cause once they have completed.

use k8s_openapi::api::core::v1::ConfigMap;
use kross_testing::{Requests, Verb, wait};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value as Json, json};

use crate::retain_and_adopt::event;
use crate::world::{World, config_map, edit};

const PARTS: [&str; 3] = ["a", "b", "c"];

/// A hook for each part of the spec. Each is ready once its data has `done`.
fn backups() -> Json {
    let mut backups = config_map("backups", json!({"of": "${database.metadata.name}"}));
    backups["template"]["metadata"]["name"] = json!("${schema.metadata.name}-${part}");
    backups["forEach"] = json!([{"part": "${schema.spec.parts}"}]);
    backups["lifecycle"] = json!({"when": "Deletion"});
    backups["readyWhen"] = json!(["${has(each.data.done)}"]);
    backups
}

fn creations(world: &World, name: &str) -> usize {
    let writes = Requests::any().verb(Verb::Apply).resource("configmaps").namespace(&world.namespace);
    world.proxy.count(&writes.name(name))
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_each_hook_of_a_collection_once_and_leaves_the_hub_idle() {
    let resources = json!([config_map("database", json!({"a": "1"})), backups()]);
    let world = World::new("BackupEach", json!({"spec": {"parts": "[]string"}}), resources).await;
    world.create("x", json!({"parts": PARTS})).await;
    world.until_state("x", "ACTIVE").await;
    world.delete("x").await;
    for part in PARTS {
        wait::until_object(&world.config_maps, &format!("x-{part}"), |_| true).await;
    }
    // Somebody deletes one of them, and another one is ready: none is created again, and the database waits for the last.
    world.config_maps.delete("x-a", &DeleteParams::default()).await.unwrap();
    edit(&world.config_maps, "x-b", json!({"done": "yes"})).await;
    let note = event(&world, "x", "HookDeleted").await;
    assert!(note.contains("x-a"), "{note}");
    let database = world.config_maps.get("x-database").await.unwrap();
    assert!(database.metadata.deletion_timestamp.is_none());
    assert!(world.config_maps.get_opt("x-a").await.unwrap().is_none());

    // Completed hooks that a finalizer keeps cause no requests either.
    let hold = Patch::Merge(json!({"metadata": {"finalizers": ["test.kross.run/hold"]}}));
    world.config_maps.patch("x-b", &PatchParams::default(), &hold).await.unwrap();
    edit(&world.config_maps, "x-c", json!({"done": "yes"})).await;
    let is_terminating = |backup: &ConfigMap| backup.metadata.deletion_timestamp.is_some();
    wait::until_object(&world.config_maps, "x-b", is_terminating).await;
    world.until_idle().await;
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    world.config_maps.patch("x-b", &PatchParams::default(), &release).await.unwrap();
    wait::woken(wait::until_deleted(&world.instances, "x")).await;
    world.until_idle().await;
    for part in PARTS {
        assert_eq!(creations(&world, &format!("x-{part}")), 1, "{part}");
    }
    assert!(world.config_maps.get_opt("x-database").await.unwrap().is_none());
}
