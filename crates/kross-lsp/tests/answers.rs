//! What the workspace answers, at places of definitions and instances that are marked with `|` in the text.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

#[path = "answers/completion.rs"]
mod completion;
#[path = "answers/diagnostics.rs"]
mod diagnostics;
#[path = "answers/navigation.rs"]
mod navigation;
#[path = "answers/presentation.rs"]
mod presentation;

use gen_lsp_types::{Position, Range, TextEdit, WorkspaceEdit};
use kross_lsp::{Settings, Workspace};

pub const URI: &str = "file:///shop.yaml";

/// A definition with an object, a collection in remote clusters, and a custom type.
pub const SHOP: &str = "\
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata:
  name: shop
spec:
  schema:
    apiVersion: v1alpha1
    kind: Shop
    group: example.com
    spec:
      name: string | required=true
      replicas: integer | default=2 minimum=1
      regions: \"[]Region\"
      database:
        size: integer | default=10
    types:
      Region:
        name: string
        replicas: integer | default=1
    status:
      available: ${web.status.availableReplicas}
  resources:
  - id: settings
    template:
      apiVersion: v1
      kind: ConfigMap
      metadata:
        name: ${schema.spec.name}
      data:
        size: ${string(schema.spec.database.size)}
  - id: web
    template:
      apiVersion: apps/v1
      kind: Deployment
      metadata:
        name: ${schema.spec.name}-web
      spec:
        replicas: ${schema.spec.replicas}
        selector:
          matchLabels:
            app: ${settings.metadata.name}
        template:
          metadata:
            labels:
              app: ${settings.metadata.name}
          spec:
            containers:
            - name: web
              image: nginx
    readyWhen:
    - ${web.status.availableReplicas == web.spec.replicas}
  - id: edge
    forEach:
    - region: ${schema.spec.regions}
    cluster:
      name: ${region.name}-kubeconfig
      namespace: platform
    template:
      apiVersion: v1
      kind: ConfigMap
      metadata:
        name: edge-${region.name}
      data:
        replicas: ${string(region.replicas)}
        all: ${schema.spec.regions.map(region2, region2.name).join(',')}
    lifecycle:
      delete:
        after:
        - web
";

pub const INSTANCE: &str = "\
apiVersion: example.com/v1alpha1
kind: Shop
metadata:
  name: books
spec:
  name: books
  replicas: 3
  regions:
  - name: eu
    replicas: 4
";

/// A workspace with one file, and the place of the first `|` after `before` in it.
pub struct Opened {
    pub workspace: Workspace,
    pub position: Position,
    pub text: String,
}

/// Opens a text in which `¦` marks the cursor.
pub fn opened(text: &str) -> Opened {
    let offset = text.find('¦').expect("the text has a cursor");
    let text = text.replacen('¦', "", 1);
    let mut workspace = Workspace::new(Settings::default());
    workspace.set(URI, text.as_str());
    Opened { position: position(&text, offset), workspace, text }
}

/// The shop with a part of it replaced.
pub fn shop(from: &str, to: &str) -> String {
    assert!(SHOP.contains(from), "{from}");
    SHOP.replacen(from, to, 1)
}

/// The place of a text, and of an offset in it.
pub fn place(text: &str, part: &str, inside: usize) -> Position {
    position(text, text.find(part).unwrap_or_else(|| panic!("no {part}")) + inside)
}

pub fn position(text: &str, offset: usize) -> Position {
    let before = &text[..offset];
    let line = before.matches('\n').count();
    let column = before.rsplit('\n').next().unwrap().encode_utf16().count();
    Position { line: line.try_into().unwrap(), character: column.try_into().unwrap() }
}

/// The offset of a position; the texts of these tests are ASCII.
pub fn offset(text: &str, position: Position) -> usize {
    let line: usize = text.split_inclusive('\n').take(position.line as usize).map(str::len).sum();
    line + position.character as usize
}

pub fn slice(text: &str, range: Range) -> &str {
    &text[offset(text, range.start)..offset(text, range.end)]
}

/// The text after edits.
pub fn applied(text: &str, edits: &[TextEdit]) -> String {
    let mut edits = edits.to_vec();
    edits.sort_by_key(|edit| std::cmp::Reverse((edit.range.start.line, edit.range.start.character)));
    let mut text = text.to_owned();
    for edit in edits {
        let bytes = offset(&text, edit.range.start)..offset(&text, edit.range.end);
        text.replace_range(bytes, &edit.new_text);
    }
    text
}

/// The edits of one file.
pub fn edits(edit: &WorkspaceEdit, uri: &str) -> Vec<TextEdit> {
    edit.changes.as_ref().unwrap().get(&uri.into()).cloned().unwrap_or_default()
}

pub fn codes(workspace: &Workspace, uri: &str) -> Vec<String> {
    let code = |found: gen_lsp_types::Diagnostic| match found.code {
        Some(gen_lsp_types::Code::String(code)) => code,
        other => panic!("{other:?}"),
    };
    workspace.diagnostics(uri).into_iter().map(code).collect()
}

#[test]
fn the_definition_of_these_tests_is_valid() {
    let mut workspace = Workspace::new(Settings::default());
    workspace.set(URI, SHOP);
    let found = workspace.diagnostics(URI);
    assert!(found.is_empty(), "{found:#?}");
}
