//! A restart of the controller while a cluster is unreachable or a graph does not compile: deletion continues from what is
//! stored in the objects.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kross_testing::{Fault, FaultProxy, objects, shared, wait};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::{Value as Json, json};

use crate::audited_world::{settings, until_orphaned};
use crate::setup::{Objects, Running, install, until};
use crate::world::config_map;

const PLANE: &str = "restarted";
const NAMESPACE: &str = "restarted";

#[tokio::test(flavor = "multi_thread")]
async fn force_after_continues_over_a_restart_while_the_cluster_is_unreachable() {
    let (hub, eu) = tokio::join!(shared(PLANE), shared("eu"));
    let objects = Objects { client: hub.client().await.unwrap() };
    let eu_client = eu.client().await.unwrap();
    install(&objects.client).await;
    for client in [&objects.client, &eu_client] {
        let namespaces: Api<Namespace> = Api::all(client.clone());
        namespaces.create(&PostParams::default(), &objects::namespace(NAMESPACE)).await.unwrap();
    }
    let proxy = FaultProxy::start(eu.admin()).unwrap();
    let secrets: Api<Secret> = Api::namespaced(objects.client.clone(), NAMESPACE);
    let secret = objects::kubeconfig_secret("eu-kubeconfig", &proxy.kubeconfig(eu.admin()).unwrap());
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    let mut remote = config_map("remote", Some("eu"), json!({"a": "1"}));
    remote["lifecycle"] = json!({"delete": {"forceAfter": "15s"}});
    // So many items that the status has only a summary of them.
    let mut many = config_map("many", Some("eu"), json!({"after": "${local.metadata.name}"}));
    many["forEach"] = json!([{"i": "${lists.range(schema.spec.count)}"}]);
    many["template"]["metadata"]["name"] = json!("${schema.metadata.name}-many-${string(i)}");
    many["lifecycle"] = json!({"delete": {"forceAfter": "15s"}});
    let definition = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": "lasting"}, "spec": {"schema": {"apiVersion": "v1alpha1", "kind": "Lasting", "spec": {"count": "integer"}},
        "resources": [remote, many, config_map("local", None, json!({}))]}});
    let running = Running::start(PLANE, settings()).await;
    objects.create(&definition).await;
    objects.until_ready("lasting").await;
    let instances = objects.namespaced("kro.run", "Lasting", "lastings", NAMESPACE);
    let instance = json!({"apiVersion": "kro.run/v1alpha1", "kind": "Lasting", "metadata": {"name": "x"}, "spec": {"count": 30}});
    instances.create(&PostParams::default(), &serde_json::from_value(instance).unwrap()).await.unwrap();
    until(instances.clone(), "x".to_owned(), |instance| instance["status"]["state"] == "ACTIVE").await;
    running.stop().await;

    proxy.set(Fault::Refuse);
    let running = Running::start(PLANE, settings()).await;
    instances.delete("x", &DeleteParams::default()).await.unwrap();
    let attempts_stored =
        |instance: &Json| instance["metadata"]["annotations"]["internal.kro.run/delete-attempts"].is_string();
    let waiting = until(instances.clone(), "x".to_owned(), attempts_stored).await;
    assert_eq!(waiting["status"]["state"], "DELETING");
    running.stop().await;
    // The next controller still knows when the deletion began.
    let running = Running::start(PLANE, settings()).await;
    wait::until_deleted(&instances, "x").await;
    let names = (0..30).map(|i| format!("x-many-{i}")).chain(["x-remote".to_owned()]);
    let expected: BTreeSet<_> = names.map(|name| (format!("{NAMESPACE}/eu-kubeconfig"), name)).collect();
    until_orphaned(NAMESPACE, &expected).await;
    let config_maps: Api<ConfigMap> = Api::namespaced(eu_client, NAMESPACE);
    let existing = config_maps.list(&ListParams::default()).await.unwrap().items;
    let existing: BTreeSet<_> = existing.into_iter().filter_map(|object| object.metadata.name).collect();
    assert!(expected.iter().all(|(_, name)| existing.contains(name)), "{existing:?}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deletes_instances_as_last_applied_when_their_graph_no_longer_compiles() {
    const PLANE: &str = "broken";
    let objects = Objects { client: shared(PLANE).await.client().await.unwrap() };
    install(&objects.client).await;
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.broken.test"},
        "spec": {"group": "broken.test", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1alpha1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    objects.crds().create(&PostParams::default(), &serde_json::from_value(crd).unwrap()).await.unwrap();
    let widget = json!({"id": "widget", "template": {"apiVersion": "broken.test/v1alpha1", "kind": "Widget",
        "metadata": {"name": "${schema.metadata.name}-widget"}}});
    let mut kept = config_map("kept", None, json!({"a": "1"}));
    kept["lifecycle"] = json!({"delete": {"policy": "${schema.spec.keep ? 'Retain' : 'Delete'}"}});
    let definition = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": "breaking"}, "spec": {
            "schema": {"apiVersion": "v1alpha1", "kind": "Breaking", "spec": {"keep": "boolean"}},
            "resources": [widget, kept, config_map("web", None, json!({}))]}});
    let running = Running::start(PLANE, settings()).await;
    objects.create(&definition).await;
    objects.until_ready("breaking").await;
    let instances = objects.namespaced("kro.run", "Breaking", "breakings", "default");
    let instance = json!({"apiVersion": "kro.run/v1alpha1", "kind": "Breaking", "metadata": {"name": "x"},
        "spec": {"keep": true}});
    instances.create(&PostParams::default(), &serde_json::from_value(instance).unwrap()).await.unwrap();
    until(instances.clone(), "x".to_owned(), |instance| instance["status"]["state"] == "ACTIVE").await;
    running.stop().await;

    // The CRD of a resource is deleted while no controller runs: neither the definition nor its last revision compiles.
    objects.crds().delete("widgets.broken.test", &DeleteParams::default()).await.unwrap();
    wait::until_deleted(&objects.crds(), "widgets.broken.test").await;
    let running = Running::start(PLANE, settings()).await;
    objects.until_condition("breaking", "Ready", "False").await;
    instances.delete("x", &DeleteParams::default()).await.unwrap();
    wait::until_deleted(&instances, "x").await;
    let config_maps: Api<ConfigMap> = Api::namespaced(objects.client.clone(), "default");
    assert!(config_maps.get_opt("x-web").await.unwrap().is_none());
    assert_eq!(crate::instance_api::ownership_metadata(&config_maps.get("x-kept").await.unwrap()), [""; 0]);
    running.stop().await;
}
