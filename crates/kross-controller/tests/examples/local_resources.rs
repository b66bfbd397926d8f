//! Examples whose resources are all in the cluster of the instance.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::Ingress;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kross_testing::wait;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::deployed_example::{Example, roll_out};
use crate::world::resource_entry;

#[tokio::test(flavor = "multi_thread")]
async fn web_application_has_a_service_once_it_is_available_and_an_ingress_on_request() {
    let example = Example::read("web-application.yaml", &[]).await;
    example.apply().await;
    let applications = example.instances_of("WebApplication");
    let deployments: Api<Deployment> = example.local();
    let services: Api<Service> = example.local();
    let ingresses: Api<Ingress> = example.local();
    applications.create("shop", json!({"name": "web", "replicas": 2})).await;
    let waiting = applications.until_state("shop", "IN_PROGRESS").await;
    assert!(waiting["status"]["address"].is_null(), "{waiting:#}");
    let deployment = wait::until_object(&deployments, "web", |_| true).await;
    assert_eq!(deployment.spec.unwrap().replicas, Some(2));
    assert!(services.get_opt("web").await.unwrap().is_none());

    roll_out(&deployments, "web").await;
    let ready = wait::woken(applications.until_state("shop", "ACTIVE")).await;
    let service = services.get("web").await.unwrap().spec.unwrap();
    assert_eq!(service.selector.unwrap()["app"], "web");
    assert_eq!(ready["status"]["address"], json!(service.cluster_ip));
    assert_eq!(ready["status"]["availableReplicas"], 2);
    assert!(ingresses.get_opt("web").await.unwrap().is_none());

    applications.patch("shop", json!({"spec": {"ingress": {"enabled": true}}})).await;
    let ingress = wait::woken(wait::until_object(&ingresses, "web", |_| true)).await;
    assert_eq!(ingress.spec.unwrap().rules.unwrap()[0].host.as_deref(), Some("web.example.com"));
    let ready = applications.until_state("shop", "ACTIVE").await;
    assert_eq!(resource_entry(&ready, "ingress")["state"], "Ready", "{ready:#}");
    applications.patch("shop", json!({"spec": {"ingress": {"enabled": false}}})).await;
    wait::woken(wait::until_deleted(&ingresses, "web")).await;

    applications.delete("shop").await;
    assert!(deployments.get_opt("web").await.unwrap().is_none());
    assert!(services.get_opt("web").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_policy_is_a_cluster_scoped_api() {
    let example = Example::read("cluster-policy.yaml", &[]).await;
    example.apply().await;
    let policies = example.instances_of("ClusterPolicy");
    let roles: Api<ClusterRole> = Api::all(example.objects.client.clone());
    let rule = json!({"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get"]});
    policies.create("deployers", json!({"policyName": "deployment-readers", "rules": [rule]})).await;
    let policy = policies.until_state("deployers", "ACTIVE").await;
    assert!(policy["metadata"]["namespace"].is_null(), "{policy:#}");
    let has_the_rule = |role: &ClusterRole| {
        let rules = role.rules.clone().unwrap_or_default();
        rules.len() == 1 && rules[0].resources == Some(vec!["deployments".to_owned()])
    };
    let role = roles.get("deployment-readers").await.unwrap();
    assert!(has_the_rule(&role), "{role:#?}");
    let none = Patch::Merge(json!({"rules": null}));
    roles.patch("deployment-readers", &PatchParams::default(), &none).await.unwrap();
    wait::woken(wait::until_object(&roles, "deployment-readers", has_the_rule)).await;
    policies.delete("deployers").await;
    assert!(roles.get_opt("deployment-readers").await.unwrap().is_none());
}
