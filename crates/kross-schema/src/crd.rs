//! Generates the CustomResourceDefinition of a definition. Names, printer columns and status fields are the same as in
//! kro, so that kro and kross can take over each other's CRDs.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use kross_api::{PrinterColumn, Schema as DefinitionSchema};
use kross_value::{Key, Value};

use crate::openapi::{Keep, Kind, Schema};

/// The status fields that every instance has, unless its author defines a field with the same name.
static STATUS_FIELDS: LazyLock<Vec<(&'static str, Schema)>> = LazyLock::new(|| {
    let schemas = kross_api::instance_status_schemas().into_iter();
    let read = |json: serde_json::Value| Schema::from_value(&Value::from(json), Keep::Everything);
    schemas.filter_map(|(name, json)| Some((name, read(json).ok()?))).collect()
});

/// The default columns of `kubectl get`: heading, type, path, description.
const COLUMNS: [[&str; 4]; 3] = [
    ["State", "string", ".status.state", "The state of a ResourceGraphDefinition instance"],
    [
        "Ready",
        "string",
        ".status.conditions[?(@.type==\"Ready\")].status",
        "Whether a ResourceGraphDefinition instance is ready",
    ],
    ["Age", "date", ".metadata.creationTimestamp", "Age of the resource"],
];

/// Generates the CustomResourceDefinition of a definition's schema: `spec` is its translated SimpleSchema, `status` the
/// inferred schema of its status expressions. The controller adds the ownership labels.
#[must_use]
pub fn synthesize(definition: &DefinitionSchema, spec: &Schema, status: &Schema) -> Value {
    let plural = kross_api::plural(&definition.kind);
    let group = definition.group();
    let mut metadata = vec![("name", Value::from(format!("{plural}.{group}")))];
    if let Some(own) = &definition.metadata {
        let maps = [("labels", &own.labels), ("annotations", &own.annotations)];
        metadata.extend(maps.into_iter().filter_map(|(name, map)| Some((name, texts(map.as_ref()?)?))));
    }
    let version = Value::object([
        ("name", Value::from(definition.api_version.as_str())),
        ("served", Value::Bool(true)),
        ("storage", Value::Bool(true)),
        ("schema", Value::object([("openAPIV3Schema", instance_schema(spec, status).to_value())])),
        ("subresources", Value::object([("status", Value::object([]))])),
        ("additionalPrinterColumns", columns(&definition.additional_printer_columns)),
    ]);
    let body = Value::object([
        ("group", Value::from(group)),
        ("names", names(definition, plural)),
        ("scope", Value::from(definition.scope().as_str())),
        ("versions", Value::list([version])),
    ]);
    Value::object([
        ("apiVersion", Value::from("apiextensions.k8s.io/v1")),
        ("kind", Value::from("CustomResourceDefinition")),
        ("metadata", Value::object(metadata)),
        ("spec", body),
    ])
}

/// The schema of an instance: the `openAPIV3Schema` of its CRD.
#[must_use]
pub fn instance_schema(spec: &Schema, status: &Schema) -> Schema {
    Schema::object([
        ("apiVersion", Schema::of(Kind::String)),
        ("kind", Schema::of(Kind::String)),
        ("metadata", Schema::of(Kind::Object)),
        ("spec", spec.clone()),
        ("status", with_status_fields(status)),
    ])
}

/// Adds the fields that every instance has to a status; the author's own fields take precedence.
fn with_status_fields(status: &Schema) -> Schema {
    let mut status = status.clone();
    status.kind = Some(Kind::Object);
    for (name, schema) in STATUS_FIELDS.iter() {
        if status.properties.get(name).is_none() {
            status.properties.insert(Key::new(name), schema.clone());
        }
    }
    status
}

fn names(definition: &DefinitionSchema, plural: String) -> Value {
    let kind = &definition.kind;
    let mut names = vec![
        ("kind", Value::from(kind.as_str())),
        ("listKind", Value::from(format!("{kind}List"))),
        ("plural", Value::from(plural)),
        ("singular", Value::from(kind.to_lowercase())),
    ];
    for (name, words) in [("shortNames", &definition.short_names), ("categories", &definition.categories)] {
        if !words.is_empty() {
            names.push((name, Value::list(words.iter().map(|word| Value::from(word.as_str())))));
        }
    }
    Value::object(names)
}

fn columns(own: &[PrinterColumn]) -> Value {
    if own.is_empty() {
        return Value::list(COLUMNS.map(|[name, kind, path, description]| {
            Value::object([
                ("name", Value::from(name)),
                ("type", Value::from(kind)),
                ("jsonPath", Value::from(path)),
                ("description", Value::from(description)),
            ])
        }));
    }
    Value::list(own.iter().map(|column| {
        let PrinterColumn { name, type_, json_path, format, description, priority } = column;
        let mut entries = vec![
            ("name", Value::from(name.as_str())),
            ("type", Value::from(type_.as_str())),
            ("jsonPath", Value::from(json_path.as_str())),
        ];
        entries.extend(format.as_ref().map(|format| ("format", Value::from(format.as_str()))));
        entries.extend(description.as_ref().map(|text| ("description", Value::from(text.as_str()))));
        entries.extend(priority.map(|priority| ("priority", Value::Int(priority.into()))));
        Value::object(entries)
    }))
}

fn texts(map: &BTreeMap<String, String>) -> Option<Value> {
    let entries = map.iter().map(|(key, value)| (key.as_str(), Value::from(value.as_str())));
    (!map.is_empty()).then(|| Value::object(entries))
}
