//! Objects that the API server rejects: the instance reports the error, and its other objects are applied.

use kross_testing::{objects, wait};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use crate::setup::condition;
use crate::world::{World, config_map};

#[tokio::test(flavor = "multi_thread")]
async fn reports_a_rejected_object_as_an_error_and_applies_the_others() {
    let mut bad = config_map("bad", json!({}));
    bad["template"]["metadata"]["name"] = json!("${schema.spec.name}");
    let world = World::new(
        "Refused",
        json!({"spec": {"name": "string"}}),
        json!([bad, config_map("good", json!({}))]),
    )
    .await;
    world.create("x", json!({"name": "Not_A_Name"})).await;
    let refused = world.until_state("x", "ERROR").await;
    let message = condition(&refused, "ResourcesReady")["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("resource error: ") && message.contains("Not_A_Name"), "{message}");
    wait::until_object(&world.config_maps, "x-good", |_| true).await;
    world.patch("x", json!({"spec": {"name": "a-name"}})).await;
    world.until_state("x", "ACTIVE").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_the_admission_policy_that_denies_an_object_and_applies_the_others() {
    let world = World::new(
        "Policed",
        json!({"spec": {}}),
        json!([config_map("denied", json!({})), config_map("allowed", json!({})),]),
    )
    .await;
    let client = world.objects.client.clone();
    let name = format!("deny-{}", world.namespace);
    let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name}, "spec": {"failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
                "operations": ["CREATE"], "resources": ["configmaps"]}],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": world.namespace}}},
            "validations": [{"expression": "!object.metadata.name.endsWith('denied')", "message": "not on my watch"}]}});
    let binding = json!({"apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]}});
    let group = "admissionregistration.k8s.io";
    let policies = world.objects.api(group, "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies");
    let bindings = world.objects.api(
        group,
        "v1",
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
    );
    policies.create(&PostParams::default(), &serde_json::from_value(policy).unwrap()).await.unwrap();
    bindings.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();
    let config_maps: Api<k8s_openapi::api::core::v1::ConfigMap> = Api::namespaced(client, &world.namespace);
    wait::until("the policy to be in effect", || async {
        let probe = PostParams { dry_run: true, ..PostParams::default() };
        match config_maps.create(&probe, &objects::config_map("probe-denied", &[])).await {
            Ok(_) => Err("the object was admitted".to_owned()),
            Err(_) => Ok(()),
        }
    })
    .await;
    world.create("x", json!({})).await;
    let refused = world.until_state("x", "ERROR").await;
    let message = condition(&refused, "ResourcesReady")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("x-denied") && message.contains("not on my watch"), "{message}");
    wait::until_object(&world.config_maps, "x-allowed", |_| true).await;
    bindings.delete(&name, &DeleteParams::default()).await.unwrap();
    policies.delete(&name, &DeleteParams::default()).await.unwrap();
    world.until_state("x", "ACTIVE").await;
}
