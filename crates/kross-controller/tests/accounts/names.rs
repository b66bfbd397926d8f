//! Which ServiceAccount acts for an instance.

use kross_testing::wait;
use serde_json::{Value as Json, json};

use crate::setup::{condition, create_once_served, until};
use crate::world::{World, config_map, until_says};

#[tokio::test(flavor = "multi_thread")]
async fn an_account_that_is_empty_or_invalid_is_an_error_and_nothing_is_created() {
    let world = World::new().await;
    let home = world.namespace.clone();
    world.account("deployer").await;
    world.manages_config_maps("deployer").await;
    let resources = json!([config_map("first", json!({"x": "1"}))]);
    let schema = json!({"spec": {"account": "string | default=\"\""}});
    let instances = world.define("Chooser", schema, Some("${schema.spec.account}"), resources).await;
    for (name, account, message) in [
        ("empty", json!({}), "the ServiceAccount of the instance is empty"),
        ("user", json!({"account": "system:admin"}), "the ServiceAccount of the instance is invalid"),
        ("other", json!({"account": "kube-system/admin"}), "the ServiceAccount of the instance is invalid"),
    ] {
        instances.create(name, account).await;
        let failed = instances.until_state(name, "ERROR").await;
        let resolved = condition(&failed, "GraphResolved");
        assert!(resolved["message"].as_str().unwrap().contains(message), "{resolved}");
        assert_eq!(world.data(&home, &format!("{name}-first")).await, None);
    }
    // It does not need anything else, neither to converge nor to be deleted.
    instances.patch("empty", json!({"spec": {"account": "deployer"}})).await;
    instances.until_state("empty", "ACTIVE").await;
    instances.delete("other").await;
    wait::until_deleted(&instances.instances, "other").await;
    // An account that gets empty later does not delete anything as the controller.
    instances.patch("empty", json!({"spec": {"account": ""}})).await;
    instances.until_state("empty", "ERROR").await;
    instances.delete("empty").await;
    until_says(&instances, "empty", &["the ServiceAccount of the instance is empty", "DELETING"]).await;
    assert!(world.data(&home, "empty-first").await.is_some());
    instances.patch("empty", json!({"spec": {"account": "deployer"}})).await;
    wait::until_deleted(&instances.instances, "empty").await;
    assert_eq!(world.data(&home, "empty-first").await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_scoped_instance_uses_the_namespace_that_the_definition_names() {
    let world = World::new().await;
    let home = world.namespace.clone();
    world.account("deployer").await;
    let object = json!({"id": "first", "template": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "${schema.metadata.name}-first", "namespace": home}, "data": {"x": "1"}}});
    let schema = json!({"scope": "Cluster", "spec": {"a": "string"}});
    let access = json!({"serviceAccountName": "deployer", "serviceAccountNamespace": home});
    world.define_with("Platform", schema, Some(access), json!([object])).await;
    let instances = world.objects.api("kro.run", "v1alpha1", "Platform", "platforms");
    let name = format!("{home}-x");
    let instance = json!({"apiVersion": "kro.run/v1alpha1", "kind": "Platform", "metadata": {"name": name},
        "spec": {"a": "b"}});
    create_once_served(&instances, instance).await;
    let user = format!("system:serviceaccount:{home}:deployer");
    until(instances.clone(), name.clone(), |found| found["status"].to_string().contains(&user)).await;
    world.manages_config_maps("deployer").await;
    until(instances.clone(), name.clone(), |found| found["status"]["state"] == "ACTIVE").await;
    assert!(world.data(&home, &format!("{name}-first")).await.is_some());
}
