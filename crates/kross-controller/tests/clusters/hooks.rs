//! Deletion hooks in another cluster.

use kross_testing::{Action, Answer, Requests, Verb, wait};
use kube::api::DeleteParams;
use serde_json::{Value as Json, json};

use crate::proof_of_absence::until_idle;
use crate::world::{World, config_map};

/// A database in the hub, and a deletion hook in another cluster.
fn with_backup() -> Json {
    let mut backup = config_map("backup", Some("eu"), json!({"of": "${database.metadata.name}"}));
    backup["lifecycle"] = json!({"when": "Deletion"});
    backup["readyWhen"] = json!(["${has(backup.data.done)}"]);
    let resources = json!([config_map("database", None, json!({"a": "1"})), backup]);
    json!({"schema": {"spec": {}}, "resources": resources})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_that_vanishes_at_once_in_another_cluster_is_not_created_again() {
    let world = World::new("VanishingHook", with_backup()).await;
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

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_is_not_created_again_while_a_watch_that_would_tell_of_it_ends_early() {
    let world = World::new("UntoldHook", with_backup()).await;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    let eu = world.region("eu");
    let of = |verb: Verb| Requests::any().verb(verb).resource("configmaps").name("x-backup");
    eu.proxy.on_next(1, of(Verb::Apply), Action::CutAfter(0));
    let hold = eu.proxy.on(of(Verb::Get), Action::Hold);
    // A page of a load balancer, which ends at once.
    let untold = eu.proxy.on(of(Verb::Watch), Action::Answer(Answer::html(200)));
    world.delete("x").await;
    wait::until_object(&eu.config_maps, "x-backup", |_| true).await;
    eu.config_maps.delete("x-backup", &DeleteParams::default()).await.unwrap();
    eu.proxy.remove(hold);
    wait::until_true("the history to be read again", || eu.proxy.count(&of(Verb::Watch)) > 1).await;
    assert!(world.config_maps.get_opt("x-database").await.unwrap().is_some());
    eu.proxy.remove(untold);
    wait::until_deleted(&world.instances, "x").await;
    assert_eq!(eu.proxy.count(&of(Verb::Apply)), 1);
}
