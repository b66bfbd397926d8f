//! The deletion of an application, on a control plane without a garbage collector, and with a cluster that is not reachable.

use kross_testing::{Fault, wait};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, PropagationPolicy};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::world::{World, message, template, value};

#[tokio::test(flavor = "multi_thread")]
async fn an_application_is_deleted_after_its_resources_and_their_objects() {
    let world = World::new().await;
    world.publish("a", "eu", json!({})).await;
    world.create("web", &[("web-a", "1"), ("web-b", "2")], json!({})).await;
    world.until_state("web", "Submitted").await;
    world.delete("web").await;
    wait::until_deleted(&world.applications, "web").await;
    for name in ["web-a", "web-b"] {
        assert!(world.resources.get_opt(name).await.unwrap().is_none());
        assert!(world.region("eu").config_maps.get_opt(name).await.unwrap().is_none());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_cluster_holds_the_deletion_until_it_is_back() {
    let world = World::new().await;
    world.publish("a", "eu", json!({})).await;
    world.create("web", &[("web-a", "1")], json!({})).await;
    world.until_state("web", "Submitted").await;
    let eu = world.region("eu");
    eu.proxy.set(Fault::Refuse);
    let failed = world.until_resource("web-a", "Failed").await;
    assert!(
        message(&failed, "Ready").contains("web-a") || message(&failed, "Ready").contains("cluster"),
        "{failed:#}"
    );
    world.until_state("web", "Failed").await;
    world.patch("web", json!({"spec": {"resourceTemplates": [template("web-a", "2")]}})).await;
    world.delete("web").await;
    let deleting = world.until("web", |it| it["status"]["state"] == "Deleting").await;
    assert!(message(&deleting, "Ready").contains("`web-a`"), "{deleting:#}");
    let resource = world.until_resource("web-a", "Deleting").await;
    assert!(resource["metadata"]["finalizers"].as_array().is_some_and(|it| !it.is_empty()));
    eu.proxy.set(Fault::Pass);
    wait::woken(wait::until_deleted(&world.applications, "web")).await;
    assert!(eu.config_maps.get_opt("web-a").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_resumes_when_its_cluster_is_back() {
    let world = World::new().await;
    world.publish("a", "eu", json!({})).await;
    world.create("web", &[("web-a", "1")], json!({})).await;
    world.until_state("web", "Submitted").await;
    let eu = world.region("eu");
    eu.proxy.set(Fault::Refuse);
    world.until_state("web", "Failed").await;
    world.patch("web", json!({"spec": {"resourceTemplates": [template("web-a", "2")]}})).await;
    eu.proxy.set(Fault::Pass);
    wait::woken(world.until_state("web", "Submitted")).await;
    let map = eu.config_maps.get("web-a").await.unwrap();
    assert_eq!(map.data.unwrap()["text"], "2");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_resources_of_an_application_that_is_deleted_with_cascade_orphan_stay() {
    let world = World::new().await;
    world.publish("a", "eu", json!({})).await;
    world.create("web", &[("web-a", "1")], json!({})).await;
    world.until_state("web", "Submitted").await;
    // As `kubectl delete --cascade=orphan` does.
    let orphan =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
    world.applications.delete("web", &orphan).await.unwrap();
    let waiting = world.until("web", |it| it["status"]["state"] == "Deleting").await;
    let text = message(&waiting, "Ready");
    assert!(text.contains("to be orphaned by the garbage collector: `web-a`"), "{text}");
    // Then the garbage collector removes the owner reference, and its finalizer from the application.
    let patch = Patch::Merge(json!({"metadata": {"ownerReferences": null}}));
    world.resources.patch("web-a", &PatchParams::default(), &patch).await.unwrap();
    remove_orphan_finalizer(&world.applications, "web").await;
    wait::woken(wait::until_deleted(&world.applications, "web")).await;
    // The resource is reconciled as before.
    let edit = json!({"spec": {"template": template("web-a", "2")["spec"]["template"]}});
    world.resources.patch("web-a", &PatchParams::default(), &Patch::Merge(edit)).await.unwrap();
    let maps = &world.region("eu").config_maps;
    wait::until_object(maps, "web-a", |map| value(map, "text") == Some("2")).await;
}

/// As the garbage collector does it: it reads the object again if the controller has removed its own finalizer meanwhile.
async fn remove_orphan_finalizer(applications: &Api<DynamicObject>, name: &str) {
    wait::until("the garbage collector to remove its finalizer", || async {
        let Some(mut application) = applications.get_opt(name).await.map_err(|error| error.to_string())?
        else {
            return Ok(());
        };
        application.finalizers_mut().retain(|finalizer| finalizer != "orphan");
        let replaced = applications.replace(name, &PostParams::default(), &application).await;
        replaced.map(drop).map_err(|error| error.to_string())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn applications_of_a_target_that_is_deleted_by_force_move_on_or_are_deleted_once_they_give_its_cluster_up()
 {
    let world = World::new().await;
    world.publish("a", "eu", json!({})).await;
    world.create("moves", &[("moves-a", "1")], json!({})).await;
    world.create("ends", &[("ends-a", "1")], json!({"targetRef": {"name": "a"}})).await;
    for name in ["moves", "ends"] {
        world.until_state(name, "Submitted").await;
    }
    let uid =
        world.targets.get("a").await.unwrap().data["status"]["cluster"]["uid"].as_str().unwrap().to_owned();
    world.region("eu").proxy.set(Fault::Refuse);
    world.publish("b", "us", json!({})).await;
    world.targets.delete("a", &DeleteParams::default()).await.unwrap();
    let force = json!({"metadata": {"annotations": {"kro.run/force-delete": "true"}}});
    world.targets.patch("a", &PatchParams::default(), &Patch::Merge(force)).await.unwrap();
    wait::until_deleted(&world.targets, "a").await;
    // Nothing is left behind silently.
    let told = world.until("moves", |it| message(it, "Synced").contains("create it again")).await;
    assert_eq!(told["spec"]["targetRef"]["name"], "a", "{told:#}");
    world.delete("ends").await;
    world.until_resource("ends-a", "Deleting").await;

    let give_up = json!({"metadata": {"annotations": {"kro.run/abandon-cluster": uid}}});
    wait::woken(async {
        world.patch("ends", give_up.clone()).await;
        wait::until_deleted(&world.applications, "ends").await;
        world.patch("moves", give_up).await;
        wait::until_object(&world.region("us").config_maps, "moves-a", |_| true).await;
        world.until_state("moves", "Submitted").await;
    })
    .await;
    assert_eq!(world.scheduled("moves").await, "b");
    for name in ["moves-a", "ends-a"] {
        assert!(world.region("eu").config_maps.get_opt(name).await.unwrap().is_some(), "it was given up");
    }
}
