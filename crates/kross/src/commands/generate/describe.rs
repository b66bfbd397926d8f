//! Describes the schema of a field in words.

use serde_json::Value as Json;

use super::inline;

/// The type of a field: `string`, `[]integer`, `map[string]object`.
pub(super) fn type_name(schema: &Json) -> String {
    if schema["x-kubernetes-int-or-string"] == true {
        return "integer or string".to_owned();
    }
    match schema["type"].as_str() {
        Some("array") => format!("[]{}", type_name(&schema["items"])),
        Some("object") => match &schema["additionalProperties"] {
            Json::Object(values) if !values.is_empty() => {
                format!("map[string]{}", type_name(&schema["additionalProperties"]))
            }
            _ => "object".to_owned(),
        },
        Some(name) => name.to_owned(),
        None => "any value".to_owned(),
    }
}

/// What a value must satisfy, and what it is when it is left out.
pub(super) fn constraints(schema: &Json) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(default) = schema.get("default") {
        found.push(format!("default: {}", inline(default)));
    }
    if let Some(choices) = schema["enum"].as_array() {
        found.push(format!("one of {}", choices.iter().map(inline).collect::<Vec<_>>().join(", ")));
    }
    for (keyword, words) in [
        ("minimum", "at least"),
        ("maximum", "at most"),
        ("multipleOf", "a multiple of"),
        ("format", "format"),
        ("pattern", "pattern"),
    ] {
        let exclusive = schema[&format!("exclusive{}", capitalized(keyword))] == true;
        let words = match keyword {
            "minimum" if exclusive => "more than",
            "maximum" if exclusive => "less than",
            _ => words,
        };
        if let Some(value) = schema.get(keyword) {
            found
                .push(format!("{words} {}", value.as_str().map_or_else(|| value.to_string(), str::to_owned)));
        }
    }
    for (least, most, what) in [
        ("minLength", "maxLength", "characters"),
        ("minItems", "maxItems", "items"),
        ("minProperties", "maxProperties", "entries"),
    ] {
        let (least, most) = (schema[least].as_u64(), schema[most].as_u64());
        match (least, most) {
            (Some(least), Some(most)) if least == most => found.push(format!("{least} {what}")),
            (Some(least), Some(most)) => found.push(format!("{least} to {most} {what}")),
            (Some(least), None) => found.push(format!("at least {least} {what}")),
            (None, Some(most)) => found.push(format!("at most {most} {what}")),
            (None, None) => {}
        }
    }
    found.extend(validations(schema).map(|(rule, message)| message.unwrap_or(rule).to_owned()));
    found
}

/// The CEL rules of a schema with their messages.
pub(super) fn validations(schema: &Json) -> impl Iterator<Item = (&str, Option<&str>)> {
    let rules = schema["x-kubernetes-validations"].as_array().into_iter().flatten();
    rules.filter_map(|rule| Some((rule["rule"].as_str()?, rule["message"].as_str())))
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// The names of the fields of an object, required ones first, with whether they are.
pub(super) fn fields(schema: &Json) -> Vec<(&str, &Json, bool)> {
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
    let all = schema["properties"].as_object().into_iter().flatten();
    let mut fields: Vec<(&str, &Json, bool)> =
        all.map(|(name, field)| (name.as_str(), field, required.contains(&name.as_str()))).collect();
    fields.sort_by_key(|(_, _, required)| !required);
    fields
}
