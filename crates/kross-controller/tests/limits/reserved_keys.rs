//! Labels and annotations with reserved keys that an expression returns.

use kross_testing::wait;
use serde_json::{Value as Json, json};

use crate::limited;

fn labelled(labels: &str, annotations: &str) -> Json {
    json!([{"id": "secret", "template": {"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "${schema.metadata.name}-kubeconfig", "labels": labels, "annotations": annotations}}}])
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_cannot_offer_a_secret_to_other_namespaces_with_labels_from_its_spec() {
    let schema = json!({"spec": {"labels": "map[string]string", "annotations": "map[string]string"}});
    let resources = labelled("${schema.spec.labels}", "${schema.spec.annotations}");
    let world = limited("Relabelled", schema, resources).await;
    world
        .create("x", json!({"labels": {"team": "a"}, "annotations": {"kro.run/allowed-namespaces": "*"}}))
        .await;
    let refused = world.until_state("x", "ERROR").await;
    let text = refused["status"].to_string();
    assert!(text.contains("the annotation `kro.run/allowed-namespaces`, which is reserved"), "{text}");
    assert!(text.contains(&format!("Secret {}/x-kubeconfig", world.namespace)), "{text}");
    world.create("good", json!({"labels": {"team": "a"}, "annotations": {}})).await;
    world.until_state("good", "ACTIVE").await;
    world.patch("x", json!({"spec": {"annotations": null}})).await;
    world.patch("x", json!({"spec": {"annotations": {}}})).await;
    world.until_state("x", "ACTIVE").await;
    world.patch("x", json!({"spec": {"labels": {"applyset.kubernetes.io/part-of": "another"}}})).await;
    let refused = world.until_state("x", "ERROR").await;
    assert!(refused["status"].to_string().contains("`applyset.kubernetes.io/part-of`"), "{refused:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_of_the_instance_are_copied_without_its_bookkeeping() {
    let resources = json!([{"id": "copy", "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
        "name": "${schema.metadata.name}-copy", "labels": "${schema.metadata.labels}",
        "annotations": "${schema.metadata.annotations}"}}}]);
    let world = limited("Copied", json!({"spec": {}}), resources).await;
    world.create("x", json!({})).await;
    world.patch("x", json!({"metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}}})).await;
    let copied = |map: &k8s_openapi::api::core::v1::ConfigMap| {
        map.metadata.labels.as_ref().is_some_and(|labels| labels.get("team").is_some())
    };
    let copy = wait::until_object(&world.config_maps, "x-copy", copied).await;
    world.until_state("x", "ACTIVE").await;
    let (labels, annotations) = (copy.metadata.labels.unwrap(), copy.metadata.annotations.unwrap());
    assert_eq!(annotations["note"], "b");
    assert_eq!((&*labels["kro.run/node-id"], &*labels["kro.run/instance-name"]), ("copy", "x"));
    for key in ["applyset.kubernetes.io/id", "kro.run/resource-graph-definition-id"] {
        assert!(!labels.contains_key(key), "{labels:?}");
    }
    let own = |key: &str| key.starts_with("applyset.kubernetes.io/") || key.contains("inventory");
    assert!(!annotations.keys().any(|key| own(key)), "{annotations:?}");
    // The annotations of the instance change with its inventory: that must not go on for ever.
    world.until_idle().await;
    world.delete("x").await;
    wait::until_deleted(&world.config_maps, "x-copy").await;
}
