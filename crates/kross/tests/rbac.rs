//! What `kross rbac` prints: every rule with its reason, in a stable order.

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
    assert_eq!(data, rbac(arguments, input).1, "the same every time");
}

/// Every way to read and to write, here and over there.
const EVERYTHING: &str = include_str!("rbac/everything.yaml");

#[test]
fn a_graph_over_many_clusters_needs_this_on_the_hub() {
    snapshot("hub", &["-"], EVERYTHING);
}

#[test]
fn a_graph_over_many_clusters_needs_this_over_there() {
    snapshot("remote", &["--remote", "-"], EVERYTHING);
}

#[test]
fn an_example_with_bindings() {
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
fn a_graph_of_one_cluster_needs_nothing_over_there() {
    let (code, data, notes) = rbac(&["--remote", "examples/web-application.yaml"], "");
    assert_eq!((code, data.as_str()), (0, ""));
    assert_eq!(notes, "nothing is needed over there: no resource has a cluster reference\n");
}

#[test]
fn mistakes_are_shown_and_no_roles() {
    let (code, data, notes) = rbac(&["-"], &EVERYTHING.replace("schema.spec.image", "schema.spec.imag"));
    assert_eq!(code, 1, "{data}");
    assert_eq!(data, "", "whoever pipes it into kubectl gets roles or nothing");
    assert!(notes.contains("K0603") && notes.contains("without mistakes"), "{notes}");
    let (code, _, notes) = rbac(&["-"], "kind: ConfigMap");
    assert_eq!(
        (code, notes.as_str()),
        (2, "error: there is no ResourceGraphDefinition among the documents\n")
    );
}
