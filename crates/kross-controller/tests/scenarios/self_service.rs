//! Scenario 2: the team claims its own clusters, from a class whose clusters a graph provides.

use k8s_openapi::api::core::v1::Secret;
use kross_local::Access;
use kross_testing::wait;
use kube::Api;
use serde_json::json;

use crate::setup::condition;
use crate::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn a_team_claims_a_cluster_that_a_graph_provides_and_uses_a_published_one() {
    let world = World::new().await;
    let infrastructure = world.infrastructure_owner().await;
    let folder = "examples/targets/self-service";
    // The pool that the provider takes credentials from.
    let pool = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "dev-pool", "namespace": "infrastructure"},
        "stringData": {"kubeconfig": world.kubeconfig("dev").to_string()}});
    world.admin.apply(&pool).await.unwrap();
    world.admin.apply_file("examples/targets/provider-graph.yaml").await;
    let definitions = world.admin.api("ResourceGraphDefinition", None);
    world.admin.until_condition(&definitions, "dev-cluster", ("Ready", "True")).await;
    infrastructure.apply_file(&format!("{folder}/1-provision.yaml")).await;
    world.provide("shared-stage", "stage").await;

    let namespace = "self-service-team";
    let roles = [("kross-cluster-provisioner", Some(namespace)), ("kross-cluster-consumer", Some(namespace))];
    let team = world.user("self-service-owner", &roles, Access::none()).await;
    for remote in ["dev", "stage"] {
        world.remote(remote).namespace(namespace).await;
    }
    team.apply_file(&format!("{folder}/2-claim.yaml")).await;
    let claims = team.api("KubernetesCluster", Some(namespace));
    let claim = team.until(&claims, "dev", |claim| claim["status"]["bindingPhase"] == "Bound").await;
    assert_eq!(claim["spec"]["resourceRef"]["kind"], "DevCluster");
    let targets = team.api("KubernetesTarget", Some(namespace));
    let target = team.until_condition(&targets, "dev", ("Ready", "True")).await;
    assert_eq!(target["metadata"]["labels"]["env"], "dev");
    assert_eq!(target["spec"]["connectionSecretRef"]["name"], "dev-connection");
    team.until_condition(&claims, "dev", ("Ready", "True")).await;

    team.apply_file(&format!("{folder}/3-consume-dev.yaml")).await;
    let applications = team.api("KubernetesApplication", Some(namespace));
    let submitted = |object: &serde_json::Value| object["status"]["state"] == "Submitted";
    team.until(&applications, "web-dev", submitted).await;
    let deployments = world.remote("dev").api("Deployment", Some(namespace));
    deployments.get("web-dev").await.unwrap();

    infrastructure.apply_file(&format!("{folder}/4-publish-stage.yaml")).await;
    team.apply_file(&format!("{folder}/5-consume-stage.yaml")).await;
    team.until(&applications, "web-stage", submitted).await;
    world.remote("stage").api("Deployment", Some(namespace)).get("web-stage").await.unwrap();

    // The claim waits for its application. Then target, Secret and managed cluster are deleted.
    team.delete(&claims, "dev").await;
    let held = team.until(&claims, "dev", |it| condition(it, "Ready")["reason"] == "InUse").await;
    let message = condition(&held, "Ready")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("self-service-team/dev") || message.contains("web-dev"), "{message}");
    deployments.get("web-dev").await.unwrap();
    team.delete(&applications, "web-dev").await;
    wait::until_deleted(&claims, "dev").await;
    assert!(deployments.get_opt("web-dev").await.unwrap().is_none());
    assert!(targets.get_opt("dev").await.unwrap().is_none());
    let secrets: Api<Secret> = Api::namespaced(world.admin.client.clone(), namespace);
    assert!(secrets.get_opt("dev-connection").await.unwrap().is_none());
    let managed = world.admin.api("DevCluster", None);
    wait::until_deleted(&managed, claim["spec"]["resourceRef"]["name"].as_str().unwrap()).await;
    team.delete(&applications, "web-stage").await;
    wait::until_deleted(&applications, "web-stage").await;
}
