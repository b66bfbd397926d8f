//! The examples in `examples/` about lifecycle and unreachable clusters, unchanged except for shorter times.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kross_testing::{Fault, Requests, Verb, wait};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value as Json, json};

use crate::audited_world::{empty_world, until_orphaned};
use crate::world::{World, resource_entry, value};

/// Creates the definition of an example, with replacements for its times.
async fn world(file: &str, kind: &str, replacements: &[(&str, &str)]) -> World {
    let path = format!("{}/../../examples/{file}", env!("CARGO_MANIFEST_DIR"));
    let mut text = std::fs::read_to_string(path).unwrap();
    for (original, replacement) in replacements {
        assert!(text.contains(original), "{file} does not contain `{original}`");
        text = text.replace(original, replacement);
    }
    let (mut sources, mut found) =
        (kross_diagnostics::Sources::default(), kross_diagnostics::Diagnostics::new());
    let documents =
        kross_api::yaml::parse(&mut sources, file, &*text, &kross_api::yaml::Limits::default(), &mut found);
    let definition = Json::from(documents[0].value());
    let world = empty_world(kind).await;
    world.objects.create(&definition).await;
    world.objects.until_ready(definition["metadata"]["name"].as_str().unwrap()).await;
    world
}

fn api<K>(client: &Client, world: &World) -> Api<K>
where
    K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
    K::DynamicType: Default,
{
    Api::namespaced(client.clone(), &world.namespace)
}

async fn delete_and_wait(world: &World, name: &str) {
    world.delete(name).await;
    wait::until_deleted(&world.instances, name).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn example_react_to_failure() {
    let world = world("react-to-failure.yaml", "CautiousWeb", &[]).await;
    world.create("shop", json!({"region": "eu"})).await;
    world.until_state("shop", "ACTIVE").await;
    let web: Api<Deployment> = api(&world.objects.client, &world);
    let replicas = |number: i32| {
        move |web: &Deployment| web.spec.as_ref().and_then(|spec| spec.replicas) == Some(number)
    };
    wait::until_object(&web, "shop", replicas(3)).await;
    world.region("eu").proxy.set(Fault::Refuse);
    wait::woken(wait::until_object(&web, "shop", replicas(1))).await;
    let unreachable = world.until("shop", |instance| instance["status"]["cache"] == "Error").await;
    assert!(
        unreachable["status"]["cacheError"].as_str().unwrap().contains("refused"),
        "{}",
        unreachable["status"]
    );
    world.region("eu").proxy.set(Fault::Pass);
    wait::woken(wait::until_object(&web, "shop", replicas(3))).await;
    world.until_state("shop", "ACTIVE").await;
    delete_and_wait(&world, "shop").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn example_regional_failover() {
    let world = world("regional-failover.yaml", "FailoverService", &[("2m", "3s")]).await;
    let (eu, us) = (world.region("eu"), world.region("us"));
    let primary: Api<Deployment> = api(&eu.cluster.client, &world);
    let standby: Api<Deployment> = api(&us.cluster.client, &world);
    world.create("shop", json!({"region": "eu", "standbyRegion": "us"})).await;
    wait::until_object(&primary, "shop", |_| true).await;
    world.until("shop", |instance| instance["status"]["servedBy"] == "eu").await;
    eu.proxy.set(Fault::Refuse);
    wait::until_object(&standby, "shop", |_| true).await;
    let degraded = world.until("shop", |instance| instance["status"]["servedBy"] == "us").await;
    assert_eq!(resource_entry(&degraded, "primary")["state"], "Skipped");
    wait::until_object(&world.config_maps, "shop-directory", |directory| {
        value(directory, "region") == Some("us")
    })
    .await;
    eu.proxy.set(Fault::Pass);
    wait::woken(wait::until_deleted(&standby, "shop")).await;
    world.until("shop", |instance| instance["status"]["servedBy"] == "eu").await;
    assert!(primary.get_opt("shop").await.unwrap().is_some());
    delete_and_wait(&world, "shop").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn example_keep_data() {
    let world = world("keep-data.yaml", "KeptData", &[]).await;
    let eu = world.region("eu");
    let claims: Api<PersistentVolumeClaim> = api(&eu.cluster.client, &world);
    world.create("shop", json!({"region": "eu"})).await;
    world.until_state("shop", "ACTIVE").await;
    let before = claims.get("shop-data").await.unwrap();
    delete_and_wait(&world, "shop").await;
    let retained = claims.get("shop-data").await.unwrap();
    assert_eq!((&retained.metadata.uid, retained.metadata.labels), (&before.metadata.uid, None));
    assert!(eu.config_maps.get_opt("shop-settings").await.unwrap().is_none());
    world.create("shop", json!({"region": "eu", "keep": false})).await;
    world.until_state("shop", "ACTIVE").await;
    assert_eq!(claims.get("shop-data").await.unwrap().metadata.uid, before.metadata.uid);
    // Kubernetes adds a finalizer to claims, which no controller manager removes here.
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    claims.patch("shop-data", &PatchParams::default(), &release).await.unwrap();
    delete_and_wait(&world, "shop").await;
    assert!(claims.get_opt("shop-data").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn example_deletion_timeout() {
    let world = world("deletion-timeout.yaml", "EdgeSite", &[("5m", "3s")]).await;
    world.create("shop", json!({"site": "eu"})).await;
    world.until_state("shop", "ACTIVE").await;
    world.region("eu").proxy.set(Fault::Refuse);
    world.until_state("shop", "ERROR").await;
    delete_and_wait(&world, "shop").await;
    assert!(world.config_maps.get_opt("shop-record").await.unwrap().is_none());
    let cluster = format!("{}/eu-kubeconfig", world.namespace);
    until_orphaned(&world.namespace, &BTreeSet::from([(cluster, "shop-agent".to_owned())])).await;
    assert!(world.region("eu").config_maps.get_opt("shop-agent").await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn example_deletion_order() {
    let world = world("deletion-order.yaml", "DrainedQueue", &[]).await;
    for (name, paused) in [("busy", false), ("idle", true)] {
        world.create(name, json!({"region": "eu", "paused": paused})).await;
        world.until_state(name, "ACTIVE").await;
        delete_and_wait(&world, name).await;
    }
    let deletes = world.region("eu").proxy.requests(&Requests::any().verb(Verb::Delete));
    let deleted = |instance: &str| -> Vec<String> {
        let prefix = format!("delete configmaps {}/{instance}-", world.namespace);
        let all = deletes.iter().map(|record| record.request.to_string());
        all.filter_map(|sent| sent.strip_prefix(&prefix).map(str::to_owned)).collect()
    };
    assert_eq!(deleted("busy"), ["producers", "queue", "workers"]);
    assert_eq!(deleted("idle"), ["queue", "workers", "producers"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn example_database_with_backup() {
    let world = world("database-with-backup.yaml", "BackedUpDatabase", &[]).await;
    let databases: Api<StatefulSet> = api(&world.region("eu").cluster.client, &world);
    let jobs: Api<Job> = api(&world.objects.client, &world);
    world.create("shop", json!({"region": "eu"})).await;
    world.until_state("shop", "ACTIVE").await;
    assert!(jobs.get_opt("shop-backup").await.unwrap().is_none());
    world.delete("shop").await;
    wait::until_object(&jobs, "shop-backup", |_| true).await;
    assert!(databases.get("shop").await.unwrap().metadata.deletion_timestamp.is_none());
    // The other status fields of a completed Job differ between versions of Kubernetes.
    let done = json!({"status": {"succeeded": 1, "startTime": "2026-01-01T00:00:00Z"}});
    jobs.patch_status("shop-backup", &PatchParams::default(), &Patch::Merge(done)).await.unwrap();
    wait::until_deleted(&databases, "shop").await;
    wait::until_deleted(&world.instances, "shop").await;
    assert!(jobs.get_opt("shop-backup").await.unwrap().is_none());
}
