//! The deletion of instances whose objects are in published clusters.

use kross_testing::wait;
use serde_json::{Value as Json, json};

use crate::published::{Published, WORKLOAD, by_name};
use crate::setup::condition;
use crate::world::config_map;

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_disappears_while_an_instance_is_deleted_orphans_nothing() {
    let published = Published::new("VanishedTarget").await;
    published.publish("eu", json!({})).await;
    let resources = json!([config_map("app", None, json!({}))]);
    published.define(json!({"schema": {"spec": {}}, "target": by_name("eu"), "resources": resources})).await;
    published.create("x", json!({})).await;
    published.until_state("x", "ACTIVE").await;
    published.targets.remove("eu").await;
    published.until_condition("x", ("ClusterResolved", "False", "NoTarget")).await;
    published.delete("x").await;
    let names_it = format!("KubernetesTarget `{}/eu` does not exist", published.namespace);
    let waits = |instance: &Json| {
        let message = condition(instance, "Ready")["message"].as_str().unwrap_or_default().to_owned();
        instance["status"]["state"] == "DELETING" && message.contains(&names_it)
    };
    published.until("x", waits).await;
    let eu = published.region("eu");
    assert!(eu.config_maps.get_opt("x-app").await.unwrap().is_some());

    published.publish("eu", json!({})).await;
    wait::woken(wait::until_deleted(&published.instances, "x")).await;
    assert!(eu.config_maps.get_opt("x-app").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_that_publishes_a_cluster_and_uses_it_can_be_deleted() {
    let published = Published::new("OwnTarget").await;
    let source = json!({"id": "source", "externalRef": {"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "eu-kubeconfig"}}});
    let secret = json!({"id": "connection", "template": {"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "${schema.metadata.name}-connection"}, "data": "${source.data}"}});
    let target = json!({"id": "published", "readyWhen": ["${published.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')}"],
        "template": {"apiVersion": format!("{WORKLOAD}/v1alpha1"), "kind": "KubernetesTarget",
            "metadata": {"name": "${schema.metadata.name}"},
            "spec": {"connectionSecretRef": {"name": "${connection.metadata.name}"}}}});
    let mut app = config_map("app", None, json!({}));
    app["target"] = by_name("${published.metadata.name}");
    published.define(json!({"schema": {"spec": {}}, "resources": [source, secret, target, app]})).await;
    published.create("x", json!({})).await;
    wait::until_object(&published.targets.api, "x", |_| true).await;
    published.targets.set_ready("x").await;
    published.until_state("x", "ACTIVE").await;
    let eu = published.region("eu");
    assert!(eu.config_maps.get_opt("x-app").await.unwrap().is_some());

    published.delete("x").await;
    wait::until_deleted(&published.instances, "x").await;
    assert!(eu.config_maps.get_opt("x-app").await.unwrap().is_none());
    assert!(published.targets.api.get_opt("x").await.unwrap().is_none());
    assert!(published.secrets.get_opt("x-connection").await.unwrap().is_none());
}
