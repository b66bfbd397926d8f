//! Adds what an API server adds to an instance on admission: the defaults of its schema, a namespace and a UID.

use kross_graph::Graph;
use kross_value::Value;

use crate::defaults::{instance_schema, with_defaults};

/// The instance as an API server would store it: with the defaults of its schema, a namespace if its kind is namespaced, and a UID.
#[must_use]
pub fn admitted(graph: &Graph, instance: &Value) -> Value {
    let mut admitted = match instance_schema(graph) {
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
