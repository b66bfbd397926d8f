//! The same steps on kro and here, on a control plane each: what the API then says is the same, but for what is listed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    dead_code,
    missing_docs,
    unreachable_pub
)]

use std::process::{Command, Stdio};

use kross_controller::Settings;
use kross_testing::shared;
use kube::api::PostParams;
use serde_json::{Value as Json, json};

use crate::setup::{Objects, Running, definition, field, install, until};

#[path = "definitions/setup.rs"]
mod setup;

/// What differs, and why. Paths in the objects; everything else must be the same.
const DIFFERENCES: [(&str, &str); 8] = [
    ("status.managedResources", "kro has no status of single resources"),
    ("internal.kro.run/desired-hash", "tells drift from noise without another apply"),
    ("kro.run/graph-revision-hash", "informational, and never read back"),
    ("spec.versions[0].schema.openAPIV3Schema.properties.status.properties.managedResources", "as above"),
    (
        "spec.versions[0].schema.openAPIV3Schema.properties.status.properties.clusters",
        "as above, for clusters",
    ),
    ("message:GraphAccepted", "mistakes are all named, with their place and what to do"),
    ("message:Ready", "repeats the one above, or that of KindReady"),
    ("message:KindReady", "breaking changes are named by path"),
];

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs kro's controller v0.9.4: set KROSS_KRO to its path"]
async fn definitions_and_instances_look_as_they_do_on_kro() {
    let theirs = Objects { client: shared("kro").await.client().await.unwrap() };
    let ours = Objects { client: shared("kross").await.client().await.unwrap() };
    for objects in [&theirs, &ours] {
        install(&objects.client).await;
    }
    let mut kro = Command::new(std::env::var("KROSS_KRO").unwrap())
        .env("KUBECONFIG", shared("kro").await.admin_path())
        .args(["--metrics-bind-address=0", "--health-probe-bind-address=0"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let running = Running::start("kross", Settings::default()).await;
    let (kros, kross) = tokio::join!(scenario(&theirs), scenario(&ours));
    kro.kill().unwrap();
    kro.wait().unwrap();
    running.stop().await;
    let mut found = Vec::new();
    for ((name, theirs), (_, ours)) in kros.iter().zip(&kross) {
        compare(name, "", theirs, ours, &mut found);
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Steps, and what the API says after each of them.
async fn scenario(objects: &Objects) -> Vec<(String, Json)> {
    let mut seen = Vec::new();
    let mut see = |name: &str, object: Json| seen.push((name.to_owned(), normal(object)));
    objects.create(&definition("web", "Web")).await;
    see("accepted", objects.until_ready("web").await);
    see("crd", objects.get(&objects.crds(), "webs.kro.run").await);
    let revision = |object: &Json| setup::condition(object, "Ready")["status"] == "True";
    see("revision", until(objects.revisions(), "web-r00001".to_owned(), revision).await);

    let instances = objects.namespaced("kro.run", "Web", "webs", "default");
    let instance =
        json!({"apiVersion": "kro.run/v1alpha1", "kind": "Web", "metadata": {"name": "x"}, "spec": {}});
    instances.create(&PostParams::default(), &serde_json::from_value(instance).unwrap()).await.unwrap();
    let ready = |instance: &Json| setup::condition(instance, "Ready")["status"] == "True";
    see("instance", until(instances.clone(), "x".to_owned(), ready).await);
    see("first", objects.get(&objects.config_maps("default"), "x-first").await);
    see("second", objects.get(&objects.config_maps("default"), "x-second").await);

    objects.patch("web", &field("added", "string | default=a")).await;
    see("changed", objects.until_ready("web").await);
    see("changed crd", objects.get(&objects.crds(), "webs.kro.run").await);
    objects.patch("web", &field("size", "string | default=a")).await;
    see("breaking", objects.until_condition("web", "KindReady", "False").await);
    objects.patch("web", &json!({"spec": {"schema": {"spec": {"size": "integer | default=1"}}}})).await;
    see("mended", objects.until_ready("web").await);
    objects.patch("web", &json!({"spec": {"schema": {"status": {"first": "${nobody.x}"}}}})).await;
    see("invalid", objects.until_condition("web", "GraphAccepted", "False").await);

    let mut rival = definition("rival", "Web");
    rival["spec"]["schema"]["shortNames"] = json!(["w"]);
    objects.create(&rival).await;
    see("rival", objects.until_condition("rival", "KindReady", "False").await);
    seen
}

/// Without what is another each time.
fn normal(mut object: Json) -> Json {
    let metadata = object["metadata"].as_object_mut().unwrap();
    for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields"] {
        metadata.remove(field);
    }
    for label in ["kro.run/resource-graph-definition-id", "kro.run/instance-id", "kro.run/kro-version"] {
        if let Some(labels) = metadata.get_mut("labels").and_then(Json::as_object_mut) {
            labels.remove(label);
        }
    }
    for owner in metadata.get_mut("ownerReferences").and_then(Json::as_array_mut).into_iter().flatten() {
        owner["uid"] = Json::Null;
    }
    if object["kind"] == "CustomResourceDefinition" {
        object["status"] = Json::Null;
    }
    for condition in object["status"]["conditions"].as_array_mut().into_iter().flatten() {
        condition["lastTransitionTime"] = Json::Null;
    }
    // Sorted by their times, which have whole seconds: kro takes several passes and seconds where one pass does here.
    if let Some(conditions) = object["status"]["conditions"].as_array_mut() {
        assert_eq!(conditions.last().unwrap()["type"], "Ready");
        conditions.sort_by_key(|condition| condition["type"].as_str().map(str::to_owned));
    }
    object
}

fn compare(name: &str, path: &str, theirs: &Json, ours: &Json, found: &mut Vec<String>) {
    let known = |path: &str| {
        DIFFERENCES
            .iter()
            .any(|(known, _)| path.trim_start_matches('.') == *known || path.ends_with(&format!(".{known}")))
    };
    if theirs == ours || known(path) {
        return;
    }
    match (theirs, ours) {
        (Json::Object(left), Json::Object(right)) => {
            let of_condition =
                left.get("type").and_then(Json::as_str).filter(|_| left.contains_key("reason"));
            let keys: std::collections::BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            for key in keys {
                let inner = match of_condition {
                    Some(kind) if key == "message" && known(&format!("message:{kind}")) => continue,
                    _ => format!("{path}.{key}"),
                };
                let null = Json::Null;
                let (left, right) = (left.get(key).unwrap_or(&null), right.get(key).unwrap_or(&null));
                compare(name, &inner, left, right, found);
            }
        }
        (Json::Array(left), Json::Array(right)) if left.len() == right.len() => {
            for (index, (left, right)) in left.iter().zip(right).enumerate() {
                compare(name, &format!("{path}[{index}]"), left, right, found);
            }
        }
        _ => found.push(format!("{name}: {path}: kro {theirs}, kross {ours}")),
    }
}
