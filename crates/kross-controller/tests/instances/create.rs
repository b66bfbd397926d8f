//! Creating an instance: which requests the controller sends, the metadata of instance and objects, and what a resource
//! waits for.

use kross_testing::wait;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value as Json, json};

use crate::setup::{condition, until};
use crate::world::{World, config_map, value};

fn chain() -> Json {
    json!([
        config_map("a", json!({"x": "${schema.spec.text}"})),
        config_map("b", json!({"x": "${a.data.x}b"})),
        config_map("c", json!({"x": "${b.data.x}c"})),
        config_map("d", json!({"x": "${c.data.x}d"})),
        config_map("e", json!({"x": "${d.data.x}e"})),
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn creates_a_chain_of_five_resources_in_one_pass_without_needless_requests() {
    let schema = json!({"spec": {"text": "string"}, "status": {"end": "${e.data.x}"}});
    let world = World::new("Chain", schema, chain()).await;
    world.create("one", json!({"text": "-"})).await;
    let one = world.until_state("one", "ACTIVE").await;
    assert_eq!(one["status"]["end"], "-bcde");
    let ns = &world.namespace;
    let expected = vec![
        format!("patch chains.kro.run {ns}/one"),
        format!("apply configmaps {ns}/one-a"),
        format!("apply configmaps {ns}/one-b"),
        format!("apply configmaps {ns}/one-c"),
        format!("apply configmaps {ns}/one-d"),
        format!("apply configmaps {ns}/one-e"),
        format!("update chains.kro.run/status {ns}/one"),
    ];
    assert_eq!(world.sent_requests(), expected);

    // A change without effect causes no request. When the second instance is active, the first was reconciled before it.
    world.patch("one", json!({"metadata": {"labels": {"team": "web"}}})).await;
    world.create("two", json!({"text": "-"})).await;
    world.until_state("two", "ACTIVE").await;
    let for_one = world.sent_requests().into_iter().filter(|sent| sent.contains("/one")).count();
    assert_eq!(for_one, expected.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_and_children_have_the_metadata_of_kro() {
    let resources = json!([config_map("a", json!({})), config_map("b", json!({"a": "${a.metadata.name}"}))]);
    let world = World::new("Marked", json!({"spec": {}}), resources).await;
    world.create("x", json!({})).await;
    let instance = world.until_state("x", "ACTIVE").await;
    let metadata = &instance["metadata"];
    assert_eq!(metadata["finalizers"], json!(["kro.run/finalizer"]));
    let labels = &metadata["labels"];
    assert_eq!(labels["kro.run/owned"], "true");
    assert_eq!(labels["kro.run/resource-graph-definition-name"], "marked");
    let applyset = labels["applyset.kubernetes.io/id"].as_str().unwrap();
    let annotations = &metadata["annotations"];
    assert_eq!(annotations["applyset.kubernetes.io/tooling"], "kro/devel");
    assert_eq!(annotations["applyset.kubernetes.io/contains-group-kinds"], "ConfigMap");
    assert_eq!(annotations["applyset.kubernetes.io/additional-namespaces"], "");
    assert!(annotations["internal.kro.run/applyset-inventory-hash"].as_str().unwrap().starts_with("sha256:"));
    let reasons: Vec<_> = instance["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|condition| [condition["type"].as_str().unwrap(), condition["reason"].as_str().unwrap()])
        .collect();
    let expected = [
        ["InstanceManaged", "Managed"],
        ["GraphResolved", "Resolved"],
        ["ResourcesReady", "AllResourcesReady"],
        ["Ready", "Ready"],
    ];
    assert_eq!(reasons, expected);

    let child = serde_json::to_value(world.config_maps.get("x-b").await.unwrap()).unwrap();
    let uid = &metadata["uid"];
    let expected = json!({
        "kro.run/owned": "true", "kro.run/kro-version": "devel", "kro.run/instance-id": uid,
        "kro.run/instance-name": "x", "kro.run/instance-namespace": world.namespace,
        "kro.run/instance-group": "kro.run", "kro.run/instance-version": "v1alpha1",
        "kro.run/instance-kind": "Marked", "app.kubernetes.io/managed-by": "kro", "kro.run/node-id": "b",
        "applyset.kubernetes.io/part-of": applyset,
    });
    assert_eq!(child["metadata"]["labels"], expected);
    assert_eq!(child["metadata"].get("ownerReferences"), None);
    assert_eq!(child["metadata"]["annotations"]["internal.kro.run/apply-order"], "2");
    let fields = child["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(
        (fields.len(), &fields[0]["manager"], &fields[0]["operation"]),
        (1, &json!("kro.run/applyset"), &json!("Apply"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_until_a_dependency_is_ready() {
    let mut first = config_map("a", json!({}));
    first["readyWhen"] = json!(["${a.metadata.?annotations['ready'].orValue('') == 'yes'}"]);
    let resources = json!([first, config_map("b", json!({"a": "${a.metadata.name}"}))]);
    let world = World::new("Gated", json!({"spec": {}}), resources).await;
    world.create("x", json!({})).await;
    let waiting = world.until_state("x", "IN_PROGRESS").await;
    assert_eq!(condition(&waiting, "ResourcesReady")["reason"], "NotReady");
    assert!(world.config_maps.get_opt("x-b").await.unwrap().is_none());
    let ready = json!({"metadata": {"annotations": {"ready": "yes"}}});
    world.config_maps.patch("x-a", &PatchParams::default(), &Patch::Merge(ready)).await.unwrap();
    wait::woken(world.until_state("x", "ACTIVE")).await;
    wait::until_object(&world.config_maps, "x-b", |object| value(object, "a") == Some("x-a")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn observes_an_object_in_a_graph_of_several_kinds() {
    let mut first = config_map("a", json!({}));
    first["readyWhen"] = json!(["${a.metadata.?annotations['ready'].orValue('') == 'yes'}"]);
    let mut second = config_map("b", json!({}));
    second["template"] = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "${a.metadata.name}"}, "stringData": {"a": "b"}});
    let world = World::new("Mixed", json!({"spec": {}}), json!([first, second])).await;
    world.create("x", json!({})).await;
    world.until_state("x", "IN_PROGRESS").await;
    let ready = json!({"metadata": {"annotations": {"ready": "yes"}}});
    world.config_maps.patch("x-a", &PatchParams::default(), &Patch::Merge(ready)).await.unwrap();
    wait::woken(world.until_state("x", "ACTIVE")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_in_a_cluster_without_a_secret_waits_and_blocks_no_other() {
    let mut elsewhere = config_map("elsewhere", json!({}));
    elsewhere["cluster"] = json!({"name": "edge-kubeconfig"});
    let resources = json!([elsewhere, config_map("here", json!({}))]);
    let world = World::new("Remote", json!({"spec": {}}), resources).await;
    world.create("x", json!({})).await;
    let waiting = world
        .until("x", |instance| condition(instance, "ClusterResolved")["reason"] == "SecretNotAvailable")
        .await;
    assert_eq!(waiting["status"]["state"], "IN_PROGRESS");
    let message = condition(&waiting, "RemoteClusterConnected")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("edge-kubeconfig"), "{message}");
    wait::until_object(&world.config_maps, "x-here", |_| true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn does_not_loop_on_a_graph_that_reads_its_own_resource_version() {
    let resources = json!([config_map("a", json!({"version": "${schema.metadata.resourceVersion}"}))]);
    let world = World::new("ReadsOwnVersion", json!({"spec": {}}), resources).await;
    // Every write of the instance changes its version. A controller that reacted to its own writes would still do so while
    // the other instances are created.
    for name in ["x", "y", "z"] {
        world.create(name, json!({})).await;
        world.until_state(name, "ACTIVE").await;
    }
    let for_x = |sent: &&String| sent.ends_with("/x") || sent.ends_with("/x-a");
    let sent = world.sent_requests();
    assert!(sent.iter().filter(for_x).count() < 10, "{sent:?}");
    let child = world.config_maps.get("x-a").await.unwrap();
    assert!(value(&child, "version").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_scoped_instance_creates_objects_in_the_namespaces_that_it_names() {
    let mut child = config_map("a", json!({"x": "${schema.spec.namespace}"}));
    child["template"]["metadata"]["namespace"] = json!("${schema.spec.namespace}");
    let schema = json!({"scope": "Cluster", "spec": {"namespace": "string"}});
    let world = World::new("Wide", schema, json!([child])).await;
    let instances = world.objects.api("kro.run", "v1alpha1", "Wide", "wides");
    let instance = json!({"apiVersion": "kro.run/v1alpha1", "kind": "Wide", "metadata": {"name": "x"},
        "spec": {"namespace": world.namespace}});
    instances.create(&PostParams::default(), &serde_json::from_value(instance).unwrap()).await.unwrap();
    let x = until(instances.clone(), "x".to_owned(), |x| x["status"]["state"] == "ACTIVE").await;
    let annotations = &x["metadata"]["annotations"];
    assert_eq!(annotations["applyset.kubernetes.io/additional-namespaces"], world.namespace.as_str());
    let child = world.config_maps.get("x-a").await.unwrap();
    assert!(!child.metadata.labels.unwrap().contains_key("kro.run/instance-namespace"));
    instances.delete("x", &DeleteParams::default()).await.unwrap();
    wait::until_deleted(&instances, "x").await;
    assert!(world.config_maps.get_opt("x-a").await.unwrap().is_none());
}
