//! Tests of generated CustomResourceDefinitions, and of the comparison of two of them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::collections::BTreeSet;
use std::fmt::Write as _;

use kross_api::Schema as DefinitionSchema;
use kross_cel::types::Type;
use kross_diagnostics::{Code, Path};
use kross_schema::compatibility::{ChangeKind, compare_crds, compare_schemas};
use kross_schema::crd::synthesize;
use kross_schema::openapi::{Keep, Kind, Schema};
use kross_schema::{CrdSchemas, SchemaResolver, schema_of, simple};
use kross_value::Value;

fn parse(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{error} in {json}"))
}

/// The CRD of a definition's schema with a status of two fields.
fn crd(definition: &str) -> Value {
    let definition: DefinitionSchema = serde_json::from_str(definition).unwrap();
    let translation = simple::translate(definition.spec.as_ref(), definition.types.as_ref(), &Path::root());
    assert_eq!(translation.problems, []);
    let status = Schema::object([
        ("endpoint", schema_of(&Type::String)),
        ("ready", schema_of(&Type::list(Type::Dyn))),
    ]);
    synthesize(&definition, &translation.schema, &status)
}

const WEB: &str = r#"{
    "kind": "WebApplication", "apiVersion": "v1alpha1",
    "spec": {"name": "string | required=true", "replicas": "integer | default=3", "ports": "[]Port"},
    "types": {"Port": {"number": "integer | minimum=1"}}
}"#;

#[test]
fn a_definition_becomes_a_crd() {
    insta::assert_json_snapshot!(crd(WEB));
}

#[test]
fn names_scope_columns_and_metadata_come_from_the_definition() {
    let full = crd(r#"{
        "kind": "Policy", "apiVersion": "v1", "group": "example.com", "scope": "Cluster",
        "spec": {"rules": "list<map>"},
        "shortNames": ["pol"], "categories": ["all"],
        "additionalPrinterColumns": [{"name": "Rules", "type": "integer", "jsonPath": ".spec.rules", "priority": 1}],
        "metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}}
    }"#);
    insta::assert_json_snapshot!(full.at(&["metadata"]).unwrap());
    let spec = full.get("spec").unwrap();
    assert_eq!(spec.get("scope").unwrap().as_str(), Some("Cluster"));
    insta::assert_json_snapshot!("names", spec.get("names").unwrap());
    insta::assert_json_snapshot!("columns", spec.at(&["versions", "0", "additionalPrinterColumns"]).unwrap());
}

#[test]
fn a_status_field_of_the_author_takes_precedence() {
    let definition: DefinitionSchema = serde_json::from_str(WEB).unwrap();
    let status =
        Schema::object([("state", Schema::of(Kind::Integer)), ("clusters", Schema::of(Kind::String))]);
    let crd = synthesize(&definition, &Schema::of(Kind::Object), &status);
    let path = ["spec", "versions", "0", "schema", "openAPIV3Schema", "properties", "status", "properties"];
    let properties = crd.at(&path).unwrap();
    assert_eq!(properties.get("state").unwrap().to_string(), r#"{"type":"integer"}"#);
    assert_eq!(properties.get("clusters").unwrap().to_string(), r#"{"type":"string"}"#);
    let names: Vec<&str> = properties.as_object().unwrap().keys().map(|key| key.as_str()).collect();
    assert_eq!(names, ["clusters", "conditions", "managedResources", "state"]);
}

#[test]
fn a_generated_crd_can_be_resolved() {
    let crds = CrdSchemas::new();
    let kinds = crds.insert(&crd(WEB)).unwrap();
    let resolved = crds.resolve(&kinds[0]).unwrap();
    let Type::Object(object) = resolved.schema.cel_type() else { panic!() };
    assert_eq!(object.field("metadata").unwrap().to_string(), "ObjectMeta");
    assert_eq!(object.field("spec").unwrap().to_string(), "WebApplication.spec");
}

/// What the API server adds when a CRD is created.
fn as_the_server_returns_it(crd: &Value) -> Value {
    let text = crd.to_string().replacen(
        r#""scope":"#,
        r#""conversion":{"strategy":"None"},"preserveUnknownFields":false,"scope":"#,
        1,
    );
    let mut crd = parse(&text);
    let object = crd.as_object_mut().unwrap();
    let status =
        r#"{"acceptedNames":{"kind":"WebApplication"},"storedVersions":["v1alpha1"],"conditions":[]}"#;
    object.insert("status", parse(status));
    let metadata = object.get_mut("metadata").unwrap().as_object_mut().unwrap();
    metadata.insert("uid", Value::from("1"));
    metadata.insert("generation", Value::Int(1));
    metadata.insert("labels", parse(r#"{"kro.run/owned":"true"}"#));
    crd
}

#[test]
fn fields_that_the_api_server_adds_are_not_changes() {
    let report = compare_crds(&as_the_server_returns_it(&crd(WEB)), &crd(WEB));
    assert!(report.is_empty(), "{:?}", report.changes());
    assert_eq!(report.to_string(), "no breaking changes");
}

#[test]
fn every_edit_of_a_definition_is_classified() {
    let edits = [
        (r#""replicas": "integer | default=3", "#, "", true),
        ("default=3", "default=4", false),
        ("integer | default=3", "integer", false),
        ("integer | default=3", "string", true),
        ("integer | default=3", "float | default=3", true),
        ("integer | default=3", "integer | default=3 immutable=true", true),
        ("integer | default=3", r#"integer | default=3 validation=\"self > 0\""#, true),
        ("integer | default=3", "integer | default=3 enum=3,4", true),
        ("integer | default=3", r#"integer | default=3 description=\"how many\""#, false),
        ("string | required=true", "string", false),
        (r#""ports": "[]Port""#, r#""ports": "[]Port", "extra": "string""#, false),
        (r#""ports": "[]Port""#, r#""ports": "[]Port", "extra": "string | required=true""#, true),
        (r#""ports": "[]Port""#, r#""ports": "[]Port", "extra": "string | required=true default=x""#, false),
        (r#""ports": "[]Port""#, r#""ports": "[]Port | required=true""#, true),
        (r#""ports": "[]Port""#, r#""ports": "map[string]Port""#, true),
        (r#""ports": "[]Port""#, r#""ports": "[]object""#, false),
        (r#""ports": "[]Port""#, r#""ports": "[]Port | minItems=1""#, true),
        ("minimum=1", "minimum=0", false),
        ("minimum=1", "minimum=2", true),
        (
            r#"{"number": "integer | minimum=1"}"#,
            r#"{"number": "integer | minimum=1", "name": "string"}"#,
            false,
        ),
        (r#""kind": "WebApplication""#, r#""shortNames": ["web"], "kind": "WebApplication""#, false),
        (
            r#""kind": "WebApplication""#,
            r#""additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": ".a"}], "kind": "WebApplication""#,
            false,
        ),
        (
            r#""kind": "WebApplication""#,
            r#""metadata": {"labels": {"a": "b"}}, "kind": "WebApplication""#,
            false,
        ),
        (r#""kind": "WebApplication""#, r#""scope": "Cluster", "kind": "WebApplication""#, true),
        ("v1alpha1", "v1", true),
    ];
    let live = as_the_server_returns_it(&crd(WEB));
    let mut shown = String::new();
    for (from, to, breaking) in edits {
        let edited = WEB.replace(from, to);
        assert_ne!(edited, WEB, "{from}");
        let report = compare_crds(&live, &crd(&edited));
        assert!(!report.is_empty(), "nothing changes from {from} to {to}");
        assert_eq!(!report.is_compatible(), breaking, "{from} to {to}: {:?}", report.changes());
        writeln!(shown, "{from} -> {to}").unwrap();
        for change in report.changes() {
            let mark = if change.breaking { "breaking" } else { "harmless" };
            writeln!(shown, "    {mark} {}: {change}", change.kind.as_str()).unwrap();
        }
    }
    insta::assert_snapshot!(shown);
}

fn schema(json: &str) -> Schema {
    Schema::from_json(json, Keep::Everything).unwrap()
}

/// Pairs of schemas: the change from the first to the second is breaking, the reverse is harmless.
const TIGHTER: &[(&str, &str)] = &[
    (r#"{"type":"string"}"#, r#"{"type":"string","pattern":"a"}"#),
    (r#"{"type":"string"}"#, r#"{"type":"string","format":"uuid"}"#),
    (r#"{"type":"string"}"#, r#"{"type":"string","enum":["a"]}"#),
    (r#"{"type":"string","enum":["a","b"]}"#, r#"{"type":"string","enum":["a"]}"#),
    (r#"{"type":"string"}"#, r#"{"type":"string","minLength":1}"#),
    (r#"{"type":"string","minLength":1}"#, r#"{"type":"string","minLength":2}"#),
    (r#"{"type":"string"}"#, r#"{"type":"string","maxLength":1}"#),
    (r#"{"type":"string","maxLength":2}"#, r#"{"type":"string","maxLength":1}"#),
    (r#"{"type":"integer"}"#, r#"{"type":"integer","minimum":1}"#),
    (r#"{"type":"integer","minimum":1}"#, r#"{"type":"integer","minimum":2}"#),
    (r#"{"type":"number","minimum":1}"#, r#"{"type":"number","minimum":1,"exclusiveMinimum":true}"#),
    (r#"{"type":"integer"}"#, r#"{"type":"integer","maximum":1}"#),
    (r#"{"type":"integer","maximum":2}"#, r#"{"type":"integer","maximum":1}"#),
    (r#"{"type":"number","maximum":1}"#, r#"{"type":"number","maximum":1,"exclusiveMaximum":true}"#),
    (r#"{"type":"integer"}"#, r#"{"type":"integer","multipleOf":2}"#),
    (r#"{"type":"array"}"#, r#"{"type":"array","minItems":1}"#),
    (r#"{"type":"array","minItems":1}"#, r#"{"type":"array","minItems":2}"#),
    (r#"{"type":"array"}"#, r#"{"type":"array","maxItems":1}"#),
    (r#"{"type":"array","maxItems":2}"#, r#"{"type":"array","maxItems":1}"#),
    (r#"{"type":"array"}"#, r#"{"type":"array","x-kubernetes-list-type":"set"}"#),
    (
        r#"{"type":"array"}"#,
        r#"{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["a"]}"#,
    ),
    (r#"{"type":"object"}"#, r#"{"type":"object","minProperties":1}"#),
    (r#"{"type":"object","minProperties":1}"#, r#"{"type":"object","minProperties":2}"#),
    (r#"{"type":"object"}"#, r#"{"type":"object","maxProperties":1}"#),
    (r#"{"type":"object","maxProperties":2}"#, r#"{"type":"object","maxProperties":1}"#),
    (r#"{"type":"string","nullable":true}"#, r#"{"type":"string"}"#),
    (r#"{"type":"object","x-kubernetes-preserve-unknown-fields":true}"#, r#"{"type":"object"}"#),
    (r#"{"type":"object"}"#, r#"{"type":"object","x-kubernetes-embedded-resource":true}"#),
    (r#"{"type":"object"}"#, r#"{"type":"object","x-kubernetes-validations":[{"rule":"a"}]}"#),
    (r#"{"type":"object"}"#, r#"{"type":"object","not":{"required":["a"]}}"#),
    (r#"{"type":"object","additionalProperties":{"type":"string"}}"#, r#"{"type":"object"}"#),
    (
        r#"{"type":"object","additionalProperties":{"type":"string"}}"#,
        r#"{"type":"object","additionalProperties":{"type":"string","maxLength":3}}"#,
    ),
    (
        r#"{"type":"array","items":{"type":"string"}}"#,
        r#"{"type":"array","items":{"type":"string","pattern":"a"}}"#,
    ),
    (r#"{"type":"object","properties":{"a":{"type":"string"}}}"#, r#"{"type":"object"}"#),
    (
        r#"{"type":"object","properties":{"a":{"type":"string"}}}"#,
        r#"{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}"#,
    ),
    (
        r#"{"type":"object","properties":{"a":{"type":"string","default":"x"}},"required":["a"]}"#,
        r#"{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}"#,
    ),
];

#[test]
fn tightening_a_constraint_is_breaking_and_loosening_it_is_not() {
    for (loose, tight) in TIGHTER {
        let report = compare_schemas(&schema(loose), &schema(tight));
        assert!(!report.is_compatible(), "{loose} to {tight}");
        let report = compare_schemas(&schema(tight), &schema(loose));
        assert!(report.is_compatible() && !report.is_empty(), "{tight} to {loose}: {report}");
    }
}

#[test]
fn type_changes_are_breaking_in_both_directions() {
    for (one, other) in [
        (r#"{"type":"string"}"#, r#"{"type":"integer"}"#),
        (r#"{"type":"string"}"#, r#"{"x-kubernetes-int-or-string":true}"#),
        (r#"{"type":"string","pattern":"a"}"#, r#"{"type":"string","pattern":"b"}"#),
        (
            r#"{"type":"array","x-kubernetes-list-type":"set"}"#,
            r#"{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["a"]}"#,
        ),
    ] {
        for (old, new) in [(one, other), (other, one)] {
            assert!(!compare_schemas(&schema(old), &schema(new)).is_compatible(), "{old} to {new}");
        }
    }
}

#[test]
fn less_specific_status_types_of_kro_are_compatible() {
    let anything = r#"{"x-kubernetes-preserve-unknown-fields":true}"#;
    let time = r#"{"type":"string","format":"date-time"}"#;
    let of = |part: &str, time: &str, namespace: &str, fields: &str| {
        schema(&format!(
            r#"{{"type":"object","properties":{{"{part}":{{"type":"object","properties":{{"when":{time},
            "list":{{"type":"array","items":{{"type":"object","properties":{{"at":{time}}}}}}},
            "metadata":{{"type":"object","properties":{{"{namespace}":{{"type":"string"}},"fields":{fields}}}}}}}}}}}}}"#
        ))
    };
    let kros = |part: &str| of(part, anything, "__namespace__", r#"{"type":"object"}"#);
    let ours = |part: &str| of(part, time, "namespace", anything);
    let report = compare_schemas(&kros("status"), &ours("status"));
    assert!(report.is_compatible() && !report.is_empty(), "{report}");
    // In a spec the same change is breaking, because users write it.
    assert_eq!(compare_schemas(&kros("spec"), &ours("spec")).breaking().count(), 4);
    // Removing a status field is breaking.
    let without = schema(r#"{"type":"object","properties":{"status":{"type":"object"}}}"#);
    assert!(!compare_schemas(&kros("status"), &without).is_compatible());
}

#[test]
fn equivalent_schemas_are_not_changes() {
    for (one, other) in [
        (r#"{"type":"number","default":1}"#, r#"{"type":"number","default":1.0}"#),
        (r#"{"type":"integer","enum":[1]}"#, r#"{"type":"integer","enum":[1.0]}"#),
        (r#"{"type":"array","x-kubernetes-list-type":"atomic"}"#, r#"{"type":"array"}"#),
        (r#"{"type":"object","required":["a","b"]}"#, r#"{"type":"object","required":["b","a"]}"#),
        (r#"{"type":"object","additionalProperties":false}"#, r#"{"type":"object"}"#),
    ] {
        assert!(compare_schemas(&schema(one), &schema(other)).is_empty(), "{one} to {other}");
    }
}

#[test]
fn a_summary_lists_three_changes_and_counts_the_rest() {
    let old = r#"{"type":"object","properties":{"spec":{"type":"object","properties":{
        "a":{"type":"string"},"b":{"type":"string"},"c":{"type":"integer"},"d":{"type":"string"},"e.f":{"type":"string"}}}}}"#;
    let new = r#"{"type":"object","properties":{"spec":{"type":"object","properties":{
        "b":{"type":"string","pattern":"x"},"c":{"type":"string"},"d":{"type":"string","maxLength":3}}}}}"#;
    let report = compare_schemas(&schema(old), &schema(new));
    insta::assert_snapshot!(report.to_string());
    let codes: BTreeSet<Code> = report.diagnostics().iter().map(|diagnostic| diagnostic.code).collect();
    assert_eq!(codes, BTreeSet::from([Code::PropertyRemoved, Code::TypeChanged, Code::ConstraintTightened]));
}

#[test]
fn names_of_change_kinds_are_unique() {
    let names: BTreeSet<&str> = ChangeKind::ALL.iter().map(|kind| kind.as_str()).collect();
    assert_eq!(names.len(), ChangeKind::ALL.len());
}
