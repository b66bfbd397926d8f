//! An object that several instances want: one of them owns it, and another adopts it as soon as it is released.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kross_testing::wait;
use kube::Api;
use kube::api::{WatchEvent, WatchParams};
use serde_json::json;

use crate::setup::condition;
use crate::world::{World, config_map, value};

#[tokio::test(flavor = "multi_thread")]
async fn never_adopts_an_object_of_another_instance() {
    let mut shared = config_map("shared", json!({"of": "${schema.metadata.name}"}));
    shared["template"]["metadata"]["name"] = json!("the-one");
    let world = World::new("Conflicting", json!({"spec": {}}), json!([shared])).await;
    world.create("first", json!({})).await;
    world.until_state("first", "ACTIVE").await;
    world.create("second", json!({})).await;
    let refused = world.until_state("second", "ERROR").await;
    let message = condition(&refused, "ResourcesReady")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("belongs to a different ApplySet"), "{message}");
    let object = world.config_maps.get("the-one").await.unwrap();
    assert_eq!(value(&object, "of"), Some("first"));
}

#[tokio::test(flavor = "multi_thread")]
async fn adopts_an_object_as_soon_as_another_instance_releases_it() {
    let mut shared = config_map("shared", json!({"of": "${schema.metadata.name}"}));
    shared["template"]["metadata"]["name"] = json!("the-only-one");
    let world = World::new("WaitsForRelease", json!({"spec": {}}), json!([shared])).await;
    world.create("first", json!({})).await;
    world.until_state("first", "ACTIVE").await;
    world.create("second", json!({})).await;
    world.until_state("second", "ERROR").await;
    world.delete("first").await;
    wait::woken(world.until_state("second", "ACTIVE")).await;
    assert_eq!(value(&world.config_maps.get("the-only-one").await.unwrap(), "of"), Some("second"));
}

/// A ConfigMap whose name is in the spec, so that several instances can want the same one.
fn contested_config_map() -> serde_json::Value {
    let mut contested = config_map("contested", json!({"of": "${schema.metadata.name}"}));
    contested["template"]["metadata"]["name"] = json!("${schema.spec.name}");
    contested
}

/// All instances that have ever owned a ConfigMap, by the name of the ConfigMap.
type Owners = Arc<Mutex<BTreeMap<String, BTreeSet<String>>>>;

/// Watches ConfigMaps and records their owners.
async fn watch_owners(maps: &Api<ConfigMap>) -> Owners {
    let owners = Owners::default();
    let (recorded, maps) = (Arc::clone(&owners), maps.clone());
    let list = maps.list(&Default::default()).await.unwrap();
    let version = list.metadata.resource_version.unwrap();
    tokio::spawn(async move {
        let mut events = maps.watch(&WatchParams::default(), &version).await.unwrap().boxed();
        while let Some(Ok(event)) = events.next().await {
            let (WatchEvent::Added(map) | WatchEvent::Modified(map)) = event else { continue };
            let owner = map.metadata.labels.unwrap_or_default().remove("kro.run/instance-name");
            if let Some(owner) = owner {
                let name = map.metadata.name.unwrap();
                recorded.lock().unwrap().entry(name).or_default().insert(owner);
            }
        }
    });
    owners
}

#[tokio::test(flavor = "multi_thread")]
async fn two_instances_never_take_an_object_from_each_other() {
    let world =
        World::new("Contender", json!({"spec": {"name": "string"}}), json!([contested_config_map()])).await;
    let owners = watch_owners(&world.config_maps).await;
    for round in 0..12 {
        let (one, other) = (format!("one-{round}"), format!("other-{round}"));
        let spec = json!({"name": format!("contested-{round}")});
        // The second is created a little later in each round, to cover every overlap of the two reconciles.
        let later = async {
            tokio::time::sleep(std::time::Duration::from_millis(round)).await;
            world.create(&other, spec.clone()).await;
        };
        tokio::join!(world.create(&one, spec.clone()), later);
        let reconciled = |instance: &serde_json::Value| {
            let ready = condition(instance, "Ready");
            ready["status"] == "True" || ready["message"].as_str().unwrap_or_default().contains("contested")
        };
        let (one, other) = tokio::join!(world.until(&one, reconciled), world.until(&other, reconciled));
        let states = [&one, &other].map(|instance| instance["status"]["state"] == "ACTIVE");
        assert!(states[0] != states[1], "{one:#} {other:#}");
    }
    let owners = owners.lock().unwrap().clone();
    for (name, owners) in owners.iter().filter(|(name, _)| name.starts_with("contested")) {
        assert_eq!(owners.len(), 1, "{name} changed its owner: {owners:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn adopts_an_object_that_is_released_while_it_is_being_observed() {
    let world =
        World::new("Adopter", json!({"spec": {"name": "string"}}), json!([contested_config_map()])).await;
    for round in 0..12_u64 {
        let (old, new) = (format!("old-{round}"), format!("new-{round}"));
        let spec = json!({"name": format!("released-{round}")});
        world.create(&old, spec.clone()).await;
        world.until_state(&old, "ACTIVE").await;
        let deletion = async {
            tokio::time::sleep(std::time::Duration::from_millis(2 * round)).await;
            world.delete(&old).await;
        };
        tokio::join!(world.create(&new, spec), deletion);
        wait::woken(world.until_state(&new, "ACTIVE")).await;
        let released = world.config_maps.get(&format!("released-{round}")).await.unwrap();
        assert_eq!(value(&released, "of"), Some(new.as_str()));
    }
}
