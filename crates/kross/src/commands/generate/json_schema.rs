//! JSON schemas for editors, from the OpenAPI schemas of CRDs.

use serde_json::{Map, Value as Json, json};

use super::{Api, definition_schema};

const DRAFT: &str = "http://json-schema.org/draft-07/schema#";

/// The schema of instances: of one definition, or of any of several.
pub(super) fn of_instances(apis: &[Api]) -> Json {
    let mut schemas: Vec<Json> =
        apis.iter().map(|api| object(api.schema(), &api.api_version(), &api.graph.instance.kind)).collect();
    if schemas.len() == 1 {
        return with_draft(schemas.remove(0));
    }
    // `oneOf` would say of a mistake that no schema matches; this way the kind chooses the schema.
    let kinds: Vec<Json> = apis.iter().map(|api| json!(api.graph.instance.kind.as_str())).collect();
    let choices: Vec<Json> = apis
        .iter()
        .zip(schemas)
        .map(|(api, schema)| {
            let kind = json!({"const": api.graph.instance.kind.as_str()});
            json!({"if": {"properties": {"kind": kind}, "required": ["kind"]}, "then": schema})
        })
        .collect();
    with_draft(json!({"type": "object", "properties": {"kind": {"enum": kinds}}, "allOf": choices}))
}

/// The schema of definitions.
pub(super) fn of_definitions() -> anyhow::Result<Json> {
    Ok(with_draft(object(&definition_schema()?, kross_graph::API_VERSION, kross_graph::KIND)))
}

fn with_draft(schema: Json) -> Json {
    let mut whole = Map::new();
    whole.insert("$schema".to_owned(), json!(DRAFT));
    if let Json::Object(entries) = schema {
        whole.extend(entries);
    }
    Json::Object(whole)
}

fn object(schema: &Json, api_version: &str, kind: &str) -> Json {
    let mut converted = convert(schema);
    let Some(properties) = converted.get_mut("properties").and_then(Json::as_object_mut) else {
        return converted;
    };
    properties.insert("apiVersion".to_owned(), json!({"const": api_version}));
    properties.insert("kind".to_owned(), json!({"const": kind}));
    let text = json!({"type": "string"});
    let texts = json!({"type": "object", "additionalProperties": {"type": "string"}});
    properties.insert(
        "metadata".to_owned(),
        json!({"type": "object", "properties": {
            "name": text, "generateName": text, "namespace": text, "labels": texts, "annotations": texts,
        }}),
    );
    if let Some(entries) = converted.as_object_mut() {
        entries.insert("required".to_owned(), json!(["apiVersion", "kind", "metadata"]));
    }
    converted
}

/// Converts a schema of OpenAPI 3.0 with Kubernetes' extensions to JSON schema.
fn convert(schema: &Json) -> Json {
    let Json::Object(entries) = schema else { return schema.clone() };
    let mut out = Map::new();
    for (keyword, value) in entries {
        match keyword.as_str() {
            "properties" => {
                let fields = value.as_object().into_iter().flatten();
                let fields: Map<String, Json> =
                    fields.map(|(name, field)| (name.clone(), convert(field))).collect();
                out.insert(keyword.clone(), Json::Object(fields));
            }
            "items" | "additionalProperties" | "not" => {
                out.insert(keyword.clone(), convert(value));
            }
            "allOf" | "anyOf" | "oneOf" => {
                let all = value.as_array().into_iter().flatten().map(convert).collect();
                out.insert(keyword.clone(), all);
            }
            "example" => {
                out.insert("examples".to_owned(), json!([value]));
            }
            "minimum" if entries.get("exclusiveMinimum") == Some(&json!(true)) => {
                out.insert("exclusiveMinimum".to_owned(), value.clone());
            }
            "maximum" if entries.get("exclusiveMaximum") == Some(&json!(true)) => {
                out.insert("exclusiveMaximum".to_owned(), value.clone());
            }
            "exclusiveMinimum" | "exclusiveMaximum" | "nullable" | "externalDocs" => {}
            extension if extension.starts_with("x-") => {}
            _ => {
                out.insert(keyword.clone(), value.clone());
            }
        }
    }
    let is_open = entries.get("x-kubernetes-preserve-unknown-fields") == Some(&json!(true));
    if out.contains_key("properties") && !is_open && !out.contains_key("additionalProperties") {
        // The API server drops unknown fields or refuses them; an editor should say so.
        out.insert("additionalProperties".to_owned(), json!(false));
    }
    if entries.get("x-kubernetes-int-or-string") == Some(&json!(true)) {
        out.remove("anyOf");
        out.insert("type".to_owned(), json!(["integer", "string"]));
    }
    if entries.get("nullable") == Some(&json!(true))
        && let Some(kind) = out.get("type").and_then(Json::as_str).map(str::to_owned)
    {
        out.insert("type".to_owned(), json!([kind, "null"]));
    }
    Json::Object(out)
}
