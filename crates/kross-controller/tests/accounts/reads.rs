//! What is given to expressions: only what the ServiceAccount of the instance may read.

use kross_testing::wait;
use serde_json::{Value as Json, json};

use crate::world::{World, config_map, secret, until_says};

/// Reads a Secret that the instance chooses, and copies it.
fn reader() -> Json {
    let password = json!({"id": "password", "externalRef": {"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "${schema.spec.name}", "namespace": "${schema.spec.namespace}"}}});
    json!([password, config_map("copy", json!({"stolen": "${string(password.data.password)}"}))])
}

fn schema() -> Json {
    json!({"spec": {"name": "string", "namespace": "string"}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_an_instance_chooses_is_read_as_the_controller_without_access() {
    let world = World::new().await;
    let vault = world.other_namespace().await;
    world.apply(secret(&vault, "production", "hunter2")).await;
    let instances = world.define("OpenReader", schema(), None, reader()).await;
    instances.create("x", json!({"name": "production", "namespace": vault})).await;
    world.until_data(&world.namespace, "x-copy", json!({"stolen": "hunter2"})).await;
    instances.until_state("x", "ACTIVE").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_read_while_the_account_may_get_it() {
    let world = World::new().await;
    let (vault, home) = (world.other_namespace().await, world.namespace.clone());
    world.apply(secret(&vault, "production", "hunter2")).await;
    world.account("deployer").await;
    world.manages_config_maps("deployer").await;
    let instances = world.define("BoundReader", schema(), Some("deployer"), reader()).await;
    instances.create("x", json!({"name": "production", "namespace": vault})).await;
    let object = format!("cannot get Secret {vault}/production");
    let account = format!("ServiceAccount `{home}/deployer` cannot get resource \\\"secrets\\\"");
    let place = format!("in the namespace \\\"{vault}\\\"");
    let status = until_says(&instances, "x", &[&object, &account, &place, "kross rbac FILE --account"]).await;
    assert!(!status.contains("hunter2"), "{status}");
    assert_eq!(world.data(&home, "x-copy").await, None);
    // Nobody touches the instance.
    world.grant("deployer", &vault, "secrets", &["get"]).await;
    world.until_data(&home, "x-copy", json!({"stolen": "hunter2"})).await;
    instances.until_state("x", "ACTIVE").await;
    world.revoke("deployer", &vault, "secrets").await;
    // Only a reconcile asks again: each change of the Secret causes one.
    let (touched, instances) = (std::sync::atomic::AtomicU32::new(0), &instances);
    wait::until("the account to lose the Secret", || async {
        let mut touch = secret(&vault, "production", "hunter2");
        let count = touched.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        touch["metadata"]["annotations"] = json!({"count": count.to_string()});
        world.apply(touch).await;
        let status = instances.instances.get("x").await.unwrap().data["status"].to_string();
        if status.contains(&account) { Ok(()) } else { Err(status) }
    })
    .await;
    // The cache learns of the new password, and the instance does not before the permission is granted again.
    world.apply(secret(&vault, "production", "hunter3")).await;
    instances.patch("x", json!({"metadata": {"labels": {"touched": "true"}}})).await;
    until_says(instances, "x", &[&account]).await;
    assert_eq!(world.data(&home, "x-copy").await, Some(json!({"stolen": "hunter2"})));
    world.grant("deployer", &vault, "secrets", &["get"]).await;
    world.until_data(&home, "x-copy", json!({"stolen": "hunter3"})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_selector_needs_the_permission_to_list() {
    let world = World::new().await;
    let home = world.namespace.clone();
    world.account("reader").await;
    world.manages_config_maps("reader").await;
    let all = json!({"id": "all", "externalRef": {"apiVersion": "v1", "kind": "Secret",
        "metadata": {"namespace": "${schema.metadata.namespace}", "selector": {"matchLabels": {"team": "blue"}}}}});
    let resources = json!([all, config_map("count", json!({"count": "${string(size(all))}"}))]);
    let instances =
        world.define("SelectingReader", json!({"spec": {"a": "string"}}), Some("reader"), resources).await;
    // To get them is not enough.
    world.grant("reader", &home, "secrets", &["get"]).await;
    instances.create("x", json!({"a": "b"})).await;
    let account = format!("ServiceAccount `{home}/reader` cannot list resource \\\"secrets\\\"");
    until_says(&instances, "x", &[&account]).await;
    world.grant("reader", &home, "secrets", &["list"]).await;
    world.until_data(&home, "x-count", json!({"count": "0"})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_is_read_back_only_if_the_account_may_get_it() {
    let world = World::new().await;
    let home = world.namespace.clone();
    world.account("deployer").await;
    world.grant("deployer", &home, "configmaps", &["create", "patch", "delete"]).await;
    let second = config_map("second", json!({"uid": "${first.metadata.uid}"}));
    let resources = json!([config_map("first", json!({"x": "1"})), second]);
    let schema = json!({"spec": {"a": "string"}, "status": {"uid": "${first.metadata.uid}"}});
    let instances = world.define("WriteOnly", schema, Some("deployer"), resources).await;
    instances.create("x", json!({"a": "b"})).await;
    let account = format!("ServiceAccount `{home}/deployer` cannot get resource \\\"configmaps\\\"");
    let object = format!("cannot get ConfigMap {home}/x-first");
    let status = until_says(&instances, "x", &[&object, &account]).await;
    let status: Json = serde_json::from_str(&status).unwrap();
    assert!(status.get("uid").is_none(), "{status}");
    assert!(world.data(&home, "x-first").await.is_some(), "it may be created");
    assert_eq!(world.data(&home, "x-second").await, None);
    world.manages_config_maps("deployer").await;
    let active = instances.until_state("x", "ACTIVE").await;
    assert!(active["status"]["uid"].is_string(), "{active}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_of_the_group_of_all_accounts_of_the_namespace_counts() {
    let world = World::new().await;
    let home = world.namespace.clone();
    world.account("deployer").await;
    let group = json!({"kind": "Group", "apiGroup": "rbac.authorization.k8s.io",
        "name": format!("system:serviceaccounts:{home}")});
    world.grant_to(group, "all", &home, ("configmaps", &["get", "create", "patch", "delete"])).await;
    let resources = json!([config_map("first", json!({"x": "1"}))]);
    let instances =
        world.define("GroupMember", json!({"spec": {"a": "string"}}), Some("deployer"), resources).await;
    instances.create("x", json!({"a": "b"})).await;
    instances.until_state("x", "ACTIVE").await;
}
