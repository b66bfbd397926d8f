//! A region becomes unreachable: its resources are skipped, other clusters are reconciled, and a standby is created. The
//! region reconnects: the standby is pruned.

use std::time::{Duration, Instant};

use kross_testing::{Fault, Requests, Verb, wait};
use serde_json::json;

use crate::audited_world::{normalized_yaml, world};
use crate::world::{config_map, resource_entry, value};

#[tokio::test(flavor = "multi_thread")]
async fn degrades_while_a_region_is_unreachable_and_recovers() {
    let mut regional = config_map("regional", Some("eu"), json!({"text": "${schema.spec.text}"}));
    regional["includeWhen"] = json!(["${resources.regional.clusterConnected}"]);
    let mut standby = config_map("standby", Some("us"), json!({"text": "${schema.spec.text}"}));
    standby["includeWhen"] = json!([
        "${resources.regional.reason == 'Unreachable' && resources.regional.failingFor > duration('12s')}"
    ]);
    let replicas = "${resources.regional.reason == 'Unreachable' ? '1' : '3'}";
    let resources = json!([
        regional,
        standby,
        config_map("other", Some("us"), json!({"text": "${schema.spec.text}"})),
        config_map("web", None, json!({"replicas": replicas})),
    ]);
    let world =
        world("Degrading", json!({"schema": {"spec": {"text": "string"}}, "resources": resources})).await;
    let (eu, us) = (world.region("eu"), world.region("us"));
    world.create("x", json!({"text": "one"})).await;
    let healthy = world
        .until("x", |instance| {
            instance["status"]["state"] == "ACTIVE"
                && resource_entry(instance, "regional")["state"] == "Ready"
        })
        .await;
    insta::assert_snapshot!("1 healthy", normalized_yaml(&world, &healthy));
    assert_eq!(value(&world.config_maps.get("x-web").await.unwrap(), "replicas"), Some("3"));

    let outage_began = Instant::now();
    eu.proxy.set(Fault::Refuse);
    let unreachable =
        world.until("x", |instance| resource_entry(instance, "regional")["state"] == "Skipped").await;
    insta::assert_snapshot!("2 unreachable", normalized_yaml(&world, &unreachable));
    wait::woken(wait::until_object(&world.config_maps, "x-web", |web| value(web, "replicas") == Some("1")))
        .await;
    // Other clusters are reconciled.
    world.patch("x", json!({"spec": {"text": "two"}})).await;
    wait::woken(wait::until_object(&us.config_maps, "x-other", |other| value(other, "text") == Some("two")))
        .await;
    wait::until_object(&us.config_maps, "x-standby", |_| true).await;
    // Not before the outage has lasted as long as specified. Times are stored in whole seconds.
    let applies = us.proxy.requests(&Requests::any().verb(Verb::Apply).name("x-standby"));
    assert!(applies[0].at - outage_began >= Duration::from_secs(11), "{:?}", applies[0].at - outage_began);
    let degraded = world.until("x", |instance| resource_entry(instance, "standby")["state"] == "Ready").await;
    insta::assert_snapshot!("3 degraded", normalized_yaml(&world, &degraded));

    eu.proxy.set(Fault::Pass);
    wait::woken(wait::until_object(&eu.config_maps, "x-regional", |regional| {
        value(regional, "text") == Some("two")
    }))
    .await;
    wait::woken(wait::until_deleted(&us.config_maps, "x-standby")).await;
    let recovered = world
        .until("x", |instance| {
            resource_entry(instance, "regional")["state"] == "Ready"
                && resource_entry(instance, "standby")["state"] == "Skipped"
                && resource_entry(instance, "web")["state"] == "Ready"
        })
        .await;
    insta::assert_snapshot!("4 recovered", normalized_yaml(&world, &recovered));
    assert_eq!(value(&world.config_maps.get("x-web").await.unwrap(), "replicas"), Some("3"));
    world.delete("x").await;
    wait::until_deleted(&world.instances, "x").await;
    assert!(eu.config_maps.get_opt("x-regional").await.unwrap().is_none());
}
