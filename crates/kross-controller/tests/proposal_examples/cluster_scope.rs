//! An API whose instances are cluster-scoped.

use k8s_openapi::api::rbac::v1::ClusterRole;
use kross_testing::wait;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::fixture::{ProposalFixture, example};
use crate::setup::{condition, create_once_served, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_scoped_instance_manages_a_cluster_role() {
    let fixture = ProposalFixture::new().await;
    let definition = example("cluster-policy.yaml");
    fixture.create_definition(&definition).await;
    let crd = fixture.objects.get(&fixture.objects.crds(), "clusterpolicies.kro.run").await;
    assert_eq!(crd["spec"]["scope"], "Cluster");
    let policies = fixture.objects.api("kro.run", "v1", "ClusterPolicy", "clusterpolicies");
    let rule = |verbs: &[&str]| json!({"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": verbs});
    let instance = json!({"apiVersion": "kro.run/v1", "kind": "ClusterPolicy", "metadata": {"name": "readers"},
        "spec": {"policyName": "pod-readers", "rules": [rule(&["get", "list"])]}});
    create_once_served(&policies, instance).await;
    let ready = until(policies.clone(), "readers".to_owned(), |policy| {
        condition(policy, "Ready")["status"] == "True" && policy["status"]["state"] == "ACTIVE"
    })
    .await;
    assert!(ready["metadata"]["namespace"].is_null(), "{ready:#}");

    let roles: Api<ClusterRole> = Api::all(fixture.hub.clone());
    let verbs = |expected: &'static [&'static str]| {
        move |role: &ClusterRole| {
            let rules = role.rules.clone().unwrap_or_default();
            rules.len() == 1 && rules[0].verbs == expected && rules[0].api_groups == Some(vec![String::new()])
        }
    };
    let role = roles.get("pod-readers").await.unwrap();
    assert!(verbs(&["get", "list"])(&role), "{role:#?}");
    // Drift is corrected, and a change of the instance is applied.
    let none = Patch::Merge(json!({"rules": []}));
    roles.patch("pod-readers", &PatchParams::default(), &none).await.unwrap();
    wait::woken(wait::until_object(&roles, "pod-readers", verbs(&["get", "list"]))).await;
    let more = Patch::Merge(json!({"spec": {"rules": [rule(&["get", "list", "watch"])]}}));
    policies.patch("readers", &PatchParams::default(), &more).await.unwrap();
    wait::woken(wait::until_object(&roles, "pod-readers", verbs(&["get", "list", "watch"]))).await;

    policies.delete("readers", &DeleteParams::default()).await.unwrap();
    wait::until_deleted(&policies, "readers").await;
    assert!(roles.get_opt("pod-readers").await.unwrap().is_none());
    fixture.delete_definition(&definition).await;
}
