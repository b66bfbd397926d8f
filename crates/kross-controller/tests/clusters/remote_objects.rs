//! Objects in other clusters: created, watched, repaired and deleted.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kross_testing::{Stopwatch, wait};
use kube::Api;
use serde_json::json;

use crate::setup::condition;
use crate::world::{World, cluster_entry, config_map, edit, resource_entry, value};

#[tokio::test(flavor = "multi_thread")]
async fn creates_and_repairs_objects_in_their_cluster() {
    let resources = json!([
        config_map("here", None, json!({"text": "${schema.spec.text}"})),
        config_map("there", Some("eu"), json!({"text": "${here.data.text}"})),
    ]);
    let world =
        World::new("Faraway", json!({"schema": {"spec": {"text": "string"}}, "resources": resources})).await;
    world.create("x", json!({"text": "one"})).await;
    let instance = world.until_state("x", "ACTIVE").await;
    let eu = world.region("eu");
    assert_eq!(value(&eu.config_maps.get("x-there").await.unwrap(), "text"), Some("one"));
    assert!(world.config_maps.get_opt("x-there").await.unwrap().is_none());
    assert!(eu.config_maps.get_opt("x-here").await.unwrap().is_none());
    for kind in ["ClusterResolved", "RemoteClusterConnected", "RemoteResourcesReady", "Ready"] {
        assert_eq!(condition(&instance, kind)["status"], "True", "{kind}: {instance:#}");
    }
    let entry = cluster_entry(&instance, "eu-kubeconfig");
    assert_eq!(
        (&entry["connected"], &entry["mode"], &entry["ready"], &entry["total"]),
        (&json!(true), &json!("Watch"), &json!(1), &json!(1)),
        "{entry:#}"
    );
    assert!(entry["uid"].as_str().is_some_and(|uid| uid.len() == 36), "{entry:#}");
    let there = resource_entry(&instance, "there");
    assert_eq!(there["cluster"], format!("{}/eu-kubeconfig", world.namespace), "{there:#}");
    assert_eq!(there["state"], "Ready");

    world.patch("x", json!({"spec": {"text": "two"}})).await;
    wait::until_object(&eu.config_maps, "x-there", |object| value(object, "text") == Some("two")).await;
    edit(&eu.config_maps, "x-there", json!({"text": "three"})).await;
    wait::woken(wait::until_object(&eu.config_maps, "x-there", |object| {
        value(object, "text") == Some("two")
    }))
    .await;
    eu.config_maps.delete("x-there", &Default::default()).await.unwrap();
    wait::woken(wait::until_object(&eu.config_maps, "x-there", |object| {
        value(object, "text") == Some("two")
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn applies_a_change_in_one_cluster_to_the_next_within_a_second() {
    let mut endpoint = config_map("endpoint", Some("eu"), json!({}));
    endpoint["template"]["metadata"]["labels"] = json!({"made": "${schema.metadata.name}"});
    let database = json!({"id": "database", "externalRef": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "database"}, "cluster": {"name": "eu-kubeconfig"}}});
    let resources = json!([
        database,
        config_map("app", Some("us"), json!({"host": "${database.data.host}"})),
        config_map("summary", None, json!({"host": "${app.data.host}"})),
    ]);
    let world = World::new("Three", json!({"schema": {"spec": {}}, "resources": resources})).await;
    let (eu, us) = (world.region("eu"), world.region("us"));
    world.create("x", json!({})).await;
    let waiting = world.until_state("x", "IN_PROGRESS").await;
    assert!(resource_entry(&waiting, "database")["message"].as_str().is_some(), "{waiting:#}");
    let database =
        serde_json::from_value(json!({"metadata": {"name": "database"}, "data": {"host": "a"}})).unwrap();
    eu.config_maps.create(&Default::default(), &database).await.unwrap();
    wait::woken(wait::until_object(&world.config_maps, "x-summary", |object| {
        value(object, "host") == Some("a")
    }))
    .await;
    world.until_state("x", "ACTIVE").await;
    let stopwatch = Stopwatch::start();
    edit(&eu.config_maps, "database", json!({"host": "b"})).await;
    wait::woken(wait::until_object(&us.config_maps, "x-app", |object| value(object, "host") == Some("b")))
        .await;
    stopwatch.assert_within(Duration::from_secs(1));
    wait::woken(wait::until_object(&world.config_maps, "x-summary", |object| {
        value(object, "host") == Some("b")
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_a_namespace_that_is_missing_in_the_remote_cluster() {
    let mut there = config_map("there", Some("eu"), json!({}));
    there["template"]["metadata"]["namespace"] = json!("missing-${schema.metadata.name}");
    let world = World::new("NamespaceMissing", json!({"schema": {"spec": {}}, "resources": [there]})).await;
    world.create("x", json!({})).await;
    let failed = world.until_state("x", "ERROR").await;
    let message = resource_entry(&failed, "there")["message"].as_str().unwrap().to_owned();
    assert!(
        message.contains("cannot create ConfigMap missing-x/x-there in cluster")
            && message.contains("namespace `missing-x`"),
        "{message}"
    );
    let namespace = kross_testing::objects::namespace("missing-x");
    let namespaces = Api::all(world.region("eu").cluster.client.clone());
    namespaces.create(&Default::default(), &namespace).await.unwrap();
    world.until_state("x", "ACTIVE").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn resolves_kinds_in_the_remote_cluster() {
    let crd = json!({"id": "crd", "cluster": {"name": "eu-kubeconfig"}, "template": {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.faraway.test"},
        "spec": {"group": "faraway.test", "scope": "Cluster", "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}});
    let widget = json!({"id": "widget", "cluster": {"name": "eu-kubeconfig"}, "template": {
        "apiVersion": "faraway.test/v1", "kind": "Widget", "metadata": {"name": "${schema.metadata.name}-widget"},
        "spec": {"size": 3}}});
    let world = World::new("Widgeted", json!({"schema": {"spec": {}}, "resources": [crd, widget]})).await;
    world.create("x", json!({})).await;
    let instance = world.until_state("x", "ACTIVE").await;
    let widget = resource_entry(&instance, "widget");
    assert_eq!((&widget["kind"], widget.get("namespace")), (&json!("Widget"), None), "{widget:#}");
    world.delete("x").await;
    wait::until_deleted(&world.instances, "x").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn installs_a_crd_in_another_cluster_and_then_creates_objects_of_its_kind() {
    let world = World::without_definition("InstallsKind").await;
    let group = format!("{}.installed.example.com", world.namespace);
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
        "type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}}});
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("things.{group}")},
        "spec": {"group": group, "names": {"kind": "Thing", "plural": "things"}, "scope": "Namespaced",
                 "versions": [version]}});
    let thing = json!({"apiVersion": format!("{group}/v1"), "kind": "Thing",
        "metadata": {"name": "${schema.metadata.name}"}, "spec": {"size": "${schema.spec.size}"}});
    let region = |region: &str| json!({"name": format!("{region}-kubeconfig"), "namespace": world.namespace});
    world
        .define(json!({
            "schema": {"spec": {"region": "string", "size": "integer | default=3"},
                       "status": {"size": "${fixed.spec.size}"}},
            "resources": [
                {"id": "thing", "cluster": region("${schema.spec.region}"), "template": thing},
                {"id": "crd", "cluster": region("${schema.spec.region}"), "template": crd},
                {"id": "fixed", "cluster": region("us"), "template": thing},
                {"id": "fixedCrd", "cluster": region("us"), "template": crd},
            ],
        }))
        .await;
    world.create("x", json!({"region": "eu"})).await;
    let active = world.until_state("x", "ACTIVE").await;
    assert_eq!(active["status"]["size"], 3, "{active:#}");
    let crds =
        |region: &str| Api::<CustomResourceDefinition>::all(world.region(region).cluster.client.clone());
    world.delete("x").await;
    wait::until_deleted(&world.instances, "x").await;
    for region in ["eu", "us"] {
        assert!(crds(region).get_opt(&format!("things.{group}")).await.unwrap().is_none());
    }
}
