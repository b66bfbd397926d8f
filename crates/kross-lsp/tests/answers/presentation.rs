use gen_lsp_types::{Contents, Label, Position, Range};
use kross_lsp::{Settings, TOKEN_TYPES, Workspace};

use super::{INSTANCE, SHOP, URI, offset, place};

fn workspace() -> Workspace {
    let mut workspace = Workspace::new(Settings::default());
    workspace.set(URI, SHOP);
    workspace
}

fn hover(workspace: &Workspace, part: &str, inside: usize) -> String {
    let found =
        workspace.hover(URI, place(SHOP, part, inside)).unwrap_or_else(|| panic!("nothing at {part}"));
    let Contents::MarkupContent(content) = found.contents else { panic!() };
    content.value
}

#[test]
fn hover_shows_types_and_how_fields_are_declared() {
    let workspace = workspace();
    assert_eq!(
        hover(&workspace, "schema.spec.replicas", 14),
        "```cel\nreplicas: int\n```\n\n```yaml\nreplicas: integer | default=2 minimum=1\n```"
    );
    assert!(hover(&workspace, "web.status.available", 1).contains("`Deployment` of `apps/v1`, local"));
    assert!(hover(&workspace, "region.replicas", 9).starts_with("```cel\nreplicas: int"));
    assert!(hover(&workspace, "string(schema", 2).contains("string"));
    assert!(hover(&workspace, "      available:", 8).contains("available: int"));
    assert!(hover(&workspace, "      replicas: integer", 8).contains("integer | default=2 minimum=1"));
    assert!(hover(&workspace, "containers:", 3).contains("containers: []Container"));
    assert!(
        hover(&workspace, "    readyWhen:", 6)
            .contains("Expressions that must all be true for the resource to be ready.")
    );
}

#[test]
fn hover_shows_the_value_for_an_instance_of_the_workspace() {
    let mut workspace = workspace();
    workspace.set("file:///books.yaml", INSTANCE);
    assert!(
        hover(&workspace, "schema.spec.replicas", 14).contains("For the instance `books`:\n```cel\n3\n```")
    );
    assert!(
        hover(&workspace, "schema.spec.database.size", 22).contains("```cel\n10\n```"),
        "defaults are applied"
    );
    assert!(hover(&workspace, "settings.metadata.name", 19).contains("```cel\n\"books\"\n```"));
    assert!(hover(&workspace, "web.status.available", 12).contains("not known yet"));
}

#[test]
fn the_outline_has_the_schema_and_the_resources() {
    let found = workspace().document_symbols(URI);
    assert_eq!(found.len(), 1);
    let inner = found[0].children.as_ref().unwrap();
    let names: Vec<&str> = inner.iter().map(|symbol| symbol.name.as_str()).collect();
    assert_eq!((found[0].name.as_str(), names), ("shop", vec!["Shop", "settings", "web", "edge"]));
    let schema = inner[0].children.as_ref().unwrap();
    let fields: Vec<&str> =
        schema[0].children.as_ref().unwrap().iter().map(|symbol| symbol.name.as_str()).collect();
    assert_eq!(fields, ["database", "name", "regions", "replicas"]);
    assert_eq!(inner[2].detail.as_deref(), Some("Deployment"));
    for symbol in inner {
        assert!(
            symbol.range.start <= symbol.selection_range.start
                && symbol.selection_range.end <= symbol.range.end
        );
    }
}

#[test]
fn hints_show_kinds_clusters_and_types() {
    let whole =
        Range { start: Position { line: 0, character: 0 }, end: Position { line: 999, character: 0 } };
    let hints = workspace().inlay_hints(URI, whole);
    let shown: Vec<String> = hints
        .iter()
        .map(|hint| {
            let Label::String(label) = &hint.label else { panic!() };
            let line = SHOP.lines().nth(hint.position.line as usize).unwrap();
            format!("{}{label}", &line[..hint.position.character as usize]).trim().to_owned()
        })
        .collect();
    assert_eq!(
        shown,
        [
            "available: int",
            "- id: settingsConfigMap, local",
            "- id: webDeployment, local",
            "- id: edge[]ConfigMap, in cluster ${region.name}-kubeconfig",
            "- region: Shop.spec.regions[]",
        ]
    );
    let first = Range { start: Position { line: 0, character: 0 }, end: Position { line: 21, character: 0 } };
    assert_eq!(workspace().inlay_hints(URI, first).len(), 1);
}

#[test]
fn tokens_colour_the_names_inside_expressions() {
    let (mut line, mut column) = (0, 0);
    let mut found = Vec::new();
    for token in workspace().semantic_tokens(URI) {
        column = if token.delta_line == 0 { column + token.delta_start } else { token.delta_start };
        line += token.delta_line;
        let start = offset(SHOP, Position { line, character: column });
        let text = &SHOP[start..start + token.length as usize];
        found.push(format!("{text}:{}", TOKEN_TYPES[token.token_type as usize]));
    }
    let wanted = [
        "schema:variable",
        "spec:property",
        "regions:property",
        "map:function",
        "region2:parameter",
        "region2:parameter",
        "name:property",
        "join:function",
        "',':string",
    ];
    assert!(found.windows(wanted.len()).any(|part| part == wanted), "{found:#?}");
    assert!(found.contains(&"==:operator".to_owned()) && found.contains(&"region:parameter".to_owned()));
}

#[test]
fn mappings_and_lists_of_several_lines_can_be_folded() {
    let found = workspace().folding_ranges(URI);
    let line =
        |part: &str| u32::try_from(SHOP.lines().position(|line| line.contains(part)).unwrap()).unwrap();
    let has = |start: &str| found.iter().any(|range| range.start_line == line(start));
    assert!(has("schema:") && has("resources:") && has("- id: web") && !has("image: nginx"), "{found:#?}");
}

#[test]
fn formatting_changes_only_the_lines_that_differ() {
    let untidy = SHOP.replace("${schema.spec.replicas}", "${ schema.spec.replicas }");
    let mut workspace = workspace();
    let tidy = super::applied(SHOP, &workspace.formatting(URI).unwrap());
    workspace.set(URI, tidy.as_str());
    assert_eq!(workspace.formatting(URI).unwrap(), []);
    let untidy = super::applied(&untidy, &{
        workspace.set(URI, untidy.as_str());
        workspace.formatting(URI).unwrap()
    });
    assert_eq!(untidy, tidy);
    workspace.set(URI, tidy.replace("${schema.spec.replicas}", "${ schema.spec.replicas }"));
    let edits = workspace.formatting(URI).unwrap();
    assert_eq!(edits.len(), 1);
    assert_eq!(edits[0].range.end.line, edits[0].range.start.line + 1, "{edits:?}");
    workspace.set(URI, "a: [");
    assert_eq!(workspace.formatting(URI), None);
}
