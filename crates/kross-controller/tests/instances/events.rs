//! Kubernetes Events about an instance.

use k8s_openapi::api::events::v1::Event;
use kross_testing::wait;
use kube::Api;
use kube::api::ListParams;
use serde_json::json;

use crate::world::{World, config_map};

/// The Events about an instance, as severity, reason and note, sorted.
async fn events(world: &World, instance: &str) -> Vec<[String; 3]> {
    let events: Api<Event> = Api::namespaced(world.objects.client.clone(), &world.namespace);
    let list = events.list(&ListParams::default()).await.unwrap();
    let regards = |event: &Event| {
        event.regarding.as_ref().is_some_and(|regarding| regarding.name.as_deref() == Some(instance))
    };
    let mut found: Vec<_> = list
        .items
        .into_iter()
        .filter(regards)
        .map(|event| [event.type_, event.reason, event.note].map(Option::unwrap_or_default))
        .collect();
    found.sort();
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn emits_events_on_condition_transitions_and_counts_repetitions() {
    let mut bad = config_map("bad", json!({}));
    bad["template"]["metadata"]["name"] = json!("${schema.spec.name}");
    let world = World::new("Eventful", json!({"spec": {"name": "string"}}), json!([bad])).await;
    world.create("x", json!({"name": "Not_A_Name"})).await;
    let expected = |events: &[(&str, &str, &str)]| -> Vec<[String; 3]> {
        events
            .iter()
            .map(|(severity, reason, note)| [severity, reason, note].map(|text| (*text).to_owned()))
            .collect()
    };
    let until_events = async |expected: Vec<[String; 3]>| {
        wait::until("the expected Events", || async {
            let found = events(&world, "x").await;
            if found == expected { Ok(()) } else { Err(format!("{found:?}")) }
        })
        .await;
    };
    world.until_state("x", "ERROR").await;
    let first = [
        ("Warning", "Ready", "none -> False: NotReady"),
        ("Warning", "ResourcesReady", "none -> False: NotReady"),
    ];
    until_events(expected(&first)).await;
    world.patch("x", json!({"spec": {"name": "a-name"}})).await;
    world.until_state("x", "ACTIVE").await;
    let second = [&[("Normal", "Ready", "False -> True: Ready")], &first[..]].concat();
    until_events(expected(&second)).await;
    let third = [
        second[0],
        ("Warning", "Ready", "True -> False: NotReady"),
        second[1],
        ("Warning", "ResourcesReady", "True -> False: NotReady"),
        second[2],
    ];
    for _ in 0..3 {
        world.patch("x", json!({"spec": {"name": "Not_A_Name"}})).await;
        world.until_state("x", "ERROR").await;
        until_events(expected(&third)).await;
        world.patch("x", json!({"spec": {"name": "a-name"}})).await;
        world.until_state("x", "ACTIVE").await;
    }
    until_events(expected(&third)).await;
}
