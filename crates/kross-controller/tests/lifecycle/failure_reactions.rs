//! Graphs that react to the failure of a resource, once per state and at the specified time.

use std::time::Duration;

use kross_testing::{Action, Answer, Requests, Stopwatch, Verb, wait};
use serde_json::json;

use crate::world::{World, config_map, value};

#[tokio::test(flavor = "multi_thread")]
async fn reacts_to_a_failure_and_creates_a_standby_once_it_lasts() {
    let primary = config_map("primary", json!({"a": "1"}));
    let web =
        config_map("web", json!({"replicas": "${resources.primary.reason == 'Forbidden' ? '1' : '3'}"}));
    let mut standby = config_map("standby", json!({}));
    standby["includeWhen"] = json!(["${resources.primary.failingFor > duration('3s')}"]);
    let world = World::new("Reacting", json!({"spec": {}}), json!([primary, web, standby])).await;
    let applies = Requests::any().verb(Verb::Apply).namespace(&world.namespace).name("x-primary");
    let rule = world.proxy.on(applies, Action::Answer(Answer::status(403).message("no")));
    let started = Stopwatch::start();
    world.create("x", json!({})).await;
    wait::until_object(&world.config_maps, "x-web", |web| value(web, "replicas") == Some("1")).await;
    wait::until_object(&world.config_maps, "x-standby", |_| true).await;
    started.assert_within(Duration::from_secs(10));
    // Not before the failure has lasted as long as specified.
    let first_apply = |name: &str| {
        let applies = Requests::any().verb(Verb::Apply).namespace(&world.namespace).name(name);
        world.proxy.requests(&applies)[0].at
    };
    let failed_for = first_apply("x-standby") - first_apply("x-primary");
    assert!(failed_for >= Duration::from_secs(3), "{failed_for:?}");
    let failing = world.until_state("x", "ERROR").await;
    let entries = failing["status"]["managedResources"].as_array().unwrap();
    assert_eq!(entries[0]["state"], "Error");
    assert_eq!(entries[0]["reason"], "Forbidden");
    assert_eq!(entries[0]["operation"], "create");
    let writes = |name: &str| {
        let suffix = format!("/{name}");
        world
            .sent_requests()
            .iter()
            .filter(|sent| sent.starts_with("apply configmaps ") && sent.ends_with(&suffix))
            .count()
    };
    assert_eq!((writes("x-web"), writes("x-standby")), (2, 1), "one apply per state");

    world.proxy.remove(rule);
    world.until_state("x", "ACTIVE").await;
    wait::until_object(&world.config_maps, "x-web", |web| value(web, "replicas") == Some("3")).await;
    wait::until_deleted(&world.config_maps, "x-standby").await;
    assert_eq!(writes("x-web"), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn does_not_flap_on_a_resource_that_excludes_itself_when_it_fails() {
    let mut fragile = config_map("fragile", json!({"v": "${schema.spec.v}"}));
    fragile["includeWhen"] = json!(["${resources.fragile.reason != 'Forbidden'}"]);
    let mut fallback = config_map("fallback", json!({}));
    fallback["includeWhen"] = json!(["${resources.fragile.reason == 'Forbidden'}"]);
    let world = World::new("Fragile", json!({"spec": {"v": "string"}}), json!([fragile, fallback])).await;
    let applies = Requests::any().verb(Verb::Apply).namespace(&world.namespace).name("x-fragile");
    let rule = world.proxy.on(applies, Action::Answer(Answer::status(403).message("no")));
    world.create("x", json!({"v": "1"})).await;
    wait::until_object(&world.config_maps, "x-fallback", |_| true).await;
    world.until_state("x", "ACTIVE").await;
    // Another change of the instance does not change that.
    world.patch("x", json!({"metadata": {"labels": {"some": "label"}}})).await;
    let attempts = || world.sent_requests().iter().filter(|sent| sent.ends_with("/x-fragile")).count();
    let before = attempts();
    world.create("y", json!({"v": "1"})).await;
    world.until_state("y", "ACTIVE").await;
    assert_eq!(attempts(), before);
    assert!(world.config_maps.get_opt("x-fallback").await.unwrap().is_some());
    // A changed spec causes a new attempt.
    world.proxy.remove(rule);
    world.patch("x", json!({"spec": {"v": "2"}})).await;
    wait::until_object(&world.config_maps, "x-fragile", |object| value(object, "v") == Some("2")).await;
    wait::until_deleted(&world.config_maps, "x-fallback").await;
}
