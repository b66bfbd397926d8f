use gen_lsp_types::Location;
use kross_lsp::{RenameError, Settings, Workspace};

use super::{INSTANCE, SHOP, URI, applied, edits, opened, place, shop, slice};

const INSTANCE_URI: &str = "file:///books.yaml";

fn both() -> Workspace {
    let mut workspace = Workspace::new(Settings::default());
    workspace.set(URI, SHOP);
    workspace.set(INSTANCE_URI, INSTANCE);
    workspace
}

/// The line on which the name at a place is declared.
fn declared(part: &str, inside: usize) -> String {
    let found = both().definition(URI, place(SHOP, part, inside)).unwrap_or_else(|| panic!("{part}"));
    line(&found)
}

fn line(found: &Location) -> String {
    let text = if found.uri.0 == URI { SHOP } else { INSTANCE };
    text.lines().nth(found.range.start.line as usize).unwrap().trim().to_owned()
}

#[test]
fn the_declarations_of_all_kinds_of_names_are_found() {
    assert_eq!(declared("settings.metadata", 3), "- id: settings");
    assert_eq!(declared("schema.spec.database.size", 22), "size: integer | default=10");
    assert_eq!(declared("region.replicas", 2), "- region: ${schema.spec.regions}");
    assert_eq!(declared("region.replicas", 9), "replicas: integer | default=1");
    assert_eq!(declared("region2.name", 9), "name: string");
    assert_eq!(
        declared("region2.name", 2),
        "all: ${schema.spec.regions.map(region2, region2.name).join(',')}"
    );
    assert_eq!(declared("\"[]Region\"", 4), "Region:");
    assert_eq!(declared("        - web", 11), "- id: web");
}

#[test]
fn the_field_of_an_instance_leads_to_its_definition() {
    let workspace = both();
    let found = workspace.definition(INSTANCE_URI, place(INSTANCE, "replicas: 4", 2)).unwrap();
    assert_eq!((found.uri.0.as_str(), line(&found).as_str()), (URI, "replicas: integer | default=1"));
    let kind = workspace.definition(INSTANCE_URI, place(INSTANCE, "kind: Shop", 8)).unwrap();
    assert_eq!(line(&kind), "kind: Shop");
}

#[test]
fn the_references_of_a_name_are_found_in_all_files() {
    let workspace = both();
    let of = |part: &str, inside| {
        let found = workspace.references(URI, place(SHOP, part, inside), true);
        found.iter().map(line).collect::<Vec<_>>()
    };
    assert_eq!(
        of("- id: settings", 8),
        ["- id: settings", "app: ${settings.metadata.name}", "app: ${settings.metadata.name}"]
    );
    assert_eq!(
        of("replicas: integer | default=2", 2),
        ["replicas: integer | default=2 minimum=1", "replicas: ${schema.spec.replicas}", "replicas: 3"]
    );
    assert_eq!(of("replicas: integer | default=1", 2).len(), 3);
    assert_eq!(workspace.references(URI, place(SHOP, "- id: web", 7), false).len(), 4);
}

/// The definition and the instance after a rename.
fn renamed(part: &str, inside: usize, name: &str) -> Result<(String, String), RenameError> {
    let mut workspace = both();
    let edit = workspace.rename(URI, place(SHOP, part, inside), name)?;
    let definition = applied(SHOP, &edits(&edit, URI));
    let instance = applied(INSTANCE, &edits(&edit, INSTANCE_URI));
    workspace.set(URI, definition.as_str());
    workspace.set(INSTANCE_URI, instance.as_str());
    assert!(workspace.diagnostics(URI).is_empty(), "{:#?}", workspace.diagnostics(URI));
    assert!(workspace.diagnostics(INSTANCE_URI).is_empty(), "{:#?}", workspace.diagnostics(INSTANCE_URI));
    Ok((definition, instance))
}

#[test]
fn a_renamed_definition_stays_valid() {
    let (definition, _) = renamed("- id: web", 7, "frontend").unwrap();
    assert!(definition.contains("- frontend\n") && !definition.contains("web.status"), "{definition}");
    let (definition, instance) = renamed("replicas: integer | default=2", 2, "count").unwrap();
    assert!(
        definition.contains("${schema.spec.count}") && instance.contains("  count: 3\n"),
        "{definition}{instance}"
    );
    let (definition, instance) = renamed("region2.name", 9, "title").unwrap();
    assert!(
        definition.contains("edge-${region.title}") && instance.contains("- title: eu"),
        "{definition}{instance}"
    );
    assert!(
        definition.contains("name: string | required=true"),
        "another field of the same name stays: {definition}"
    );
    let (definition, _) = renamed("- region:", 4, "place").unwrap();
    assert!(
        definition.contains("edge-${place.name}") && definition.contains("map(region2, region2.name)"),
        "{definition}"
    );
    let (definition, _) = renamed("region2.name", 2, "each2").unwrap();
    assert!(definition.contains("map(each2, each2.name)"), "{definition}");
    let (definition, _) = renamed("      Region:", 8, "Place").unwrap();
    assert!(definition.contains("\"[]Place\"") && definition.contains("      Place:\n"), "{definition}");
}

#[test]
fn a_variable_of_the_same_name_is_left_alone() {
    let text =
        shop("schema.spec.regions.map(region2, region2.name)", "schema.spec.regions.map(web, web.name)")
            .replacen("${web.status.availableReplicas}", "${w¦eb.status.availableReplicas}", 1);
    let opened = opened(&text);
    let edit = opened.workspace.rename(URI, opened.position, "frontend").unwrap();
    let renamed = applied(&opened.text, &edits(&edit, URI));
    assert!(renamed.contains("map(web, web.name)") && renamed.contains("${frontend.status"), "{renamed}");
}

#[test]
fn a_rename_that_would_change_a_meaning_is_refused() {
    let taken = |part: &str, inside, name: &str| renamed(part, inside, name).unwrap_err().to_string();
    assert_eq!(taken("- id: web", 7, "settings"), "`settings` is already the name of a resource");
    assert_eq!(taken("- id: web", 7, "region"), "`region` is already the name of a `forEach` variable");
    assert_eq!(
        taken("region2.name", 2, "schema"),
        "`schema` is already the name of a variable in one of the expressions"
    );
    assert_eq!(taken("replicas: integer | default=2", 2, "name"), "`name` is already the name of a field");
    assert_eq!(taken("      Region:", 8, "string"), "`string` is already the name of a type");
    assert_eq!(
        taken("- id: web", 7, "my-web"),
        "`my-web` is not a valid name; use another one, for example `myWeb`"
    );
    assert_eq!(
        taken("apiVersion: apps/v1", 2, "x"),
        "only ids, fields and types of the schema, and variables can be renamed"
    );
}

#[test]
fn a_rename_to_the_variable_of_a_macro_around_a_use_is_refused() {
    let text =
        shop("region2.name).join", "region2.name + region.name).join").replacen("- region:", "- reg¦ion:", 1);
    let opened = opened(&text);
    let error = opened.workspace.rename(URI, opened.position, "region2").unwrap_err();
    assert_eq!(error.to_string(), "`region2` is already the name of a variable in one of the expressions");
    assert!(opened.workspace.rename(URI, opened.position, "region3").is_ok());
}

#[test]
fn what_can_be_renamed_has_a_range() {
    let workspace = both();
    let range = workspace.prepare_rename(URI, place(SHOP, "settings.metadata", 3)).unwrap();
    assert_eq!(slice(SHOP, range), "settings");
    assert_eq!(workspace.prepare_rename(URI, place(SHOP, "apiVersion: apps/v1", 3)), None);
}

#[test]
fn fields_in_validation_rules_and_printer_columns_are_renamed() {
    let text = shop("      regions: \"[]Region\"\n", "      regions: \"[]Region\"\n      limits: 'Limits | validation=\"self.min <= self.max\"'\n")
        .replace("    types:\n", "    additionalPrinterColumns:\n    - {name: Size, type: integer, jsonPath: .spec.database.size}\n    types:\n      Limits:\n        min: integer\n        max: integer\n")
        .replacen("max: integer", "m¦ax: integer", 1);
    let first = opened(&text);
    let edit = first.workspace.rename(URI, first.position, "most").unwrap();
    assert!(applied(&first.text, &edits(&edit, URI)).contains("self.min <= self.most"));
    let position = place(&first.text, "schema.spec.database.size", 22);
    let edit = first.workspace.rename(URI, position, "bytes").unwrap();
    assert!(applied(&first.text, &edits(&edit, URI)).contains("jsonPath: .spec.database.bytes"));
}
