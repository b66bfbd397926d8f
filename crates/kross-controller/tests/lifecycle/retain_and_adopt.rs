//! Objects that stay: what is left of us on them, who is told, and how they are taken over again.

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event;
use kross_testing::wait;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::json;

use crate::instance_api::marks;
use crate::setup::condition;
use crate::world::{World, config_map};

/// Waits for an Event with a reason that regards an instance, and gives its note.
pub async fn event(world: &World, instance: &str, reason: &str) -> String {
    let events: Api<Event> = Api::namespaced(world.objects.client.clone(), &world.namespace);
    let found = || async {
        let list = events.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
        let found = list.items.into_iter().find(|event| {
            let regards = event.regarding.as_ref().and_then(|regarding| regarding.name.as_deref());
            event.reason.as_deref() == Some(reason) && regards == Some(instance)
        });
        found.and_then(|event| event.note).ok_or_else(|| "no such event".to_owned())
    };
    wait::until(format!("an event `{reason}`"), found).await
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
    // The answer on the object follows the instance.
    let kept = |object: &ConfigMap| {
        let notes = object.metadata.annotations.clone().unwrap_or_default();
        notes.get("internal.kro.run/lifecycle").cloned()
    };
    assert_eq!(kept(&world.config_maps.get("x-data").await.unwrap()), None);
    world.patch("x", json!({"spec": {"keep": true}})).await;
    let answer = r#"{"policy":"Retain"}"#.to_owned();
    let before =
        wait::until_object(&world.config_maps, "x-data", |object| kept(object) == Some(answer.clone())).await;

    world.delete("x").await;
    wait::until_deleted(&world.instances, "x").await;
    assert!(world.config_maps.get_opt("x-web").await.unwrap().is_none());
    let left = world.config_maps.get("x-data").await.unwrap();
    assert_eq!(marks(&left), [""; 0]);
    assert_eq!(left.metadata.uid, before.metadata.uid);
    assert_eq!(left.data, before.data);
    assert_eq!(
        left.metadata.labels.clone().unwrap().into_iter().collect::<Vec<_>>(),
        [("tier".to_owned(), "data".to_owned())]
    );
    let note = event(&world, "x", "Retained").await;
    assert!(note.contains(&format!("ConfigMap {}/x-data", world.namespace)), "{note}");

    world.create("x", json!({"keep": false})).await;
    world.until_state("x", "ACTIVE").await;
    let taken = world.config_maps.get("x-data").await.unwrap();
    assert_eq!(taken.metadata.uid, before.metadata.uid);
    assert!(!marks(&taken).is_empty());
    world.delete("x").await;
    wait::until_deleted(&world.config_maps, "x-data").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn adopt_never_leaves_an_existing_object_alone_until_it_is_deleted() {
    let mut data = config_map("data", json!({"a": "1"}));
    data["lifecycle"] = json!({"adopt": "Never"});
    let world = World::new("Careful", json!({"spec": {}}), json!([data])).await;
    let mine = ConfigMap {
        metadata: kube::api::ObjectMeta { name: Some("x-data".to_owned()), ..Default::default() },
        ..Default::default()
    };
    let mine = world.config_maps.create(&PostParams::default(), &mine).await.unwrap();
    world.create("x", json!({})).await;
    let refused = world.until_state("x", "ERROR").await;
    let message = condition(&refused, "Ready")["message"].as_str().unwrap().to_owned();
    assert!(
        message.starts_with("resource error: `data`: ConfigMap ") && message.contains("lifecycle.adopt"),
        "{message}"
    );
    assert_eq!(refused["status"]["managedResources"][0]["reason"], "Conflict");
    let still = world.config_maps.get("x-data").await.unwrap();
    assert_eq!(still.metadata.resource_version, mine.metadata.resource_version);
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
    let left = wait::until_object(&world.config_maps, "x-data", |object| marks(object).is_empty()).await;
    assert_eq!(left.data.unwrap()["a"], "1");
    event(&world, "x", "Retained").await;
    world.delete("x").await;
    wait::until_deleted(&world.instances, "x").await;
    assert!(world.config_maps.get_opt("x-data").await.unwrap().is_some());
}
