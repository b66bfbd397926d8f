//! Adds what an API server adds to an instance on admission: the defaults of its schema, a namespace and a UID.

use kross_graph::Graph;
use kross_value::{Object, Value};

/// The instance as an API server would store it: with the defaults of its schema, a namespace if its kind is namespaced, and a UID.
#[must_use]
pub fn admitted(graph: &Graph, instance: &Value) -> Value {
    let schema =
        graph.crd.as_ref().and_then(|crd| crd.at(&["spec", "versions", "0", "schema", "openAPIV3Schema"]));
    let mut admitted = match schema {
        Some(schema) => with_defaults(instance, schema),
        None => instance.clone(),
    };
    let mut metadata = admitted.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut fill = |field: &str, value: Value| {
        if metadata.get(field).is_none_or(Value::is_null) {
            metadata.insert(field, value);
        }
    };
    if graph.instance.namespaced {
        fill("namespace", Value::from("default"));
    }
    fill("uid", Value::from("00000000-0000-0000-0000-000000000000"));
    fill("generation", Value::from(1));
    if let Some(object) = admitted.as_object_mut() {
        object.insert("metadata", Value::Object(metadata));
    }
    admitted
}

/// Adds defaults from the outside in, so that a default object gets the defaults of its own fields.
fn with_defaults(value: &Value, schema: &Value) -> Value {
    match value {
        Value::Object(object) => Value::Object(object_with_defaults(object, schema)),
        Value::List(items) => match schema.get("items") {
            Some(item) => Value::list(items.iter().map(|value| with_defaults(value, item))),
            None => value.clone(),
        },
        other => other.clone(),
    }
}

fn object_with_defaults(object: &Object, schema: &Value) -> Object {
    let mut filled = object.clone();
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flat_map(Object::iter) {
        let given = filled.get(name).filter(|value| !value.is_null()).or_else(|| property.get("default"));
        if let Some(value) = given.map(|value| with_defaults(value, property)) {
            filled.insert(name.clone(), value);
        }
    }
    if let Some(entry) = schema.get("additionalProperties").filter(|entry| entry.as_object().is_some()) {
        let declared = |name: &str| properties.is_some_and(|properties| properties.contains_key(name));
        for (name, value) in object.iter().filter(|(name, _)| !declared(name)) {
            filled.insert(name.clone(), with_defaults(value, entry));
        }
    }
    filled
}
