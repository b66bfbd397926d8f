//! Turns the JSON Schema of a Rust type into the structural schema that Kubernetes takes.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value as Json};

/// The structural schema of a type.
///
/// An optional field is one that may be left out, not one that may be `null`: so kro has it, and API conventions too.
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
    gather_words(map);
    for (key, value) in map.iter_mut() {
        match (key.as_str(), value) {
            ("properties", Json::Object(properties)) => properties.values_mut().for_each(make_structural),
            ("items" | "additionalProperties" | "not", inner) => make_structural(inner),
            ("anyOf" | "oneOf" | "allOf", Json::Array(items)) => items.iter_mut().for_each(make_structural),
            _ => {}
        }
    }
}

/// `anyOf: [T, null]` is `T`; what the field says beside it, such as its description, goes before what `T` says.
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

/// An enum with documented variants is a `oneOf` of constants; here it is one list of words.
fn gather_words(map: &mut Map<String, Json>) {
    let Some(Json::Array(choices)) = map.get("oneOf") else {
        return;
    };
    let word = |choice: &Json| {
        let words = choice.get("enum").and_then(Json::as_array).map(Vec::as_slice);
        choice.get("const").cloned().or(match words {
            Some([word]) => Some(word.clone()),
            _ => None,
        })
    };
    if let Some(words) = choices.iter().map(word).collect::<Option<Vec<_>>>() {
        map.remove("oneOf");
        map.insert("type".to_owned(), "string".into());
        map.insert("enum".to_owned(), words.into());
    }
}
