//! Definitions whose instances are existing objects, chosen by a selector.

use k8s_openapi::api::core::v1::Service;
use kross_testing::wait;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use crate::world::{World, config_map, value};

#[tokio::test(flavor = "multi_thread")]
async fn only_selected_existing_objects_become_instances() {
    // Any definition starts the shared hub and controller.
    let world = World::new("StartsHub", json!({"spec": {}}), json!([])).await;
    let definition = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": "existing"}, "spec": {
            "schema": {"externalRef": {"apiVersion": "v1", "kind": "Service",
                "metadata": {"selector": {"matchLabels": {"copy": "yes"}}}}},
            "resources": [config_map("copy", json!({"type": "${schema.spec.type}"}))]}});
    world.objects.create(&definition).await;
    world.objects.until_ready("existing").await;
    let services: Api<Service> = Api::namespaced(world.objects.client.clone(), &world.namespace);
    for name in ["chosen", "other"] {
        let labels = json!({"copy": if name == "chosen" { "yes" } else { "no" }});
        let service =
            json!({"metadata": {"name": name, "labels": labels}, "spec": {"ports": [{"port": 80}]}});
        services.create(&PostParams::default(), &serde_json::from_value(service).unwrap()).await.unwrap();
    }
    let child = wait::woken(wait::until_object(&world.config_maps, "chosen-copy", |copy| {
        value(copy, "type") == Some("ClusterIP")
    }))
    .await;
    assert_eq!(child.metadata.labels.unwrap()["kro.run/instance-kind"], "Service");
    let note = |service: &Service, key: &str| {
        service.metadata.annotations.as_ref().and_then(|notes| notes.get(key).cloned())
    };
    wait::until_object(&services, "chosen", |service| {
        note(service, "kro.run/state").as_deref() == Some("ACTIVE") && service.metadata.finalizers.is_some()
    })
    .await;
    let other = services.get("other").await.unwrap();
    assert!(other.metadata.finalizers.is_none());

    // An object that is not selected any more is released, and not deleted.
    let patch = Patch::Merge(json!({"metadata": {"labels": {"copy": "no"}}}));
    services.patch("chosen", &PatchParams::default(), &patch).await.unwrap();
    wait::woken(wait::until_deleted(&world.config_maps, "chosen-copy")).await;
    wait::woken(wait::until_object(&services, "chosen", |service| service.metadata.finalizers.is_none()))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn handles_changes_of_an_existing_object_during_its_status_write() {
    // Any definition starts the shared hub and controller.
    let world = World::new("Starter", json!({"spec": {}}), json!([])).await;
    let definition = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": "selected-service"}, "spec": {
            "schema": {"externalRef": {"apiVersion": "v1", "kind": "Service",
                "metadata": {"selector": {"matchLabels": {"selected": "yes"}}}}},
            "resources": [config_map("copy", json!({"port": "${string(schema.spec.ports[0].port)}"}))]}});
    world.objects.create(&definition).await;
    world.objects.until_ready("selected-service").await;
    let services: Api<Service> = Api::namespaced(world.objects.client.clone(), &world.namespace);
    let patch = async |patch: serde_json::Value| {
        services.patch("web", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap()
    };
    let service =
        json!({"metadata": {"name": "web", "labels": {"selected": "yes"}}, "spec": {"ports": [{"port": 1}]}});
    services.create(&PostParams::default(), &serde_json::from_value(service).unwrap()).await.unwrap();
    for round in 1..12 {
        // Reconciles of the first changes write to the Service; these writes must not hide the later changes.
        for step in 1..5 {
            patch(json!({"spec": {"ports": [{"port": 10 * round + step}]}})).await;
        }
        let port = (10 * round + 4).to_string();
        wait::woken(wait::until_object(&world.config_maps, "web-copy", |copy| {
            value(copy, "port") == Some(&port)
        }))
        .await;
        // Deselecting and selecting the Service releases and manages it again.
        if round % 4 == 0 {
            patch(json!({"metadata": {"labels": {"selected": "no"}}})).await;
            wait::woken(wait::until_deleted(&world.config_maps, "web-copy")).await;
            patch(json!({"metadata": {"labels": {"selected": "yes"}}})).await;
            wait::woken(wait::until_object(&world.config_maps, "web-copy", |_| true)).await;
        }
    }
    patch(json!({"metadata": {"labels": {"selected": "no"}}})).await;
    wait::woken(wait::until_deleted(&world.config_maps, "web-copy")).await;
    wait::woken(wait::until_object(&services, "web", |web| web.metadata.finalizers.is_none())).await;
}
