use serde_json::{Value as Json, json};

use super::*;

fn value(json: Json) -> Value {
    Value::from(json)
}

fn owner() -> CopyOwner {
    CopyOwner {
        api_version: "workload.crossplane.io/v1alpha1".to_owned(),
        kind: "KubernetesTarget".to_owned(),
        namespace: "shop".to_owned(),
        name: "dev".to_owned(),
        uid: "t1".to_owned(),
    }
}

fn reference() -> SecretReference {
    SecretReference { namespace: "infra".to_owned(), name: "dev".to_owned() }
}

fn managed() -> Json {
    json!({"metadata": {"name": "dev", "uid": "m1"}})
}

fn source() -> Json {
    json!({"type": "connection.crossplane.io/v1alpha1", "data": {"kubeconfig": "YQ==", "extra": "eA=="},
        "metadata": {"name": "dev", "namespace": "infra",
            "ownerReferences": [{"controller": true, "uid": "m1"}]}})
}

fn refusal(managed: Json, source: Json, owned_keys: &[&str]) -> Option<Reason> {
    let (managed, source) = (value(managed), value(source));
    let source = SourceSecret { value: &source, owned_keys };
    check_source(&managed, source, &reference(), "shop").err().map(|refusal| refusal.reason)
}

fn with(mut object: Json, pointer: &str, part: Json) -> Json {
    *object.pointer_mut(pointer).unwrap() = part;
    object
}

#[test]
fn a_secret_is_copied_if_the_managed_resource_controls_it() {
    assert_eq!(refusal(managed(), source(), &[]), None);
    let not_controlled = Some(Reason::SecretNotControlled);
    for owners in [json!([]), json!([{"uid": "m1"}]), json!([{"controller": true, "uid": "m2"}])] {
        let source = with(source(), "/metadata/ownerReferences", owners);
        assert_eq!(refusal(managed(), source, &[]), not_controlled);
    }
}

#[test]
fn a_secret_of_a_graph_is_copied_if_the_graph_wrote_the_keys() {
    let labelled = json!({"name": "dev", "labels": {"kro.run/instance-id": "m1"}});
    let labelled = with(source(), "/metadata", labelled);
    assert_eq!(refusal(managed(), labelled.clone(), &["kubeconfig"]), None);
    assert_eq!(refusal(managed(), labelled.clone(), &["token"]), Some(Reason::SecretNotControlled));
    let other = with(labelled, "/metadata/labels", json!({"kro.run/instance-id": "m2"}));
    assert_eq!(refusal(managed(), other, &["kubeconfig"]), Some(Reason::SecretNotControlled));
}

#[test]
fn types_of_kubernetes_and_secrets_without_a_connection_are_refused() {
    let token = with(source(), "/type", json!("kubernetes.io/service-account-token"));
    assert_eq!(refusal(managed(), token, &[]), Some(Reason::SecretTypeRefused));
    let bootstrap = with(source(), "/type", json!("bootstrap.kubernetes.io/token"));
    assert_eq!(refusal(managed(), bootstrap, &[]), Some(Reason::SecretTypeRefused));
    let empty = with(source(), "/data", json!({"token": "YQ=="}));
    assert_eq!(refusal(managed(), empty, &[]), Some(Reason::NoConnectionSecret));
}

#[test]
fn an_annotation_on_the_managed_resource_or_the_secret_limits_the_namespaces() {
    let allowed = |namespaces: &str| json!({"kro.run/allowed-namespaces": namespaces});
    let mut limited = managed();
    limited["metadata"]["annotations"] = allowed("infra");
    assert_eq!(refusal(limited.clone(), source(), &[]), Some(Reason::NamespaceNotAllowed));
    limited["metadata"]["annotations"] = allowed("infra,shop");
    assert_eq!(refusal(limited, source(), &[]), None);
    let mut secret = source();
    secret["metadata"]["annotations"] = allowed("infra");
    assert_eq!(refusal(managed(), secret, &[]), Some(Reason::NamespaceNotAllowed));
}

#[test]
fn a_copy_has_the_keys_of_a_connection_and_is_current_after_it_was_written() {
    let source = value(source());
    let CopyPlan::Create(copy) = plan_copy(&owner(), "dev-connection", &source, &reference(), None) else {
        panic!("not created")
    };
    assert_eq!(copy.get("data"), Some(&value(json!({"kubeconfig": "YQ=="}))));
    assert!(is_controlled_by(&copy, "t1"));
    assert_eq!(copy.at(&["metadata", "finalizers"]), Some(&value(json!([FINALIZER]))));
    assert_eq!(plan_copy(&owner(), "dev-connection", &source, &reference(), Some(&copy)), CopyPlan::Current);
}

#[test]
fn a_changed_copy_is_replaced_and_keeps_the_metadata_of_others() {
    let source = value(source());
    let CopyPlan::Create(copy) = plan_copy(&owner(), "dev-connection", &source, &reference(), None) else {
        panic!("not created")
    };
    let mut live = serde_json::to_value(&copy).unwrap();
    live["data"] = json!({"kubeconfig": "Yg==", "added": "YQ=="});
    live["metadata"]["labels"]["team"] = json!("a");
    live["metadata"]["labels"]["kro.run/cluster-credentials"] = json!("true");
    live["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    live["metadata"]["finalizers"] = json!(["other"]);
    let plan = plan_copy(&owner(), "dev-connection", &source, &reference(), Some(&value(live)));
    let CopyPlan::Replace(copy) = plan else { panic!("{plan:?}") };
    assert_eq!(copy.get("data"), Some(&value(json!({"kubeconfig": "YQ=="}))));
    let labels = json!({"internal.kro.run/connection-copy": "t1", "team": "a"});
    assert_eq!(copy.at(&["metadata", "labels"]), Some(&value(labels)));
    assert_eq!(copy.at(&["metadata", "finalizers"]), Some(&value(json!(["other"]))));
}

#[test]
fn a_secret_of_somebody_else_and_a_name_that_graphs_could_use_are_refused() {
    let source = value(source());
    let foreign = value(json!({"metadata": {"name": "dev-connection"}}));
    let plan = plan_copy(&owner(), "dev-connection", &source, &reference(), Some(&foreign));
    assert!(matches!(&plan, CopyPlan::Refuse(why) if why.reason == Reason::SecretConflict), "{plan:?}");
    let plan = plan_copy(&owner(), "dev-kubeconfig", &source, &reference(), None);
    assert!(matches!(&plan, CopyPlan::Refuse(why) if why.reason == Reason::SecretConflict), "{plan:?}");
}

#[test]
fn the_name_of_a_copy_fits_into_the_limit() {
    assert_eq!(copy_name("dev"), "dev-connection");
    let long = "a".repeat(253);
    let name = copy_name(&long);
    assert!(name.len() <= 253 && name.ends_with("-connection"), "{name}");
    assert_ne!(name, copy_name(&format!("{}b", "a".repeat(252))));
}
