//! Instances of other shapes: outside namespaces, of existing kinds, and made by other graphs.

use std::time::Duration;

use kross_testing::{Action, Answer, Requests, Stopwatch, objects, wait};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value as Json, json};

use crate::setup::{condition, definition, until};
use crate::world::{World, config_map, value};

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_outside_namespaces_has_children_where_it_says() {
    let mut child = config_map("a", json!({"x": "${schema.spec.namespace}"}));
    child["template"]["metadata"]["namespace"] = json!("${schema.spec.namespace}");
    let schema = json!({"scope": "Cluster", "spec": {"namespace": "string"}});
    let world = World::new("Wide", schema, json!([child])).await;
    let instances = world.objects.api("kro.run", "v1alpha1", "Wide", "wides");
    let instance = json!({"apiVersion": "kro.run/v1alpha1", "kind": "Wide", "metadata": {"name": "x"},
        "spec": {"namespace": world.namespace}});
    instances.create(&PostParams::default(), &serde_json::from_value(instance).unwrap()).await.unwrap();
    let x = until(instances.clone(), "x".to_owned(), |x| x["status"]["state"] == "ACTIVE").await;
    let notes = &x["metadata"]["annotations"];
    assert_eq!(notes["applyset.kubernetes.io/additional-namespaces"], world.namespace.as_str());
    let child = world.config_maps.get("x-a").await.unwrap();
    assert!(!child.metadata.labels.unwrap().contains_key("kro.run/instance-namespace"));
    instances.delete("x", &DeleteParams::default()).await.unwrap();
    wait::until_deleted(&instances, "x").await;
    assert!(world.config_maps.get_opt("x-a").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_can_contain_instances_of_another() {
    let inner = json!({"spec": {"text": "string"}, "status": {"said": "${a.data.x}"}});
    let inner =
        World::new("Nested", inner, json!([config_map("a", json!({"x": "${schema.spec.text}!"}))])).await;
    let outer = json!([
        {"id": "inner", "template": {"apiVersion": "kro.run/v1alpha1", "kind": "Nested",
            "metadata": {"name": "${schema.metadata.name}-inner"}, "spec": {"text": "${schema.spec.text}"}}},
        config_map("b", json!({"x": "${inner.status.said}"})),
    ]);
    let outer = World::new("Nesting", json!({"spec": {"text": "string"}}), outer).await;
    outer.create("x", json!({"text": "hello"})).await;
    outer.until_state("x", "ACTIVE").await;
    let said = outer.config_maps.get("x-b").await.unwrap();
    assert_eq!(value(&said, "x"), Some("hello!"));
    outer.patch("x", json!({"spec": {"text": "bye"}})).await;
    wait::until_object(&outer.config_maps, "x-b", |object| value(object, "x") == Some("bye!")).await;
    outer.delete("x").await;
    wait::until_deleted(&outer.instances, "x").await;
    assert!(outer.config_maps.get_opt("x-inner-a").await.unwrap().is_none());
    drop(inner);
}

#[tokio::test(flavor = "multi_thread")]
async fn existing_objects_become_instances_only_where_they_are_chosen() {
    // Any definition starts what tests share.
    let world = World::new("Plain", json!({"spec": {}}), json!([])).await;
    let definition = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": "existing"}, "spec": {
            "schema": {"externalRef": {"apiVersion": "v1", "kind": "Service",
                "metadata": {"selector": {"matchLabels": {"copy": "yes"}}}}},
            "resources": [config_map("copy", json!({"type": "${schema.spec.type}"}))]}});
    world.objects.create(&definition).await;
    world.objects.until_ready("existing").await;
    let services: Api<k8s_openapi::api::core::v1::Service> =
        Api::namespaced(world.objects.client.clone(), &world.namespace);
    for name in ["chosen", "other"] {
        let labels = json!({"copy": if name == "chosen" { "yes" } else { "no" }});
        let service =
            json!({"metadata": {"name": name, "labels": labels}, "spec": {"ports": [{"port": 80}]}});
        services.create(&PostParams::default(), &serde_json::from_value(service).unwrap()).await.unwrap();
    }
    let child = wait::until_object(&world.config_maps, "chosen-copy", |copy| {
        value(copy, "type") == Some("ClusterIP")
    })
    .await;
    assert_eq!(child.metadata.labels.unwrap()["kro.run/instance-kind"], "Service");
    let note = |service: &k8s_openapi::api::core::v1::Service, key: &str| {
        service.metadata.annotations.as_ref().and_then(|notes| notes.get(key).cloned())
    };
    wait::until_object(&services, "chosen", |service| {
        note(service, "kro.run/state").as_deref() == Some("ACTIVE") && service.metadata.finalizers.is_some()
    })
    .await;
    let other = services.get("other").await.unwrap();
    assert!(other.metadata.finalizers.is_none());

    // Chosen no more, it is let go, and stays.
    let patch = Patch::Merge(json!({"metadata": {"labels": {"copy": "no"}}}));
    services.patch("chosen", &PatchParams::default(), &patch).await.unwrap();
    wait::until_deleted(&world.config_maps, "chosen-copy").await;
    wait::until_object(&services, "chosen", |service| service.metadata.finalizers.is_none()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_denies_one_object_is_named_and_holds_up_nobody_else() {
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
    wait::until("the policy to be in force", || async {
        let probe = PostParams { dry_run: true, ..PostParams::default() };
        match config_maps.create(&probe, &objects::config_map("probe-denied", &[])).await {
            Ok(_) => Err("it is not".to_owned()),
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

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_schemas_that_is_out_of_date_is_fetched_again_at_once() {
    let world = World::new("Listed", json!({"spec": {}}), json!([config_map("a", json!({}))])).await;
    let index = Requests::any().resource("/openapi/v3");
    let document = Requests::any().resource("/openapi/v3/apis/discovery.k8s.io/v1");
    // As the server answers who asks for a document as it was.
    let rule = world.proxy.on(document.clone(), Action::Answer(Answer::status(301)));
    let slice = json!({"id": "slice", "template": {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": "${schema.metadata.name}"}, "addressType": "IPv4", "endpoints": []}});
    let mut definition = definition("unlisted", "Unlisted");
    definition["spec"] = json!({"schema": {"apiVersion": "v1alpha1", "kind": "Unlisted", "spec": {}},
        "resources": [slice]});
    world.objects.create(&definition).await;
    wait::until_true("the document to be asked for", || world.proxy.count(&document) > 0).await;
    let (lists, asked) = (world.proxy.count(&index), Stopwatch::start());
    wait::until_true("the list to be asked for", || world.proxy.count(&index) > lists).await;
    asked.assert_within(Duration::from_secs(5));
    // It says meanwhile what it waits for.
    let said = |definition: &Json| {
        let accepted = condition(definition, "GraphAccepted");
        let message = accepted["message"].as_str().unwrap_or_default();
        accepted["status"] == "Unknown" && message.starts_with("cannot fetch the schemas")
    };
    world.objects.until("unlisted", said).await;
    world.proxy.remove(rule);
    world.objects.until_ready("unlisted").await;
}
