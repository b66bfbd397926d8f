//! Finds the fields of an object that others changed since it was applied, and who manages them now.

use std::borrow::Cow;
use std::fmt::Write;

use kross_value::{Text, Value};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{FieldSet, PathElement, applied_metadata, same};
use crate::error::sanitise;

/// The fields of an object that a manager changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedFields {
    /// The field manager; none if nobody manages them any more because they were removed.
    pub manager: Option<Text>,
    /// Their paths, such as `spec.template.spec.containers[name="web"].image`.
    pub fields: Vec<String>,
}

#[derive(Deserialize)]
struct ManagedObject<'a> {
    #[serde(borrow)]
    metadata: ManagedMetadata<'a>,
}

#[derive(Deserialize)]
struct ManagedMetadata<'a> {
    #[serde(borrow, default, rename = "managedFields")]
    entries: Vec<Entry<'a>>,
}

#[derive(Deserialize)]
struct Entry<'a> {
    #[serde(borrow, default)]
    manager: Cow<'a, str>,
    #[serde(borrow, default, rename = "fieldsV1")]
    fields: Option<&'a RawValue>,
}

/// Who manages fields of an object, given as JSON, that differ from those of `desired`, which the manager `ours` applied.
/// Status does not count: nobody desires it.
pub(crate) fn changed_fields(object: &[u8], ours: &str, desired: &Value) -> Vec<ChangedFields> {
    let Ok(live) = serde_json::from_slice::<Value>(object) else { return Vec::new() };
    let Ok(managed) = serde_json::from_slice::<ManagedObject<'_>>(object) else { return Vec::new() };
    let mut by_manager: Vec<ChangedFields> = Vec::new();
    let mut found: Vec<String> = Vec::new();
    // Others first. Another process with our name may manage what they do not.
    let mut entries: Vec<&Entry<'_>> = managed.metadata.entries.iter().collect();
    entries.sort_by_key(|entry| entry.manager == ours);
    for entry in entries {
        let Some(set) = entry.fields.and_then(|fields| FieldSet::read(fields.get())) else { continue };
        let mut fields = Vec::new();
        set.changes(Some(&live), Some(desired), &mut String::new(), &mut fields);
        fields.retain(|field| !found.contains(field));
        found.extend(fields.iter().cloned());
        if !fields.is_empty() {
            let manager = Some(sanitise(&entry.manager).into());
            by_manager.push(ChangedFields { manager, fields });
        }
    }
    let mut removed = Vec::new();
    missing(&live, desired, &mut String::new(), &mut removed);
    removed.retain(|field| !found.iter().any(|known| is_part_of(field, known)));
    if !removed.is_empty() {
        by_manager.push(ChangedFields { manager: None, fields: removed });
    }
    // The text comes from another cluster.
    for field in by_manager.iter_mut().flat_map(|changed| &mut changed.fields) {
        *field = sanitise(field);
    }
    by_manager
}

/// Whether a path is another one, or leads into it.
fn is_part_of(field: &str, known: &str) -> bool {
    field.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

impl FieldSet {
    /// Adds the paths of this set that `desired` has with another value.
    fn changes(
        &self,
        live: Option<&Value>,
        desired: Option<&Value>,
        path: &mut String,
        found: &mut Vec<String>,
    ) {
        let Some(desired) = desired else { return };
        if self.children.is_empty() {
            if !same(live, Some(desired)) {
                found.push(path.clone());
            }
            return;
        }
        for (element, child) in &self.children {
            let length = path.len();
            element.push(path);
            let live = live.and_then(|value| element.resolve(value));
            child.changes(live, element.resolve_desired(desired), path, found);
            path.truncate(length);
        }
    }
}

impl PathElement {
    /// Adds itself to a path, as the API server writes it in conflicts, without the first dot.
    fn push(&self, path: &mut String) {
        // Writing to a string cannot fail.
        let _ = match self {
            Self::Field(name) => return push_field(path, name.as_str()),
            Self::Keyed(keys) => {
                let keys: Vec<String> =
                    keys.iter().map(|(key, value)| format!("{}={value}", key.as_str())).collect();
                write!(path, "[{}]", keys.join(","))
            }
            Self::Value(value) => write!(path, "[={value}]"),
            Self::Index(at) => write!(path, "[{at}]"),
        };
    }
}

fn push_field(path: &mut String, name: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(name);
}

/// Adds the paths of `desired` that `live` does not have. Items of lists are not compared: only their manager knows which
/// belong together.
fn missing(live: &Value, desired: &Value, path: &mut String, found: &mut Vec<String>) {
    let Some(object) = desired.as_object() else { return };
    let metadata = path.is_empty().then(|| desired.get("metadata").and_then(applied_metadata)).flatten();
    for (key, wanted) in object.iter() {
        let wanted = match (path.is_empty(), key.as_str()) {
            (true, "apiVersion" | "kind") => continue,
            (true, "metadata") => match &metadata {
                Some(metadata) => metadata,
                None => continue,
            },
            _ => wanted,
        };
        let length = path.len();
        push_field(path, key.as_str());
        match live.get(key.as_str()) {
            None if !same(None, Some(wanted)) => found.push(path.clone()),
            Some(there) => missing(there, wanted, path, found),
            None => {}
        }
        path.truncate(length);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn changes(live: &serde_json::Value, desired: &serde_json::Value) -> Vec<(String, Vec<String>)> {
        let found = changed_fields(live.to_string().as_bytes(), "ours", &Value::from(desired.clone()));
        found
            .into_iter()
            .map(|ChangedFields { manager, fields }| {
                (manager.map_or_else(String::new, |m| m.to_string()), fields)
            })
            .collect()
    }

    fn managed(manager: &str, fields: &serde_json::Value) -> serde_json::Value {
        json!({"manager": manager, "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": fields})
    }

    #[test]
    fn names_the_manager_of_every_field_that_differs() {
        let desired = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "labels": {"app.kubernetes.io/name": "web"}},
            "spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "web", "image": "a"}]}}}});
        let live = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "labels": {"app.kubernetes.io/name": "other"}, "managedFields": [
                managed("ours", &json!({"f:spec": {"f:paused": {}}})),
                managed("autoscaler", &json!({"f:spec": {"f:replicas": {}}, "f:status": {"f:replicas": {}}})),
                managed("patcher", &json!({"f:metadata": {"f:labels": {"f:app.kubernetes.io/name": {}}},
                    "f:spec": {"f:paused": {}, "f:template": {"f:spec": {"f:containers":
                    {"k:{\"name\":\"web\"}": {".": {}, "f:image": {}, "f:name": {}}}}}}})),
            ]},
            "spec": {"paused": true, "replicas": 3, "template": {"spec": {"containers": [{"name": "web", "image": "b"}]}}},
            "status": {"replicas": 3}});
        let found = changes(&live, &desired);
        assert_eq!(
            found,
            [
                ("autoscaler".to_owned(), vec!["spec.replicas".to_owned()]),
                (
                    "patcher".to_owned(),
                    vec![
                        "metadata.labels.app.kubernetes.io/name".to_owned(),
                        r#"spec.template.spec.containers[name="web"].image"#.to_owned()
                    ]
                ),
            ]
        );
    }

    #[test]
    fn a_field_that_was_removed_has_no_manager() {
        let desired = json!({"kind": "ConfigMap", "metadata": {"name": "a", "labels": {"x": "1"}}, "data": {"x": "1", "y": ""}});
        let live =
            json!({"kind": "ConfigMap", "metadata": {"name": "a", "managedFields": []}, "data": {"y": ""}});
        let removed = vec!["data.x".to_owned(), "metadata.labels".to_owned()];
        assert_eq!(changes(&live, &desired), [(String::new(), removed)]);
    }

    #[test]
    fn another_process_with_our_name_is_named() {
        let desired = json!({"metadata": {"name": "a"}, "data": {"x": "1"}});
        let live = json!({"metadata": {"name": "a", "managedFields": [managed("ours", &json!({"f:data": {"f:x": {}}}))]},
            "data": {"x": "2"}});
        assert_eq!(changes(&live, &desired), [("ours".to_owned(), vec!["data.x".to_owned()])]);
        assert_eq!(changes(&desired, &desired), []);
    }
}
