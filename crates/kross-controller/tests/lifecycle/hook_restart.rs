//! Deletion hooks over restarts of the controller: what was created or has completed before does not run again.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kross_controller::Settings;
use kross_testing::{FaultProxy, Requests, objects, shared, wait};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value as Json, json};

use crate::setup::{Objects, Running, install, until};
use crate::world::{config_map, edit};

const PLANE: &str = "hook-restart";
const NAMESPACE: &str = "hook-restart";

/// Resources with a hook that somebody has to finish, and one that is ready at once and that a finalizer keeps.
fn resources() -> Json {
    let mut backup = config_map("backup", json!({"of": "${database.metadata.name}"}));
    backup["lifecycle"] = json!({"when": "Deletion"});
    backup["readyWhen"] = json!(["${has(backup.data.done)}"]);
    let mut notice = config_map("notice", json!({"of": "${schema.metadata.name}"}));
    notice["lifecycle"] = json!({"when": "Deletion"});
    notice["template"]["metadata"]["finalizers"] = json!(["test.kross.run/hold"]);
    json!([config_map("database", json!({"a": "1"})), backup, notice])
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_deletion_hooks_once_over_restarts() {
    let hub = shared(PLANE).await;
    let objects = Objects { client: hub.client().await.unwrap() };
    install(&objects.client).await;
    let namespaces: Api<Namespace> = Api::all(objects.client.clone());
    namespaces.create(&PostParams::default(), &objects::namespace(NAMESPACE)).await.unwrap();
    let proxy = FaultProxy::start(hub.admin()).unwrap();
    let config = proxy.kubeconfig(hub.admin()).unwrap().config().await.unwrap();
    let running = Running::start_with(config.clone(), Settings::default()).await;
    let definition = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": "hookrestart"}, "spec": {"resources": resources(),
        "schema": {"apiVersion": "v1alpha1", "kind": "HookRestart", "spec": {}}}});
    objects.create(&definition).await;
    objects.until_ready("hookrestart").await;
    let instances = objects.namespaced("kro.run", "HookRestart", "hookrestarts", NAMESPACE);
    let config_maps: Api<ConfigMap> = Api::namespaced(objects.client.clone(), NAMESPACE);
    for name in ["x", "y"] {
        let instance = json!({"apiVersion": "kro.run/v1alpha1", "kind": "HookRestart", "metadata": {"name": name}, "spec": {}});
        instances.create(&PostParams::default(), &serde_json::from_value(instance).unwrap()).await.unwrap();
        until(instances.clone(), name.to_owned(), |instance| instance["status"]["state"] == "ACTIVE").await;
        instances.delete(name, &DeleteParams::default()).await.unwrap();
        let expected = r#"{"hooksCompleted":["notice"],"hooksCreated":["backup"]}"#;
        let is_recorded = move |instance: &Json| {
            instance["metadata"]["annotations"]["internal.kro.run/delete-attempts"] == expected
        };
        until(instances.clone(), name.to_owned(), is_recorded).await;
    }
    running.stop().await;

    edit(&config_maps, "x-backup", json!({"done": "yes"})).await;
    config_maps.delete("y-backup", &DeleteParams::default()).await.unwrap();
    let running = Running::start_with(config.clone(), Settings::default()).await;
    for name in ["x-notice", "y-notice"] {
        wait::until_object(&config_maps, name, |notice| notice.metadata.deletion_timestamp.is_some()).await;
    }
    running.stop().await;

    let running = Running::start_with(config, Settings::default()).await;
    for name in ["x", "y"] {
        let released = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        let params = PatchParams::default();
        config_maps.patch(&format!("{name}-notice"), &params, &released).await.unwrap();
        wait::until_deleted(&instances, name).await;
    }
    running.stop().await;
    let sent: Vec<String> = proxy
        .requests(&Requests::any().namespace(NAMESPACE))
        .iter()
        .map(|record| record.request.to_string())
        .collect();
    for name in ["x-backup", "y-backup", "x-notice", "y-notice"] {
        let writes: Vec<&String> = sent
            .iter()
            .filter(|sent| sent.ends_with(&format!("configmaps {NAMESPACE}/{name}")))
            .filter(|sent| !sent.starts_with("get") && !sent.starts_with("delete"))
            .collect();
        assert_eq!(writes.len(), 1, "{writes:?}");
    }
    for name in ["x-database", "y-database"] {
        assert!(config_maps.get_opt(name).await.unwrap().is_none(), "{name}");
    }
}
