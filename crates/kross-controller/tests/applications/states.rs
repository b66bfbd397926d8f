//! The states and counts of an application, and the resources of its templates.

use kross_testing::wait;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value as Json, json};

use crate::setup::condition;
use crate::world::{World, message, template};

fn counts(application: &Json) -> (i64, i64) {
    let count = |field: &str| application["status"][field].as_i64().unwrap_or(-1);
    (count("submittedResources"), count("desiredResources"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_state_and_the_counts_follow_the_resources() {
    let world = World::new().await;
    world.publish("a", "eu", json!({})).await;
    world.create("none", &[], json!({})).await;
    let none = world.until_state("none", "Submitted").await;
    assert_eq!(counts(&none), (0, 0));
    world.create("web", &[("web-a", "1"), ("web-b", "2")], json!({})).await;
    let submitted = world.until_state("web", "Submitted").await;
    assert_eq!(counts(&submitted), (2, 2));
    assert_eq!(condition(&submitted, "Ready")["status"], "True", "{submitted:#}");
    let mut wrong = template("web-c", "3");
    wrong["spec"]["template"]["data"] = json!({"text": 7});
    let templates = json!([template("web-a", "1"), template("web-b", "2"), wrong]);
    world.patch("web", json!({"spec": {"resourceTemplates": templates}})).await;
    let partial = world.until_state("web", "PartiallySubmitted").await;
    let partial = match message(&partial, "Ready").contains("web-c") {
        true => partial,
        false => world.until("web", |it| message(it, "Ready").contains("`web-c`")).await,
    };
    assert_eq!(counts(&partial), (2, 3));
    world.patch("web", json!({"spec": {"resourceTemplates": [wrong]}})).await;
    let failed = world.until_state("web", "Failed").await;
    assert_eq!(counts(&failed), (0, 1));
    assert_eq!(condition(&failed, "Synced")["reason"], "Failed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_template_that_is_removed_takes_its_resource_and_its_object_with_it() {
    let world = World::new().await;
    world.publish("a", "eu", json!({})).await;
    world.create("web", &[("web-a", "1"), ("web-b", "2")], json!({})).await;
    world.until_state("web", "Submitted").await;
    world.patch("web", json!({"spec": {"resourceTemplates": [template("web-b", "3")]}})).await;
    wait::until_deleted(&world.resources, "web-a").await;
    assert!(world.region("eu").config_maps.get_opt("web-a").await.unwrap().is_none());
    world.until_state("web", "Submitted").await;
    let object = wait::until_object(&world.region("eu").config_maps, "web-b", |_| true).await;
    assert_eq!(object.data.unwrap()["text"], "3");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edited_resource_is_restored_and_a_foreign_one_is_refused() {
    let world = World::new().await;
    world.publish("a", "eu", json!({})).await;
    let foreign = json!({"apiVersion": "workload.crossplane.io/v1alpha1", "kind": "KubernetesApplicationResource",
        "metadata": {"name": "web-b"}, "spec": {"template": {"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "somebody"}}}});
    let foreign: DynamicObject = serde_json::from_value(foreign).unwrap();
    world.resources.create(&PostParams::default(), &foreign).await.unwrap();
    // It has no target.
    world.until_resource("web-b", "Pending").await;
    world.create("web", &[("web-a", "1"), ("web-b", "2")], json!({})).await;
    let refused = world.until_state("web", "PartiallySubmitted").await;
    assert_eq!(condition(&refused, "Synced")["reason"], "NameTaken", "{refused:#}");
    assert!(message(&refused, "Synced").contains("`web-b` exists and this application does not control it"));
    let edit = json!({"spec": {"template": {"data": {"text": "edited"}}}});
    world.resources.patch("web-a", &PatchParams::default(), &Patch::Merge(edit)).await.unwrap();
    wait::until_object(&world.resources, "web-a", |it| it.data["spec"]["template"]["data"]["text"] == "1")
        .await;
    // Once it is gone, the application takes the name.
    world.resources.delete("web-b", &Default::default()).await.unwrap();
    wait::woken(world.until_state("web", "Submitted")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_of_a_target_that_does_not_exist_says_so_and_resumes() {
    let world = World::new().await;
    world.create("web", &[("web-a", "1")], json!({"targetRef": {"name": "later"}})).await;
    let waiting = world.until_state("web", "Pending").await;
    assert_eq!(condition(&waiting, "Synced")["reason"], "TargetNotReady");
    assert!(message(&waiting, "Synced").contains("KubernetesTarget `later` does not exist"), "{waiting:#}");
    world.until_resource("web-a", "Pending").await;
    world.publish("later", "us", json!({})).await;
    wait::woken(world.until_state("web", "Submitted")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_whose_target_is_being_deleted_says_that_its_objects_stay() {
    let world = World::new().await;
    world.publish("a", "eu", json!({})).await;
    world.create("web", &[("web-a", "1"), ("web-b", "2")], json!({})).await;
    world.until_state("web", "Submitted").await;
    world.targets.delete("a", &DeleteParams::default()).await.unwrap();
    let is_told = |it: &Json| {
        let text = message(it, "Synced");
        text.contains("2 keep what was applied before") && text.contains("`a` is being deleted")
    };
    let failed = wait::woken(world.until("web", is_told)).await;
    assert_eq!(failed["status"]["state"], "Failed");
    for name in ["web-a", "web-b"] {
        let map = world.region("eu").config_maps.get(name).await.unwrap();
        assert!(map.metadata.deletion_timestamp.is_none());
    }
    world.delete("web").await;
    wait::until_deleted(&world.applications, "web").await;
    wait::until_deleted(&world.targets, "a").await;
}
