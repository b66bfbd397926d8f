//! What happens at the very moment at which the controller does something: nothing of it is missed, and nothing is taken away.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kross_testing::wait;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use serde_json::json;

use crate::setup::condition;
use crate::world::{World, config_map, value};

/// A ConfigMap whose name the instance chooses, so that several can choose the same.
fn shared() -> serde_json::Value {
    let mut shared = config_map("shared", json!({"of": "${schema.metadata.name}"}));
    shared["template"]["metadata"]["name"] = json!("${schema.spec.name}");
    shared
}

/// All instances that ConfigMaps have ever belonged to, by the name of the ConfigMap.
type Owners = Arc<Mutex<BTreeMap<String, BTreeSet<String>>>>;

async fn follow(maps: &Api<ConfigMap>) -> Owners {
    let owners = Owners::default();
    let (kept, maps) = (Arc::clone(&owners), maps.clone());
    let list = maps.list(&Default::default()).await.unwrap();
    let version = list.metadata.resource_version.unwrap();
    tokio::spawn(async move {
        let mut events = maps.watch(&WatchParams::default(), &version).await.unwrap().boxed();
        while let Some(Ok(event)) = events.next().await {
            let (WatchEvent::Added(map) | WatchEvent::Modified(map)) = event else { continue };
            let owner = map.metadata.labels.unwrap_or_default().remove("kro.run/instance-name");
            if let Some(owner) = owner {
                let name = map.metadata.name.unwrap();
                kept.lock().unwrap().entry(name).or_default().insert(owner);
            }
        }
    });
    owners
}

#[tokio::test(flavor = "multi_thread")]
async fn two_that_want_one_object_at_once_do_not_take_it_from_each_other() {
    let world = World::new("Contender", json!({"spec": {"name": "string"}}), json!([shared()])).await;
    let owners = follow(&world.config_maps).await;
    for round in 0..12 {
        let (one, other) = (format!("one-{round}"), format!("other-{round}"));
        let spec = json!({"name": format!("prize-{round}")});
        // One after the other, a little later in each round, so that every overlap comes up.
        let later = async {
            tokio::time::sleep(std::time::Duration::from_millis(round)).await;
            world.create(&other, spec.clone()).await;
        };
        tokio::join!(world.create(&one, spec.clone()), later);
        let settled = |instance: &serde_json::Value| {
            let ready = condition(instance, "Ready");
            ready["status"] == "True" || ready["message"].as_str().unwrap_or_default().contains("prize")
        };
        let (one, other) = tokio::join!(world.until(&one, settled), world.until(&other, settled));
        let states = [&one, &other].map(|instance| instance["status"]["state"] == "ACTIVE");
        assert!(states[0] != states[1], "{one:#} {other:#}");
    }
    let owners = owners.lock().unwrap().clone();
    for (name, owners) in owners.iter().filter(|(name, _)| name.starts_with("prize")) {
        assert_eq!(owners.len(), 1, "{name} was taken away: {owners:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_let_go_while_another_looks_at_it_is_the_others() {
    let world = World::new("Heir", json!({"spec": {"name": "string"}}), json!([shared()])).await;
    for round in 0..12_u64 {
        let (old, heir) = (format!("old-{round}"), format!("heir-{round}"));
        let spec = json!({"name": format!("estate-{round}")});
        world.create(&old, spec.clone()).await;
        world.until_state(&old, "ACTIVE").await;
        let going = async {
            tokio::time::sleep(std::time::Duration::from_millis(2 * round)).await;
            world.delete(&old).await;
        };
        tokio::join!(world.create(&heir, spec), going);
        world.until_state(&heir, "ACTIVE").await;
        let estate = world.config_maps.get(&format!("estate-{round}")).await.unwrap();
        assert_eq!(value(&estate, "of"), Some(heir.as_str()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_existing_object_that_changes_while_it_is_reported_on_is_followed() {
    // Any definition starts what tests share.
    let world = World::new("Starter", json!({"spec": {}}), json!([])).await;
    let definition = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": "followed"}, "spec": {
            "schema": {"externalRef": {"apiVersion": "v1", "kind": "Service",
                "metadata": {"selector": {"matchLabels": {"followed": "yes"}}}}},
            "resources": [config_map("copy", json!({"port": "${string(schema.spec.ports[0].port)}"}))]}});
    world.objects.create(&definition).await;
    world.objects.until_ready("followed").await;
    let services: Api<Service> = Api::namespaced(world.objects.client.clone(), &world.namespace);
    let patch = async |patch: serde_json::Value| {
        services.patch("web", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap()
    };
    let service =
        json!({"metadata": {"name": "web", "labels": {"followed": "yes"}}, "spec": {"ports": [{"port": 1}]}});
    services.create(&PostParams::default(), &serde_json::from_value(service).unwrap()).await.unwrap();
    for round in 1..12 {
        // Each pass over the first changes writes what a later one must not hide.
        for step in 1..5 {
            patch(json!({"spec": {"ports": [{"port": 10 * round + step}]}})).await;
        }
        let port = (10 * round + 4).to_string();
        wait::until_object(&world.config_maps, "web-copy", |copy| value(copy, "port") == Some(&port)).await;
        // Whoever takes it back lets it go each time.
        if round % 4 == 0 {
            patch(json!({"metadata": {"labels": {"followed": "no"}}})).await;
            wait::until_deleted(&world.config_maps, "web-copy").await;
            patch(json!({"metadata": {"labels": {"followed": "yes"}}})).await;
            wait::until_object(&world.config_maps, "web-copy", |_| true).await;
        }
    }
    patch(json!({"metadata": {"labels": {"followed": "no"}}})).await;
    wait::until_deleted(&world.config_maps, "web-copy").await;
    wait::until_object(&services, "web", |web| web.metadata.finalizers.is_none()).await;
}
