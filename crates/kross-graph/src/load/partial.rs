//! Reads as much of a definition as can be read, for editors: the text is often half-written there.

use kross_api::yaml::Document;
use kross_api::{List, Resource, ResourceGraphDefinitionSpec};
use kross_value::{Object, Value};
use serde::de::DeserializeOwned;

/// Reads the spec of a definition and leaves out every field that cannot be read. The resources keep their indexes.
#[must_use]
pub fn load_partially(document: &Document) -> ResourceGraphDefinitionSpec {
    let spec = document.value().get("spec");
    let field = |name: &str| spec.and_then(|spec| spec.get(name));
    let items: &[Value] = field("resources").and_then(Value::as_list).unwrap_or_default();
    ResourceGraphDefinitionSpec {
        schema: field("schema").map(fields).unwrap_or_default(),
        resources: List::from(items.iter().map(resource).collect::<Vec<_>>()),
        cluster: field("cluster").and_then(read),
        target: field("target").and_then(read),
        lifecycle: field("lifecycle").and_then(read),
        access: field("access").and_then(read),
    }
}

/// A resource; without an id it has the empty one.
fn resource(value: &Value) -> Resource {
    let id = value.get("id").and_then(Value::as_str).unwrap_or_default();
    let mut rest = value.as_object().cloned().unwrap_or_default();
    rest.insert("id", Value::from(id));
    if let Some(whole) = read(&Value::Object(rest.clone())) {
        return whole;
    }
    let empty = || Object::from_iter([("id", Value::from(id))]);
    let readable = rest.iter().filter(|(name, value)| {
        let mut alone = empty();
        alone.insert((*name).clone(), (*value).clone());
        read::<Resource>(&Value::Object(alone)).is_some()
    });
    let readable: Object = readable.map(|(name, value)| (name.clone(), value.clone())).collect();
    read(&Value::Object(readable)).unwrap_or_default()
}

/// The value without the fields that cannot be read.
fn fields<T: DeserializeOwned + Default>(value: &Value) -> T {
    if let Some(whole) = read(value) {
        return whole;
    }
    let entries = value.as_object().cloned().unwrap_or_default();
    let alone = |name: &str, value: &Value| read::<T>(&Value::object([(name, value.clone())])).is_some();
    let readable = entries.iter().filter(|(name, value)| alone(name, value));
    let readable: Object = readable.map(|(name, value)| (name.clone(), value.clone())).collect();
    read(&Value::Object(readable)).unwrap_or_default()
}

fn read<T: DeserializeOwned>(value: &Value) -> Option<T> {
    serde_json::from_value(value.into()).ok()
}

#[cfg(test)]
mod tests {
    use kross_api::yaml;
    use kross_diagnostics::{Diagnostics, Sources};

    use super::*;

    #[test]
    fn a_field_that_cannot_be_read_leaves_the_others_and_the_indexes_of_resources() {
        let text = "spec:\n  schema:\n    kind: Web\n    spec: {name: string}\n    scope: 3\n  resources:\n  - id:\n  - id: web\n    \
                    template: {kind: ConfigMap}\n    readyWhen: {a: b}\n  -\n";
        let mut sources = Sources::new();
        let limits = yaml::Limits::default();
        let documents = yaml::parse(&mut sources, "web.yaml", text, &limits, &mut Diagnostics::new());
        let spec = load_partially(documents.first().unwrap());
        assert_eq!(spec.schema.kind, "Web");
        assert!(spec.schema.spec.is_some() && spec.schema.scope.is_none());
        let ids: Vec<&str> = spec.resources.iter().map(|resource| resource.id.as_str()).collect();
        assert_eq!(ids, ["", "web", ""]);
        assert!(spec.resources[1].template.is_some() && spec.resources[1].ready_when.is_empty());
    }
}
