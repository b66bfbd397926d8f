//! Output and exit codes of `kross validate` and `kross eval`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Exit code, standard output, standard error.
type Ran = (i32, String, String);

fn kross(arguments: &[&str], input: &str) -> Ran {
    let mut child = Command::new(env!("CARGO_BIN_EXE_kross"))
        .args(arguments)
        .current_dir(repository())
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

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

const INVALID: &str = "\
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata:
  name: web
spec:
  schema:
    kind: Web
    apiVersion: v1alpha1
    spec:
      name: string
      replicas: intger
  resources:
    - id: web-app
      template:
        apiVersion: apps/v1
        kind: Deployment
        metadata:
          name: ${schema.spec.nmae}
        spec:
          replica: 3
          selector: {}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: not-a-definition
";

#[test]
fn every_example_is_valid() {
    let (code, data, notes) = kross(&["validate", "examples"], "");
    assert_eq!((code, data.as_str()), (0, ""), "{notes}");
    assert!(notes.ends_with("definitions are valid\n"), "{notes}");
}

#[test]
fn every_error_of_a_file_is_reported_with_its_position() {
    let (code, data, notes) = kross(&["validate", "--format", "short", "-"], INVALID);
    assert_eq!(code, 1, "{notes}");
    assert_eq!(
        data,
        "<stdin>:11:17: error[K0304]: unknown type: `intger`\n\
         <stdin>:13:11: error[K0222]: the id `web-app` is not in lower camel case\n\
         <stdin>:18:31: error[K0603]: `Web.spec` has no field `nmae`\n\
         <stdin>:20:11: error[K0701]: `DeploymentSpec` has no field `replica`\n"
    );
    assert_eq!(notes, "4 errors\nfor details, run `kross explain K0304` (or any other code above)\n");
}

#[test]
fn a_folder_names_the_files_that_were_skipped_and_a_misspelled_kind_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let example = repository().join("examples/web-application.yaml");
    write("a.yaml", &std::fs::read_to_string(example).unwrap());
    write("b.yaml", "apiVersion: v1\nkind: ConfigMap\n---\napiVersion: v1\nkind: Secret\n");
    write("c.yaml", "# nothing\n");
    let path = folder.path().to_str().unwrap().to_owned();
    let (code, data, notes) = kross(&["validate", &path], "");
    assert_eq!((code, data.as_str()), (0, ""), "{notes}");
    assert_eq!(
        notes,
        format!(
            "skipped {path}/c.yaml: it has no document\n\
             skipped {path}/b.yaml: no ResourceGraphDefinition, only `ConfigMap`, `Secret`\n\
             1 definition is valid\n"
        )
    );
    write("d.yaml", "apiVersion: kro.run/v1alpha1\nkind: ResourceGraphDefintion\n");
    let (code, data, notes) = kross(&["validate", "--format", "short", &path], "");
    assert_eq!(code, 1, "{notes}");
    assert_eq!(data, format!("{path}/d.yaml:2:7: error[K0234]: unknown kind `ResourceGraphDefintion`\n"));
    write(
        "d.yaml",
        "apiVersion: kro.run/v1alpha1\nknd: ResourceGraphDefinition\nspec: {schema: {}, resources: []}\n",
    );
    let (code, data, notes) = kross(&["validate", "--format", "short", &path], "");
    assert_eq!(code, 1, "{notes}");
    assert!(data.contains("the document has the fields of a definition, but no `kind`"), "{data}");
}

/// The README's own shape: the instance names the cluster.
const DEFERRED: &str = "\
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: web}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Web
    spec: {region: string}
    status: {address: '${db.spec.clusterIPP}'}
  cluster: {name: '${schema.spec.region}-kubeconfig', namespace: platform}
  resources:
    - id: db
      template:
        apiVersion: v1
        kind: Service
        metadata: {name: db}
        spec: {prots: [{port: 80}]}
    - id: app
      template:
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: app}
        spec:
          selector: {}
          template:
            spec: {containers: [{name: app, imagee: nginx}]}
    - id: old
      template:
        apiVersion: apps/v2
        kind: Deployment
        metadata: {name: old}
    - id: custom
      template:
        apiVersion: example.com/v1
        kind: Zookeeper
        metadata: {name: custom}
";

#[test]
fn a_cluster_that_depends_on_the_instance_is_checked_against_the_schemas_at_hand() {
    let (code, data, notes) = kross(&["validate", "--format", "short", "-"], DEFERRED);
    assert_eq!(code, 1, "{notes}");
    let lines: Vec<&str> = data.lines().map(|line| line.split_once(": ").unwrap().1).collect();
    assert_eq!(
        lines,
        [
            "error[K0603]: `ServiceSpec` has no field `clusterIPP`",
            "error[K0701]: `ServiceSpec` has no field `prots`",
            "error[K0701]: `Container` has no field `imagee`",
            "error[K0709]: `Deployment` does not exist in `apps/v2`",
            "warning[K0804]: unknown kind `Zookeeper` in `example.com/v1`",
        ]
    );
    let (_, data, _) = kross(&["validate", "-"], DEFERRED);
    let note =
        "note: a cluster that depends on the instance is assumed to have the built-in kinds of Kubernetes";
    assert_eq!(data.matches(note).count(), 5, "{data}");
    let run = |arguments: &[&str]| {
        let (code, data, notes) =
            kross(&[&["validate", "--format", "short"], arguments, &["-"]].concat(), DEFERRED);
        (
            code,
            data.matches("error[").count(),
            data.matches("warning[").count(),
            notes.contains("1 definition is valid"),
        )
    };
    assert_eq!(run(&["--deferred-checks=warn"]), (0, 0, 5, true));
    assert_eq!(run(&["--deferred-checks=ignore"]), (0, 0, 0, true));
    assert_eq!(run(&["--unknown-kinds=error"]), (1, 5, 0, false));
    assert_eq!(run(&["--unknown-kinds=ignore"]), (1, 3, 0, false));
}

#[test]
fn one_flag_governs_kinds_without_a_schema_in_every_cluster() {
    let local =
        DEFERRED.replace("  cluster: {name: '${schema.spec.region}-kubeconfig', namespace: platform}\n", "");
    let fixed = DEFERRED.replace("${schema.spec.region}", "eu");
    for definition in [&local, &fixed] {
        let valid = definition
            .replace("clusterIPP", "clusterIP")
            .replace("prots", "ports")
            .replace("imagee", "image")
            .replace("apps/v2", "apps/v1")
            .replace(
                "metadata: {name: old}",
                "metadata: {name: old}\n        spec: {selector: {}, template: {}}",
            );
        let run =
            |level: &str| kross(&["validate", "--format", "short", "--unknown-kinds", level, "-"], &valid);
        let (code, data, _) = run("error");
        assert!(code == 1 && data.contains("error[K0804]: unknown kind `Zookeeper`"), "{data}");
        let (code, data, notes) = run("warn");
        assert!(code == 0 && data.contains("warning[K0804]: unknown kind `Zookeeper`"), "{data}{notes}");
        let (code, data, notes) = run("ignore");
        assert_eq!((code, data.as_str()), (0, ""), "{notes}");
    }
}

#[test]
fn json_output_has_positions() {
    let (code, data, _) = kross(&["validate", "--format", "json", "-"], INVALID);
    assert_eq!(code, 1);
    let found: serde_json::Value = serde_json::from_str(&data).unwrap();
    assert_eq!(found.as_array().unwrap().len(), 4);
    assert_eq!((&found[0]["line"], &found[0]["column"]), (&11.into(), &17.into()));
}

#[test]
fn kinds_of_other_definitions_and_of_crds_are_known() {
    let inner = INVALID
        .replace("intger", "integer")
        .replace("web-app", "app")
        .replace("nmae", "name")
        .replace("replica: 3", "replicas: 3");
    let outer = inner.replace("name: web\n", "name: outer\n").replace("kind: Web\n", "kind: Outer\n").replace(
        "        apiVersion: apps/v1\n        kind: Deployment\n        metadata:\n          name: ${schema.spec.name}\n        spec:\n          replicas: 3\n          selector: {}\n",
        "        apiVersion: kro.run/v1alpha1\n        kind: Web\n        metadata:\n          name: inner\n        spec:\n          name: ${schema.spec.name}\n",
    );
    let (code, data, notes) = kross(&["validate", "-"], &format!("{inner}---\n{outer}"));
    assert_eq!((code, data.as_str()), (0, ""), "{notes}");
    let (code, data, _) = kross(&["validate", "--format", "short", "-"], &outer);
    assert_eq!(code, 1);
    assert!(data.contains("error[K0804]: unknown kind `Web` in `kro.run/v1alpha1`"), "{data}");
    let (_, data, _) = kross(&["validate", "-"], &outer.replace("kind: Web\n", "kind: Zookeeper\n"));
    assert!(data.contains("help: pass its CustomResourceDefinition with `--crds`"), "{data}");
}

#[test]
fn a_command_that_cannot_run_exits_with_two() {
    for (arguments, expected) in [
        (vec!["validate", "no/such/file.yaml"], "cannot read no/such/file.yaml"),
        (vec!["validate", "-"], "no ResourceGraphDefinition found"),
        (vec!["validate", "examples", "--kubernetes", "1.1"], "there are no schemas for Kubernetes 1.1"),
        (vec!["eval", "x", "--with", "x"], "use `--with NAME=PATH`"),
        (vec!["validate"], "required"),
    ] {
        let (code, _, notes) = kross(&arguments, "kind: Other\n");
        assert_eq!(code, 2, "{arguments:?}: {notes}");
        assert!(notes.contains(expected), "{arguments:?}: {notes}");
    }
}

#[test]
fn an_expression_is_evaluated_with_documents_bound_to_variables() {
    let instance = "apiVersion: example.com/v1\nkind: Web\nspec: {name: web, replicas: 3}\n";
    let eval = |expression: &str| kross(&["eval", expression, "--with", "schema=-"], instance);
    assert_eq!(
        eval("schema.spec.name + '-' + string(schema.spec.replicas)"),
        (0, "\"web-3\"\n".into(), String::new())
    );
    assert_eq!(eval("${schema.spec.replicas * 2}").1, "6\n");
    assert_eq!(eval("-5 / 2"), (0, "-2\n".into(), String::new()), "a minus begins no flag");
    assert_eq!(kross(&["eval", "--type", "-5 / 2"], "").1, "int\n");
    assert_eq!(eval("{'a': [schema.spec.name]}").1, "{\n  \"a\": [\n    \"web\"\n  ]\n}\n");
}

#[test]
fn an_object_of_a_known_kind_has_the_types_of_its_schema() {
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {creationTimestamp: '2026-01-02T03:04:05Z'}\ndata: {password: c2VjcmV0}\n";
    let eval = |arguments: &[&str]| kross(&[&["eval", "--with", "secret=-"], arguments].concat(), secret);
    assert_eq!(eval(&["string(secret.data.password)"]).1, "\"secret\"\n");
    assert_eq!(eval(&["secret.metadata.creationTimestamp.getFullYear()"]).1, "2026\n");
    assert_eq!(eval(&["--type", "secret.data"]).1, "map(string, bytes)\n");
}

#[test]
fn an_invalid_expression_is_shown_with_its_position() {
    let (code, data, notes) = kross(&["eval", "1 + 'a'"], "");
    assert_eq!((code, data.as_str()), (1, ""));
    assert!(notes.contains("error[K0604]") && notes.contains("<expression>:1:1"), "{notes}");
    assert_eq!(kross(&["eval", "[1][3]"], "").0, 1);
    let (_, _, notes) = kross(&["eval", "schema.spec.foo"], "");
    assert!(notes.contains("help: bind a document to it with `--with schema=FILE`"), "{notes}");
    assert_eq!(kross(&["eval", "1 / 0"], "").0, 1);
}

#[test]
fn an_expression_that_fails_is_shown_with_help() {
    let notes = |expression: &str| kross(&["eval", expression], "").2;
    insta::assert_snapshot!("not_there_yet", notes("{'name': 'web'}.nmae"));
    insta::assert_snapshot!("evaluation_failed", notes("10 / (2 - 2)"));
}
