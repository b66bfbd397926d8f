//! Objects that a running kro made are taken over: same UIDs, no new revision, no field lost.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    dead_code,
    missing_docs,
    unreachable_pub
)]

use std::process::{Command, Stdio};

use kross_controller::Settings;
use kross_testing::shared;
use serde_json::{Value as Json, json};

use crate::setup::{Objects, Running, definition, install, until};

#[path = "definitions/setup.rs"]
mod setup;

const PLANE: &str = "takeover";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs kro's controller v0.9.4: set KROSS_KRO to its path"]
async fn what_kro_made_is_taken_over_as_it_is() {
    let plane = shared(PLANE).await;
    let objects = Objects { client: plane.client().await.unwrap() };
    install(&objects.client).await;
    let mut kro = Command::new(std::env::var("KROSS_KRO").unwrap())
        .env("KUBECONFIG", plane.admin_path())
        .args(["--metrics-bind-address=0", "--health-probe-bind-address=0"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    objects.create(&definition("taken", "Taken")).await;
    objects.until_ready("taken").await;
    let instances = objects.namespaced("kro.run", "Taken", "takens", "default");
    let instance =
        json!({"apiVersion": "kro.run/v1alpha1", "kind": "Taken", "metadata": {"name": "x"}, "spec": {}});
    instances
        .create(&kube::api::PostParams::default(), &serde_json::from_value(instance).unwrap())
        .await
        .unwrap();
    let active = |instance: &Json| {
        instance["status"]["state"] == "ACTIVE" && setup::condition(instance, "Ready")["status"] == "True"
    };
    until(instances.clone(), "x".to_owned(), active).await;
    kro.kill().unwrap();
    kro.wait().unwrap();
    let before = everything(&objects).await;

    let running = Running::start(PLANE, Settings::default()).await;
    let instance = until(instances.clone(), "x".to_owned(), |instance| {
        active(instance) && instance["status"]["managedResources"].is_array()
    })
    .await;
    objects.until_ready("taken").await;
    running.stop().await;
    let after = everything(&objects).await;
    for (old, new) in before.iter().zip(&after) {
        let name = &old["metadata"]["name"];
        assert_eq!(old["metadata"]["uid"], new["metadata"]["uid"], "{name}");
        assert_eq!(old.get("data"), new.get("data"), "{name}");
        assert_eq!(old["metadata"]["labels"], new["metadata"]["labels"], "{name}");
        assert_eq!(old["metadata"]["finalizers"], new["metadata"]["finalizers"], "{name}");
    }
    assert_eq!(before.len(), after.len());
    assert_eq!(objects.revision_names("taken").await, ["taken-r00001"]);
    let kinds = &instance["metadata"]["annotations"]["applyset.kubernetes.io/contains-group-kinds"];
    assert_eq!(kinds, "ConfigMap");
}

/// The definition, its revisions, its CRD, the instance and its children.
async fn everything(objects: &Objects) -> Vec<Json> {
    let mut all = vec![
        objects.get(&objects.definitions(), "taken").await,
        objects.get(&objects.revisions(), "taken-r00001").await,
        objects.get(&objects.crds(), "takens.kro.run").await,
        objects.get(&objects.namespaced("kro.run", "Taken", "takens", "default"), "x").await,
    ];
    for name in ["x-first", "x-second"] {
        all.push(objects.get(&objects.config_maps("default"), name).await);
    }
    all
}
