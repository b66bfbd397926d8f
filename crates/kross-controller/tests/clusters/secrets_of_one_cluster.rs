//! Several Secrets with credentials for one cluster, and a Secret with a credential for the hub itself.

use kross_local::{Access, rule};
use kross_testing::wait;
use serde_json::json;

use crate::setup::condition;
use crate::world::{World, cluster_entry, config_map, resource_entry, value};

const INVENTORY: &str = "internal.kro.run/cluster-inventory";

#[tokio::test(flavor = "multi_thread")]
async fn two_secrets_of_one_cluster_are_two_access_paths_to_it() {
    let mut second = config_map("second", Some("also"), json!({}));
    second["includeWhen"] = json!(["${schema.spec.both}"]);
    let resources = json!([config_map("first", Some("eu"), json!({})), second]);
    let spec = json!({"schema": {"spec": {"both": "boolean"}}, "resources": resources});
    let world = World::new("Doubled", spec).await;
    world.apply_secret("also-kubeconfig", &world.kubeconfig("eu")).await;
    let maps = &world.region("eu").config_maps;
    world.create("x", json!({"both": true})).await;
    let active = world.until_state("x", "ACTIVE").await;
    let (first, second) =
        (cluster_entry(&active, "eu-kubeconfig"), cluster_entry(&active, "also-kubeconfig"));
    assert_eq!(first["uid"], second["uid"], "{active:#}");
    assert_eq!(
        (&first["total"], &second["total"]),
        (&json!(1), &json!(1)),
        "each entry counts its own objects: {active:#}"
    );
    for (id, secret) in [("first", "eu-kubeconfig"), ("second", "also-kubeconfig")] {
        let cluster = format!("{}/{secret}", world.namespace);
        assert_eq!(resource_entry(&active, id)["cluster"], cluster, "{active:#}");
    }

    // What was applied with the second Secret is pruned.
    world.patch("x", json!({"spec": {"both": false}})).await;
    wait::woken(wait::until_deleted(maps, "x-second")).await;
    assert!(maps.get_opt("x-first").await.unwrap().is_some());
    // A resource that is not included still names its cluster, since it may be included again.
    world.until_state("x", "ACTIVE").await;

    // A deleted Secret blocks only the resources that use it, and nothing is deleted.
    world.patch("x", json!({"spec": {"both": true}})).await;
    wait::until_object(maps, "x-second", |_| true).await;
    world.secrets.delete("also-kubeconfig", &Default::default()).await.unwrap();
    let degraded =
        wait::woken(world.until_condition("x", ("RemoteClusterConnected", "False", "SecretNotAvailable")))
            .await;
    assert_eq!(resource_entry(&degraded, "first")["state"], "Ready", "{degraded:#}");
    assert_eq!(resource_entry(&degraded, "second")["state"], "Error", "{degraded:#}");
    maps.delete("x-first", &Default::default()).await.unwrap();
    wait::woken(wait::until_object(maps, "x-first", |_| true)).await;
    // The other Secret gives access to the same cluster, so the deletion is not blocked.
    world.delete("x").await;
    wait::until_deleted(&world.instances, "x").await;
    for name in ["x-first", "x-second"] {
        assert!(maps.get_opt(name).await.unwrap().is_none(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn removes_a_secret_from_the_inventory_when_another_secret_of_the_same_cluster_replaces_it() {
    let app = config_map("app", Some("${schema.spec.secret}"), json!({}));
    let steady = config_map("steady", Some("eu"), json!({}));
    let spec = json!({"schema": {"spec": {"secret": "string"}}, "resources": [steady, app]});
    let world = World::new("Rerouted", spec).await;
    world.apply_secret("old-kubeconfig", &world.kubeconfig("eu")).await;
    let maps = &world.region("eu").config_maps;
    world.create("x", json!({"secret": "old"})).await;
    world.until_state("x", "ACTIVE").await;
    let before = maps.get("x-app").await.unwrap();
    world.patch("x", json!({"spec": {"secret": "eu"}})).await;
    world
        .until("x", |instance| {
            let inventory = instance["metadata"]["annotations"][INVENTORY].as_str().unwrap_or_default();
            instance["status"]["state"] == "ACTIVE"
                && !inventory.contains("old-kubeconfig")
                && cluster_entry(instance, "old-kubeconfig").is_null()
        })
        .await;
    let after = maps.get("x-app").await.unwrap();
    assert_eq!(after.metadata.uid, before.metadata.uid, "the object is not created again");
    // The Secret may hold the credentials of another cluster now, which does not affect this instance.
    world.apply_secret("old-kubeconfig", &world.kubeconfig("us")).await;
    world.patch("x", json!({"metadata": {"labels": {"reconcile": "again"}}})).await;
    world.until_state("x", "ACTIVE").await;
    world.delete("x").await;
    wait::until_deleted(&world.instances, "x").await;
    assert!(maps.get_opt("x-app").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_with_one_credential_and_writes_with_another_in_the_same_cluster() {
    let source = json!({"id": "source", "externalRef": {"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "source"}, "cluster": {"name": "reader-kubeconfig"}}});
    let copy = config_map("copy", Some("writer"), json!({"type": "${source.spec.type}"}));
    let spec = json!({"schema": {"spec": {}}, "resources": [source, copy]});
    let world = World::new("Separated", spec).await;
    let eu = world.region("eu");
    let own = ("", "namespaces");
    let minted = async |name: &str, resource: &str, verbs: &[&str]| {
        let access =
            Access::none().in_cluster([rule(&[""], &[resource], verbs), rule(&[own.0], &[own.1], &["get"])]);
        let user = eu.cluster.plane.mint_token(&world.namespace, name, &access).await.unwrap();
        world.apply_secret(&format!("{name}-kubeconfig"), &eu.proxy.kubeconfig(&user).unwrap()).await;
    };
    minted("reader", "services", &["get", "list", "watch"]).await;
    minted("writer", "configmaps", &["get", "list", "watch", "create", "patch", "delete"]).await;
    let services: kube::Api<k8s_openapi::api::core::v1::Service> = eu.cluster.api();
    let service = json!({"metadata": {"name": "source"}, "spec": {"ports": [{"port": 80}]}});
    services.create(&Default::default(), &serde_json::from_value(service).unwrap()).await.unwrap();
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    let copy = eu.config_maps.get("x-copy").await.unwrap();
    assert_eq!(value(&copy, "type"), Some("ClusterIP"));
    world.delete("x").await;
    wait::until_deleted(&world.instances, "x").await;
    assert!(eu.config_maps.get_opt("x-copy").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn treats_a_kubeconfig_of_the_hub_like_that_of_any_cluster() {
    let near = config_map("near", None, json!({"of": "near"}));
    let far = config_map("far", Some("hub"), json!({"of": "far"}));
    let spec = json!({"schema": {"spec": {"on": "boolean"}}, "resources": [near, far]});
    let world = World::new("HubByKubeconfig", spec).await;
    let hub = kross_testing::shared("hub").await;
    // The credential has only its own permissions, not those of the controller.
    let read_only =
        [rule(&[""], &["configmaps"], &["get", "list", "watch"]), rule(&[""], &["namespaces"], &["get"])];
    let access = Access::none().in_cluster(read_only);
    let guest = hub.mint_token(&world.namespace, "guest", &access).await.unwrap();
    world.apply_secret("hub-kubeconfig", &guest).await;
    world.create("x", json!({"on": true})).await;
    let refused = world.until_state("x", "ERROR").await;
    assert_eq!(resource_entry(&refused, "far")["reason"], "Forbidden", "{refused:#}");
    assert!(world.config_maps.get_opt("x-far").await.unwrap().is_none());
    world.apply_secret("hub-kubeconfig", hub.admin()).await;
    wait::woken(world.until_state("x", "ACTIVE")).await;
    let created = world.config_maps.get("x-far").await.unwrap();
    // Neither access path prunes the object of the other.
    world.patch("x", json!({"metadata": {"labels": {"reconcile": "again"}}})).await;
    let active = world.until_state("x", "ACTIVE").await;
    assert_eq!(world.config_maps.get("x-far").await.unwrap().metadata.uid, created.metadata.uid);
    assert_eq!(condition(&active, "RemoteResourcesReady")["status"], "True");
    world.delete("x").await;
    wait::until_deleted(&world.instances, "x").await;
    for name in ["x-near", "x-far"] {
        assert!(world.config_maps.get_opt(name).await.unwrap().is_none(), "{name}");
    }
}
