//! `--no-cross-namespace`: what is outside the namespace of an instance is neither read nor written.

use kross_controller::Settings;
use kross_testing::Requests;
use serde_json::{Value as Json, json};

use crate::world::{SETTINGS, World, config_map, value};

async fn limited(kind: &str, resources: Json) -> World {
    SETTINGS.get_or_init(|| Settings { no_cross_namespace: true, ..Settings::default() });
    World::new(kind, json!({"spec": {"namespace": "string"}}), resources).await
}

fn requests_in(world: &World, namespace: &str) -> Vec<String> {
    let sent = world.proxy.requests(&Requests::any().namespace(namespace));
    sent.iter().map(|record| record.request.to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_an_instance_chooses_is_read_only_in_its_own_namespace() {
    let secret = json!({"id": "secret", "externalRef": {"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "password", "namespace": "${schema.spec.namespace}"}}});
    let copy = config_map("copy", json!({"stolen": "${string(secret.data.x)}"}));
    let world = limited("LimitedReader", json!([secret, copy])).await;
    world.create("x", json!({"namespace": "kube-public"})).await;
    let refused = world.until_state("x", "ERROR").await;
    let text = refused["status"].to_string();
    assert!(text.contains("Secret kube-public/password: in namespace `kube-public`"), "{text}");
    assert_eq!(requests_in(&world, "kube-public"), Vec::<String>::new());
    // In its own namespace it waits for the Secret.
    world.patch("x", json!({"spec": {"namespace": world.namespace}})).await;
    world.until_state("x", "IN_PROGRESS").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_creates_objects_only_in_its_own_namespace_and_is_deleted() {
    let object = json!({"id": "placed", "template": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "${schema.metadata.name}-object", "namespace": "${schema.spec.namespace}"},
        "data": {"x": "1"}}});
    let world = limited("LimitedWriter", json!([object])).await;
    world.create("x", json!({"namespace": "kube-node-lease"})).await;
    let refused = world.until_state("x", "ERROR").await;
    let text = refused["status"].to_string();
    assert!(text.contains("ConfigMap kube-node-lease/x-object: in namespace `kube-node-lease`"), "{text}");
    assert_eq!(requests_in(&world, "kube-node-lease"), Vec::<String>::new());
    world.patch("x", json!({"spec": {"namespace": world.namespace}})).await;
    world.until_state("x", "ACTIVE").await;
    let created = world.config_maps.get("x-object").await.unwrap();
    assert_eq!(value(&created, "x"), Some("1"));
    // What it has stays when it asks for another place, and is deleted with it.
    world.patch("x", json!({"spec": {"namespace": "kube-node-lease"}})).await;
    world.until_state("x", "ERROR").await;
    assert!(world.config_maps.get_opt("x-object").await.unwrap().is_some());
    world.delete("x").await;
    kross_testing::wait::until_deleted(&world.config_maps, "x-object").await;
    assert_eq!(requests_in(&world, "kube-node-lease"), Vec::<String>::new());
}
