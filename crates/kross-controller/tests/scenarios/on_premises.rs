//! Scenario 3: an existing cluster that no provider manages.

use kross_local::Access;
use kross_testing::wait;
use serde_json::json;

use crate::setup::condition;
use crate::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn a_sensitive_workload_runs_in_an_existing_cluster() {
    let world = World::new().await;
    let (infrastructure, namespace) = (world.infrastructure_owner().await, "super-secret-workloads");
    infrastructure.namespace(namespace).await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "on-premises", "namespace": namespace},
        "stringData": {"kubeconfig": world.kubeconfig("stage").to_string()}});
    infrastructure.apply(&secret).await.unwrap();
    infrastructure.apply_file("examples/targets/on-premises/1-publish.yaml").await;
    let targets = infrastructure.api("KubernetesTarget", Some(namespace));
    let target = infrastructure.until_condition(&targets, "on-premises", ("Ready", "True")).await;
    assert_eq!(condition(&target, "ConnectionSecretPropagated")["reason"], "LocalSecret");

    let team =
        world.user("ledger-owner", &[("kross-cluster-consumer", Some(namespace))], Access::none()).await;
    world.remote("stage").namespace(namespace).await;
    team.apply_file("examples/targets/on-premises/2-consume.yaml").await;
    let applications = team.api("KubernetesApplication", Some(namespace));
    team.until(&applications, "ledger", |it| it["status"]["state"] == "Submitted").await;
    let services = world.remote("stage").api("Service", Some(namespace));
    services.get("ledger").await.unwrap();
    team.delete(&applications, "ledger").await;
    wait::until_deleted(&applications, "ledger").await;
    assert!(services.get_opt("ledger").await.unwrap().is_none());
    // The Secret is the user's own, and stays.
    infrastructure.delete(&targets, "on-premises").await;
    wait::until_deleted(&targets, "on-premises").await;
    world.admin.api("Secret", Some(namespace)).get("on-premises").await.unwrap();
}
