//! The commands for authors: `fmt`, `graph`, `generate`, `convert`, `new`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value as Json;

#[path = "authoring/convert.rs"]
mod convert;
#[path = "authoring/generate.rs"]
mod generate;
#[path = "authoring/graph.rs"]
mod graph;
#[path = "authoring/integrations.rs"]
mod integrations;

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Runs kross in the repository. Returns the exit code, standard output and standard error.
fn kross(arguments: &[&str], input: &str) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kross"));
    command.args(arguments).current_dir(repository()).env("NO_COLOR", "1");
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writer = std::thread::spawn(move || {
        // A command that does not read its input closes it.
        let _ = stdin.write_all(input.as_bytes());
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// The documents of a YAML stream.
fn documents(text: &str) -> Vec<Json> {
    let parts = text.split("\n---\n").filter(|part| !part.trim().is_empty());
    parts.map(|part| serde_saphyr::from_str(part).unwrap()).collect()
}

fn example(name: &str) -> String {
    format!("examples/{name}.yaml")
}

const UNFORMATTED: &str = "kind: ResourceGraphDefinition\napiVersion: kro.run/v1alpha1\nmetadata: {name: web}\nspec:\n  schema: {apiVersion: v1, kind: Web, spec: {text: string}}\n  resources:\n  - id: map\n    template: # the object\n      apiVersion: v1\n      kind: ConfigMap\n      immutable: yes\n      metadata:\n          name: ${ schema.metadata.name+'-x' }\n";

const FORMATTED: &str = "apiVersion: kro.run/v1alpha1\nkind: ResourceGraphDefinition\nmetadata: {name: web}\nspec:\n  schema: {apiVersion: v1, kind: Web, spec: {text: string}}\n  resources:\n    - id: map\n      template: # the object\n        apiVersion: v1\n        kind: ConfigMap\n        metadata:\n          name: ${schema.metadata.name + '-x'}\n        immutable: true\n";

#[test]
fn files_are_formatted_in_place_and_standard_input_to_standard_output() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.yaml");
    std::fs::write(&file, UNFORMATTED).unwrap();
    std::fs::write(folder.path().join("b.json"), "{ }").unwrap();
    let path = file.to_str().unwrap();
    let all = folder.path().to_str().unwrap();
    let (code, data, notes) = kross(&["fmt", "--check", all], "");
    assert_eq!((code, data), (1, format!("{path}\n")));
    assert_eq!(notes, "1 file is not formatted; run `kross fmt`\n");
    let (code, data, _) = kross(&["fmt", "--check", "--diff", all], "");
    assert_eq!(code, 1);
    assert!(
        data.contains("\n-apiVersion: kro.run/v1alpha1\n") && data.contains("\n+    - id: map\n"),
        "{data}"
    );
    assert_eq!(kross(&["fmt", "--diff", all], "").0, 0);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), UNFORMATTED, "a check writes nothing");
    assert_eq!(kross(&["fmt", all], ""), (0, format!("{path}\n"), "1 file formatted, 0 unchanged\n".into()));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), FORMATTED);
    assert_eq!(kross(&["fmt", all], ""), (0, String::new(), "0 files formatted, 1 unchanged\n".into()));
    assert_eq!(kross(&["fmt", "--check", all], "").0, 0);
    assert_eq!(kross(&["fmt", "-"], UNFORMATTED), (0, FORMATTED.into(), String::new()));
    let (code, _, notes) = kross(&["fmt", folder.path().join("b.json").to_str().unwrap()], "");
    assert!(code == 2 && notes.contains("JSON files are not formatted"), "{notes}");
}

#[test]
fn an_invalid_file_is_reported_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("a.yaml", UNFORMATTED);
    write("b.yaml", "a: [1\n");
    write("c.yaml", "%YAML 1.2\n---\na: 1\n");
    let (code, data, notes) = kross(&["fmt", folder.path().to_str().unwrap()], "");
    assert_eq!(code, 1, "{notes}");
    assert!(data.ends_with("a.yaml\n") && data.lines().count() == 1, "{data}");
    assert!(notes.contains("error[K0102]") && notes.contains("error[K0115]"), "{notes}");
    assert!(notes.ends_with("1 file formatted, 0 unchanged\n"), "{notes}");
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!((read("b.yaml").as_str(), read("c.yaml").as_str()), ("a: [1\n", "%YAML 1.2\n---\na: 1\n"));
}

#[cfg(unix)]
#[test]
fn permissions_and_links_stay() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("file.yaml"), folder.path().join("link.yaml"));
    std::fs::write(&file, UNFORMATTED).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink("file.yaml", &link).unwrap();
    assert_eq!(kross(&["fmt", link.to_str().unwrap()], "").0, 0);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), FORMATTED);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "no temporary file is left");
}

fn is_valid(definition: &str) {
    let (code, data, notes) = kross(&["validate", "-"], definition);
    assert_eq!(code, 0, "{data}{notes}\n{definition}");
}

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}
