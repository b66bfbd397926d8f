//! A definition that provisions a cluster, and another that deploys into it.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Service;
use kross_testing::wait;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::deployed_example::{Example, ensure_namespace, image};
use crate::world::resource_entry;

#[tokio::test(flavor = "multi_thread")]
async fn a_workload_is_deployed_into_the_cluster_that_a_job_provisions() {
    let example = Example::read("delegated-provisioning.yaml", &[]).await;
    let hub = example.objects.client.clone();
    ensure_namespace(&hub, "kro-system").await;
    example.apply().await;
    let clusters = example.instances_of("ProvisionedCluster");
    let workloads = example.instances_of("ClusterWorkload");
    let jobs: Api<Job> = Api::namespaced(hub, "kro-system");
    clusters.create("dev", json!({"image": "shop:1"})).await;
    wait::until_object(&jobs, "dev-provision", |_| true).await;
    clusters.until("dev", |instance| resource_entry(instance, "workload")["state"] == "Blocked").await;
    assert!(workloads.api.get_opt("dev-workload").await.unwrap().is_none());

    // In place of the Job: its Secret, and its status.
    example.credentials("kro-system", "dev-kubeconfig", &example.kubeconfig("eu")).await;
    let succeeded = json!({"status": {"succeeded": 1, "startTime": "2026-01-01T00:00:00Z"}});
    jobs.patch_status("dev-provision", &PatchParams::default(), &Patch::Merge(succeeded)).await.unwrap();
    let workload = wait::woken(workloads.until_state("dev-workload", "ACTIVE")).await;
    assert_eq!(workload["status"]["clusters"][0]["name"], "kro-system/dev-kubeconfig");
    wait::woken(clusters.until_state("dev", "ACTIVE")).await;
    let there = example.region("eu").cluster.client.clone();
    let deployments: Api<Deployment> = Api::namespaced(there.clone(), "default");
    let services: Api<Service> = Api::namespaced(there, "default");
    assert_eq!(image(&deployments.get("workload").await.unwrap()), Some("shop:1"));
    assert_eq!(services.get("workload").await.unwrap().spec.unwrap().selector.unwrap()["app"], "workload");

    // A change of the outer instance is applied in the provisioned cluster.
    clusters.patch("dev", json!({"spec": {"image": "shop:2"}})).await;
    wait::woken(wait::until_object(&deployments, "workload", |it| image(it) == Some("shop:2"))).await;
    clusters.delete("dev").await;
    assert!(workloads.api.get_opt("dev-workload").await.unwrap().is_none());
    assert!(deployments.get_opt("workload").await.unwrap().is_none());
    assert!(services.get_opt("workload").await.unwrap().is_none());
    assert!(jobs.get_opt("dev-provision").await.unwrap().is_none());
}
