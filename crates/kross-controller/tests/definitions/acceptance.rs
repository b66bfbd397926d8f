//! The status of definitions that are accepted or rejected, and when they are validated again.

use futures::StreamExt;
use kross_testing::wait;
use kube::api::{Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use serde_json::{Value as Json, json};

use crate::setup::{Setup, condition, definition};

/// A condition without its transition time.
fn brief(condition: &Json) -> [String; 4] {
    ["type", "status", "reason", "message"].map(|field| condition[field].as_str().unwrap().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_valid_definition_is_active_with_the_conditions_of_kro() {
    let setup = Setup::new().await;
    let objects = setup.objects();
    objects.create(&definition("accepted", "Accepted")).await;
    let accepted = objects.until_ready("accepted").await;
    let status = &accepted["status"];
    assert_eq!(status["state"], "Active");
    assert_eq!(status["topologicalOrder"], json!(["first", "second"]));
    assert_eq!(status["resources"], json!([{"id": "second", "dependencies": [{"id": "first"}]}]));
    assert_eq!(status["lastIssuedRevision"], 1);
    let conditions: Vec<_> = status["conditions"].as_array().unwrap().iter().map(brief).collect();
    let expected = [
        ["GraphAccepted", "True", "Valid", "resource graph and schema are valid"],
        ["GraphRevisionsResolved", "True", "Resolved", "revision 1 compiled and active"],
        ["KindReady", "True", "Ready", "kind Accepted has been accepted and ready"],
        ["ControllerReady", "True", "Running", "controller is running"],
        ["Ready", "True", "Ready", ""],
    ];
    assert_eq!(conditions, expected.map(|condition| condition.map(str::to_owned)));
    assert_eq!(accepted["metadata"]["finalizers"], json!(["kro.run/finalizer"]));
    let served = setup.running.graphs.get("accepted").unwrap();
    assert_eq!(served.revision.as_ref().unwrap().number, 1);
    assert_eq!(served.kind.plural, "accepteds");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_definition_is_inactive_and_reports_every_error() {
    let setup = Setup::new().await;
    let objects = setup.objects();
    let mut invalid = definition("invalid", "Invalid");
    invalid["spec"]["resources"][0]["template"]["data"]["after"] = json!("${nobody.metadata.name}");
    invalid["spec"]["resources"][1]["template"]["dat"] = json!({});
    objects.create(&invalid).await;
    let refused = objects.until_condition("invalid", "GraphAccepted", "False").await;
    assert_eq!(refused["status"]["state"], "Inactive");
    let accepted = condition(&refused, "GraphAccepted");
    assert_eq!(accepted["reason"], "InvalidResourceGraph");
    let message = accepted["message"].as_str().unwrap();
    assert!(message.contains("nobody") && message.contains("dat"), "{message}");
    assert_eq!(condition(&refused, "Ready")["message"], message);
    assert_eq!(condition(&refused, "KindReady")["reason"], "AwaitingReconciliation");
    assert_eq!(objects.revision_names("invalid").await, [""; 0]);
    assert!(objects.crds().get_opt("invalids.kro.run").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_edit_keeps_instances_on_the_last_valid_revision() {
    let setup = Setup::new().await;
    let objects = setup.objects();
    objects.create(&definition("edited", "Edited")).await;
    objects.until_ready("edited").await;
    let before = setup.running.graphs.get("edited").unwrap();
    let broken = json!({"spec": {"resources": [{"id": "first", "template": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "x"}, "data": {"a": "${nobody}"}}}]}});
    objects.patch("edited", &broken).await;
    let edited = objects.until_condition("edited", "GraphAccepted", "False").await;
    let generation = &edited["metadata"]["generation"];
    assert_eq!(generation, 2);
    assert_eq!(edited["status"]["state"], "Inactive");
    let resolved = condition(&edited, "GraphRevisionsResolved");
    assert_eq!((&resolved["status"], &resolved["observedGeneration"]), (&json!("True"), generation));
    for kept in ["KindReady", "ControllerReady"] {
        assert_eq!(condition(&edited, kept)["status"], "True", "{kept}");
    }
    let ready = condition(&edited, "Ready");
    assert_eq!((&ready["status"], &ready["observedGeneration"]), (&json!("False"), generation));
    assert_eq!(edited["status"]["topologicalOrder"], Json::Null);
    assert_eq!(edited["status"]["resources"], Json::Null);
    assert_eq!(objects.revision_names("edited").await, ["edited-r00001"]);
    let after = setup.running.graphs.get("edited").unwrap();
    assert_eq!(after.revision.as_ref().unwrap().number, before.revision.as_ref().unwrap().number);
}

#[tokio::test(flavor = "multi_thread")]
async fn accepts_a_definition_with_a_missing_kind_once_its_crd_is_established() {
    let setup = Setup::new().await;
    let objects = setup.objects();
    let mut early = definition("early", "Early");
    early["spec"]["resources"] = json!([{"id": "late", "template": {"apiVersion": "test.kross.run/v1",
        "kind": "Late", "metadata": {"name": "${schema.metadata.name}"}, "spec": {"size": "${schema.spec.size}"}}}]);
    early["spec"]["schema"]["status"] = json!({"first": "${late.metadata.name}"});
    objects.create(&early).await;
    let refused = objects.until_condition("early", "GraphAccepted", "False").await;
    assert!(condition(&refused, "GraphAccepted")["message"].as_str().unwrap().contains("Late"));
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "lates.test.kross.run"},
        "spec": {"group": "test.kross.run", "scope": "Namespaced", "names": {"kind": "Late", "plural": "lates"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object",
                    "properties": {"size": {"type": "integer"}}}}}}}]},
    });
    objects.crds().create(&PostParams::default(), &serde_json::from_value(crd).unwrap()).await.unwrap();
    wait::woken(objects.until_ready("early")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn accepts_a_definition_that_uses_the_kind_of_another() {
    let setup = Setup::new().await;
    let objects = setup.objects();
    let mut outer = definition("outer", "Outer");
    outer["spec"]["resources"] = json!([{"id": "inner", "template": {"apiVersion": "kro.run/v1alpha1",
        "kind": "Inner", "metadata": {"name": "${schema.metadata.name}"}, "spec": {"size": "${schema.spec.size}"}}}]);
    outer["spec"]["schema"]["status"] = json!({"first": "${inner.status.first}"});
    // The definition that uses the kind of the other is created first.
    objects.create(&outer).await;
    objects.until_condition("outer", "GraphAccepted", "False").await;
    objects.create(&definition("inner", "Inner")).await;
    wait::woken(objects.until_ready("outer")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn restores_a_definition_status_that_was_changed() {
    let setup = Setup::new().await;
    let objects = setup.objects();
    objects.create(&definition("repaired", "Repaired")).await;
    objects.until_ready("repaired").await;
    let patch = json!({"status": {"state": "Inactive", "topologicalOrder": ["nonsense"]}});
    let definitions = objects.definitions();
    definitions.patch_status("repaired", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    wait::woken(objects.until("repaired", |definition| {
        definition["status"]["state"] == "Active"
            && definition["status"]["topologicalOrder"] == json!(["first", "second"])
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_a_dependency_once_however_often_it_is_read() {
    let setup = Setup::new().await;
    let objects = setup.objects();
    let mut often = definition("often", "Often");
    often["spec"]["resources"][0]["template"]["data"] = json!({
        "a": "${first.metadata.name}", "b": "${first.metadata.name + first.metadata.namespace}",
    });
    objects.create(&often).await;
    let ready = objects.until_ready("often").await;
    assert_eq!(ready["status"]["resources"], json!([{"id": "second", "dependencies": [{"id": "first"}]}]));
}

#[tokio::test(flavor = "multi_thread")]
async fn accepts_at_most_ten_for_each_axes() {
    let setup = Setup::new().await;
    let objects = setup.objects();
    let axes = |count: usize| -> (Json, String) {
        let names: Vec<String> = (0..count).map(|number| format!("axis{number}")).collect();
        let axes = names.iter().map(|name| json!({name: "${['a']}"})).collect();
        (axes, names.iter().map(|name| format!("-${{{name}}}")).collect())
    };
    for (name, kind, count) in [("ten-axes", "TenAxes", 10), ("eleven-axes", "ElevenAxes", 11)] {
        let mut many = definition(name, kind);
        let (axes, suffix) = axes(count);
        many["spec"]["resources"] = json!([{"id": "maps", "forEach": axes, "template": {
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("x{suffix}")}}}]);
        many["spec"]["schema"]["status"] = json!({"count": "${size(maps)}"});
        objects.create(&many).await;
    }
    objects.until_ready("ten-axes").await;
    let refused = objects.until_condition("eleven-axes", "GraphAccepted", "False").await;
    let message = condition(&refused, "GraphAccepted")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("10"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn accepts_a_kind_as_soon_as_its_definition_is_ready() {
    let setup = Setup::new().await;
    let objects = setup.objects();
    let definitions = objects.definitions();
    let version = definitions.list(&Default::default()).await.unwrap().metadata.resource_version.unwrap();
    for round in 0..8 {
        let (inner, kind) = (format!("inner-{round}"), format!("Inner{round}"));
        objects.create(&definition(&inner, &kind)).await;
        // Poll without a pause, to create the next definition as soon as the kind is reported as ready.
        loop {
            let inner = objects.get(&definitions, &inner).await;
            if condition(&inner, "Ready")["status"] == "True" {
                break;
            }
        }
        let mut outer = definition(&format!("outer-{round}"), &format!("Outer{round}"));
        outer["spec"]["resources"] = json!([{"id": "first", "template": {"apiVersion": "kro.run/v1alpha1",
            "kind": kind, "metadata": {"name": "${schema.metadata.name}"}, "spec": {"size": 1}}}]);
        objects.create(&outer).await;
        objects.until_ready(&format!("outer-{round}")).await;
    }
    // No status ever said that the kind does not exist.
    let mut events = definitions.watch(&WatchParams::default(), &version).await.unwrap().boxed();
    loop {
        let event = events.next().await.expect("the watch continues").unwrap();
        let (WatchEvent::Added(outer) | WatchEvent::Modified(outer)) = event else { continue };
        let outer = serde_json::to_value(outer).unwrap();
        let name = outer["metadata"]["name"].as_str().unwrap();
        if name.starts_with("outer-") {
            assert_ne!(condition(&outer, "GraphAccepted")["status"], "False", "{outer:#}");
        }
        if name == "outer-7" && condition(&outer, "Ready")["status"] == "True" {
            break;
        }
    }
}
