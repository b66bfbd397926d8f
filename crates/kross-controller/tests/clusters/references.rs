//! How a cluster is chosen: for each item, by a Secret that the graph itself makes, by a Secret that comes later.

use kross_testing::{Fault, wait};
use serde_json::json;

use crate::setup::condition;
use crate::world::{World, cluster, config_map, resource, value};

#[tokio::test(flavor = "multi_thread")]
async fn each_item_can_have_a_cluster_of_its_own() {
    let mut parts = config_map("part", None, json!({"region": "${region}"}));
    parts["forEach"] = json!([{"region": "${schema.spec.regions}"}]);
    parts["cluster"] = json!({"name": "${region + '-kubeconfig'}"});
    let world =
        World::new("Spread", json!({"schema": {"spec": {"regions": "[]string"}}, "resources": [parts]}))
            .await;
    world.create("x", json!({"regions": ["eu", "us"]})).await;
    let instance = world.until_state("x", "ACTIVE").await;
    for name in ["eu", "us"] {
        let object = world.region(name).config_maps.get("x-part").await.unwrap();
        assert_eq!(value(&object, "region"), Some(name));
        assert_eq!(cluster(&instance, &format!("{name}-kubeconfig"))["ready"], 1);
    }
    // One of them dark: the other goes on.
    world.region("eu").proxy.set(Fault::Refuse);
    world.until_condition("x", ("RemoteClusterConnected", "False", "Unreachable")).await;
    world.region("us").config_maps.delete("x-part", &Default::default()).await.unwrap();
    wait::until_object(&world.region("us").config_maps, "x-part", |_| true).await;
    world.region("eu").proxy.set(Fault::Pass);
    world.until_state("x", "ACTIVE").await;
    world.patch("x", json!({"spec": {"regions": ["us"]}})).await;
    wait::until_gone(&world.region("eu").config_maps, "x-part").await;
    world.until("x", |instance| cluster(instance, "eu-kubeconfig").is_null()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_can_make_the_secret_of_a_cluster_and_deploy_into_it() {
    let world = World::without_definition("Provisioner").await;
    let secret = json!({"id": "access", "template": {"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "${schema.metadata.name}-made-kubeconfig"},
        "stringData": {"kubeconfig": "${schema.spec.kubeconfig}"}}});
    let mut app = config_map("app", None, json!({"from": "${access.metadata.name}"}));
    app["cluster"] = json!({"name": "${access.metadata.name}"});
    world.define(json!({"schema": {"spec": {"kubeconfig": "string"}}, "resources": [secret, app]})).await;
    world.create("x", json!({"kubeconfig": world.kubeconfig("eu").to_string()})).await;
    world.until_state("x", "ACTIVE").await;
    assert!(world.region("eu").config_maps.get_opt("x-app").await.unwrap().is_some());
    // The Secret goes last: without it the cluster could not be cleaned.
    world.delete("x").await;
    wait::until_gone(&world.instances, "x").await;
    assert!(world.region("eu").config_maps.get_opt("x-app").await.unwrap().is_none());
    assert!(world.secrets.get_opt("x-made-kubeconfig").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_waits_for_a_secret_that_comes_later() {
    let app = config_map("app", Some("${schema.spec.target}"), json!({}));
    let world =
        World::new("Delegated", json!({"schema": {"spec": {"target": "string"}}, "resources": [app]})).await;
    world.create("x", json!({"target": "later"})).await;
    let waiting = world.until_condition("x", ("ClusterResolved", "False", "SecretNotAvailable")).await;
    let message = condition(&waiting, "ClusterResolved")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("later-kubeconfig"), "{message}");
    assert_eq!(waiting["status"]["state"], "IN_PROGRESS");
    world.secret("later-kubeconfig", &world.kubeconfig("us")).await;
    world.until_state("x", "ACTIVE").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn external_objects_of_another_cluster_are_found_by_their_labels() {
    let shards = json!({"id": "shards", "externalRef": {"apiVersion": "v1", "kind": "ConfigMapList",
        "selector": {"matchLabels": {"shard": "yes"}}, "metadata": {"namespace": "${schema.metadata.namespace}"},
        "cluster": {"name": "us-kubeconfig"}}});
    let resources =
        json!([shards, config_map("sum", Some("eu"), json!({"count": "${string(size(shards))}"}))]);
    let world = World::new("Gatherer", json!({"schema": {"spec": {}}, "resources": resources})).await;
    let make = |name: &str| {
        let labels = json!({"shard": "yes"});
        serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}})).unwrap()
    };
    let us = &world.region("us").config_maps;
    us.create(&Default::default(), &make("one")).await.unwrap();
    world.create("x", json!({})).await;
    let eu = &world.region("eu").config_maps;
    wait::until_object(eu, "x-sum", |object| value(object, "count") == Some("1")).await;
    us.create(&Default::default(), &make("two")).await.unwrap();
    wait::until_object(eu, "x-sum", |object| value(object, "count") == Some("2")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_that_may_not_is_told_what_it_lacks() {
    let app = config_map("app", Some("weak"), json!({}));
    let world = World::new("Weak", json!({"schema": {"spec": {}}, "resources": [app]})).await;
    let eu = world.region("eu");
    let none = kross_local::Access::none();
    let weak = eu.cluster.plane.mint_token(&world.namespace, "weak", &none).await.unwrap();
    world.secret("weak-kubeconfig", &eu.proxy.kubeconfig(&weak).unwrap()).await;
    world.create("x", json!({})).await;
    let failed = world.until_state("x", "ERROR").await;
    let entry = resource(&failed, "app");
    let message = entry["message"].as_str().unwrap();
    for part in
        ["list", "configmaps", "weak-kubeconfig", &format!("system:serviceaccount:{}:weak", world.namespace)]
    {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert_eq!(entry["reason"], "Forbidden");
    assert_eq!(cluster(&failed, "weak-kubeconfig")["unverified"], true, "{failed:#}");
    eu.cluster.plane.mint_token(&world.namespace, "weak", &kross_local::Access::all()).await.unwrap();
    world.until_state("x", "ACTIVE").await;
    // Connected anew it may ask which cluster that is: the same.
    eu.proxy.set(Fault::Refuse);
    world.until_condition("x", ("RemoteClusterConnected", "False", "Unreachable")).await;
    eu.proxy.set(Fault::Pass);
    let known = world
        .until("x", |instance| {
            instance["status"]["state"] == "ACTIVE"
                && cluster(instance, "weak-kubeconfig")["unverified"].is_null()
        })
        .await;
    let inventory = known["metadata"]["annotations"]["internal.kro.run/cluster-inventory"].as_str().unwrap();
    assert!(!inventory.contains("unverified") && !inventory.contains("https://"), "{inventory}");
    world.delete("x").await;
    wait::until_gone(&world.instances, "x").await;
    assert!(eu.config_maps.get_opt("x-app").await.unwrap().is_none());
}
