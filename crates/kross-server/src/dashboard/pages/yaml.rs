//! An object as YAML, as kubectl prints it, without the values of Secrets and without what only servers read.

use serde_json::Value as Json;

/// An object as YAML, without the values of a Secret.
pub(super) fn yaml(mut object: Json) -> String {
    if let Some(metadata) = object.pointer_mut("/metadata").and_then(Json::as_object_mut) {
        metadata.remove("managedFields");
    }
    if object.get("kind").and_then(Json::as_str) == Some("Secret") {
        for field in ["data", "stringData"] {
            for value in
                object.get_mut(field).and_then(Json::as_object_mut).into_iter().flat_map(|it| it.values_mut())
            {
                *value = Json::from("*****");
            }
        }
        if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Json::as_object_mut) {
            annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        }
    }
    text(&object)
}

/// Any value as YAML.
pub(super) fn text(value: &Json) -> String {
    let mut text = String::new();
    write_yaml(value, 0, &mut text);
    text
}

/// Block style, as kubectl prints it. Texts that could be read as something else are quoted as in JSON, which is YAML too.
fn write_yaml(value: &Json, indent: usize, text: &mut String) {
    let pad = " ".repeat(indent);
    match value {
        Json::Object(fields) if !fields.is_empty() => {
            for (key, field) in fields {
                text.push_str(&format!("{pad}{key}:"));
                write_field(field, indent + 2, text);
            }
        }
        Json::Array(items) if !items.is_empty() => {
            for item in items {
                let mut inner = String::new();
                write_yaml(item, indent + 2, &mut inner);
                text.push_str(&format!("{pad}- {}", inner.get(indent + 2..).unwrap_or(&inner)));
            }
        }
        other => text.push_str(&format!("{pad}{}\n", scalar(other))),
    }
}

fn write_field(field: &Json, indent: usize, text: &mut String) {
    let is_nested = field.as_object().is_some_and(|it| !it.is_empty())
        || field.as_array().is_some_and(|it| !it.is_empty());
    if is_nested {
        text.push('\n');
        // kubectl does not indent lists.
        write_yaml(field, if field.is_array() { indent.saturating_sub(2) } else { indent }, text);
    } else {
        text.push_str(&format!(" {}\n", scalar(field)));
    }
}

fn scalar(value: &Json) -> String {
    let Json::String(text) = value else { return value.to_string() };
    let plain = !text.is_empty()
        && text.chars().all(|it| it.is_ascii_alphanumeric() || "-_./".contains(it))
        && text.starts_with(|it: char| it.is_ascii_alphabetic())
        && !matches!(
            text.to_ascii_lowercase().as_str(),
            "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "y" | "n"
        );
    if plain { text.clone() } else { value.to_string() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_of_a_secret_are_not_shown() {
        let secret = json!({"kind": "Secret", "metadata": {"name": "x", "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "hunter2"}}, "data": {"password": "aHVudGVyMg=="},
            "stringData": {"other": "hunter2"}});
        let shown = yaml(secret);
        assert!(
            shown.contains("password: \"*****\"") && !shown.contains("hunter2") && !shown.contains("aHVu"),
            "{shown}"
        );
    }

    #[test]
    fn yaml_is_block_style() {
        let object = json!({"kind": "Pod", "spec": {"containers": [{"name": "a", "args": ["1", "x: y"]}], "none": {}, "on": "yes"}});
        assert_eq!(
            yaml(object),
            "kind: Pod\nspec:\n  containers:\n  - args:\n    - \"1\"\n    - \"x: y\"\n    name: a\n  none: {}\n  on: \"yes\"\n"
        );
    }
}
