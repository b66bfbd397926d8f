//! Definitions whose instances are existing objects, chosen by a selector.

use k8s_openapi::api::apps::v1::Deployment;
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
            "schema": {"externalRef": {"apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"selector": {"matchLabels": {"copy": "yes"}}}}},
            "resources": [config_map("copy", json!({"replicas": "${string(schema.spec.replicas)}"}))]}});
    world.objects.create(&definition).await;
    world.objects.until_ready("existing").await;
    let deployments: Api<Deployment> = Api::namespaced(world.objects.client.clone(), &world.namespace);
    for (name, selected) in [("chosen", "yes"), ("other", "no")] {
        let pod = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}});
        let deployment = json!({"metadata": {"name": name, "labels": {"copy": selected}},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}, "template": pod}});
        let deployment = serde_json::from_value(deployment).unwrap();
        deployments.create(&PostParams::default(), &deployment).await.unwrap();
    }
    let child = wait::woken(wait::until_object(&world.config_maps, "chosen-copy", |copy| {
        value(copy, "replicas") == Some("3")
    }))
    .await;
    assert_eq!(child.metadata.labels.unwrap()["kro.run/instance-kind"], "Deployment");
    wait::until_object(&deployments, "chosen", |deployment| {
        let annotations = deployment.metadata.annotations.as_ref();
        let state = annotations.and_then(|annotations| annotations.get("kro.run/state"));
        state.is_some_and(|state| state == "ACTIVE") && deployment.metadata.finalizers.is_some()
    })
    .await;
    let other = deployments.get("other").await.unwrap();
    assert!(other.metadata.finalizers.is_none());

    // An object that is not selected any more is released, and not deleted.
    let patch = Patch::Merge(json!({"metadata": {"labels": {"copy": "no"}}}));
    deployments.patch("chosen", &PatchParams::default(), &patch).await.unwrap();
    wait::woken(wait::until_deleted(&world.config_maps, "chosen-copy")).await;
    wait::woken(wait::until_object(&deployments, "chosen", |deployment| {
        deployment.metadata.finalizers.is_none()
    }))
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
