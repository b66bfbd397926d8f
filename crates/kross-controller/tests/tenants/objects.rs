//! Attempts with the objects that an instance may have.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use serde_json::json;

use crate::world::World;

/// Attempts 18 and 19: labels and annotations that only the controller sets.
#[tokio::test(flavor = "multi_thread")]
async fn reserved_keys_that_an_instance_chooses_are_refused() {
    let world = World::new().await;
    let none = json!({"a": "b"});
    let attempts = [
        ("label", json!({"labels": {"kro.run/cluster-credentials": "true"}, "annotations": none})),
        ("annotation", json!({"labels": none, "annotations": {"kro.run/allowed-namespaces": "*"}})),
        ("applyset", json!({"labels": {"applyset.kubernetes.io/id": "applyset-x-v1"}, "annotations": none})),
    ];
    for (name, spec) in attempts {
        world.mallory.create("Labelled", name, spec).await;
        let refused = world.mallory.until_state("Labelled", name, "ERROR").await["status"].to_string();
        assert!(refused.contains("reserved"), "{refused}");
        assert!(world.mallory.config_maps().get_opt(&format!("{name}-map")).await.unwrap().is_none());
        world.mallory.delete("Labelled", name).await;
        kross_testing::wait::until_deleted(&world.mallory.api("Labelled"), name).await;
    }
}

/// Attempt 20: expressions in the values of an instance.
#[tokio::test(flavor = "multi_thread")]
async fn values_of_an_instance_are_not_evaluated() {
    let world = World::new().await;
    let spec = json!({"labels": {"a": "b"}, "annotations": {"note": "${schema.metadata.uid}"}});
    world.mallory.create("Labelled", "values", spec).await;
    world.mallory.until_state("Labelled", "values", "ACTIVE").await;
    let created = world.mallory.config_maps().get("values-map").await.unwrap();
    assert_eq!(created.metadata.annotations.unwrap()["note"], "${schema.metadata.uid}");
    world.mallory.delete("Labelled", "values").await;
    kross_testing::wait::until_deleted(&world.mallory.api("Labelled"), "values").await;
}

/// Attempt 21: an object in her own namespace with the labels of the bank's apply set is not the bank's.
#[tokio::test(flavor = "multi_thread")]
async fn labels_of_another_instance_do_not_make_an_object_its_own() {
    let world = World::new().await;
    let shop = world.shop("labels").await;
    let theirs: Api<ConfigMap> = Api::namespaced(world.fixture.remote("eu").client.clone(), "bank");
    let labels = theirs.get("labels-app").await.unwrap().metadata.labels.unwrap();
    let decoy = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "labels-app", "namespace": "mallory", "labels": labels}, "data": {"owner": "mallory"}});
    crate::world::apply(&world.mallory.client, &decoy).await.unwrap();
    shop.assert_unharmed().await;
    shop.delete().await;
    let decoys = world.mallory.config_maps();
    assert_eq!(
        decoys.get("labels-app").await.unwrap().data.unwrap()["owner"],
        "mallory",
        "it was left alone"
    );
    decoys.delete("labels-app", &kube::api::DeleteParams::default()).await.unwrap();
}
