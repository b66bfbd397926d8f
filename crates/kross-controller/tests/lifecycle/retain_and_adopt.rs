//! `lifecycle.delete.policy: Retain` and `lifecycle.adopt: Never`: what is removed from retained objects, which Events
//! report them, and who adopts them.

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event;
use kross_testing::wait;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::json;

use crate::instance_api::ownership_metadata;
use crate::setup::condition;
use crate::world::{World, config_map};

/// Waits for an Event with this reason about an instance, and returns its note.
pub async fn event(world: &World, instance: &str, reason: &str) -> String {
    let events: Api<Event> = Api::namespaced(world.objects.client.clone(), &world.namespace);
    let found = || async {
        let list = events.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
        let found = list.items.into_iter().find(|event| {
            let regards = event.regarding.as_ref().and_then(|regarding| regarding.name.as_deref());
            event.reason.as_deref() == Some(reason) && regards == Some(instance)
        });
        found.and_then(|event| event.note).ok_or_else(|| "there is no such Event".to_owned())
    };
    wait::until(format!("an Event `{reason}`"), found).await
}

#[tokio::test(flavor = "multi_thread")]
async fn retained_objects_lose_their_labels_and_are_adopted_by_the_next_instance() {
    let mut data = config_map("data", json!({"a": "1"}));
    data["template"]["metadata"]["labels"] = json!({"tier": "data"});
    data["lifecycle"] = json!({"delete": {"policy": "${schema.spec.keep ? 'Retain' : 'Delete'}"}});
    let world = World::new(
        "Keeping",
        json!({"spec": {"keep": "boolean"}}),
        json!([data, config_map("web", json!({}))]),
    )
    .await;
    world.create("x", json!({"keep": false})).await;
    world.until_state("x", "ACTIVE").await;
    // The annotation on the object changes with the instance.
    let lifecycle = |object: &ConfigMap| {
        let annotations = object.metadata.annotations.clone().unwrap_or_default();
        annotations.get("internal.kro.run/lifecycle").cloned()
    };
    assert_eq!(lifecycle(&world.config_maps.get("x-data").await.unwrap()), None);
    world.patch("x", json!({"spec": {"keep": true}})).await;
    let expected = r#"{"policy":"Retain"}"#.to_owned();
    let before = wait::woken(wait::until_object(&world.config_maps, "x-data", |object| {
        lifecycle(object) == Some(expected.clone())
    }))
    .await;

    world.delete("x").await;
    wait::until_deleted(&world.instances, "x").await;
    assert!(world.config_maps.get_opt("x-web").await.unwrap().is_none());
    let retained = world.config_maps.get("x-data").await.unwrap();
    assert_eq!(ownership_metadata(&retained), [""; 0]);
    assert_eq!(retained.metadata.uid, before.metadata.uid);
    assert_eq!(retained.data, before.data);
    assert_eq!(
        retained.metadata.labels.clone().unwrap().into_iter().collect::<Vec<_>>(),
        [("tier".to_owned(), "data".to_owned())]
    );
    let note = event(&world, "x", "Retained").await;
    assert!(note.contains(&format!("ConfigMap {}/x-data", world.namespace)), "{note}");

    world.create("x", json!({"keep": false})).await;
    world.until_state("x", "ACTIVE").await;
    let adopted = world.config_maps.get("x-data").await.unwrap();
    assert_eq!(adopted.metadata.uid, before.metadata.uid);
    assert!(!ownership_metadata(&adopted).is_empty());
    world.delete("x").await;
    wait::until_deleted(&world.config_maps, "x-data").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn adopt_never_leaves_an_existing_object_alone_until_it_is_deleted() {
    let mut data = config_map("data", json!({"a": "1"}));
    data["lifecycle"] = json!({"adopt": "Never"});
    let world = World::new("Careful", json!({"spec": {}}), json!([data])).await;
    let existing = ConfigMap {
        metadata: kube::api::ObjectMeta { name: Some("x-data".to_owned()), ..Default::default() },
        ..Default::default()
    };
    let existing = world.config_maps.create(&PostParams::default(), &existing).await.unwrap();
    world.create("x", json!({})).await;
    let refused = world.until_state("x", "ERROR").await;
    let message = condition(&refused, "Ready")["message"].as_str().unwrap().to_owned();
    assert!(
        message.starts_with("resource error: `data`: ConfigMap ") && message.contains("lifecycle.adopt"),
        "{message}"
    );
    assert_eq!(refused["status"]["managedResources"][0]["reason"], "Conflict");
    let unchanged = world.config_maps.get("x-data").await.unwrap();
    assert_eq!(unchanged.metadata.resource_version, existing.metadata.resource_version);
    world.config_maps.delete("x-data", &DeleteParams::default()).await.unwrap();
    world.until_state("x", "ACTIVE").await;
    world.delete("x").await;
    wait::until_deleted(&world.instances, "x").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn retains_pruned_objects_if_the_policy_is_retain() {
    let mut data = config_map("data", json!({"a": "1"}));
    data["includeWhen"] = json!(["${schema.spec.on}"]);
    data["lifecycle"] = json!({"delete": {"policy": "Retain"}});
    let world = World::new(
        "PrunedRetain",
        json!({"spec": {"on": "boolean"}}),
        json!([data, config_map("web", json!({}))]),
    )
    .await;
    world.create("x", json!({"on": true})).await;
    world.until_state("x", "ACTIVE").await;
    world.patch("x", json!({"spec": {"on": false}})).await;
    let retained = wait::woken(wait::until_object(&world.config_maps, "x-data", |object| {
        ownership_metadata(object).is_empty()
    }))
    .await;
    assert_eq!(retained.data.unwrap()["a"], "1");
    event(&world, "x", "Retained").await;
    world.delete("x").await;
    wait::until_deleted(&world.instances, "x").await;
    assert!(world.config_maps.get_opt("x-data").await.unwrap().is_some());
}
