//! An instance as YAML: required fields with values, optional ones as comments, each with its type.

use serde_json::Value as Json;

use super::describe::{constraints, fields, type_name};
use super::{Api, inline, sample};

/// How the instance is written.
pub(super) struct Options<'o> {
    pub(super) name: &'o str,
    pub(super) namespace: Option<&'o str>,
    /// Optional fields are set as well.
    pub(super) all: bool,
}

/// The instance.
pub(super) fn yaml(api: &Api, options: &Options<'_>) -> String {
    let name = inline(&Json::from(options.name));
    let mut text = format!(
        "apiVersion: {}\nkind: {}\nmetadata:\n  name: {name}\n",
        api.api_version(),
        api.graph.instance.kind
    );
    if let Some(namespace) = options.namespace.filter(|_| api.graph.instance.namespaced) {
        text.push_str(&format!("  namespace: {}\n", inline(&Json::from(namespace))));
    }
    let Some(spec) = api.property("spec") else { return text };
    let mut lines = Vec::new();
    object(spec, None, options, &mut lines);
    if lines.iter().all(|line| line.trim_start().starts_with('#')) {
        // Nothing is required: the comments need no value around them.
        text.push_str("spec: {}\n");
        text.extend(lines.iter().map(|line| format!("  {line}\n")));
        return text;
    }
    text.push_str("spec:\n");
    text.extend(lines.iter().map(|line| format!("  {line}\n")));
    text
}

/// The fields of an object. `set` is what a default gives to them.
fn object(schema: &Json, set: Option<&Json>, options: &Options<'_>, lines: &mut Vec<String>) {
    for (name, field, required) in fields(schema) {
        let mut about = vec![type_name(field)];
        about.extend(constraints(field));
        if required {
            about.insert(1, "required".to_owned());
        }
        let description = field["description"].as_str().unwrap_or_default();
        for line in description.lines().map(str::trim).filter(|line| !line.is_empty()) {
            lines.push(format!("# {line}"));
        }
        let one_line = about.join(", ").split_whitespace().collect::<Vec<_>>().join(" ");
        lines.push(format!("# {one_line}"));
        let given = set.and_then(|set| set.get(name));
        let mut written = Vec::new();
        let is_comment = !required && !options.all;
        // What is a comment as a whole has all of its fields.
        let inner = Options { all: options.all || is_comment, ..*options };
        entry(name, field, given, &inner, &mut written);
        lines.extend(written.into_iter().map(|line| if is_comment { format!("# {line}") } else { line }));
    }
}

/// A field with its value.
fn entry(name: &str, schema: &Json, given: Option<&Json>, options: &Options<'_>, lines: &mut Vec<String>) {
    let key = inline(&Json::from(name));
    let has_fields = schema["properties"].as_object().is_some_and(|fields| !fields.is_empty());
    if has_fields && schema["type"] == "object" {
        let mut inner = Vec::new();
        object(schema, given.or_else(|| schema.get("default")), options, &mut inner);
        let is_empty = inner.iter().all(|line| line.starts_with('#'));
        lines.push(if is_empty { format!("{key}: {{}}") } else { format!("{key}:") });
        lines.extend(inner.into_iter().map(|line| format!("  {line}")));
        return;
    }
    let value = given.cloned().unwrap_or_else(|| sample::value(schema, name, 0));
    match &value {
        Json::Array(items) if !items.is_empty() => {
            lines.push(format!("{key}:"));
            lines.extend(block(&value));
        }
        Json::Object(entries) if !entries.is_empty() => {
            lines.push(format!("{key}:"));
            lines.extend(block(&value));
        }
        scalar => lines.push(format!("{key}: {}", inline(scalar))),
    }
}

fn block(value: &Json) -> Vec<String> {
    kross_api::to_yaml(value).trim_end().lines().map(|line| format!("  {line}")).collect()
}
