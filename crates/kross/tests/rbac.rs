//! Output of `kross rbac`: every rule with its reason, in a stable order.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::io::Write;
use std::process::{Command, Stdio};

fn rbac(arguments: &[&str], input: &str) -> (i32, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_kross"))
        .arg("rbac")
        .args(arguments)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn snapshot(name: &str, arguments: &[&str], input: &str) {
    let (code, data, notes) = rbac(arguments, input);
    assert_eq!((code, notes.as_str()), (0, ""), "{data}");
    insta::assert_snapshot!(name, data);
    assert_eq!(data, rbac(arguments, input).1, "the order is stable");
}

/// Every kind of read and write, on the hub and in remote clusters.
const EVERYTHING: &str = include_str!("rbac/everything.yaml");

#[test]
fn rules_of_the_controller_on_the_hub() {
    snapshot("hub", &["-"], EVERYTHING);
}

#[test]
fn rules_of_kubeconfigs_in_remote_clusters() {
    snapshot("remote", &["--remote", "-"], EVERYTHING);
}

#[test]
fn roles_with_bindings() {
    let arguments = [
        "--remote",
        "--subject",
        "ServiceAccount:kross/agent",
        "--name",
        "agent",
        "examples/multi-region.yaml",
    ];
    snapshot("bound", &arguments, "");
}

#[test]
fn a_graph_without_cluster_references_needs_no_remote_rules() {
    let (code, data, notes) = rbac(&["--remote", "examples/web-application.yaml"], "");
    assert_eq!((code, data.as_str()), (0, ""));
    assert_eq!(notes, "no rules needed in remote clusters: no resource has a cluster reference\n");
}

#[test]
fn a_definition_with_errors_gets_diagnostics_and_no_roles() {
    let (code, data, notes) = rbac(&["-"], &EVERYTHING.replace("schema.spec.image", "schema.spec.imag"));
    assert_eq!(code, 1, "{data}");
    assert_eq!(data, "", "a pipe into kubectl applies roles or nothing");
    assert!(notes.contains("K0603") && notes.contains("cannot derive RBAC rules"), "{notes}");
    let (code, _, notes) = rbac(&["-"], "kind: ConfigMap");
    assert_eq!((code, notes.as_str()), (2, "error: no ResourceGraphDefinition found\n"));
}

#[test]
fn a_published_cluster_needs_its_targets_and_their_secrets() {
    let definition = "apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: web}
spec:
  target: {kubernetesTarget: {name: edge}}
  schema: {kind: Web, apiVersion: v1alpha1, spec: {name: string}}
  resources:
    - id: config
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: '${schema.spec.name}'}}
";
    let (code, roles, errors) = rbac(&["-"], definition);
    assert_eq!(code, 0, "{errors}");
    assert!(
        roles.contains("kubernetestargets") && roles.contains("read the KubernetesTarget of `config`"),
        "{roles}"
    );
    assert!(roles.contains("its KubernetesTarget names the Secret"), "{roles}");
    let (_, roles, _) = rbac(&["--remote", "-"], definition);
    assert!(roles.contains("the Secret of KubernetesTarget `edge`"), "{roles}");
}
