//! Tests of which CEL types and literals can be assigned to which fields.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::fmt::Write as _;

use kross_cel::types::Type;
use kross_diagnostics::Path;
use kross_schema::openapi::{Keep, Schema};
use kross_schema::{
    Bundle, FieldView, GroupVersionKind, SchemaResolver, SchemaView, Written, assignable, check_template,
};
use kross_value::Value;

fn view(json: &str) -> SchemaView {
    SchemaView::of("Target", Schema::from_json(json, Keep::Everything).unwrap())
}

fn kind(api_version: &str, kind: &str) -> SchemaView {
    Bundle::latest().resolve(&GroupVersionKind::new(api_version, kind)).unwrap().schema.clone()
}

/// The schema at a path of a built-in kind; `[]` is the item of a list or the value of a map.
fn field(api_version: &str, kind_name: &str, path: &str) -> SchemaView {
    path.split('.').fold(kind(api_version, kind_name), |view, step| {
        if step == "[]" {
            return view.items().or_else(|| view.values()).expect("a list or map");
        }
        match view.field(step) {
            FieldView::Known(field) => field,
            other => panic!("{path}: {other:?}"),
        }
    })
}

fn source(json: &str) -> Type {
    SchemaView::of("Source", Schema::from_json(json, Keep::Everything).unwrap()).cel_type()
}

#[test]
fn assignable_types() {
    let string = r#"{"type":"string"}"#;
    let int_or_string = r#"{"x-kubernetes-int-or-string":true}"#;
    let quantity = r#"{"oneOf":[{"type":"string"},{"type":"number"}]}"#;
    let person = r#"{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}},"required":["age"]}"#;
    for (found, target) in [
        (Type::String, string),
        (Type::Dyn, string),
        (Type::optional(Type::String), string),
        (Type::nullable(Type::String), string),
        (Type::optional(Type::optional(Type::Dyn)), string),
        (Type::String, r#"{"type":"string","enum":["a"],"pattern":"x"}"#),
        (Type::String, r#"{"type":"string","format":"byte"}"#),
        (Type::Bytes, r#"{"type":"string","format":"byte"}"#),
        (Type::String, r#"{"type":"string","format":"date-time"}"#),
        (Type::Timestamp, r#"{"type":"string","format":"date-time"}"#),
        (Type::Duration, r#"{"type":"string","format":"duration"}"#),
        (Type::Int, r#"{"type":"integer"}"#),
        (Type::UInt, r#"{"type":"integer"}"#),
        (Type::Int, r#"{"type":"number"}"#),
        (Type::Double, r#"{"type":"number"}"#),
        (Type::Bool, r#"{"type":"boolean"}"#),
        (Type::Null, r#"{"type":"string","nullable":true}"#),
        (Type::Null, person),
        (Type::Int, int_or_string),
        (Type::String, int_or_string),
        (Type::String, quantity),
        (Type::Int, quantity),
        (Type::Double, quantity),
        (Type::String, r#"{}"#),
        (Type::list(Type::Int), r#"{"x-kubernetes-preserve-unknown-fields":true}"#),
        (
            Type::map(Type::String, Type::Int),
            r#"{"type":"object","x-kubernetes-preserve-unknown-fields":true}"#,
        ),
        (Type::list(Type::String), r#"{"type":"array","items":{"type":"string"}}"#),
        (Type::list(Type::Dyn), r#"{"type":"array","items":{"type":"string"}}"#),
        (Type::list(Type::String), r#"{"type":"array"}"#),
        (
            Type::map(Type::String, Type::String),
            r#"{"type":"object","additionalProperties":{"type":"string"}}"#,
        ),
        (Type::map(Type::Dyn, Type::Dyn), r#"{"type":"object","additionalProperties":{"type":"string"}}"#),
        (Type::map(Type::String, Type::String), person),
        (Type::map(Type::String, Type::Dyn), person),
        (source(person), person),
        (source(r#"{"type":"object","properties":{"name":{"type":"string"}}}"#), person),
        (
            source(r#"{"type":"object","properties":{"name":{"type":"string"}}}"#),
            r#"{"type":"object","additionalProperties":{"type":"string"}}"#,
        ),
        (source(person), r#"{"type":"object","x-kubernetes-preserve-unknown-fields":true}"#),
        (source(person), r#"{}"#),
    ] {
        let target = view(target);
        if let Err(mismatch) = assignable(&found, &target) {
            panic!("{found} is not assignable to {}: {mismatch}", target.schema().to_value());
        }
    }
}

#[test]
fn a_list_without_item_type_is_assignable_to_a_typed_list() {
    let rules = field("rbac.authorization.k8s.io/v1", "ClusterRole", "rules");
    let free =
        source(r#"{"type":"array","items":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}"#);
    assert_eq!(assignable(&free, &rules), Ok(Written::AsIs));
}

#[test]
fn a_field_is_assignable_to_the_same_field_of_another_kind() {
    let template = kind("apps/v1", "Deployment").cel_type();
    let Type::Object(deployment) = template else { panic!() };
    let Some(Type::Object(spec)) = deployment.field("spec") else { panic!() };
    let found = spec.field("template").unwrap();
    assert_eq!(assignable(&found, &field("apps/v1", "StatefulSet", "spec.template")), Ok(Written::AsIs));
    assert_eq!(assignable(&found, &field("batch/v1", "Job", "spec.template")), Ok(Written::AsIs));
    let data = field("v1", "Secret", "data");
    assert_eq!(assignable(&data.cel_type(), &data), Ok(Written::BytesAsBase64));
    let schema = field("apiextensions.k8s.io/v1", "CustomResourceDefinition", "spec.versions.[].schema");
    assert!(assignable(&schema.cel_type(), &schema).is_ok());
}

#[test]
fn a_mismatch_reports_the_part_that_differs() {
    let string = r#"{"type":"string"}"#;
    let person = r#"{"type":"object","properties":{"name":{"type":"string"},"address":{"type":"object","properties":{"zip":{"type":"integer"}}}}}"#;
    let mut shown = String::new();
    for (found, target) in [
        (Type::Int, string),
        (Type::optional(Type::Int), string),
        (Type::Timestamp, string),
        (Type::Duration, string),
        (Type::Bytes, string),
        (Type::Bytes, r#"{}"#),
        (Type::Null, string),
        (Type::opaque("kubernetes.Quantity"), string),
        (Type::String, r#"{"type":"integer"}"#),
        (Type::Double, r#"{"type":"integer"}"#),
        (Type::String, r#"{"type":"number"}"#),
        (Type::String, r#"{"type":"boolean"}"#),
        (Type::Bool, r#"{"x-kubernetes-int-or-string":true}"#),
        (Type::Bool, r#"{"oneOf":[{"type":"string"},{"type":"number"}]}"#),
        (Type::String, r#"{"type":"array","items":{"type":"string"}}"#),
        (Type::list(Type::Int), r#"{"type":"array","items":{"type":"string"}}"#),
        (
            Type::list(Type::list(Type::Int)),
            r#"{"type":"array","items":{"type":"array","items":{"type":"string"}}}"#,
        ),
        (Type::map(Type::String, Type::Int), r#"{"type":"object","additionalProperties":{"type":"string"}}"#),
        (Type::map(Type::Int, Type::Int), r#"{"type":"object","additionalProperties":{"type":"integer"}}"#),
        (Type::map(Type::String, Type::Bool), person),
        (Type::map(Type::String, Type::Bytes), r#"{}"#),
        (Type::String, person),
        (source(r#"{"type":"object","properties":{"nmae":{"type":"string"}}}"#), person),
        (
            source(
                r#"{"type":"object","properties":{"address":{"type":"object","properties":{"zip":{"type":"string"}}}}}"#,
            ),
            person,
        ),
        (source(person), r#"{"type":"object","additionalProperties":{"type":"string"}}"#),
        (source(person), string),
        (
            source(&format!(r#"{{"type":"array","items":{person}}}"#)),
            r#"{"type":"array","items":{"type":"object","properties":{"name":{"type":"integer"}}}}"#,
        ),
        (source(person), r#"{"type":"object"}"#),
    ] {
        let target = view(target);
        let mismatch = assignable(&found, &target).expect_err("does not fit");
        writeln!(shown, "{mismatch}").unwrap();
        if let Some(help) = mismatch.help {
            writeln!(shown, "    help: {help}").unwrap();
        }
    }
    insta::assert_snapshot!(shown);
}

/// Checks a template, skipping strings with expressions, and shows the problems and the targets of the expressions.
fn checked(value: &str, target: &SchemaView) -> String {
    let value: Value = serde_json::from_str(value).unwrap_or_else(|error| panic!("{error} in {value}"));
    let mut problems = Vec::new();
    let mut shown = String::new();
    let texts = &mut |found: kross_schema::FoundText<'_>| {
        let expression = found.text.contains("${");
        if expression {
            let target = found.target.map_or_else(|| "?".to_owned(), kross_schema::describe);
            writeln!(shown, "{} -> {target}", found.path).unwrap();
        }
        expression
    };
    check_template(&value, target, &Path::root(), texts, &mut problems);
    for problem in problems {
        let on_key = if problem.place.part == kross_diagnostics::Part::Key { " (key)" } else { "" };
        writeln!(shown, "{} {}{on_key}: {}", problem.code, problem.place.path, problem.message).unwrap();
        for line in problem.help.iter().map(|help| format!("    help: {help}")) {
            writeln!(shown, "{line}").unwrap();
        }
        for line in problem.replacement.iter().map(|text| format!("    fix: {text}")) {
            writeln!(shown, "{line}").unwrap();
        }
    }
    shown
}

#[test]
fn a_valid_template_has_no_problems() {
    let deployment = r#"{
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "labels": {"app": "web"}, "annotations": null},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{
                    "name": "web", "image": "nginx",
                    "ports": [{"containerPort": 80}],
                    "resources": {"limits": {"cpu": 1, "memory": "1Gi"}},
                    "livenessProbe": {"httpGet": {"path": "/", "port": "http"}}
                }]}
            }
        }
    }"#;
    assert_eq!(checked(deployment, &kind("apps/v1", "Deployment")), "");
    let secret = r#"{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": "aGk="}, "stringData": {"b": "hi"}}"#;
    assert_eq!(checked(secret, &kind("v1", "Secret")), "");
    let crd = r#"{"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": {
        "properties": {"a": {"properties": {"b": {"default": {"anything": [1, "x"]}, "enum": [1, "2"]}}}},
        "additionalProperties": true, "x-kubernetes-preserve-unknown-fields": true
    }}}]}}"#;
    assert_eq!(checked(crd, &kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")), "");
}

#[test]
fn every_error_in_a_template_is_reported_at_once() {
    let deployment = r#"{
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "${schema.spec.name}", "labels": {"port": 80, "on": true}, "nmae": "x"},
        "replicas": 3,
        "specs": {},
        "spec": {
            "replicas": "3",
            "paused": "yes",
            "minReadySeconds": 3000000000,
            "progressDeadlineSeconds": 1.5,
            "selector": [],
            "strategy": {"rollingUpdate": {"maxSurge": true}},
            "zzzzzzzzzz": {"deep": "${a.b}"},
            "template": {
                "spec": {
                    "containers": {"name": "x"},
                    "volumes": [
                        {"name": "a", "emptyDir": {"sizeLimit": true}},
                        {"name": "a", "emptyDir": {"sizeLimit": "${b.c}"}},
                        {"name": "${x}"}, {"name": "${x}"}
                    ],
                    "restartPolicy": "always"
                }
            }
        }
    }"#;
    insta::assert_snapshot!(checked(deployment, &kind("apps/v1", "Deployment")));
}

#[test]
fn literals_are_checked_against_the_constraints_of_the_schema() {
    let target = view(
        r#"{"type":"object","maxProperties":20,"properties":{
            "size":{"type":"string","enum":["small","large"]},
            "number":{"type":"integer","enum":[1,2]},
            "version":{"type":"string","pattern":"^v[0-9]+$"},
            "odd":{"type":"string","pattern":"(?=a)"},
            "keep":{"type":"integer","minimum":1,"maximum":5},
            "above":{"type":"number","minimum":0,"exclusiveMinimum":true},
            "below":{"type":"number","maximum":1,"exclusiveMaximum":true},
            "even":{"type":"integer","multipleOf":2},
            "name":{"type":"string","minLength":2,"maxLength":3},
            "list":{"type":"array","minItems":1,"maxItems":2,"items":{"type":"string"}},
            "set":{"type":"array","items":{"type":"string"},"x-kubernetes-list-type":"set"},
            "pairs":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["a","b"],
                "items":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string","default":"x"}}}},
            "map":{"type":"object","minProperties":2,"additionalProperties":{"type":"integer"}},
            "when":{"type":"string","format":"date-time"},
            "day":{"type":"string","format":"date"},
            "id":{"type":"string","format":"uuid"},
            "address":{"type":"string","format":"ipv4"},
            "data":{"type":"string","format":"byte"},
            "free":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"known":{"type":"integer"}}}
        }}"#,
    );
    let good = r#"{"size":"small","number":1,"version":"v12","odd":"x","keep":5,"above":0.1,"below":0.9,"even":4,
        "name":"äöü","list":["a"],"set":["a","b"],"pairs":[{"a":"1"},{"a":"1","b":"y"},{"a":"2"}],"map":{"a":1,"b":2},
        "when":"2024-02-29T23:59:60.123+01:00","day":"2024-02-29","id":"123e4567-e89b-12d3-a456-426614174000",
        "address":"10.0.0.1","data":"aGk=","free":{"anything":[1],"known":3}}"#;
    assert_eq!(checked(good, &target), "");
    let bad = r#"{"size":"smal","number":3,"version":"12","keep":0,"above":0,"below":1,"even":3,
        "name":"x","list":[],"set":["a","b","a"],"pairs":[{"a":"1"},{"a":"1","b":"x"}],"map":{"a":"1"},
        "when":"2023-02-29T00:00:00Z","day":"2024-13-01","id":"123","address":"10.0.0.256","data":"no base64!",
        "free":{"known":"3"}}"#;
    insta::assert_snapshot!(checked(bad, &target));
}
