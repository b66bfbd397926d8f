//! The defaults of a graph's schema. The API server adds them when it reads an instance from its storage.

use kross_graph::Graph;
use kross_value::{Object, Value};

/// The instance with the defaults of its graph's schema; none if it has them all.
///
/// The API server has added those of the CRD when it read the object. But if the CRD has gained a field since, the object
/// that was read before lacks its default, and has the same version as the one that has it.
pub(crate) fn defaulted(graph: &Graph, instance: &Value) -> Option<Value> {
    let schema = instance_schema(graph)?.at(&["properties", "spec"])?;
    let given = instance.get("spec").filter(|spec| !spec.is_null());
    let spec = match given {
        Some(spec) => filled(spec, schema)?,
        None => with_defaults(schema.get("default")?, schema),
    };
    let mut object = instance.as_object()?.clone();
    object.insert("spec", spec);
    Some(Value::Object(object))
}

/// The schema of a graph's instances; none if their kind exists already.
pub(crate) fn instance_schema(graph: &Graph) -> Option<&Value> {
    graph.crd.as_ref()?.at(&["spec", "versions", "0", "schema", "openAPIV3Schema"])
}

/// Adds defaults from the outside in, so that a default object gets the defaults of its own fields.
pub(crate) fn with_defaults(value: &Value, schema: &Value) -> Value {
    filled(value, schema).unwrap_or_else(|| value.clone())
}

/// The value with the defaults of its schema; none if it has them all.
fn filled(value: &Value, schema: &Value) -> Option<Value> {
    match value {
        Value::Object(object) => filled_object(object, schema).map(Value::Object),
        Value::List(items) => {
            let schema = schema.get("items")?;
            let changed: Vec<Option<Value>> = items.iter().map(|item| filled(item, schema)).collect();
            if changed.iter().all(Option::is_none) {
                return None;
            }
            let all = items.iter().zip(changed).map(|(item, filled)| filled.unwrap_or_else(|| item.clone()));
            Some(Value::list(all))
        }
        _ => None,
    }
}

fn filled_object(object: &Object, schema: &Value) -> Option<Object> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let mut changed: Option<Object> = None;
    let mut set = |name: &str, value: Value| {
        changed.get_or_insert_with(|| object.clone()).insert(name, value);
    };
    for (name, property) in properties.into_iter().flat_map(Object::iter) {
        match object.get(name).filter(|value| !value.is_null()) {
            Some(value) => {
                if let Some(value) = filled(value, property) {
                    set(name, value);
                }
            }
            None => {
                if let Some(default) = property.get("default") {
                    set(name, with_defaults(default, property));
                }
            }
        }
    }
    if let Some(entry) = schema.get("additionalProperties").filter(|entry| entry.as_object().is_some()) {
        let declared = |name: &str| properties.is_some_and(|properties| properties.contains_key(name));
        for (name, value) in object.iter().filter(|(name, _)| !declared(name)) {
            if let Some(value) = filled(value, entry) {
                set(name, value);
            }
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn value(json: serde_json::Value) -> Value {
        json.into()
    }

    #[test]
    fn only_what_lacks_a_default_is_copied() {
        let schema = value(json!({"properties": {
            "name": {"default": "a"},
            "size": {"properties": {"width": {"default": 1}, "height": {}}},
            "items": {"items": {"properties": {"port": {"default": 80}}}},
            "entries": {"additionalProperties": {"properties": {"on": {"default": true}}}},
            "object": {"default": {}, "properties": {"inner": {"default": "b"}}},
        }}));
        let complete = json!({"name": "x", "size": {"width": 2}, "items": [{"port": 1}],
            "entries": {"a": {"on": false}}, "object": {"inner": "y"}});
        assert_eq!(filled(&value(complete), &schema), None);
        let partial = json!({"name": null, "size": {}, "items": [{"port": 1}, {}], "entries": {"a": {}}});
        let expected = json!({"name": "a", "size": {"width": 1}, "items": [{"port": 1}, {"port": 80}],
            "entries": {"a": {"on": true}}, "object": {"inner": "b"}});
        assert_eq!(filled(&value(partial), &schema), Some(value(expected)));
    }
}
