//! `kross suspend`, `resume`, `reconcile` and `delete`.

use kross_testing::wait;
use serde_json::{Value as Json, json};

use crate::world::{World, config_map};

#[tokio::test(flavor = "multi_thread")]
async fn suspends_and_resumes_an_instance() {
    let world = World::new().await;
    world.ready("Suspendable", "x", json!([config_map("a", false, "${schema.spec.text}")])).await;
    let suspended = world.kross(&["suspend", "suspendable/x"]);
    assert_eq!(
        (suspended.code, suspended.data.as_str()),
        (0, "suspendable/x suspended\n"),
        "{}",
        suspended.notes
    );
    let again = world.kross(&["suspend", "suspendable/x"]);
    assert_eq!((again.code, again.notes.as_str()), (0, "suspendable/x is suspended already\n"));
    world.patch("Suspendable", "x", json!({"spec": {"text": "two"}})).await;
    world
        .until("Suspendable", "x", |instance| {
            let conditions = instance["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|it| it["reason"] == "ReconciliationSuspended")
        })
        .await;
    assert_eq!(world.kross(&["resume", "suspendable/x"]).data, "suspendable/x resumed\n");
    let maps = world.api("v1", "ConfigMap", Some(&world.namespace));
    wait::until_object(&maps, "x-a", |map| map.data["data"]["text"] == "two").await;
    let child = world.kross(&["suspend", "configmap/x-a"]);
    assert_eq!(child.code, 2);
    assert!(
        child.notes.contains("is a resource of suspendable/x -n team: name the instance"),
        "{}",
        child.notes
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_a_reconcile_that_does_not_wait_for_the_backoff() {
    let world = World::new().await;
    let mut resource = config_map("a", true, "x");
    let namespace = format!("{}-later", world.namespace);
    resource["template"]["metadata"]["namespace"] = json!(namespace);
    world.define("Requested", json!([resource])).await;
    world.create("Requested", "x").await;
    world.until_state("Requested", "x", "ERROR").await;
    world
        .apply_remote(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}))
        .await;
    let answer = world.kross(&["reconcile", "requested/x"]);
    assert_eq!((answer.code, answer.data.as_str()), (0, "requested/x: reconciliation requested\n"));
    wait::woken(world.until_state("Requested", "x", "ACTIVE")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn explains_a_deletion_and_then_deletes_as_explained() {
    let world = World::new().await;
    let mut kept = config_map("kept", true, "x");
    kept["lifecycle"] = json!({"delete": {"policy": "Retain"}});
    let resources = json!([config_map("a", true, "x"), config_map("b", false, "${a.data.text}"), kept]);
    world.ready("Explained", "x", resources).await;
    let before = world.until("Explained", "x", |_| true).await;
    let explained = world.kross(&["delete", "explained/x", "--explain"]);
    assert_eq!((explained.code, explained.notes.as_str()), (0, ""));
    insta::assert_snapshot!("deletion_explained", explained.data);
    let json: Json =
        serde_json::from_str(&world.kross(&["delete", "explained/x", "--explain", "-o", "json"]).data)
            .unwrap();
    assert_eq!(json["waves"].as_array().unwrap().len(), 2, "{json:#}");
    let after = world.until("Explained", "x", |_| true).await;
    assert_eq!(
        before["metadata"]["resourceVersion"], after["metadata"]["resourceVersion"],
        "nothing changes"
    );

    let deleted = world.kross(&["delete", "explained/x"]);
    assert_eq!(deleted.data, "explained/x deletion requested\n");
    wait::until_deleted(&world.instances("Explained"), "x").await;
    let maps = world.remote("v1", "ConfigMap");
    assert!(maps.get_opt("x-a").await.unwrap().is_none());
    assert!(maps.get_opt("x-kept").await.unwrap().is_some());
}
