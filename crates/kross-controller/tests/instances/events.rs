//! Kubernetes Events about an instance.

use k8s_openapi::api::events::v1::Event;
use kross_testing::wait;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use serde_json::json;

use crate::world::{World, config_map, edit};

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

/// Waits until there are exactly these Events about an instance: severity, reason, and how the note begins and what else it
/// has.
async fn until_events(world: &World, instance: &str, expected: &[(&str, &str, &str, &str)]) {
    wait::until("the expected Events", || async {
        let found = events(world, instance).await;
        let is_it = |([severity, reason, note], expected): (&[String; 3], &(&str, &str, &str, &str))| {
            severity == expected.0
                && reason == expected.1
                && note.starts_with(expected.2)
                && note.contains(expected.3)
        };
        if found.len() == expected.len() && found.iter().zip(expected).all(is_it) {
            Ok(())
        } else {
            Err(format!("{found:#?}"))
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn emits_one_event_with_the_cause_for_each_change_and_counts_repetitions() {
    let mut bad = config_map("bad", json!({}));
    bad["template"]["metadata"]["name"] = json!("${schema.spec.name}");
    let world = World::new("Eventful", json!({"spec": {"name": "string"}}), json!([bad])).await;
    world.create("x", json!({"name": "Not_A_Name"})).await;
    world.until_state("x", "ERROR").await;
    let cause = "Not_A_Name";
    let first = ("Warning", "Ready", "none -> False: NotReady: resource error: `bad`: ", cause);
    until_events(&world, "x", &[first]).await;
    world.patch("x", json!({"spec": {"name": "a-name"}})).await;
    world.until_state("x", "ACTIVE").await;
    let second = ("Normal", "Ready", "False -> True: Ready", "");
    until_events(&world, "x", &[second, first]).await;
    let third = ("Warning", "Ready", "True -> False: NotReady: resource error: `bad`: ", cause);
    for _ in 0..3 {
        world.patch("x", json!({"spec": {"name": "Not_A_Name"}})).await;
        world.until_state("x", "ERROR").await;
        until_events(&world, "x", &[second, third, first]).await;
        world.patch("x", json!({"spec": {"name": "a-name"}})).await;
        world.until_state("x", "ACTIVE").await;
    }
    until_events(&world, "x", &[second, third, first]).await;
    let notes = events(&world, "x").await;
    assert!(notes.iter().all(|[_, _, note]| !note.contains("(since ")), "{notes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_is_normal_and_what_fails_before_it_was_ready_is_a_warning() {
    let mut map = config_map("map", json!({"x": "1"}));
    map["readyWhen"] = json!(["${map.?data.ready.orValue('') == 'yes'}"]);
    let mut next = config_map("next", json!({"x": "${map.data.x}"}));
    next["template"]["metadata"]["namespace"] = json!("${map.?data.place.orValue('default')}");
    let world = World::new("Patience", json!({"spec": {}}), json!([map, next])).await;
    world.create("x", json!({})).await;
    world.until_state("x", "IN_PROGRESS").await;
    let begins = ("Normal", "Ready", "none -> False: NotReady: ", "`next` waits for `map`");
    until_events(&world, "x", &[begins]).await;
    edit(&world.config_maps, "x-map", json!({"ready": "yes", "place": "does-not-exist"})).await;
    world.until_state("x", "ERROR").await;
    let failed = ("Warning", "Failed", "resource error: `next`: ", "does-not-exist");
    until_events(&world, "x", &[begins, failed]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn repairs_and_prunes_are_events() {
    let mut extra = config_map("extra", json!({}));
    extra["includeWhen"] = json!(["${schema.spec.extra}"]);
    let resources = json!([config_map("map", json!({"x": "1", "y": "2"})), extra]);
    let world = World::new("Repaired", json!({"spec": {"extra": "boolean"}}), resources).await;
    world.create("x", json!({"extra": true})).await;
    world.until_state("x", "ACTIVE").await;
    let until_event = async |reason: &'static str, begins: String, contains: &'static str| {
        wait::until(format!("an Event {reason}"), || async {
            let found = events(&world, "x").await;
            let is_it = |[severity, is, note]: &[String; 3]| {
                severity == "Normal" && is == reason && note.starts_with(&begins) && note.contains(contains)
            };
            if found.iter().any(is_it) { Ok(()) } else { Err(format!("{found:#?}")) }
        })
        .await;
    };
    let map = format!("ConfigMap {}/x-map was ", world.namespace);
    edit(&world.config_maps, "x-map", json!({"x": "other"})).await;
    until_event("Repaired", format!("{map}changed"), "(`data.x`) and applied again").await;
    world.config_maps.delete("x-map", &DeleteParams::default()).await.unwrap();
    until_event("Repaired", format!("{map}deleted"), "created again").await;
    world.patch("x", json!({"spec": {"extra": false}})).await;
    let extra = format!("ConfigMap {}/x-extra was deleted", world.namespace);
    until_event("Pruned", extra, "the graph does not desire it any more").await;
}
