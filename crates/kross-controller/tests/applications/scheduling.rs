//! Scheduling: which target an application gets, and when it gets another one.

use kross_testing::wait;
use kube::api::{DeleteParams, DynamicObject, PostParams};
use serde_json::json;

use crate::setup::condition;
use crate::world::{World, api, message, template, value};

#[tokio::test(flavor = "multi_thread")]
async fn an_application_is_scheduled_by_labels_expressions_and_preferences() {
    let world = World::new().await;
    world.publish("a-test", "us", json!({"env": "test"})).await;
    world.publish("b-prod", "eu", json!({"env": "prod", "zone": "x"})).await;
    world.publish("c-prod", "us", json!({"env": "prod", "zone": "y"})).await;
    world.announce("d-prod", json!({"env": "prod", "zone": "w"})).await;
    let prod = json!({"targetSelector": {"matchLabels": {"env": "prod"}}});
    world.create("labels", &[("labels-a", "1")], prod.clone()).await;
    assert_eq!(world.scheduled("labels").await, "b-prod");
    // `b-prod` has a resource now.
    world.create("loaded", &[("loaded-a", "1")], prod).await;
    assert_eq!(world.scheduled("loaded").await, "c-prod");
    let zone = |operator: &str, values: serde_json::Value| json!({"targetSelector": {"matchExpressions": [{"key": "zone", "operator": operator, "values": values}]}});
    world.create("in", &[("in-a", "1"), ("in-b", "1")], zone("In", json!(["y", "w"]))).await;
    assert_eq!(world.scheduled("in").await, "c-prod");
    world.create("missing", &[], zone("DoesNotExist", json!(null))).await;
    assert_eq!(world.scheduled("missing").await, "a-test");
    let preference = json!({"weight": 10, "labelSelector": {"matchLabels": {"zone": "y"}}});
    world.create("preferred", &[("preferred-a", "1")], json!({"targetPreferences": [preference]})).await;
    assert_eq!(world.scheduled("preferred").await, "c-prod");
    world.create("any", &[("any-a", "1")], json!({})).await;
    assert_eq!(world.scheduled("any").await, "a-test");
    world.create("author", &[("author-a", "1")], json!({"targetRef": {"name": "b-prod"}})).await;
    world.until_state("author", "Submitted").await;
    assert_eq!(world.scheduled("author").await, "b-prod");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_waits_for_a_target_and_is_woken_when_one_is_ready() {
    let world = World::new().await;
    world.create("web", &[("web-a", "1")], json!({"targetSelector": {"matchLabels": {"env": "prod"}}})).await;
    let waiting = world.until_state("web", "Pending").await;
    assert!(message(&waiting, "Ready").contains("has no KubernetesTarget"), "{waiting:#}");
    assert_eq!(condition(&waiting, "Synced")["reason"], "NoTarget");
    world.publish("test", "us", json!({"env": "test"})).await;
    world.announce("prod", json!({"env": "prod"})).await;
    let waiting =
        world.until("web", |application| message(application, "Ready").contains("waiting for `prod`")).await;
    assert_eq!(waiting["status"]["state"], "Pending");
    assert!(waiting["spec"].get("targetRef").is_none(), "{waiting:#}");
    world.make_ready("prod", "eu").await;
    wait::woken(world.until_state("web", "Submitted")).await;
    assert_eq!(world.scheduled("web").await, "prod");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_annotation_moves_an_application_to_another_target_and_cleans_up_the_first() {
    let world = World::new().await;
    world.publish("a", "eu", json!({})).await;
    world.publish("b", "us", json!({})).await;
    world.create("web", &[("web-a", "1"), ("web-b", "2")], json!({})).await;
    world.until_state("web", "Submitted").await;
    assert_eq!(world.scheduled("web").await, "a");
    world.patch("web", json!({"metadata": {"annotations": {"kro.run/reschedule": "now"}}})).await;
    world.until("web", |application| application["spec"]["targetRef"]["name"] == "b").await;
    for name in ["web-a", "web-b"] {
        wait::until_object(&world.region("us").config_maps, name, |_| true).await;
        wait::until_deleted(&world.region("eu").config_maps, name).await;
    }
    world.until_state("web", "Submitted").await;
    // The request is served: it moves no further.
    world.patch("web", json!({"metadata": {"labels": {"touched": "yes"}}})).await;
    world.patch("web", json!({"spec": {"resourceTemplates": [template("web-a", "3")]}})).await;
    world.until_state("web", "Submitted").await;
    assert_eq!(world.scheduled("web").await, "b");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_selector_moves_an_application() {
    let world = World::new().await;
    world.publish("a", "eu", json!({"zone": "a"})).await;
    world.publish("b", "us", json!({"zone": "b"})).await;
    world.create("web", &[("web-a", "1")], json!({"targetSelector": {"matchLabels": {"zone": "a"}}})).await;
    world.until_state("web", "Submitted").await;
    world.patch("web", json!({"spec": {"targetSelector": {"matchLabels": {"zone": "c"}}}})).await;
    let stays =
        world.until("web", |application| condition(application, "Synced")["reason"] == "NoTarget").await;
    assert_eq!(stays["spec"]["targetRef"]["name"], "a");
    world.region("eu").config_maps.get("web-a").await.unwrap();
    // An edit of labels is enough: the selector matches another target now.
    wait::woken(async {
        world.label("b", json!({"zone": "c"})).await;
        world.until("web", |application| application["spec"]["targetRef"]["name"] == "b").await;
        wait::until_deleted(&world.region("eu").config_maps, "web-a").await;
    })
    .await;
    world.until_state("web", "Submitted").await;
    // A choice that was made is kept: labels do not move an application, a selector does.
    world.label("b", json!({"zone": "none"})).await;
    world.label("a", json!({"zone": "c"})).await;
    world.patch("web", json!({"spec": {"resourceTemplates": [template("web-a", "2")]}})).await;
    world.until_state("web", "Submitted").await;
    assert_eq!(world.scheduled("web").await, "b");
    let expression = json!({"key": "zone", "operator": "In", "values": ["c"]});
    let selector = json!({"matchLabels": null, "matchExpressions": [expression]});
    world.patch("web", json!({"spec": {"targetSelector": selector}})).await;
    world.until("web", |application| application["spec"]["targetRef"]["name"] == "a").await;
    wait::until_deleted(&world.region("us").config_maps, "web-a").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_that_moves_between_two_targets_of_one_cluster_keeps_its_objects() {
    let world = World::new().await;
    world.publish("a", "eu", json!({})).await;
    world.publish("b", "eu", json!({})).await;
    world.create("web", &[("web-a", "1")], json!({})).await;
    world.until_state("web", "Submitted").await;
    assert_eq!(world.scheduled("web").await, "a");
    let maps = &world.region("eu").config_maps;
    let before = maps.get("web-a").await.unwrap().metadata.uid;
    world.patch("web", json!({"metadata": {"annotations": {"kro.run/reschedule": "now"}}})).await;
    world.until("web", |application| application["spec"]["targetRef"]["name"] == "b").await;
    world.until_state("web", "Submitted").await;
    // Nobody uses the first target any more.
    world.targets.delete("a", &DeleteParams::default()).await.unwrap();
    wait::until_deleted(&world.targets, "a").await;
    world.patch("web", json!({"spec": {"resourceTemplates": [template("web-a", "2")]}})).await;
    let after = wait::until_object(maps, "web-a", |map| value(map, "text") == Some("2")).await;
    assert_eq!(after.metadata.uid, before, "the object was neither deleted nor made again");
    world.delete("web").await;
    wait::until_deleted(&world.applications, "web").await;
    assert!(maps.get_opt("web-a").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_old_name_of_the_selector_is_refused_with_the_new_one() {
    let world = World::new().await;
    let applications = api(&world.hub.client, "v1alpha1", "KubernetesApplication", &world.namespace);
    let application = json!({"apiVersion": "workload.crossplane.io/v1alpha1", "kind": "KubernetesApplication",
        "metadata": {"name": "old"}, "spec": {"resourceTemplates": [], "clusterSelector": {"matchLabels": {"a": "b"}}}});
    let mut application: DynamicObject = serde_json::from_value(application).unwrap();
    let refused = applications.create(&PostParams::default(), &application).await.unwrap_err();
    assert!(refused.to_string().contains("use `targetSelector`"), "{refused}");
    application.data["spec"]["clusterSelector"].take();
    application.data["spec"].as_object_mut().unwrap().remove("clusterSelector");
    world.publish("a", "eu", json!({})).await;
    applications.create(&PostParams::default(), &application).await.unwrap();
    world.until_state("old", "Submitted").await;
}
