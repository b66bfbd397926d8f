//! `kross tree`.

use serde_json::json;

use crate::world::{World, config_map};

#[tokio::test(flavor = "multi_thread")]
async fn draws_an_instance_its_definition_and_the_instance_of_an_object() {
    let world = World::new().await;
    let mut missing = config_map("b", false, "x");
    missing["template"]["metadata"]["namespace"] = json!("nowhere-to-draw");
    world.define("Drawn", json!([config_map("a", true, "x"), missing])).await;
    world.create("Drawn", "x").await;
    world
        .until("Drawn", "x", |instance| {
            instance["status"]["state"] == "ERROR" && instance["status"]["clusters"][0]["ready"] == 1
        })
        .await;
    let instance = world.kross(&["tree", "drawn/x"]);
    assert_eq!((instance.code, instance.notes.as_str()), (1, ""));
    insta::assert_snapshot!("instance", instance.data);
    let definition = world.kross(&["tree", "rgd/drawn"]);
    assert_eq!(definition.code, 1);
    insta::assert_snapshot!("definition", definition.data);
}

#[tokio::test(flavor = "multi_thread")]
async fn finds_the_instance_of_an_object() {
    let world = World::new().await;
    world.ready("Found", "x", json!([config_map("a", false, "x")])).await;
    let object = world.kross(&["tree", "configmap", "x-a"]);
    assert_eq!(object.code, 0);
    assert!(object.data.starts_with("Found team/x  ACTIVE\n"), "{}", object.data);
    assert_eq!(object.notes, "ConfigMap team/x-a is resource `a` of Found team/x:\n");
    let secret = world.kross(&["tree", "secret/eu-kubeconfig"]);
    assert_eq!((secret.code, secret.data.as_str()), (2, ""));
    assert!(secret.notes.contains("no ResourceGraphDefinition serves `Secret`"), "{}", secret.notes);
}
