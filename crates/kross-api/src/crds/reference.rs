//! Turns the CustomResourceDefinitions into the reference page of their fields, `docs/api.md`.

use std::collections::BTreeMap;
use std::fmt::Write;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Map, Value as Json};

const INTRODUCTION: &str = "\
# API

Every field of the kinds that kross installs. The kinds that definitions serve have the fields of their schema, and the status that
[lifecycle](lifecycle.md#what-the-status-reports) describes. `kubectl explain` shows the same.
";

/// The page.
#[must_use]
pub fn api_markdown() -> String {
    let mut page = Page { text: INTRODUCTION.to_owned(), shown: BTreeMap::new() };
    let crds = super::crds();
    page.text.push_str("\n| kind | API version | scope | |\n|---|---|---|---|\n");
    for crd in &crds {
        page.summary(crd);
    }
    for crd in &crds {
        page.section(crd);
    }
    page.text
}

/// The page so far.
struct Page {
    text: String,
    /// Where the fields of an object were shown, by its properties.
    shown: BTreeMap<String, String>,
}

impl Page {
    fn summary(&mut self, crd: &CustomResourceDefinition) {
        let (kind, group) = (&crd.spec.names.kind, &crd.spec.group);
        let versions: Vec<String> =
            crd.spec.versions.iter().map(|version| format!("`{group}/{}`", version.name)).collect();
        let description =
            stored(crd).and_then(|schema| text(&schema, "description").map(cell)).unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = writeln!(
            self.text,
            "| [{kind}](#{}) | {} | {} | {description} |",
            kind.to_lowercase(),
            versions.join(", "),
            crd.spec.scope
        );
    }

    fn section(&mut self, crd: &CustomResourceDefinition) {
        let Some(schema) = stored(crd) else { return };
        let kind = &crd.spec.names.kind;
        let _ = writeln!(self.text, "\n## {kind}\n\n| field | type | |\n|---|---|---|");
        for part in ["spec", "status"] {
            if let Some(schema) = schema.pointer(&format!("/properties/{part}")) {
                self.rules(part, schema);
                self.fields(kind, part, schema);
            }
        }
    }

    /// The rows of the fields of an object.
    fn fields(&mut self, kind: &str, path: &str, schema: &Json) {
        let Some(properties) = schema.get("properties").and_then(Json::as_object) else { return };
        let required = schema.get("required").and_then(Json::as_array);
        for (name, field) in properties {
            let is_required = required.is_some_and(|names| names.iter().any(|required| required == name));
            self.row(kind, &format!("{path}.{name}"), field, is_required);
        }
    }

    fn row(&mut self, kind: &str, path: &str, field: &Json, required: bool) {
        let (path, of) = object_of(path.to_owned(), field);
        let known = of.and_then(properties_text).map(|text| (self.shown.get(&text).cloned(), text));
        let mut description = text(field, "description").map(cell).unwrap_or_default();
        if let Some(values) = field.get("enum").and_then(Json::as_array) {
            let values: Vec<String> = values.iter().map(|value| format!("`{}`", plain(value))).collect();
            append(&mut description, &format!("One of {}.", values.join(", ")));
        }
        if let Some(default) = field.get("default") {
            append(&mut description, &format!("Default: `{}`.", plain(default)));
        }
        if required {
            append(&mut description, "Required.");
        }
        if let Some((Some(place), _)) = &known {
            append(&mut description, &format!("Fields as of `{place}`."));
        }
        let _ = writeln!(self.text, "| `{path}` | {} | {description} |", type_of(field));
        if let (Some((None, text)), Some(of)) = (known, of) {
            self.shown.insert(text, format!("{path}` of `{kind}"));
            self.rules(&path, of);
            self.fields(kind, &path, of);
        }
    }

    /// The rules that an API server checks, as its messages say them.
    fn rules(&mut self, path: &str, schema: &Json) {
        let rules = schema.get("x-kubernetes-validations").and_then(Json::as_array);
        for message in rules.into_iter().flatten().filter_map(|rule| text(rule, "message")) {
            let _ = writeln!(self.text, "| `{path}` | rule | {} |", cell(message));
        }
    }
}

/// The schema of the version that is stored.
fn stored(crd: &CustomResourceDefinition) -> Option<Json> {
    let version = crd.spec.versions.iter().find(|version| version.storage)?;
    let schema = version.schema.as_ref()?.open_api_v3_schema.as_ref()?;
    serde_json::to_value(schema).ok()
}

/// The path and the schema of the object in a field: of the field itself, or of the items of a list or a map.
fn object_of(path: String, field: &Json) -> (String, Option<&Json>) {
    if field.get("properties").is_some() {
        return (path, Some(field));
    }
    match (field.get("items"), field.get("additionalProperties").filter(|items| items.is_object())) {
        (Some(items), _) => object_of(format!("{path}[]"), items),
        (None, Some(values)) => object_of(format!("{path}.*"), values),
        (None, None) => (path, None),
    }
}

fn properties_text(schema: &Json) -> Option<String> {
    let properties: &Map<String, Json> = schema.get("properties")?.as_object()?;
    serde_json::to_string(properties).ok()
}

fn type_of(field: &Json) -> String {
    if let Some(items) = field.get("items") {
        return format!("list of {}", type_of(items));
    }
    if let Some(values) = field.get("additionalProperties").filter(|values| values.is_object()) {
        return format!("map of {}", type_of(values));
    }
    match text(field, "type") {
        Some("object") if field.get("properties").is_none() => "any object".to_owned(),
        Some(name) => name.to_owned(),
        None if field.get("x-kubernetes-int-or-string").is_some() => "integer or string".to_owned(),
        None => "any".to_owned(),
    }
}

fn text<'a>(schema: &'a Json, field: &str) -> Option<&'a str> {
    schema.get(field).and_then(Json::as_str)
}

fn plain(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A text as a cell of a table.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

fn append(description: &mut String, sentence: &str) {
    if !description.is_empty() {
        if !description.ends_with('.') {
            description.push('.');
        }
        description.push(' ');
    }
    description.push_str(sentence);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_kind_and_each_object_once() {
        let page = api_markdown();
        for crd in super::super::crds() {
            assert!(page.contains(&format!("\n## {}\n", crd.spec.names.kind)), "{}", crd.spec.names.kind);
        }
        for row in [
            "| `spec.schema.kind` | string |",
            "| `spec.resources[].cluster.kubeconfigSecret",
            "| `spec.resources[].id` | string |",
        ] {
            let shown = page.contains(row)
                || page.contains("Fields as of `spec.cluster` of `ResourceGraphDefinition`");
            assert!(shown, "{row}");
        }
        assert_eq!(page.matches("| `spec.cluster.kubeconfigSecret` |").count(), 1);
        assert!(page.lines().filter(|line| line.starts_with('|')).all(|line| line.ends_with('|')));
    }
}
