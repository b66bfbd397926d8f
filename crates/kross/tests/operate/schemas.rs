//! The schemas of a cluster for commands that need none: fetched when they are needed, or from a folder.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::world::{World, config_map};

/// Exit code and both outputs of `kross` with the kubeconfig of the hub in the environment.
fn kross(world: &World, arguments: &[&str]) -> (i32, String) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_kross"));
    let output = program.args(arguments).env("KUBECONFIG", world.admin_path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.code().unwrap(), text.into_owned())
}

/// A definition whose resource is of a kind that only the cluster knows.
fn definition(folder: &Path, name: &str, cluster: &str, field: &str) -> String {
    let path = folder.join(format!("{name}.yaml"));
    let text = format!(
        "apiVersion: kro.run/v1alpha1\nkind: ResourceGraphDefinition\nmetadata: {{name: {name}}}\nspec:\n  schema: {{apiVersion: v1alpha1, kind: Outer, spec: {{}}}}\n  resources:\n    - id: inner\n{cluster}      template: {{apiVersion: kro.run/v1alpha1, kind: Pulled, metadata: {{name: a}}, spec: {{{field}: x}}}}\n"
    );
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_are_validated_against_the_schemas_of_a_cluster() {
    let world = World::new().await;
    world.define("Pulled", json!([config_map("a", false, "${schema.spec.text}")])).await;
    let kubeconfig = std::fs::read_to_string(world.admin_path()).unwrap();
    let context = kubeconfig.lines().find_map(|line| line.trim().strip_prefix("current-context:"));
    let context = context.unwrap().trim().trim_matches('"').to_owned();
    let folder = tempfile::tempdir().unwrap();
    let schemas = folder.path().join("schemas").to_str().unwrap().to_owned();

    let (code, text) = kross(&world, &["schemas", "pull", &context, &schemas]);
    assert!(code == 0 && text.contains(" 0 unchanged, 0 removed"), "{text}");
    let (code, text) = kross(&world, &["schemas", "pull", &context, &schemas]);
    assert!(code == 0 && text.contains("unchanged"), "{text}");

    let right = definition(folder.path(), "right", "", "text");
    let wrong = definition(folder.path(), "wrong", "", "txt");
    let (code, text) = kross(&world, &["validate", &right]);
    assert!(code == 1 && text.contains("Pulled"), "{text}");
    for level in ["warn", "ignore"] {
        let (code, text) = kross(&world, &["validate", &format!("--unknown-kinds={level}"), &right]);
        assert_eq!(code, 0, "{text}");
    }
    let from_context = format!("--from-cluster={context}");
    for source in [vec!["--schemas", schemas.as_str()], vec!["--from-cluster"], vec![from_context.as_str()]] {
        let validate = |file: &str| kross(&world, &[vec!["validate"], source.clone(), vec![file]].concat());
        let (code, text) = validate(&right);
        assert_eq!(code, 0, "{source:?}: {text}");
        let (code, text) = validate(&wrong);
        assert!(code == 1 && text.contains("has no field `txt`"), "{source:?}: {text}");
    }

    let cluster = "      cluster: {name: eu-kubeconfig, namespace: platform}\n";
    let remote = definition(folder.path(), "remote", cluster, "text");
    assert_eq!(kross(&world, &["validate", &remote]).0, 1);
    let (code, text) = kross(&world, &["validate", "--schemas", &format!("eu={schemas}"), &remote]);
    assert_eq!(code, 0, "{text}");
    let (code, text) = kross(&world, &["validate", "--schemas", &format!("us={schemas}"), &remote]);
    assert_eq!(code, 1, "{text}");
    let (code, text) = kross(&world, &["validate", "--schemas", folder.path().to_str().unwrap(), &right]);
    assert!(code == 2 && text.contains("index.json"), "{text}");
}
