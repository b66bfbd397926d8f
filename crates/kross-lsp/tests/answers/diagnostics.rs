use gen_lsp_types::{DiagnosticSeverity, Position, Range};
use kross_lsp::{Settings, Workspace};

use super::{INSTANCE, SHOP, URI, applied, codes, edits, place, shop};

const INSTANCE_URI: &str = "file:///books.yaml";

fn opened(text: &str) -> Workspace {
    let mut workspace = Workspace::new(Settings::default());
    workspace.set(URI, text);
    workspace
}

#[test]
fn mistakes_have_a_range_a_code_and_their_help() {
    let text = shop("schema.spec.replicas}", "schema.spec.replcas}");
    let workspace = opened(&text);
    let found = workspace.diagnostics(URI);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(super::slice(&text, found[0].range), "replcas");
    assert_eq!(found[0].severity, Some(DiagnosticSeverity::Error));
    let gen_lsp_types::Message::String(message) = &found[0].message else { panic!() };
    assert!(message.contains("help: did you mean `replicas`?"), "{message}");
}

#[test]
fn every_document_of_a_file_is_checked() {
    let broken = shop("schema.spec.replicas}", "schema.spec.replcas}");
    let text = format!(
        "{broken}---\n{}",
        broken.replace("name: shop", "name: other").replace("kind: Shop", "kind: Other")
    );
    let found = opened(&text).diagnostics(URI);
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(found[0].range.start.line < found[1].range.start.line);
}

#[test]
fn instances_are_checked_against_the_definitions_of_other_files() {
    let mut workspace = opened(SHOP);
    assert!(!workspace.set(INSTANCE_URI, INSTANCE));
    assert_eq!(codes(&workspace, INSTANCE_URI), Vec::<String>::new());
    workspace.set(INSTANCE_URI, INSTANCE.replace("replicas: 3", "replicas: three"));
    assert_eq!(codes(&workspace, INSTANCE_URI).len(), 1);
    workspace.set(INSTANCE_URI, INSTANCE.replace("example.com/v1alpha1", "example.com/v1"));
    let found = workspace.diagnostics(INSTANCE_URI);
    assert_eq!(found[0].range.start, Position { line: 0, character: 12 }, "{found:#?}");
    // A change of the definition changes what is said of the instance.
    workspace.set(INSTANCE_URI, INSTANCE);
    assert!(workspace.set(
        URI,
        shop("replicas: integer | default=2 minimum=1", "replicas: integer | default=2 maximum=2")
    ));
    assert_eq!(codes(&workspace, INSTANCE_URI).len(), 1);
    assert!(workspace.remove(URI));
    assert!(workspace.diagnostics(INSTANCE_URI).is_empty());
}

#[test]
fn a_kind_that_another_file_generates_is_known() {
    let other = shop("kind: Deployment", "kind: Shelf")
        .replace("apiVersion: apps/v1", "apiVersion: example.com/v1alpha1");
    let mut workspace = opened(&other);
    assert!(!codes(&workspace, URI).is_empty());
    let shelf = "\
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: shelf}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Shelf
    group: example.com
    spec: {replicas: integer, selector: object, template: object}
    status: {availableReplicas: '${1 + size(config.metadata.name)}'}
  resources:
  - id: config
    template: {apiVersion: v1, kind: ConfigMap, metadata: {name: '${schema.metadata.name}'}}
";
    assert!(workspace.set("file:///shelf.yaml", shelf));
    assert_eq!(codes(&workspace, "file:///shelf.yaml"), Vec::<String>::new());
    let unknown = codes(&workspace, URI);
    assert!(
        !unknown.contains(&"K0703".to_owned()) && !unknown.iter().any(|code| code == "K0701"),
        "{unknown:?}"
    );
}

#[test]
fn a_line_that_is_no_yaml_yet_hides_no_mistake_in_an_expression() {
    let text =
        shop("schema.spec.replicas}", "schema.spec. }").replace("  name: shop\n", "  name: shop\n  lab\n");
    let found = codes(&opened(&text), URI);
    assert!(found.iter().any(|code| code.starts_with("K01")), "{found:?}");
    assert!(found.iter().any(|code| code.starts_with("K05")), "{found:?}");
    assert!(found.iter().all(|code| code.starts_with("K01") || code.starts_with("K05")), "{found:?}");
}

#[test]
fn positions_are_right_after_emoji_and_with_windows_line_breaks() {
    let text =
        shop("data:\n        size", "data:\n        icon: \"\u{1f680}${schema.spec.nme}\"\n        size")
            .replace('\n', "\r\n");
    let workspace = opened(&text);
    let found = workspace.diagnostics(URI);
    assert_eq!(found.len(), 1, "{found:#?}");
    let line = text.split("\r\n").position(|line| line.contains("icon")).unwrap();
    // Eight spaces, `icon: "`, two code units of the emoji, `${schema.spec.`.
    let start = 8 + 7 + 2 + 14;
    assert_eq!(found[0].range.start, Position { line: line.try_into().unwrap(), character: start });
    assert_eq!(found[0].range.end.character, start + 3);
}

#[test]
fn the_fix_of_a_mistake_removes_it() {
    let text = shop("schema.spec.replicas}", "schema.spec.replcas}");
    let mut workspace = opened(&text);
    let at = place(&text, "replcas", 2);
    let actions = workspace.code_actions(URI, Range { start: at, end: at });
    assert_eq!(actions.len(), 1, "{actions:#?}");
    assert_eq!(actions[0].title, "did you mean `replicas`?");
    let fixed = applied(&text, &edits(actions[0].edit.as_ref().unwrap(), URI));
    workspace.set(URI, fixed);
    assert_eq!(codes(&workspace, URI), Vec::<String>::new());
    let elsewhere = Position { line: 0, character: 0 };
    workspace.set(URI, text);
    assert!(workspace.code_actions(URI, Range { start: elsewhere, end: elsewhere }).is_empty());
}

#[test]
fn settings_name_more_schemas_and_how_findings_are_reported() {
    let text = shop(
        "kind: ConfigMap\n      metadata:\n        name: ${schema",
        "kind: Widget\n      metadata:\n        name: ${schema",
    )
    .replacen("apiVersion: v1\n      kind: Widget", "apiVersion: widgets.io/v1\n      kind: Widget", 1);
    let mut workspace = opened(&text);
    assert_eq!(codes(&workspace, URI).len(), 1);
    let mut settings =
        Settings { unknown_kinds: Some(kross_graph::ReportAs::Nothing), ..Settings::default() };
    workspace.set_settings(settings.clone());
    assert_eq!(codes(&workspace, URI), Vec::<String>::new());
    settings.unknown_kinds = None;
    let crd = r#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.widgets.io"},
        "spec": {"group": "widgets.io", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object",
        "properties": {"data": {"type": "object", "additionalProperties": {"type": "string"}}}}}}]}}"#;
    settings.crds.push(serde_json::from_str(crd).unwrap());
    workspace.set_settings(settings);
    assert_eq!(codes(&workspace, URI), Vec::<String>::new());
}
