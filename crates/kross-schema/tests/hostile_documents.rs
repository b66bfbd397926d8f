//! OpenAPI documents of a hostile server: definitions that contain themselves or multiply. They cost neither the process nor
//! noticeable time.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use kross_cel::types::Type;
use kross_diagnostics::Path;
use kross_schema::{
    FieldView, GroupVersionKind, LiveSchemas, SchemaResolver, SchemaView, assignable, check_template,
    describe, schema_of,
};
use kross_value::Value;
use serde_json::{Map, Value as Json, json};

fn reference(name: &str) -> Json {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// The field `spec` of a kind whose document has these definitions; `Spec` is its schema.
fn spec(definitions: Vec<(String, Json)>) -> (Arc<LiveSchemas>, SchemaView) {
    let kind = json!({"group": "example.com", "version": "v1", "kind": "Widget"});
    let mut schemas: Map<String, Json> = definitions.into_iter().collect();
    schemas.insert(
        "Widget".to_owned(),
        json!({"type": "object", "properties": {"spec": reference("Spec")}, "x-kubernetes-group-version-kind": [kind]}),
    );
    let document = json!({"paths": {"/apis/example.com/v1/widgets": {"get": {"x-kubernetes-group-version-kind": kind}}},
        "components": {"schemas": schemas}});
    let live = Arc::new(LiveSchemas::new());
    live.insert("example.com/v1", "A", document.to_string().as_bytes()).unwrap();
    let widget = live.resolve(&GroupVersionKind::new("example.com/v1", "Widget")).unwrap();
    let FieldView::Known(spec) = widget.schema.field("spec") else { panic!("no spec") };
    (live, spec)
}

/// Everything that is done with the schema of a field: its type, messages, expressions and literals.
fn use_everywhere(spec: &SchemaView, value: &str) {
    let start = Instant::now();
    let found = spec.cel_type();
    assert!(found.to_string().len() < 10_000);
    assert!(schema_of(&found).to_value().to_string().len() < 10_000_000);
    assert!(describe(spec).len() < 100_000);
    for found in
        [&found, &Type::String, &Type::list(Type::list(Type::Int)), &Type::map(Type::String, Type::Int)]
    {
        let _ = assignable(found, spec);
    }
    let _ = found.needs_conversion();
    let value: Value = serde_json::from_str(value).unwrap();
    let mut problems = Vec::new();
    check_template(&value, spec, &Path::root(), &mut |_| false, &mut problems);
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

#[test]
fn a_list_or_a_map_of_itself_is_not_followed_for_ever() {
    for schema in [
        json!({"type": "array", "items": reference("Spec")}),
        json!({"type": "object", "additionalProperties": reference("Spec")}),
        json!({"type": "object", "properties": {"a": {"type": "array", "items": reference("Loop")}}}),
    ] {
        let inner = json!({"type": "array", "items": reference("Loop")});
        let (_live, spec) = spec(vec![("Spec".to_owned(), schema), ("Loop".to_owned(), inner)]);
        use_everywhere(&spec, "[[[1]]]");
        use_everywhere(&spec, r#"{"a": {"a": [[[1]]]}}"#);
    }
}

#[test]
fn a_choice_of_itself_is_not_followed_for_ever() {
    for schema in [
        json!({"anyOf": [reference("Spec"), reference("Spec")]}),
        json!({"oneOf": [{"type": "array", "items": reference("Spec")}, {"type": "array", "items": reference("Spec")}]}),
        json!({"anyOf": vec![reference("Spec"); 10_000]}),
        json!({"allOf": [reference("Spec"), reference("Spec")]}),
    ] {
        let (_live, spec) = spec(vec![("Spec".to_owned(), schema)]);
        use_everywhere(&spec, &format!("{}1{}", "[".repeat(100), "]".repeat(100)));
        use_everywhere(&spec, r#"{"a": 1}"#);
    }
}

#[test]
fn definitions_that_multiply_are_not_compared_in_every_combination() {
    let name = |at: usize| if at == 0 { "Spec".to_owned() } else { format!("D{at}") };
    let level = |at: usize| {
        let next = reference(&name(at + 1));
        (name(at), json!({"type": "object", "properties": {"a": next, "b": next}}))
    };
    let (_live, one) = spec((0..60).map(level).collect());
    use_everywhere(&one, r#"{"a": {"b": {"a": {}}}}"#);
    // Another server's definitions have the same fields.
    let (_live, other) = spec((0..60).map(level).collect());
    let start = Instant::now();
    let _ = assignable(&one.cel_type(), &other);
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

#[test]
fn a_long_chain_of_definitions_does_not_exhaust_the_stack() {
    let name = |at: usize| if at == 0 { "Spec".to_owned() } else { format!("D{at}") };
    let chain = |schema: &dyn Fn(Json) -> Json| {
        (0..10_000).map(|at| (name(at), schema(reference(&name(at + 1))))).collect::<Vec<_>>()
    };
    let schemas: [&dyn Fn(Json) -> Json; 4] = [
        &|next| json!({"type": "object", "properties": {"a": next}}),
        &|next| json!({"type": "array", "items": next}),
        &|next| json!({"anyOf": [next]}),
        &|next| next,
    ];
    for schema in schemas {
        let (_live, spec) = spec(chain(schema));
        use_everywhere(&spec, r#"{"a": {"a": {}}}"#);
    }
}
