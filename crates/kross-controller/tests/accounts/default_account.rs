//! `--default-service-account`, on a hub of its own: with it, definitions without `access` have an account too. The reviews of
//! this hub are those of its instances alone.

use std::time::Instant;

use kross_controller::Settings;
use kross_testing::{shared, wait};
use kube::Client;
use serde_json::json;

use crate::instance_api::InstanceApi;
use crate::setup::{Objects, condition, create_once_served, until};
use crate::world::{AGES, Hub, World, config_map, until_says};

#[tokio::test(flavor = "multi_thread")]
async fn instances_without_access_have_the_default_account_and_an_idle_hub_sends_no_reviews() {
    let plane = shared("default-account").await;
    let settings = Settings { default_service_account: Some("deployer".to_owned()), ..Settings::default() };
    let hub: &'static Hub = Box::leak(Box::new(Hub::start(plane, settings).await));
    let client = Client::try_from(plane.admin().config().await.unwrap()).unwrap();
    let world = World { namespace: "tenant".to_owned(), objects: Objects { client }, hub };
    world.apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tenant"}})).await;
    world.account("deployer").await;
    let second = config_map("second", json!({"uid": "${first.metadata.uid}"}));
    let resources = json!([config_map("first", json!({"x": "1"})), second]);
    let instances = world.define("Web", json!({"spec": {"a": "string"}}), None, resources).await;
    instances.create("x", json!({"a": "b"})).await;
    until_says(&instances, "x", &["system:serviceaccount:tenant:deployer", "cannot"]).await;
    world.manages_config_maps("deployer").await;
    instances.until_state("x", "ACTIVE").await;
    instances.create("y", json!({"a": "b"})).await;
    let before = hub.reviews();
    instances.until_state("y", "ACTIVE").await;
    assert!(hub.reviews() <= before + 1, "instances of one account share its decisions");
    // Longer than any decision is kept.
    let (before, since) = (hub.reviews(), Instant::now());
    wait::until_true("the decisions to expire", || since.elapsed() > AGES.allowed * 2).await;
    assert_eq!(hub.reviews(), before);

    // A cluster-scoped instance has no namespace whose account could act for it.
    let object = json!({"id": "first", "template": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "${schema.metadata.name}-platform", "namespace": "tenant"}, "data": {"x": "1"}}});
    let schema = json!({"scope": "Cluster", "spec": {"a": "string"}});
    world.define_with("Platform", schema, None, json!([object])).await;
    let platforms = world.objects.api("kro.run", "v1alpha1", "Platform", "platforms");
    let instance = json!({"apiVersion": "kro.run/v1alpha1", "kind": "Platform", "metadata": {"name": "x"},
        "spec": {"a": "b"}});
    create_once_served(&platforms, instance).await;
    let failed = until(platforms, "x".to_owned(), |found| found["status"]["state"] == "ERROR").await;
    let message = condition(&failed, "GraphResolved")["message"].to_string();
    assert!(message.contains("the instance has no namespace: set `spec.access`"), "{message}");
    assert_eq!(world.data("tenant", "x-platform").await, None);
}
