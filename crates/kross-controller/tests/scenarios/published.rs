//! Scenario 1: the infrastructure owner provisions and publishes all clusters.

use kross_local::Access;
use kross_testing::wait;
use serde_json::json;

use crate::setup::condition;
use crate::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn the_infrastructure_owner_provisions_and_publishes_all_clusters() {
    let world = World::new().await;
    let infrastructure = world.infrastructure_owner().await;
    let folder = "examples/targets/published";
    infrastructure.apply_file(&format!("{folder}/1-provision.yaml")).await;
    world.provide("dev", "dev").await;
    world.provide("stage", "stage").await;
    let claims = infrastructure.api("KubernetesCluster", Some("infrastructure"));
    for name in ["dev", "stage"] {
        infrastructure.until(&claims, name, |claim| claim["status"]["bindingPhase"] == "Bound").await;
    }
    // Nobody provides `prod`.
    infrastructure.until(&claims, "prod", |claim| condition(claim, "Ready")["status"] == "False").await;

    infrastructure.apply_file(&format!("{folder}/2-publish-dev.yaml")).await;
    let targets = infrastructure.api("KubernetesTarget", Some("my-app-team"));
    let dev = infrastructure.until_condition(&targets, "dev", ("Ready", "True")).await;
    assert_eq!(condition(&dev, "ConnectionSecretPropagated")["reason"], "Propagated");
    assert!(dev["status"]["cluster"]["version"].as_str().unwrap().starts_with("v1."), "{dev:#}");

    let roles = [("kross-cluster-consumer", Some("my-app-team"))];
    let team = world.user("application-owner", &roles, Access::none()).await;
    for remote in ["dev", "stage"] {
        world.remote(remote).namespace("my-app-team").await;
    }
    team.apply_file(&format!("{folder}/3-consume-dev.yaml")).await;
    let applications = team.api("KubernetesApplication", Some("my-app-team"));
    let submitted = |object: &serde_json::Value| object["status"]["state"] == "Submitted";
    let web = team.until(&applications, "web-dev", submitted).await;
    assert_eq!(web["spec"]["targetRef"]["name"], "dev");
    assert_eq!(web["status"]["submittedResources"], 2);
    let deployments = world.remote("dev").api("Deployment", Some("my-app-team"));
    deployments.get("web-dev").await.unwrap();

    // An application for a cluster that is not published yet waits, and is woken.
    team.apply_file(&format!("{folder}/5-consume-stage.yaml")).await;
    let waiting = team.until(&applications, "web-stage", |it| it["status"]["state"] == "Pending").await;
    assert_eq!(condition(&waiting, "Ready")["status"], "False", "{waiting:#}");
    infrastructure.apply_file(&format!("{folder}/4-publish-stage.yaml")).await;
    wait::woken(team.until(&applications, "web-stage", submitted)).await;
    let there = world.remote("stage").api("Deployment", Some("my-app-team"));
    there.get("web-stage").await.unwrap();
    assert!(there.get_opt("web-dev").await.unwrap().is_none());

    // A target in use is not deleted, and says who uses it.
    infrastructure.delete(&targets, "dev").await;
    let held = infrastructure.until(&targets, "dev", |it| condition(it, "Ready")["reason"] == "InUse").await;
    let message = condition(&held, "Ready")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("web-dev"), "{message}");
    team.delete(&applications, "web-dev").await;
    wait::until_deleted(&applications, "web-dev").await;
    assert!(deployments.get_opt("web-dev").await.unwrap().is_none());
    wait::until_deleted(&targets, "dev").await;
    let secrets = world.admin.api("Secret", Some("my-app-team"));
    let left = secrets.list(&kube::api::ListParams::default()).await.unwrap();
    assert_eq!(left.items.len(), 1, "the copy for `stage` alone: {:?}", json!(left.items));
    team.delete(&applications, "web-stage").await;
    wait::until_deleted(&applications, "web-stage").await;
}
