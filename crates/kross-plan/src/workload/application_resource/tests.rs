#![allow(clippy::needless_pass_by_value)]
use kross_api::LocalReference;

use super::*;

fn resource(spec: Json) -> Value {
    json!({"metadata": {"name": "web", "namespace": "shop", "generation": 1}, "spec": spec}).into()
}

#[test]
fn nothing_in_a_template_is_evaluated() {
    let text = "a ${b} \"c\" \\ ${\nd } e";
    assert_eq!(literal("plain $x {y}"), "plain $x {y}");
    let spec = json!({"targetRef": {"name": "eu"}, "template": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "x"}, "data": {"text": text, "list": [text]}}});
    let spec = resource_definition(&resource(spec), &|_| false).unwrap();
    let template = Json::from(spec.resources[0].template.as_ref().unwrap());
    assert_eq!(
        template["data"]["text"],
        r#"${"a \u0024\u007bb\u007d \"c\" \\ \u0024\u007b\u000ad \u007d e"}"#
    );
    assert_eq!(template["data"]["list"][0], template["data"]["text"]);
    assert_eq!(template["metadata"]["name"], "x");
}

#[test]
fn names_of_targets_and_secrets_are_not_evaluated_either() {
    let spec = json!({"targetRef": {"name": "${schema.metadata.name}"}, "secrets": [{"name": "${1}"}],
        "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}});
    let spec = resource_definition(&resource(spec), &|_| false).unwrap();
    let text = serde_json::to_string(&spec).unwrap();
    assert!(!text.contains("${schema") && !text.contains("${1}"), "{text}");
}

#[test]
fn secrets_are_copied_to_the_namespace_of_the_template_unless_they_are_credentials() {
    let secrets: Vec<LocalReference> = ["db", "eu-kubeconfig", "marked"].map(LocalReference::new).into();
    let spec = json!({"targetRef": {"name": "eu"}, "secrets": secrets, "template": {"apiVersion": "v1",
        "kind": "Pod", "metadata": {"name": "x", "namespace": "there"}}});
    let spec = resource_definition(&resource(spec), &|name| name == "marked").unwrap();
    let copies: Vec<Json> = spec
        .resources
        .iter()
        .filter(|it| it.id.starts_with(COPY))
        .map(|it| serde_json::to_value(it).unwrap())
        .collect();
    let include: Vec<&Json> = copies.iter().map(|copy| &copy["includeWhen"][0]).collect();
    assert!(include[0].as_str().unwrap().contains("kro.run/cluster-credentials"));
    assert_eq!(include[1..], ["${false}", "${false}"]);
    assert_eq!(copies[0]["template"]["metadata"], json!({"name": "web-db", "namespace": "there"}));
}

#[test]
fn a_resource_without_a_target_has_no_graph() {
    assert!(resource_definition(&resource(json!({"template": {}})), &|_| false).is_err());
}

fn state(state: &str, more: Json) -> String {
    let resource = resource(json!({"targetRef": {"name": "eu"}, "secrets": [{"name": "db"}]}));
    let mut status = more;
    status["state"] = json!(state);
    let status = resource_status(&resource, status.into(), Timestamp::UNIX_EPOCH);
    // A second conversion changes nothing.
    assert_eq!(resource_status(&resource, status.clone(), Timestamp::UNIX_EPOCH), status);
    status.get("state").and_then(Value::as_str).unwrap().to_owned()
}

#[test]
fn the_states_of_an_instance_become_those_of_a_resource() {
    assert_eq!(state("ACTIVE", json!({})), "Submitted");
    assert_eq!(state("IN_PROGRESS", json!({})), "Scheduled");
    assert_eq!(state("ERROR", json!({})), "Failed");
    assert_eq!(state("DELETING", json!({})), "Deleting");
    let away = json!([{"name": "eu", "connected": false}]);
    assert_eq!(state("ERROR", json!({"clusters": away})), "Pending");
    assert_eq!(
        state("ERROR", json!({"clusters": away, "managedResources": [{"id": "template", "uid": "1"}]})),
        "Failed"
    );
    let unresolved = json!([{"type": "ClusterResolved", "status": "False"}]);
    assert_eq!(state("IN_PROGRESS", json!({"conditions": unresolved})), "Pending");
}

#[test]
fn a_credential_that_is_not_copied_fails_the_resource() {
    let resource = resource(json!({"targetRef": {"name": "eu"}, "secrets": [{"name": "db"}]}));
    let status = json!({"state": "ACTIVE", "managedResources": [{"id": "copy0", "state": "Skipped"}],
        "conditions": [{"type": "ResourcesReady", "status": "True", "observedGeneration": 1}]});
    let status = Json::from(&resource_status(&resource, status.into(), Timestamp::UNIX_EPOCH));
    assert_eq!(status["state"], "Failed");
    let text = status["conditions"].to_string();
    assert!(text.contains("SecretRefused") && text.contains("Secret `db` is never copied"), "{text}");
}

#[test]
fn a_secret_with_the_keys_of_a_credential_is_refused_whatever_its_marks() {
    let expression = no_credential("secret0");
    for key in
        ["\"kubeconfig\" in secret0.data", "\"endpoint\" in secret0.data", "\"clusterCA\" in secret0.data"]
    {
        assert!(expression.contains(key), "{expression}");
    }
}

#[test]
fn a_remote_status_that_is_nested_too_deep_is_left_out() {
    let nested = |levels: usize| (0..levels).fold(json!("leaf"), |inner, _| json!({"a": inner}));
    let resource = resource(json!({"targetRef": {"name": "eu"}}));
    for (levels, is_kept) in [(60, true), (120, false)] {
        let status = json!({"state": "ACTIVE", "remote": nested(levels)});
        let status = resource_status(&resource, status.into(), Timestamp::UNIX_EPOCH);
        assert_eq!(status.get("remote").is_some(), is_kept, "{levels}");
    }
}
