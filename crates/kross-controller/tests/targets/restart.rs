//! A control plane of its own, on which controllers are started and stopped, with and without the CRDs of targets.

use k8s_openapi::api::core::v1::Secret;
use kross_controller::Settings;
use kross_testing::{shared, wait};
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value as Json, json};

use crate::setup::{Objects, Running, create_once_served, definition, install_crds, until};
use crate::world::{RESOURCE, World, kubeconfig, provider_crds};

/// A copy of a connection Secret whose target has another UID.
fn orphaned_copy(name: &str) -> Secret {
    let uid = "00000000-0000-0000-0000-000000000000";
    let owner = json!({"apiVersion": "workload.crossplane.io/v1alpha1", "kind": "KubernetesTarget",
        "name": name, "uid": uid, "controller": true});
    serde_json::from_value(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name,
        "labels": {"internal.kro.run/connection-copy": uid}, "finalizers": [kross_api::FINALIZER],
        "ownerReferences": [owner]}}))
    .unwrap()
}

/// A target without the time of a round trip, which is written again when it has doubled: on a busy machine it may.
fn without_round_trip(mut target: Json) -> Json {
    target["status"]["cluster"]["roundTripTime"] = Json::Null;
    for field in ["resourceVersion", "managedFields"] {
        target["metadata"][field] = Json::Null;
    }
    target
}

#[tokio::test(flavor = "multi_thread")]
async fn the_controller_runs_without_the_crds_and_continues_after_every_restart() {
    let plane = shared("restart").await;
    let client = plane.client().await.unwrap();
    install_crds(&client, kross_api::graph_crds()).await;
    install_crds(&client, provider_crds()).await;
    let start = || Running::start("restart", Settings::default());
    let running = start().await;
    let objects = Objects { client: client.clone() };
    objects.create(&definition("plain", "Plain")).await;
    objects.until_ready("plain").await;

    // The CRDs are installed while the controller runs.
    install_crds(&client, kross_api::target_crds()).await;
    let world = World::on(client, "default").await;
    world.create_target("dev", world.cluster_ref()).await;
    world.until_condition("dev", ("Ready", "False", "ManagedResourceNotFound")).await;
    running.stop().await;

    // The managed resource appears while no controller runs.
    world.provide().await;
    let running = start().await;
    let ready = world.until_ready("dev").await;
    running.stop().await;

    // A restart changes nothing where nothing changed, and copies what was rotated meanwhile.
    let rotated = format!("{}\n# rotated\n", world.remote.kubeconfig);
    world.patch_source(json!({"stringData": {"kubeconfig": rotated}})).await;
    let running = start().await;
    world.until_copied("default", "dev", &rotated).await;
    let after = world.until_ready("dev").await;
    assert_eq!(without_round_trip(after), without_round_trip(ready));

    // The deletion begins while no controller runs, with a user, and its user is deleted while no controller runs.
    let users = world.resources();
    world.create_user(&users, RESOURCE, "web", "dev").await;
    running.stop().await;
    world.delete_target("dev").await;
    let running = start().await;
    world.until_condition("dev", ("Ready", "False", "InUse")).await;
    assert_eq!(kubeconfig(&world.copy("default", "dev").await.unwrap()), rotated);
    running.stop().await;
    world.delete_user(&users, "web").await;
    let running = start().await;
    wait::until_deleted(&world.targets(), "dev").await;
    assert!(world.copy("default", "dev").await.is_none());
    running.stop().await;

    // Copies of a restore, whose targets do not exist. One of them is being deleted.
    let secrets = world.secrets("default");
    for name in ["restored", "deleted"] {
        secrets.create(&PostParams::default(), &orphaned_copy(name)).await.unwrap();
    }
    secrets.delete("deleted", &DeleteParams::default()).await.unwrap();
    let running = start().await;
    for name in ["restored", "deleted"] {
        wait::until_deleted(&secrets, name).await;
    }

    // Graphs work throughout.
    let instances = objects.namespaced("kro.run", "Plain", "plains", "default");
    create_once_served(
        &instances,
        json!({"apiVersion": "kro.run/v1alpha1", "kind": "Plain",
        "metadata": {"name": "one"}, "spec": {}}),
    )
    .await;
    until(instances, "one".to_owned(), |instance| instance["status"]["state"] == "ACTIVE").await;
    running.stop().await;
}
