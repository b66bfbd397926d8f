//! Converts the JSON Schema of a Rust type to a structural schema, as Kubernetes requires.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value as Json};

/// The structural schema of a type.
///
/// An optional field may be omitted, but not be `null`, as in kro and in the Kubernetes API conventions.
pub(crate) fn structural_schema<T: JsonSchema>() -> Json {
    let settings = SchemaSettings::openapi3().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    make_structural(&mut schema);
    schema
}

fn make_structural(schema: &mut Json) {
    let Json::Object(map) = schema else {
        return;
    };
    map.remove("title");
    map.remove("nullable");
    unwrap_optional(map);
    merge_enum_values(map);
    for (key, value) in map.iter_mut() {
        match (key.as_str(), value) {
            ("properties", Json::Object(properties)) => properties.values_mut().for_each(make_structural),
            ("items" | "additionalProperties" | "not", inner) => make_structural(inner),
            ("anyOf" | "oneOf" | "allOf", Json::Array(items)) => items.iter_mut().for_each(make_structural),
            _ => {}
        }
    }
}

/// Replaces `anyOf: [T, null]` by `T`. Keywords of the field itself, such as its description, override those of `T`.
fn unwrap_optional(map: &mut Map<String, Json>) {
    let Some(Json::Array(choices)) = map.get_mut("anyOf") else {
        return;
    };
    let Some(at) = choices.iter().position(is_null) else {
        return;
    };
    choices.remove(at);
    if let [Json::Object(only)] = choices.as_mut_slice() {
        let only = std::mem::take(only);
        map.remove("anyOf");
        for (key, value) in only {
            map.entry(key).or_insert(value);
        }
        map.remove("nullable");
        unwrap_optional(map);
    }
}

fn is_null(schema: &Json) -> bool {
    schema.get("enum").is_some_and(|values| *values == serde_json::json!([null]))
        || schema.get("type").is_some_and(|kind| kind == "null")
}

/// Merges the `oneOf` of constants that schemars generates for an enum with documented variants into one `enum`.
fn merge_enum_values(map: &mut Map<String, Json>) {
    let Some(Json::Array(choices)) = map.get("oneOf") else {
        return;
    };
    let only_value = |choice: &Json| {
        let values = choice.get("enum").and_then(Json::as_array).map(Vec::as_slice);
        choice.get("const").cloned().or(match values {
            Some([value]) => Some(value.clone()),
            _ => None,
        })
    };
    if let Some(values) = choices.iter().map(only_value).collect::<Option<Vec<_>>>() {
        map.remove("oneOf");
        map.insert("type".to_owned(), "string".into());
        map.insert("enum".to_owned(), values.into());
    }
}
