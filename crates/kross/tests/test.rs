//! `kross test`: the tests of the examples pass, each of them notices a mistake, and fixtures with mistakes are diagnostics.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Exit code, standard output, standard error.
type Ran = (i32, String, String);

fn kross(folder: &Path, arguments: &[&str]) -> Ran {
    let output =
        Command::new(env!("CARGO_BIN_EXE_kross")).args(arguments).current_dir(folder).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn the_tests_of_all_examples_pass() {
    let (code, data, notes) = kross(&repository(), &["test", "examples"]);
    assert_eq!(code, 0, "{data}{notes}");
    assert!(notes.contains(" passed, 0 failed"), "{notes}");
}

#[test]
fn every_example_with_a_definition_has_tests_that_take_every_branch() {
    let (code, data, notes) = kross(&repository(), &["test", "examples", "--coverage", "-o", "json"]);
    assert_eq!(code, 0, "{data}{notes}");
    let report: serde_json::Value = serde_json::from_str(&data).unwrap();
    let missing = report["coverage"]["missing"].as_array().unwrap();
    // The lists of the examples have at least one item, as their schemas say.
    let open: Vec<_> = missing.iter().filter(|it| it["what"] != "`forEach` was never empty").collect();
    assert!(open.is_empty(), "{open:#?}");
    for folder in ["examples", "examples/targets"] {
        for entry in fs::read_dir(repository().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let has_definition = path.extension().is_some_and(|extension| extension == "yaml")
                && fs::read_to_string(&path).unwrap().contains("\nkind: ResourceGraphDefinition");
            let stem = path.file_stem().unwrap().to_str().unwrap();
            let fixture = repository().join(folder).join("tests").join(format!("{stem}_test.yaml"));
            assert!(!has_definition || fixture.exists(), "{folder}/{stem}.yaml has no tests");
        }
    }
}

/// A mistake in the logic of an example: the file, what is replaced, by what, and a part of what the test reports.
const MISTAKES: [(&str, &str, &str, &str); 14] = [
    (
        "multi-region",
        "region: ${region}\n",
        "region: ${schema.spec.regions[0]}\n",
        "`metadata.labels.region` is `\"eu\"`",
    ),
    (
        "multi-region",
        "replicas: ${schema.spec.replicas}",
        "replicas: 2",
        "`spec.replicas` is `2`, expected `3`",
    ),
    (
        "regional-failover",
        "name: ${schema.spec.standbyRegion}-kubeconfig",
        "name: ${schema.spec.region}-kubeconfig",
        "standby",
    ),
    ("regional-failover", "duration('2m')", "duration('2h')", "`standby` was not created"),
    (
        "regional-failover",
        "region: \"${resources.standby.ready ? schema.spec.standbyRegion : schema.spec.region}\"\n",
        "region: ${schema.spec.region}\n",
        "`data.region` is `\"eu\"`, expected `\"us\"`",
    ),
    (
        "environment-promotion",
        "        - ${staging.status.availableReplicas == staging.spec.replicas}\n",
        "",
        "unexpected: updated Deployment default/shop in cluster `platform/production-kubeconfig`",
    ),
    (
        "environment-promotion",
        "        - ${staging.status.observedGeneration >= staging.metadata.generation}\n        - ${staging.status.updatedReplicas == staging.spec.replicas}\n",
        "",
        "unexpected: updated Deployment default/shop in cluster `platform/production-kubeconfig`",
    ),
    (
        "environment-promotion",
        "image: ${staging.spec.template.spec.containers[0].image}",
        "image: ${schema.spec.image}",
        "production",
    ),
    ("three-clusters", "value: ${database.spec.clusterIP}:5432", "value: database:5432", "applications"),
    ("web-application", "        - ${schema.spec.ingress.enabled}", "        - ${true}", "ingress"),
    (
        "web-application",
        "      readyWhen:\n        - ${deployment.status.availableReplicas == deployment.spec.replicas}\n",
        "",
        "unexpected: created Service default/web",
    ),
    (
        "react-to-failure",
        "resources.cache.reason == 'Unreachable'",
        "resources.cache.state == 'Error'",
        "replicas",
    ),
    (
        "database-with-backup",
        "backup.status.succeeded == 1",
        "backup.status.succeeded >= 0",
        "unexpected: deleted StatefulSet default/orders",
    ),
    ("keep-data", "'Retain' : 'Delete'", "'Delete' : 'Retain'", "`data` was not released"),
];

#[test]
fn a_mistake_in_the_logic_of_an_example_is_noticed_by_its_tests() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("tests")).unwrap();
    for (name, right, wrong, report) in MISTAKES {
        let text = fs::read_to_string(repository().join(format!("examples/{name}.yaml"))).unwrap();
        assert!(text.contains(right), "{name} has no {right}");
        fs::write(folder.path().join(format!("{name}.yaml")), text.replacen(right, wrong, 1)).unwrap();
        let fixture = format!("tests/{name}_test.yaml");
        fs::copy(repository().join("examples").join(&fixture), folder.path().join(&fixture)).unwrap();
        let (code, data, notes) = kross(folder.path(), &["test", &fixture]);
        assert_eq!(code, 1, "{name}: {right} => {wrong}\n{data}{notes}");
        assert!(
            data.contains("error[K1204]") && data.contains(report),
            "{name}: {right} => {wrong}\n{data}{notes}"
        );
    }
}

const DEFINITION: &str = "\
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: shop}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Shop
    spec:
      text: string
  resources:
    - id: note
      template:
        apiVersion: v1
        kind: ConfigMap
        metadata:
          name: note
        data:
          text: ${schema.spec.text}
";

fn folder(fixture: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("shop.yaml"), DEFINITION).unwrap();
    fs::write(folder.path().join("shop_test.yaml"), fixture).unwrap();
    folder
}

const HEAD: &str = "\
instance: {apiVersion: kro.run/v1alpha1, kind: Shop, metadata: {name: a}, spec: {text: hi}}
tests:
";

#[test]
fn mistakes_in_fixtures_are_diagnostics_with_their_positions() {
    let fixture = "\
instance: {apiVersion: kro.run/v1alpha1, kind: Shop, metadata: {name: a}, spec: {txt: hi}}
tests:
  - name: one
    steps:
      - after: soon
        expct: {}
        clusters: {eu: Lost}
        status: {nte: {}}
        expect:
          conditons: {Ready: 'True'}
          created: [nota]
          objects: {local: [{kind: ConfigMap}]}
  - steps: []
";
    let (code, data, notes) = kross(folder(fixture).path(), &["test"]);
    assert_eq!(code, 1, "{data}{notes}");
    insta::assert_snapshot!("mistakes", data);
    assert!(notes.contains("0 passed, 0 failed, 1 files are invalid"), "{notes}");
}

#[test]
fn a_failure_shows_the_place_in_the_fixture_and_in_the_definition() {
    let fixture = format!(
        "{HEAD}  - name: copies the text\n    steps:\n      - expect:\n          objects:\n            local:\n              - kind: ConfigMap\n                metadata: {{name: note}}\n                data: {{text: bye}}\n"
    );
    let folder = folder(&fixture);
    let (code, data, notes) = kross(folder.path(), &["test"]);
    assert_eq!(code, 1, "{data}{notes}");
    insta::assert_snapshot!("failure", data);
    let (_, junit, _) = kross(folder.path(), &["test", "-o", "junit"]);
    assert!(
        junit.contains("<testsuites name=\"kross test\" tests=\"1\" failures=\"1\" errors=\"0\">"),
        "{junit}"
    );
    assert!(junit.contains("expected `&quot;bye&quot;`"), "{junit}");
    let (_, json, _) = kross(folder.path(), &["test", "-o", "json"]);
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    let diagnostic = &report["files"][0]["tests"][0]["failures"][0]["diagnostic"];
    assert_eq!(diagnostic["code"], "K1204", "{json}");
}

#[test]
fn a_snapshot_is_written_with_update_and_compared_without() {
    let folder =
        folder(&format!("{HEAD}  - name: The whole outcome!\n    steps: [{{expect: {{snapshot: true}}}}]\n"));
    let (code, data, _) = kross(folder.path(), &["test"]);
    assert!(code == 1 && data.contains("there is no snapshot"), "{data}");
    let (code, data, notes) = kross(folder.path(), &["test", "--update"]);
    assert_eq!(code, 0, "{data}{notes}");
    let path = folder.path().join("snapshots/shop_test/the-whole-outcome-1.snap");
    let snapshot = fs::read_to_string(&path).unwrap();
    assert!(
        snapshot.contains("created ConfigMap default/note") && !snapshot.contains("kro.run/"),
        "{snapshot}"
    );
    assert_eq!(kross(folder.path(), &["test"]).0, 0);
    fs::write(folder.path().join("shop.yaml"), DEFINITION.replace("text: ${schema.spec.text}", "text: x"))
        .unwrap();
    let (code, data, _) = kross(folder.path(), &["test"]);
    assert_eq!(code, 1, "{data}");
    insta::assert_snapshot!("differs", data);
}

#[test]
fn a_misspelled_cluster_and_a_status_without_an_object_fail_a_test() {
    let fixture = format!(
        "{HEAD}  - name: one\n    steps:\n      - clusters: {{eu: Unreachable}}\n        refuse: {{note: denied}}\n        status: {{note: {{}}}}\n"
    );
    let (code, data, _) = kross(folder(&fixture).path(), &["test", "--format=x"]);
    assert_eq!(code, 2, "{data}");
    let (code, data, _) = kross(folder(&fixture).path(), &["test"]);
    assert_eq!(code, 1, "{data}");
    assert!(data.contains("the instance uses no cluster `eu`"), "{data}");
    assert!(data.contains("`note` has no object whose status could be set"), "{data}");
}

#[test]
fn a_changed_definition_of_a_step_prunes_what_it_does_not_have_any_more() {
    let fixture = format!(
        "{HEAD}  - name: one\n    steps:\n      - expect: {{created: [note]}}\n      - definition: next.yaml\n        expect: {{created: [memo], pruned: [note], objects: {{local: [{{kind: ConfigMap, metadata: {{name: memo}}}}]}}}}\n"
    );
    let folder = folder(&fixture);
    let next = DEFINITION.replace("id: note", "id: memo").replace("name: note", "name: memo");
    fs::write(folder.path().join("next.yaml"), next).unwrap();
    let (code, data, notes) = kross(folder.path(), &["test"]);
    assert_eq!(code, 0, "{data}{notes}");
    let (code, data, _) = kross(folder.path(), &["test", "--run", "none"]);
    assert_eq!(code, 2, "{data}");
}

#[test]
fn coverage_names_the_outcomes_that_no_test_has_seen() {
    let folder = folder(&format!("{HEAD}  - name: one\n    steps: [{{expect: {{state: ACTIVE}}}}]\n"));
    let text = DEFINITION
        .replace("    - id: note\n", "    - id: note\n      includeWhen: ['${schema.spec.text != \"\"}']\n");
    fs::write(folder.path().join("shop.yaml"), text).unwrap();
    let (code, data, _) = kross(folder.path(), &["test", "--coverage"]);
    assert_eq!(code, 0, "{data}");
    assert!(data.contains("  50%    1 of 2"), "{data}");
    assert!(data.contains("shop.yaml:12:21: `includeWhen` was never false"), "{data}");
}
