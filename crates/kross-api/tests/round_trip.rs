//! Tests that deserializing and serializing an object neither adds nor removes fields.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::path::Path;

use kross_api::{GraphRevision, ResourceGraphDefinition, Snapshot};
use serde_json::{Value, json};

fn fixtures(folder: &str) -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(folder);
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let read = |path: &std::path::PathBuf| {
        let text = std::fs::read_to_string(path).unwrap();
        (path.file_name().unwrap().to_string_lossy().into_owned(), serde_saphyr::from_str(&text).unwrap())
    };
    files.iter().map(read).collect()
}

#[test]
fn definitions_round_trip() {
    let all: Vec<_> = fixtures("kro").into_iter().chain(fixtures("kross")).collect();
    assert!(all.len() >= 6);
    for (name, written) in all {
        let definition: ResourceGraphDefinition = serde_json::from_value(written.clone()).expect(&name);
        assert_eq!(serde_json::to_value(&definition).unwrap(), written, "{name}");
    }
}

#[test]
fn a_revision_snapshot_contains_the_unchanged_spec() {
    for (name, written) in fixtures("kro") {
        let definition: ResourceGraphDefinition = serde_json::from_value(written.clone()).expect(&name);
        let snapshot = Snapshot { name: name.clone(), generation: 1, spec: definition.spec };
        assert_eq!(serde_json::to_value(snapshot).unwrap()["spec"], written["spec"], "{name}");
    }
}

#[test]
fn a_revision_round_trips() {
    let written = json!({
        "apiVersion": "internal.kro.run/v1alpha1",
        "kind": "GraphRevision",
        "metadata": {"name": "web-r00001", "labels": {"kro.run/owned": "true"}},
        "spec": {"revision": 1, "snapshot": {"name": "web", "generation": 2, "spec": fixtures("kro")[0].1["spec"]}},
        "status": {"topologicalOrder": ["a"], "conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": ""}]},
    });
    let revision: GraphRevision = serde_json::from_value(written.clone()).unwrap();
    assert_eq!(serde_json::to_value(&revision).unwrap(), written);
}
