//! Pruning: when and in which order the controller deletes objects that an instance no longer wants.

use k8s_openapi::api::core::v1::ConfigMap;
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
async fn prunes_only_after_everything_else_is_applied() {
    let mut old = config_map("old", json!({}));
    old["includeWhen"] = json!(["${schema.spec.old}"]);
    let outside = json!({"id": "outside", "externalRef": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "${schema.spec.from}"}}});
    let resources = json!([old, outside, config_map("copy", json!({"x": "${outside.data.x}"}))]);
    let schema = json!({"spec": {"old": "boolean", "from": "string"}});
    let world = World::new("Cautious", schema, resources).await;
    let here = objects::config_map("here", &[("x", "here")]);
    world.config_maps.create(&PostParams::default(), &here).await.unwrap();
    world.create("x", json!({"old": true, "from": "here"})).await;
    world.until_state("x", "ACTIVE").await;
    world.patch("x", json!({"spec": {"old": false, "from": "there"}})).await;
    world.until_state("x", "IN_PROGRESS").await;
    assert!(world.config_maps.get("x-old").await.unwrap().metadata.deletion_timestamp.is_none());
    assert!(world.config_maps.get("x-copy").await.unwrap().metadata.deletion_timestamp.is_none());
    let there = objects::config_map("there", &[("x", "there")]);
    world.config_maps.create(&PostParams::default(), &there).await.unwrap();
    wait::woken(wait::until_deleted(&world.config_maps, "x-old")).await;
    wait::woken(wait::until_object(&world.config_maps, "x-copy", |object| {
        value(object, "x") == Some("there")
    }))
    .await;
    world.until_state("x", "ACTIVE").await;
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
