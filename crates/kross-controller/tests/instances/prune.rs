//! Pruning: when and in which order the controller deletes objects that an instance no longer wants.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, ServiceAccount};
use kross_testing::{Action, Requests, Verb, objects, wait};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value as Json, json};

use crate::setup::condition;
use crate::world::{World, config_map, value};

#[tokio::test(flavor = "multi_thread")]
async fn prunes_what_an_instance_no_longer_wants() {
    let mut optional = config_map("b", json!({}));
    optional["includeWhen"] = json!(["${schema.spec.both}"]);
    let mut secret = json!({"id": "s", "template": {"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "${schema.metadata.name}-s"}}});
    secret["includeWhen"] = json!(["${schema.spec.both}"]);
    let schema = json!({"spec": {"both": "boolean", "text": "string | default=a"}});
    let resources = json!([config_map("a", json!({"x": "${schema.spec.text}"})), optional, secret]);
    let world = World::new("Optional", schema, resources).await;
    world.create("x", json!({"both": true})).await;
    let included = world.until_state("x", "ACTIVE").await;
    let kinds = "applyset.kubernetes.io/contains-group-kinds";
    assert_eq!(included["metadata"]["annotations"][kinds], "ConfigMap,Secret");
    wait::until_object(&world.config_maps, "x-b", |_| true).await;
    world.patch("x", json!({"spec": {"both": false, "text": "b"}})).await;
    wait::until_deleted(&world.config_maps, "x-b").await;
    wait::until_object(&world.config_maps, "x-a", |object| value(object, "x") == Some("b")).await;
    world
        .until("x", |instance| {
            instance["status"]["state"] == "ACTIVE"
                && instance["metadata"]["annotations"][kinds] == "ConfigMap"
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn prunes_an_object_while_an_unrelated_node_waits() {
    let mut old = config_map("old", json!({}));
    old["includeWhen"] = json!(["${schema.spec.old}"]);
    let outside = json!({"id": "outside", "externalRef": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "${schema.spec.from}"}}});
    let resources = json!([old, outside, config_map("copy", json!({"x": "${outside.data.x}"}))]);
    let schema = json!({"spec": {"old": "boolean", "from": "string"}});
    let world = World::new("Independent", schema, resources).await;
    let here = objects::config_map("here", &[("x", "here")]);
    world.config_maps.create(&PostParams::default(), &here).await.unwrap();
    world.create("x", json!({"old": true, "from": "here"})).await;
    world.until_state("x", "ACTIVE").await;
    world.patch("x", json!({"spec": {"old": false, "from": "there"}})).await;
    wait::until_deleted(&world.config_maps, "x-old").await;
    world.until_state("x", "IN_PROGRESS").await;
    assert!(world.config_maps.get("x-copy").await.unwrap().metadata.deletion_timestamp.is_none());
    let there = objects::config_map("there", &[("x", "there")]);
    world.config_maps.create(&PostParams::default(), &there).await.unwrap();
    wait::woken(wait::until_object(&world.config_maps, "x-copy", |object| {
        value(object, "x") == Some("there")
    }))
    .await;
    world.until_state("x", "ACTIVE").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sends_no_requests_while_a_prune_is_held_back() {
    let mut first = config_map("first", json!({}));
    first["includeWhen"] = json!(["${schema.spec.first}"]);
    let outside = json!({"id": "outside", "externalRef": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "${schema.spec.from}"}}});
    let mut second = config_map("second", json!({}));
    second["template"]["metadata"]["name"] = json!("${schema.metadata.name}-${outside.data.x}");
    let schema = json!({"spec": {"first": "boolean", "from": "string"}});
    let world = World::new("HeldBack", schema, json!([first, outside, second])).await;
    let here = objects::config_map("here", &[("x", "here")]);
    world.config_maps.create(&PostParams::default(), &here).await.unwrap();
    world.create("x", json!({"first": true, "from": "here"})).await;
    world.until_state("x", "ACTIVE").await;
    // `second` may turn out to be what `first` was.
    world.patch("x", json!({"spec": {"first": false, "from": "there"}})).await;
    let held = world.until_state("x", "IN_PROGRESS").await;
    let entries = held["status"]["managedResources"].as_array().unwrap();
    let is_held = |entry: &Json| entry["name"] == "x-first" && entry["state"] == "Blocked";
    let entry = entries.iter().find(|entry| is_held(entry)).unwrap();
    let message = "no longer desired; pruned once the objects of `second` are known";
    assert_eq!(entry["message"], message, "{held:#}");
    let before = world.sent_requests().len();
    for name in ["y", "z"] {
        world.create(name, json!({"first": true, "from": "here"})).await;
        world.until_state(name, "ACTIVE").await;
    }
    let mine = |sent: &String| sent.contains("/x");
    let sent: Vec<String> = world.sent_requests().into_iter().skip(before).filter(mine).collect();
    assert_eq!(sent, [""; 0]);
    let uid = world.config_maps.get("x-first").await.unwrap().metadata.uid;
    let there = objects::config_map("there", &[("x", "first")]);
    world.config_maps.create(&PostParams::default(), &there).await.unwrap();
    wait::woken(wait::until_deleted(&world.config_maps, "x-here")).await;
    world.until_state("x", "ACTIVE").await;
    assert_eq!(world.config_maps.get("x-first").await.unwrap().metadata.uid, uid);
}

/// Replaces the finalizers of a ConfigMap.
async fn set_finalizers(api: &Api<ConfigMap>, name: &str, list: Json) {
    let patch = Patch::Merge(json!({"metadata": {"finalizers": list}}));
    api.patch(name, &PatchParams::default(), &patch).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn prunes_dependents_first_and_waits_for_their_deletion() {
    let mut first = config_map("a", json!({}));
    first["includeWhen"] = json!(["${schema.spec.wanted}"]);
    let resources =
        json!([first, config_map("b", json!({"a": "${a.metadata.name}"})), config_map("c", json!({}))]);
    let world = World::new("Pruned", json!({"spec": {"wanted": "boolean"}}), resources).await;
    world.create("x", json!({"wanted": true})).await;
    world.until_state("x", "ACTIVE").await;
    set_finalizers(&world.config_maps, "x-b", json!(["test.kross.run/hold"])).await;
    world.patch("x", json!({"spec": {"wanted": false}})).await;
    wait::until_object(&world.config_maps, "x-b", |object| object.metadata.deletion_timestamp.is_some())
        .await;
    assert!(world.config_maps.get("x-a").await.unwrap().metadata.deletion_timestamp.is_none());
    // While an object is being deleted, its kind stays in the inventory, and the instance is not released.
    world.delete("x").await;
    world.until("x", |instance| condition(instance, "ResourcesReady")["reason"] == "UnderDeletion").await;
    wait::until_deleted(&world.config_maps, "x-c").await;
    assert!(world.instances.get_opt("x").await.unwrap().is_some());
    set_finalizers(&world.config_maps, "x-b", json!([])).await;
    wait::woken(wait::until_deleted(&world.instances, "x")).await;
    for name in ["x-a", "x-b"] {
        assert!(world.config_maps.get_opt(name).await.unwrap().is_none(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn prunes_the_next_object_when_the_last_one_of_a_kind_that_left_the_graph_is_deleted() {
    let account = json!({"id": "b", "template": {"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "${schema.metadata.name}-b", "annotations": {"a": "${a.metadata.name}"}}}});
    let resources = json!([config_map("a", json!({})), account, config_map("c", json!({}))]);
    let world = World::new("Shrunk", json!({"spec": {}}), resources).await;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    let client = world.config_maps.clone().into_client();
    let accounts: Api<ServiceAccount> = Api::namespaced(client, &world.namespace);
    let set_finalizers = async |list: Json| {
        let patch = Patch::Merge(json!({"metadata": {"finalizers": list}}));
        accounts.patch("x-b", &PatchParams::default(), &patch).await.unwrap();
    };
    set_finalizers(json!(["test.kross.run/hold"])).await;
    // Nothing watches ServiceAccounts any more.
    world.objects.patch("shrunk", &json!({"spec": {"resources": [config_map("c", json!({}))]}})).await;
    wait::until_object(&accounts, "x-b", |object| object.metadata.deletion_timestamp.is_some()).await;
    assert!(world.config_maps.get("x-a").await.unwrap().metadata.deletion_timestamp.is_none());
    world.until_quiet(Duration::from_secs(1)).await;
    set_finalizers(json!([])).await;
    wait::woken(wait::until_deleted(&world.config_maps, "x-a")).await;
    assert!(world.config_maps.get_opt("x-c").await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn prunes_nothing_that_a_newer_version_of_the_instance_desires() {
    let mut optional = config_map("b", json!({}));
    optional["includeWhen"] = json!(["${schema.spec.both}"]);
    let schema = json!({"spec": {"both": "boolean", "text": "string"}});
    let world = World::new(
        "Reconsidered",
        schema,
        json!([config_map("a", json!({"x": "${schema.spec.text}"})), optional]),
    )
    .await;
    world.create("x", json!({"both": true, "text": "one"})).await;
    world.until_state("x", "ACTIVE").await;
    let created = world.config_maps.get("x-b").await.unwrap().metadata.uid;

    // While a pass that will prune is applying, the instance is changed back.
    let namespace = world.namespace.clone();
    let applies = Requests::any().verb(Verb::Apply).resource("configmaps").namespace(&namespace).name("x-a");
    world.proxy.clear_requests();
    let held = world.proxy.on(applies.clone(), Action::Hold);
    world.patch("x", json!({"spec": {"both": false, "text": "two"}})).await;
    wait::until_true("the write to be sent", || world.proxy.count(&applies) > 0).await;
    world.patch("x", json!({"spec": {"both": true, "text": "two"}})).await;
    world.proxy.remove(held);

    world.until_state("x", "ACTIVE").await;
    wait::until_object(&world.config_maps, "x-a", |object| value(object, "x") == Some("two")).await;
    assert_eq!(world.config_maps.get("x-b").await.unwrap().metadata.uid, created);
    let deletions = Requests::any().verb(Verb::Delete).resource("configmaps").namespace(&namespace);
    assert_eq!(world.proxy.count(&deletions), 0);

    // The instance is read once before objects are pruned, and not when nothing is.
    let reads = Requests::any().verb(Verb::Get).resource("reconsidereds.kro.run").namespace(&namespace);
    world.proxy.clear_requests();
    world.patch("x", json!({"spec": {"text": "three"}})).await;
    wait::until_object(&world.config_maps, "x-a", |object| value(object, "x") == Some("three")).await;
    world.until_state("x", "ACTIVE").await;
    assert_eq!(world.proxy.count(&reads), 0);
    world.patch("x", json!({"spec": {"both": false}})).await;
    wait::until_deleted(&world.config_maps, "x-b").await;
    world.until_state("x", "ACTIVE").await;
    assert_eq!(world.proxy.count(&reads), 1, "{:?}", world.sent_requests());
}

#[tokio::test(flavor = "multi_thread")]
async fn scales_a_chain_of_collections_down_although_the_last_items_cannot_be_updated() {
    let mut base = config_map("base", json!({"prefix": "p", "count": "${string(size(schema.spec.items))}"}));
    base["template"]["metadata"]["name"] = json!("${schema.metadata.name}-base");
    let collection = |id: &str, variable: &str, list: &str, name: &str, data: Json| {
        let mut resource = config_map(id, data);
        resource["forEach"] = json!([{ variable: list }]);
        resource["template"]["metadata"]["name"] = json!(format!("${{schema.metadata.name}}-{name}"));
        resource
    };
    let first = collection(
        "first",
        "entry",
        "${schema.spec.items}",
        "first-${entry}",
        json!({"entry": "${entry}", "prefix": "${base.data.prefix}"}),
    );
    let second = collection(
        "second",
        "one",
        "${first}",
        "second-${one.data.entry}",
        json!({"entry": "${one.data.entry}"}),
    );
    let summary = config_map(
        "summary",
        json!({"first": "${string(size(first))}", "second": "${string(size(second))}"}),
    );
    // The command of a Pod is immutable.
    let command = json!(["sh", "-c", "echo ${summary.data.second} items"]);
    let pods = json!({"id": "pods", "forEach": [{"two": "${second}"}], "template": {"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "${schema.metadata.name}-pod-${two.data.entry}"},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "worker", "image": "worker", "command": command}]}}});
    let schema = json!({"spec": {"items": "[]string"}, "status": {"first": "${string(size(first))}",
        "second": "${string(size(second))}", "pods": "${string(size(pods))}"}});
    let world = World::new("DeepCollections", schema, json!([base, first, second, summary, pods])).await;
    let pods: Api<Pod> = Api::namespaced(world.objects.client.clone(), &world.namespace);
    let counts = |instance: &Json, count: &str| {
        ["first", "second", "pods"].iter().all(|field| instance["status"][field] == count)
    };
    world.create("x", json!({"items": ["a", "b"]})).await;
    let created = world.until_state("x", "ACTIVE").await;
    assert!(counts(&created, "2"), "{created:#}");

    world.patch("x", json!({"spec": {"items": ["a", "b", "c"]}})).await;
    wait::until_object(&pods, "x-pod-c", |_| true).await;
    world.until("x", |instance| counts(instance, "3")).await;

    world.patch("x", json!({"spec": {"items": ["a", "c"]}})).await;
    wait::until_deleted(&pods, "x-pod-b").await;
    wait::until_deleted(&world.config_maps, "x-second-b").await;
    wait::until_deleted(&world.config_maps, "x-first-b").await;
    wait::until_object(&world.config_maps, "x-summary", |object| value(object, "second") == Some("2")).await;
    world.until("x", |instance| counts(instance, "2")).await;
    for item in ["a", "c"] {
        assert!(world.config_maps.get_opt(&format!("x-second-{item}")).await.unwrap().is_some(), "{item}");
        let pod = pods.get(&format!("x-pod-{item}")).await.unwrap();
        assert!(pod.metadata.deletion_timestamp.is_none(), "{item}");
    }
    world.delete("x").await;
    wait::until_deleted(&world.instances, "x").await;
}
