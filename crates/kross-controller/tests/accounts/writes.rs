//! What is written as the ServiceAccount of the instance.

use kross_testing::wait;
use serde_json::{Value as Json, json};

use crate::world::{World, config_map, until_says};

fn binding() -> Json {
    json!([{"id": "binding", "template": {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "${schema.spec.name}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "${schema.spec.user}"}]}}])
}

fn schema() -> Json {
    json!({"spec": {"name": "string", "user": "string"}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_role_binding_that_an_instance_chooses_is_created_without_access_and_not_with_it() {
    let world = World::new().await;
    let home = world.namespace.clone();
    let api = world.api("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", None);
    let open = world.define("OpenBinder", schema(), None, binding()).await;
    open.create("x", json!({"name": format!("{home}-open"), "user": "mallory"})).await;
    open.until_state("x", "ACTIVE").await;
    assert!(api.get_opt(&format!("{home}-open")).await.unwrap().is_some());

    world.account("deployer").await;
    let bound = world.define("BoundBinder", schema(), Some("deployer"), binding()).await;
    let name = format!("{home}-bound");
    bound.create("x", json!({"name": name, "user": "mallory"})).await;
    let user = format!("system:serviceaccount:{home}:deployer");
    let object = format!("cannot create ClusterRoleBinding {name}");
    let advice = format!("grant the permission to ServiceAccount `{home}/deployer`");
    until_says(&bound, "x", &[&object, &user, "clusterrolebindings", "Forbidden", &advice]).await;
    assert!(api.get_opt(&name).await.unwrap().is_none());
    // The permission to create bindings is not enough: the API server demands the rights of the role as well.
    world
        .apply(json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
            "rules": [{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterrolebindings"],
                "verbs": ["get", "create", "patch", "delete"]}]}))
        .await;
    world
        .apply(json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": format!("{name}-binder")},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": "deployer", "namespace": home}]}))
        .await;
    until_says(&bound, "x", &["is attempting to grant RBAC permissions not currently held", &user]).await;
    assert!(api.get_opt(&name).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_pruned_as_the_account() {
    let world = World::new().await;
    let home = world.namespace.clone();
    world.account("deployer").await;
    world.grant("deployer", &home, "configmaps", &["get", "create", "patch"]).await;
    let mut extra = config_map("extra", json!({"x": "1"}));
    extra["includeWhen"] = json!(["${schema.spec.extra}"]);
    let resources = json!([extra, config_map("kept", json!({"x": "1"}))]);
    let instances =
        world.define("Pruner", json!({"spec": {"extra": "boolean"}}), Some("deployer"), resources).await;
    instances.create("x", json!({"extra": true})).await;
    instances.until_state("x", "ACTIVE").await;
    instances.patch("x", json!({"spec": {"extra": false}})).await;
    let user = format!(
        "User \\\"system:serviceaccount:{home}:deployer\\\" cannot delete resource \\\"configmaps\\\""
    );
    until_says(&instances, "x", &[&user, "kross rbac FILE --account"]).await;
    assert!(world.data(&home, "x-extra").await.is_some());
    world.manages_config_maps("deployer").await;
    wait::until_deleted(&world.api("", "v1", "ConfigMap", Some(&home)), "x-extra").await;
    instances.until_state("x", "ACTIVE").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_controller_needs_the_permission_to_impersonate_the_account() {
    let world = World::new().await;
    let home = world.namespace.clone();
    world.account("forbidden").await;
    world.manages_config_maps("forbidden").await;
    let resources = json!([config_map("first", json!({"x": "1"}))]);
    let instances =
        world.define("NotImpersonated", json!({"spec": {"a": "string"}}), Some("forbidden"), resources).await;
    instances.create("x", json!({"a": "b"})).await;
    let advice = format!(
        "the controller needs the permission `impersonate` on ServiceAccount `{home}/forbidden`, which `kross rbac FILE` prints"
    );
    until_says(&instances, "x", &["cannot impersonate resource", &advice]).await;
    assert_eq!(world.data(&home, "x-first").await, None);
}
