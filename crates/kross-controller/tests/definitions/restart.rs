//! A controller that ends and begins again, on a control plane of its own.

use kross_controller::Settings;
use kross_testing::{shared, wait};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::setup::{Objects, Running, condition, definition, install, until};

const PLANE: &str = "restart";

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_changes_nothing_and_serves_everything() {
    let objects = Objects { client: shared(PLANE).await.client().await.unwrap() };
    install(&objects.client).await;
    let settings = Settings { allow_crd_deletion: true, ..Settings::default() };
    let running = Running::start(PLANE, settings.clone()).await;
    for (name, kind) in [("good", "Good"), ("edited", "Edited")] {
        objects.create(&definition(name, kind)).await;
        objects.until_ready(name).await;
    }
    // Of the definition that will be broken: instances go on with the last good revision.
    let api = objects.namespaced("kro.run", "Edited", "editeds", "default");
    let instance =
        json!({"apiVersion": "kro.run/v1alpha1", "kind": "Edited", "metadata": {"name": "kept"}, "spec": {}});
    api.create(&kube::api::PostParams::default(), &serde_json::from_value(instance).unwrap()).await.unwrap();
    let is_active = |instance: &serde_json::Value| instance["status"]["state"] == "ACTIVE";
    until(api.clone(), "kept".to_owned(), is_active).await;
    let broken = json!({"spec": {"schema": {"status": {"first": "${nobody.x}"}}}});
    objects.patch("edited", &broken).await;
    objects.until_condition("edited", "GraphAccepted", "False").await;
    running.stop().await;
    let before = state(&objects).await;

    let running = Running::start(PLANE, settings.clone()).await;
    for name in ["good", "edited"] {
        wait::until_true(format!("`{name}` to be served"), || running.graphs.get(name).is_some()).await;
        assert_eq!(running.graphs.get(name).unwrap().revision.as_ref().unwrap().number, 1);
    }
    // Drift is repaired, and nothing else is touched.
    let children = objects.config_maps("default");
    let edit = json!({"data": {"after": "somebody"}});
    children.patch("kept-second", &PatchParams::default(), &Patch::Merge(&edit)).await.unwrap();
    until(children.clone(), "kept-second".to_owned(), |child| child["data"]["after"] == "kept-first").await;
    assert_eq!(state(&objects).await, before);
    running.stop().await;

    // While nobody looks, an instance is made and the definition deleted: it is not stranded.
    let api = objects.namespaced("kro.run", "Good", "goods", "default");
    let instance =
        json!({"apiVersion": "kro.run/v1alpha1", "kind": "Good", "metadata": {"name": "a"}, "spec": {}});
    api.create(&kube::api::PostParams::default(), &serde_json::from_value(instance).unwrap()).await.unwrap();
    objects.delete("good").await;
    let running = Running::start(PLANE, settings).await;
    let waiting = objects.until_condition("good", "ControllerReady", "Unknown").await;
    assert!(condition(&waiting, "Ready")["message"].as_str().unwrap().contains("`default/a`"));
    assert!(running.graphs.get("good").unwrap().revision.is_none());
    api.delete("a", &DeleteParams::default()).await.unwrap();
    wait::until_gone(&objects.definitions(), "good").await;
    // This controller may delete CRDs.
    wait::until_gone(&objects.crds(), "goods.kro.run").await;
    running.stop().await;
}

/// The versions of everything that the controller writes.
async fn state(objects: &Objects) -> Vec<(String, String)> {
    let mut state = Vec::new();
    let instances = objects.namespaced("kro.run", "Edited", "editeds", "default");
    let children = objects.config_maps("default");
    for api in [objects.definitions(), objects.revisions(), objects.crds(), instances, children] {
        for object in api.list(&kube::api::ListParams::default()).await.unwrap() {
            let name = object.metadata.name.unwrap();
            // The one that the test itself changes.
            if name == "kept-second" {
                continue;
            }
            state.push((name, object.metadata.resource_version.unwrap()));
        }
    }
    state
}
