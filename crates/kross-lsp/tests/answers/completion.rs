use super::{INSTANCE, URI, opened, shop};

/// The labels of what can be written at the cursor.
fn labels(text: &str) -> Vec<String> {
    let opened = opened(text);
    let items = opened.workspace.completion(URI, opened.position);
    let mut items: Vec<_> = items.into_iter().map(|item| (item.sort_text, item.label)).collect();
    items.sort();
    items.into_iter().map(|(_, label)| label).collect()
}

fn has(found: &[String], wanted: &[&str]) {
    for label in wanted {
        assert!(found.iter().any(|found| found == label), "no `{label}` in {found:?}");
    }
}

fn lacks(found: &[String], unwanted: &[&str]) {
    for label in unwanted {
        assert!(!found.iter().any(|found| found == label), "`{label}` in {found:?}");
    }
}

#[test]
fn fields_of_a_definition_are_completed() {
    let found = labels(&shop("  resources:\n", "  ¦\n  resources:\n"));
    has(&found, &["cluster", "target", "lifecycle", "access"]);
    lacks(&found, &["schema", "resources", "template"]);
    has(&labels(&shop("    readyWhen:\n", "    inc¦\n    readyWhen:\n")), &["includeWhen", "forEach"]);
}

#[test]
fn fields_of_the_kind_of_a_template_are_completed() {
    let found =
        labels(&shop("              image: nginx\n", "              image: nginx\n              ¦\n"));
    has(&found, &["ports", "env", "resources"]);
    lacks(&found, &["name", "image", "replicas"]);
    let found = labels(&shop("        replicas: ${schema.spec.replicas}\n", "        ¦\n"));
    has(&found, &["replicas", "strategy"]);
    lacks(&found, &["selector", "template"]);
}

#[test]
fn fields_are_completed_in_a_key_that_is_no_yaml_yet() {
    let found =
        labels(&shop("              image: nginx\n", "              image: nginx\n              po¦\n"));
    has(&found, &["ports"]);
}

#[test]
fn values_that_a_schema_allows_are_completed() {
    let strategy = "        strategy:\n          type: ¦\n        selector:\n";
    assert_eq!(labels(&shop("        selector:\n", strategy)), ["Recreate", "RollingUpdate"]);
    has(&labels(&shop("        selector:\n", "        paused: ¦\n        selector:\n")), &["true", "false"]);
    has(
        &labels(&shop("    group: example.com\n", "    group: example.com\n    scope: ¦\n")),
        &["Namespaced", "Cluster"],
    );
}

#[test]
fn kinds_and_their_api_versions_are_completed() {
    assert_eq!(
        labels(&shop("      kind: Deployment\n", "      kind: Depl¦\n")),
        ["ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"]
    );
    assert_eq!(labels(&shop("      apiVersion: apps/v1\n", "      apiVersion: ¦\n")), ["apps/v1"]);
}

#[test]
fn the_kind_of_an_instance_and_its_fields_are_completed() {
    let both = format!("{}---\n{}", super::SHOP, INSTANCE.replace("  replicas: 3\n", "  ¦\n"));
    let found = labels(&both);
    has(&found, &["replicas", "database"]);
    lacks(&found, &["name", "regions"]);
}

#[test]
fn types_and_markers_of_the_schema_are_completed() {
    has(&labels(&shop("size: integer | default=10", "size: ¦")), &["string", "integer", "Region"]);
    let found = labels(&shop("size: integer | default=10", "size: integer | default=10 ¦"));
    has(&found, &["minimum", "validation"]);
    lacks(&found, &["default", "string"]);
}

#[test]
fn ids_to_wait_for_are_completed() {
    assert_eq!(labels(&shop("        - web\n", "        - ¦\n")), ["edge", "settings", "web"]);
}

#[test]
fn variables_and_functions_are_completed_in_an_expression() {
    let found = labels(&shop("edge-${region.name}", "edge-${¦}"));
    has(&found, &["schema", "region", "web", "settings", "has", "quantity", "math.greatest"]);
    lacks(&found, &["edge", "each"]);
    let found = labels(&shop("${web.status.availableReplicas == web.spec.replicas}", "${¦}"));
    has(&found, &["web"]);
    lacks(&found, &["schema", "settings"]);
}

#[test]
fn the_members_of_a_value_are_completed_with_their_types() {
    assert_eq!(
        labels(&shop("schema.spec.replicas}", "schema.spec.¦}"))[..4],
        ["database", "name", "regions", "replicas"]
    );
    has(
        &labels(&shop("${web.status.availableReplicas}", "${web.status.¦}")),
        &["availableReplicas", "conditions"],
    );
    has(&labels(&shop("${web.status.availableReplicas}", "${resources.web.¦}")), &["ready", "state"]);
    let opened = opened(&shop("schema.spec.replicas}", "schema.spec.r¦}"));
    let items = opened.workspace.completion(URI, opened.position);
    let replicas = items.iter().find(|item| item.label == "replicas").unwrap();
    assert_eq!(replicas.detail.as_deref(), Some("int"));
    let Some(gen_lsp_types::Documentation::MarkupContent(documentation)) = &replicas.documentation else {
        panic!()
    };
    assert!(documentation.value.contains("replicas: integer | default=2 minimum=1"), "{documentation:?}");
}

#[test]
fn members_are_completed_while_the_expression_is_not_closed() {
    for typed in
        ["${schema.spec.¦", "\"${schema.spec.¦", "${ [1].map(i, schema.spec.¦", "${ true ? schema.spec.¦"]
    {
        has(&labels(&shop("${schema.spec.replicas}", typed)), &["replicas", "regions"]);
    }
}

#[test]
fn the_variable_of_a_macro_has_members() {
    let found = labels(&shop("region2.name)", "region2.¦)"));
    assert_eq!(found[..2], ["name", "replicas"]);
    has(&labels(&shop("region2.name)", "¦)")), &["region2", "schema"]);
}

#[test]
fn functions_fit_the_type_before_the_dot() {
    let found = labels(&shop("schema.spec.name}\n      data", "schema.spec.name.¦}\n      data"));
    has(&found, &["lowerAscii", "split"]);
    lacks(&found, &["map", "sum"]);
    let found = labels(&shop("schema.spec.regions.map", "schema.spec.regions.¦.map"));
    has(&found, &["map", "filter", "exists"]);
    lacks(&found, &["lowerAscii"]);
    has(&labels(&shop("${schema.spec.replicas}", "${math.¦}")), &["greatest", "least"]);
}

#[test]
fn nothing_is_completed_inside_a_string_literal() {
    assert_eq!(labels(&shop("${schema.spec.replicas}", "${'a.¦'}")), Vec::<String>::new());
}
