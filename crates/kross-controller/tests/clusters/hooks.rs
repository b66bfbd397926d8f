//! Deletion hooks in another cluster.

use kross_testing::{Action, Requests, Verb, wait};
use kube::api::DeleteParams;
use serde_json::json;

use crate::proof_of_absence::until_idle;
use crate::world::{World, config_map};

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_that_vanishes_at_once_in_another_cluster_is_not_created_again() {
    let mut backup = config_map("backup", Some("eu"), json!({"of": "${database.metadata.name}"}));
    backup["lifecycle"] = json!({"when": "Deletion"});
    backup["readyWhen"] = json!(["${has(backup.data.done)}"]);
    let resources = json!([config_map("database", None, json!({"a": "1"})), backup]);
    let world = World::new("VanishingHook", json!({"schema": {"spec": {}}, "resources": resources})).await;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    // The controller learns neither from the response nor from a read that the object was created.
    let eu = world.region("eu");
    let of = |verb: Verb| Requests::any().verb(verb).resource("configmaps").name("x-backup");
    eu.proxy.on_next(1, of(Verb::Apply), Action::CutAfter(0));
    let hold = eu.proxy.on(of(Verb::Get), Action::Hold);
    world.delete("x").await;
    wait::until_object(&eu.config_maps, "x-backup", |_| true).await;
    eu.config_maps.delete("x-backup", &DeleteParams::default()).await.unwrap();
    eu.proxy.remove(hold);
    wait::until_deleted(&world.instances, "x").await;
    assert_eq!(eu.proxy.count(&of(Verb::Apply)), 1);
    assert!(eu.config_maps.get_opt("x-backup").await.unwrap().is_none());
    assert!(world.config_maps.get_opt("x-database").await.unwrap().is_none());
    until_idle(eu).await;
}
