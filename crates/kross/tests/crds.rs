//! `kross crds` prints YAML for `kubectl apply -f -`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::process::{Command, Stdio};

#[test]
fn prints_every_definition_as_a_yaml_stream() {
    let output = Command::new(env!("CARGO_BIN_EXE_kross")).arg("crds").output().unwrap();
    assert!(output.status.success());
    assert!(output.stderr.is_empty());
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.trim_end(), kross_api::crds_yaml(&kross_api::crds()).trim_end());
    assert_eq!(text.matches("---\n").count(), kross_api::crds().len());
    for name in ["resourcegraphdefinitions.kro.run", "kubernetestargets.workload.crossplane.io"] {
        assert!(text.contains(&format!("  name: {name}\n")), "{name}");
    }
}

#[test]
fn leaves_out_the_kinds_of_targets_on_request() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kross"));
    let output = command.args(["crds", "--without-targets"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut expected = kross_api::graph_crds();
    expected.push(kross_api::connection_crd());
    assert_eq!(text.trim_end(), kross_api::crds_yaml(&expected).trim_end());
    assert!(!text.contains("crossplane.io"), "{text}");
}

#[test]
fn exits_with_zero_if_the_reader_closes_the_pipe() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kross"));
    let mut child = command.arg("crds").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0));
}
