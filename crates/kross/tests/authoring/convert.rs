//! `kross convert` and `kross new`: definitions from objects.

use serde_json::{Value as Json, json};

use super::{documents, is_valid, kross, write};

const MANIFESTS: &str = include_str!("manifests.yaml");
const LIVE: &str = include_str!("live.yaml");

/// Whether everything in `part` is in `whole`.
fn contains(whole: &Json, part: &Json) -> bool {
    match (whole, part) {
        (Json::Object(whole), Json::Object(part)) => {
            part.iter().all(|(key, part)| whole.get(key).is_some_and(|whole| contains(whole, part)))
        }
        (Json::Array(whole), Json::Array(part)) => {
            whole.len() == part.len() && whole.iter().zip(part).all(|(whole, part)| contains(whole, part))
        }
        _ => whole == part,
    }
}

fn find<'o>(objects: &'o [Json], kind: &str, name: &str) -> &'o Json {
    let found = objects.iter().find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("{kind} {name} is not in {objects:#?}"))
}

/// Renders the instance of a definition that has this name and no spec; objects that exist are observed.
fn rendered(definition: &str, name: &str, observed: &str) -> Vec<Json> {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "definition.yaml", definition);
    let (code, instance, notes) = kross(&["generate", "instance", &file, "--name", name, "-n", "team"], "");
    assert_eq!(code, 0, "{notes}");
    let instance = write(folder.path(), "instance.yaml", &instance);
    let observed = write(folder.path(), "observed.yaml", observed);
    let (code, data, notes) = kross(&["render", &file, "--instance", &instance, "--observed", &observed], "");
    assert_eq!(code, 0, "{notes}\n{definition}");
    assert!(!notes.contains("pending"), "{notes}");
    documents(&data)
}

#[test]
fn manifests_become_a_definition_whose_instance_renders_them() {
    let (code, definition, notes) = kross(&["convert", "-", "--group", "platform.example.com"], MANIFESTS);
    assert_eq!(code, 0, "{notes}\n{definition}");
    insta::assert_snapshot!("converted", definition);
    insta::assert_snapshot!("converted_notes", notes);
    is_valid(&definition);
    let objects = rendered(&definition, "shop", "");
    let mut count = 0;
    for mut manifest in documents(MANIFESTS) {
        let kind = manifest["kind"].as_str().unwrap().to_owned();
        let name = manifest["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if kind == "CustomResourceDefinition" || name.ends_with("-test") {
            continue;
        }
        // What tools note about objects is left out; the namespace is that of the instance.
        let metadata = manifest["metadata"].as_object_mut().unwrap();
        metadata.remove("annotations");
        metadata.remove("namespace");
        if let Some(labels) = metadata.get_mut("labels").and_then(Json::as_object_mut) {
            labels.retain(|key, _| !key.starts_with("helm.sh/") && key != "app.kubernetes.io/managed-by");
        }
        let object = find(&objects, &kind, &name);
        assert!(contains(object, &manifest), "{manifest:#}\n{object:#}\n{definition}");
        count += 1;
    }
    assert_eq!(count, objects.len());
}

#[test]
fn a_running_application_becomes_a_definition_whose_instance_renders_the_same_objects() {
    let (code, definition, notes) = kross(&["new", "-f", "-"], LIVE);
    assert_eq!(code, 0, "{notes}\n{definition}");
    insta::assert_snapshot!("new_from_live_objects", definition);
    is_valid(&definition);
    for server_set in
        ["uid:", "resourceVersion", "status:", "10.96.", "defaultMode", "creationTimestamp", "c2VjcmV0"]
    {
        assert!(!definition.contains(server_set), "{server_set}\n{definition}");
    }
    let objects = rendered(&definition, "web", LIVE);
    let live = documents(LIVE);
    for (kind, name) in [
        ("Deployment", "web"),
        ("Service", "web"),
        ("ConfigMap", "web-config"),
        ("Ingress", "web"),
        ("ServiceAccount", "web"),
    ] {
        // What is rendered is part of what runs: the rest is what the API server has set.
        let mut object = find(&objects, kind, name).clone();
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.retain(|key, _| ["name", "namespace"].contains(&key.as_str()));
        let running = find(&live, kind, name);
        assert!(contains(running, &object), "{running:#}\n{object:#}");
    }
    assert!(
        objects.iter().all(|object| object["kind"] != "ReplicaSet" && object["kind"] != "Secret"),
        "{objects:#?}"
    );
}

#[test]
fn text_that_looks_like_an_expression_stays_text() {
    let script = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata:\n  run.sh: |\n    echo ${HOME} \"${1:-x}\"\n  one: ${TWO}\n";
    let (code, definition, notes) = kross(&["convert", "-"], script);
    assert_eq!(code, 0, "{notes}\n{definition}");
    let objects = rendered(&definition, "web", "");
    assert_eq!(objects[0]["data"]["run.sh"], json!("echo ${HOME} \"${1:-x}\"\n"));
    assert_eq!(objects[0]["data"]["one"], json!("${TWO}"));
}

#[test]
fn references_that_would_make_a_cycle_stay_names() {
    let manifests = "\
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: db, image: postgres}]}
---
apiVersion: v1
kind: Service
metadata: {name: db}
spec:
  clusterIP: None
  selector: {app: db}
  ports: [{port: 5432}]
";
    let (code, definition, notes) = kross(&["convert", "-"], manifests);
    assert_eq!(code, 0, "{notes}\n{definition}");
    assert!(definition.contains("serviceName: ${service.metadata.name}"), "{definition}");
    assert!(definition.contains("app: ${schema.metadata.name}"), "{definition}");
    rendered(&definition, "db", "");
}

#[test]
fn an_object_of_an_unknown_kind_is_converted_and_reported() {
    let manifest = "apiVersion: example.com/v1\nkind: Zookeeper\nmetadata: {name: zoo}\n";
    let (code, definition, notes) = kross(&["convert", "-"], manifest);
    assert_eq!(code, 1);
    assert!(definition.contains("kind: Zookeeper") && notes.contains("error[K0804]"), "{definition}{notes}");
    let (code, _, notes) = kross(
        &["convert", "-"],
        "kind: CustomResourceDefinition\napiVersion: apiextensions.k8s.io/v1\nmetadata: {name: x}\n",
    );
    assert!(code == 2 && notes.contains("there is no object to make a definition of: left out"), "{notes}");
}

#[test]
fn every_template_is_valid() {
    let (_, _, help) = kross(&["new", "--template", "unknown"], "");
    let line = help.lines().find(|line| line.contains("possible values")).unwrap();
    let names = line.split("possible values: ").nth(1).unwrap().trim_end_matches(']');
    let mut count = 0;
    for name in names.split(", ") {
        let (code, definition, notes) = kross(&["new", "--template", name], "");
        assert_eq!(code, 0, "{notes}");
        is_valid(&definition);
        count += 1;
    }
    assert!(count >= 7, "{help}");
    let (code, _, notes) = kross(&["new"], "");
    assert!(code == 2 && notes.contains("name objects"), "{notes}");
}
