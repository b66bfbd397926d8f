//! Pruning over several clusters: a node that fails, or a cluster that is unreachable, holds back only what depends on it.

use kross_testing::{Fault, wait};
use serde_json::{Value as Json, json};

use crate::world::{Region, World, config_map, resource_entry};

/// A ConfigMap in each region of a list.
pub fn in_each_region() -> Json {
    let mut app = config_map("app", Some("${region}"), json!({"region": "${region}"}));
    app["forEach"] = json!([{"region": "${schema.spec.regions}"}]);
    app["template"]["metadata"]["name"] = json!("${schema.metadata.name}-${region}");
    json!({"schema": {"spec": {"regions": "[]string"}}, "resources": [app]})
}

/// A ConfigMap of the same name in each region of a list.
pub fn same_name_in_each_region() -> Json {
    let mut spec = in_each_region();
    spec["resources"][0]["template"]["metadata"]["name"] = json!("${schema.metadata.name}-app");
    spec
}

/// Adds a Secret that gives access to a region by another name.
pub async fn add_alias(world: &World, alias: &str, region: &str) {
    world.apply_secret(&format!("{alias}-kubeconfig"), &world.kubeconfig(region)).await;
}

/// The deletions that were requested in a region.
pub fn deletions(region: &Region) -> Vec<String> {
    region.writes().into_iter().filter(|request| request.starts_with("delete")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn prunes_a_collection_item_while_the_cluster_of_another_is_unreachable() {
    for (kind, spec, names) in [
        ("FewerRegions", in_each_region(), ["x-eu", "x-us"]),
        ("FewerCopies", same_name_in_each_region(), ["x-app", "x-app"]),
    ] {
        let world = World::new(kind, spec).await;
        let (eu, us) = (world.region("eu"), world.region("us"));
        world.create("x", json!({"regions": ["eu", "us"]})).await;
        world.until_state("x", "ACTIVE").await;
        us.proxy.set(Fault::Refuse);
        world.until_condition("x", ("RemoteClusterConnected", "False", "Unreachable")).await;
        world.patch("x", json!({"spec": {"regions": ["us"]}})).await;
        wait::woken(wait::until_deleted(&eu.config_maps, names[0])).await;
        assert!(us.config_maps.get_opt(names[1]).await.unwrap().is_some());
        us.proxy.set(Fault::Pass);
        wait::woken(world.until_state("x", "ACTIVE")).await;
        assert!(us.config_maps.get_opt(names[1]).await.unwrap().is_some());
        assert_eq!(deletions(us), [""; 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn prunes_a_collection_item_while_another_was_never_created() {
    let world = World::new("HalfCreated", in_each_region()).await;
    let (eu, us) = (world.region("eu"), world.region("us"));
    us.proxy.set(Fault::Refuse);
    world.create("x", json!({"regions": ["eu", "us"]})).await;
    wait::until_object(&eu.config_maps, "x-eu", |_| true).await;
    world.until_condition("x", ("RemoteClusterConnected", "False", "Unreachable")).await;
    world.patch("x", json!({"spec": {"regions": ["us"]}})).await;
    wait::woken(wait::until_deleted(&eu.config_maps, "x-eu")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn prunes_an_excluded_object_while_an_unrelated_cluster_is_unreachable() {
    let mut optional = config_map("optional", Some("eu"), json!({}));
    optional["includeWhen"] = json!(["${schema.spec.optional}"]);
    let other = config_map("other", Some("us"), json!({}));
    let spec = json!({"schema": {"spec": {"optional": "boolean"}}, "resources": [optional, other]});
    let world = World::new("Excluding", spec).await;
    let (eu, us) = (world.region("eu"), world.region("us"));
    world.create("x", json!({"optional": true})).await;
    world.until_state("x", "ACTIVE").await;
    us.proxy.set(Fault::Refuse);
    world.until_condition("x", ("RemoteClusterConnected", "False", "Unreachable")).await;
    world.patch("x", json!({"spec": {"optional": false}})).await;
    wait::woken(wait::until_deleted(&eu.config_maps, "x-optional")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn prunes_the_objects_of_removed_nodes_where_their_cluster_is_reachable() {
    let resources = [config_map("east", Some("eu"), json!({})), config_map("west", Some("us"), json!({}))];
    let kept = config_map("kept", Some("us"), json!({}));
    let all = json!([resources[0], resources[1], kept]);
    let world = World::new("Removing", json!({"schema": {"spec": {}}, "resources": all})).await;
    let (eu, us) = (world.region("eu"), world.region("us"));
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    us.proxy.set(Fault::Refuse);
    world.until_condition("x", ("RemoteClusterConnected", "False", "Unreachable")).await;
    world.objects.patch("removing", &json!({"spec": {"resources": [kept]}})).await;
    wait::woken(wait::until_deleted(&eu.config_maps, "x-east")).await;
    let waiting = world.until("x", |instance| resource_entry(instance, "west")["state"] == "Deleting").await;
    assert_eq!(resource_entry(&waiting, "west")["reason"], "Unreachable", "{waiting:#}");
    us.proxy.set(Fault::Pass);
    wait::woken(wait::until_deleted(&us.config_maps, "x-west")).await;
    world.until_state("x", "ACTIVE").await;
    assert!(us.config_maps.get_opt("x-kept").await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dependency_is_pruned_after_its_dependent_in_an_unreachable_cluster() {
    let mut database = config_map("databases", Some("eu"), json!({"entry": "${entry}"}));
    database["forEach"] = json!([{"entry": "${schema.spec.items}"}]);
    database["template"]["metadata"]["name"] = json!("${schema.metadata.name}-db-${entry}");
    let mut application = config_map("applications", Some("us"), json!({"db": "${db.metadata.name}"}));
    application["forEach"] = json!([{"db": "${databases}"}]);
    application["template"]["metadata"]["name"] = json!("${schema.metadata.name}-app-${db.data.entry}");
    let spec = json!({"schema": {"spec": {"items": "[]string"}}, "resources": [database, application]});
    let world = World::new("Databases", spec).await;
    let (eu, us) = (world.region("eu"), world.region("us"));
    world.create("x", json!({"items": ["a", "b"]})).await;
    world.until_state("x", "ACTIVE").await;
    us.proxy.set(Fault::Refuse);
    world.until_condition("x", ("RemoteClusterConnected", "False", "Unreachable")).await;
    world.patch("x", json!({"spec": {"items": ["a"]}})).await;
    world.until_state("x", "ERROR").await;
    assert_eq!(deletions(eu), [""; 0]);
    assert!(eu.config_maps.get_opt("x-db-b").await.unwrap().is_some());
    us.proxy.set(Fault::Pass);
    wait::woken(wait::until_deleted(&us.config_maps, "x-app-b")).await;
    wait::woken(wait::until_deleted(&eu.config_maps, "x-db-b")).await;
    world.until_state("x", "ACTIVE").await;
    for (region, name) in [(eu, "x-db-a"), (us, "x-app-a")] {
        assert!(region.config_maps.get_opt(name).await.unwrap().is_some(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retained_item_is_released_while_another_cluster_is_unreachable() {
    let mut spec = in_each_region();
    spec["resources"][0]["lifecycle"] = json!({"delete": {"policy": "Retain"}});
    let world = World::new("RetainedRegions", spec).await;
    let (eu, us) = (world.region("eu"), world.region("us"));
    world.create("x", json!({"regions": ["eu", "us"]})).await;
    world.until_state("x", "ACTIVE").await;
    us.proxy.set(Fault::Refuse);
    world.until_condition("x", ("RemoteClusterConnected", "False", "Unreachable")).await;
    world.patch("x", json!({"spec": {"regions": ["us"]}})).await;
    let is_released = |object: &k8s_openapi::api::core::v1::ConfigMap| {
        crate::instance_api::ownership_metadata(object).is_empty()
    };
    wait::woken(wait::until_object(&eu.config_maps, "x-eu", is_released)).await;
    assert_eq!(deletions(eu), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn prunes_an_item_of_one_of_two_references_to_the_same_cluster() {
    let world = World::new("TwoNames", in_each_region()).await;
    let (eu, us) = (world.region("eu"), world.region("us"));
    add_alias(&world, "alias", "eu").await;
    world.create("x", json!({"regions": ["eu", "alias", "us"]})).await;
    world.until_state("x", "ACTIVE").await;
    us.proxy.set(Fault::Refuse);
    world.until_condition("x", ("RemoteClusterConnected", "False", "Unreachable")).await;
    world.patch("x", json!({"spec": {"regions": ["eu", "us"]}})).await;
    wait::woken(wait::until_deleted(&eu.config_maps, "x-alias")).await;
    assert!(eu.config_maps.get_opt("x-eu").await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_the_finalizer_while_an_item_to_prune_is_in_an_unreachable_cluster() {
    let world = World::new("BothRegions", in_each_region()).await;
    let (eu, us) = (world.region("eu"), world.region("us"));
    world.create("x", json!({"regions": ["eu", "us"]})).await;
    world.until_state("x", "ACTIVE").await;
    us.proxy.set(Fault::Refuse);
    world.until_condition("x", ("RemoteClusterConnected", "False", "Unreachable")).await;
    world.patch("x", json!({"spec": {"regions": []}})).await;
    wait::woken(wait::until_deleted(&eu.config_maps, "x-eu")).await;
    world.until_state("x", "ACTIVE").await;
    world.delete("x").await;
    world.until("x", |instance| instance["status"]["state"] == "DELETING").await;
    us.proxy.set(Fault::Pass);
    wait::woken(wait::until_deleted(&world.instances, "x")).await;
    assert!(us.config_maps.get_opt("x-us").await.unwrap().is_none());
}
