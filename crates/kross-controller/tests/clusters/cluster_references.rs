//! Cluster references: for each item of a collection, to a Secret that the graph itself creates, to a Secret that is created
//! later, and to Secrets that cannot be used.

use kross_testing::{Fault, wait};
use serde_json::json;

use crate::setup::condition;
use crate::world::{World, cluster_entry, config_map, resource_entry, value};

#[tokio::test(flavor = "multi_thread")]
async fn creates_each_item_of_a_collection_in_its_own_cluster() {
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
        assert_eq!(cluster_entry(&instance, &format!("{name}-kubeconfig"))["ready"], 1);
    }
    // While one cluster is unreachable, the other one is reconciled.
    world.region("eu").proxy.set(Fault::Refuse);
    world.until_condition("x", ("RemoteClusterConnected", "False", "Unreachable")).await;
    world.region("us").config_maps.delete("x-part", &Default::default()).await.unwrap();
    wait::woken(wait::until_object(&world.region("us").config_maps, "x-part", |_| true)).await;
    world.region("eu").proxy.set(Fault::Pass);
    wait::woken(world.until_state("x", "ACTIVE")).await;
    world.patch("x", json!({"spec": {"regions": ["us"]}})).await;
    wait::woken(wait::until_deleted(&world.region("eu").config_maps, "x-part")).await;
    world.until("x", |instance| cluster_entry(instance, "eu-kubeconfig").is_null()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn creates_the_secret_of_a_cluster_and_deploys_into_it() {
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
    // The Secret is deleted last: the cleanup of the cluster needs it.
    world.delete("x").await;
    wait::until_deleted(&world.instances, "x").await;
    assert!(world.region("eu").config_maps.get_opt("x-app").await.unwrap().is_none());
    assert!(world.secrets.get_opt("x-made-kubeconfig").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_for_a_secret_that_is_created_later() {
    let app = config_map("app", Some("${schema.spec.target}"), json!({}));
    let world =
        World::new("LateSecret", json!({"schema": {"spec": {"target": "string"}}, "resources": [app]})).await;
    world.create("x", json!({"target": "later"})).await;
    let waiting = world.until_condition("x", ("ClusterResolved", "False", "SecretNotAvailable")).await;
    let message = condition(&waiting, "ClusterResolved")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("later-kubeconfig"), "{message}");
    assert_eq!(waiting["status"]["state"], "IN_PROGRESS");
    // At first without the expected key.
    let secret = json!({"metadata": {"name": "later-kubeconfig"}, "stringData": {"value": "x"}});
    world.secrets.create(&Default::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
    wait::woken(world.until_condition("x", ("ClusterResolved", "False", "SecretKeyMissing"))).await;
    world.apply_secret("later-kubeconfig", &world.kubeconfig("us")).await;
    wait::woken(world.until_state("x", "ACTIVE")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn finds_external_objects_of_another_cluster_by_label() {
    let shards = json!({"id": "shards", "externalRef": {"apiVersion": "v1", "kind": "ConfigMapList",
        "selector": {"matchLabels": {"shard": "yes"}}, "metadata": {"namespace": "${schema.metadata.namespace}"},
        "cluster": {"name": "us-kubeconfig"}}});
    let mut copies = config_map("copies", Some("eu"), json!({"of": "${shard.metadata.uid}"}));
    copies["forEach"] = json!([{"shard": "${shards}"}]);
    copies["template"]["metadata"]["name"] = json!("${schema.metadata.name}-of-${shard.metadata.name}");
    let sum = config_map("sum", Some("eu"), json!({"count": "${string(size(shards))}"}));
    let resources = json!([shards, sum, copies]);
    let world = World::new("Gatherer", json!({"schema": {"spec": {}}, "resources": resources})).await;
    let shard = |name: &str| {
        let labels = json!({"shard": "yes"});
        serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}})).unwrap()
    };
    let us = &world.region("us").config_maps;
    us.create(&Default::default(), &shard("one")).await.unwrap();
    world.create("x", json!({})).await;
    let eu = &world.region("eu").config_maps;
    wait::until_object(eu, "x-sum", |object| value(object, "count") == Some("1")).await;
    us.create(&Default::default(), &shard("two")).await.unwrap();
    wait::woken(wait::until_object(eu, "x-sum", |object| value(object, "count") == Some("2"))).await;
    // A collection can iterate over external objects of another cluster.
    for name in ["one", "two"] {
        let uid = us.get(name).await.unwrap().metadata.uid.unwrap();
        wait::woken(wait::until_object(eu, &format!("x-of-{name}"), |copy| value(copy, "of") == Some(&uid)))
            .await;
    }
    us.delete("one", &Default::default()).await.unwrap();
    wait::woken(wait::until_deleted(eu, "x-of-one")).await;
    wait::woken(wait::until_object(eu, "x-sum", |object| value(object, "count") == Some("1"))).await;
    assert!(eu.get_opt("x-of-two").await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn names_the_permissions_that_a_credential_lacks() {
    let app = config_map("app", Some("weak"), json!({}));
    let world = World::new("Weak", json!({"schema": {"spec": {}}, "resources": [app]})).await;
    let eu = world.region("eu");
    let none = kross_local::Access::none();
    let weak = eu.cluster.plane.mint_token(&world.namespace, "weak", &none).await.unwrap();
    world.apply_secret("weak-kubeconfig", &eu.proxy.kubeconfig(&weak).unwrap()).await;
    world.create("x", json!({})).await;
    let failed = world.until_state("x", "ERROR").await;
    let entry = resource_entry(&failed, "app");
    let message = entry["message"].as_str().unwrap();
    for part in
        ["list", "configmaps", "weak-kubeconfig", &format!("system:serviceaccount:{}:weak", world.namespace)]
    {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert_eq!(entry["reason"], "Forbidden");
    assert_eq!(cluster_entry(&failed, "weak-kubeconfig")["unverified"], true, "{failed:#}");
    eu.cluster.plane.mint_token(&world.namespace, "weak", &kross_local::Access::all()).await.unwrap();
    world.until_state("x", "ACTIVE").await;
    // After a reconnect the credential may read the UID of the cluster, which is the same.
    eu.proxy.set(Fault::Refuse);
    world.until_condition("x", ("RemoteClusterConnected", "False", "Unreachable")).await;
    eu.proxy.set(Fault::Pass);
    let verified = wait::woken(world.until("x", |instance| {
        instance["status"]["state"] == "ACTIVE"
            && cluster_entry(instance, "weak-kubeconfig")["unverified"].is_null()
    }))
    .await;
    let inventory =
        verified["metadata"]["annotations"]["internal.kro.run/cluster-inventory"].as_str().unwrap();
    assert!(!inventory.contains("unverified") && !inventory.contains("https://"), "{inventory}");
    world.delete("x").await;
    wait::until_deleted(&world.instances, "x").await;
    assert!(eu.config_maps.get_opt("x-app").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_an_unusable_secret_with_a_reason_and_recovers_when_it_is_corrected() {
    let app = config_map("app", Some("unusable"), json!({}));
    let world = World::new("UnusableSecret", json!({"schema": {"spec": {}}, "resources": [app]})).await;
    let apply_secret_data = async |data: serde_json::Value| {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "unusable-kubeconfig"}, "stringData": data});
        let parameters = kube::api::PatchParams::apply("test").force();
        world
            .secrets
            .patch("unusable-kubeconfig", &parameters, &kube::api::Patch::Apply(secret))
            .await
            .unwrap();
    };
    apply_secret_data(json!({"config": "x"})).await;
    world.create("x", json!({})).await;
    world.until_condition("x", ("ClusterResolved", "False", "SecretKeyMissing")).await;
    // The change of the Secret is the only event.
    apply_secret_data(json!({"kubeconfig": world.kubeconfig("eu").to_string()})).await;
    wait::woken(world.until_state("x", "ACTIVE")).await;
    let insecure = world
        .kubeconfig("eu")
        .to_string()
        .replace("    server:", "    insecure-skip-tls-verify: true\n    server:");
    apply_secret_data(json!({"kubeconfig": insecure})).await;
    let refused =
        wait::woken(world.until_condition("x", ("ClusterResolved", "False", "KubeconfigInvalid"))).await;
    let message = condition(&refused, "RemoteClusterConnected")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("insecure-skip-tls-verify"), "{message}");
    apply_secret_data(json!({"kubeconfig": world.kubeconfig("eu").to_string()})).await;
    wait::woken(world.until_state("x", "ACTIVE")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_scoped_instance_reads_its_secret_from_the_system_namespace() {
    let world = World::without_definition("SystemSecret").await;
    let client = world.objects.client.clone();
    let namespaces = kube::Api::all(client.clone());
    let _ = namespaces.create(&Default::default(), &kross_testing::objects::namespace("kro-system")).await;
    let secrets: kube::Api<k8s_openapi::api::core::v1::Secret> = kube::Api::namespaced(client, "kro-system");
    let secret = json!({"metadata": {"name": "systemsecret-kubeconfig"},
        "stringData": {"kubeconfig": world.kubeconfig("us").to_string()}});
    secrets.create(&Default::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
    let mut app = config_map("app", Some("systemsecret"), json!({}));
    app["template"]["metadata"]["namespace"] = json!("${schema.spec.home}");
    world
        .define(json!({"schema": {"scope": "Cluster", "spec": {"home": "string"}}, "resources": [app]}))
        .await;
    let instances =
        world.objects.api("kro.run", "v1alpha1", "SystemSecret", &kross_api::plural("SystemSecret"));
    let instance = json!({"apiVersion": "kro.run/v1alpha1", "kind": "SystemSecret", "metadata": {"name": "x"},
        "spec": {"home": world.namespace}});
    instances.create(&Default::default(), &serde_json::from_value(instance).unwrap()).await.unwrap();
    let us = &world.region("us").config_maps;
    wait::until_object(us, "x-app", |_| true).await;
    instances.delete("x", &Default::default()).await.unwrap();
    wait::until_deleted(&instances, "x").await;
    assert!(us.get_opt("x-app").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cluster_of_a_resource_takes_precedence_over_that_of_its_definition() {
    let resources = json!([
        config_map("inherits", None, json!({})),
        config_map("there", Some("us"), json!({"from": "${inherits.metadata.name}"})),
    ]);
    let spec = json!({"schema": {"spec": {}}, "cluster": {"name": "eu-kubeconfig"}, "resources": resources});
    let world = World::new("Precedence", spec).await;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    let (eu, us) = (&world.region("eu").config_maps, &world.region("us").config_maps);
    assert!(
        eu.get_opt("x-inherits").await.unwrap().is_some() && eu.get_opt("x-there").await.unwrap().is_none()
    );
    assert!(
        us.get_opt("x-there").await.unwrap().is_some() && us.get_opt("x-inherits").await.unwrap().is_none()
    );
    assert!(world.config_maps.get_opt("x-inherits").await.unwrap().is_none());
}
