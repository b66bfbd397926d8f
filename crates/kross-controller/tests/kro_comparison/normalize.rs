//! Turns a snapshot into one without what is another each time: times, versions, and UIDs, which become the names of what
//! they are the UIDs of.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json, json};

use crate::side::Snapshot;

/// The UIDs that a scenario has seen on one side, with the names of what they are the UIDs of.
#[derive(Clone, Default)]
pub struct Seen(BTreeMap<String, String>);

impl Seen {
    /// Learns the UIDs of a snapshot. An object that was made again is told from the one before.
    fn learn(&mut self, snapshot: &Snapshot) {
        for (name, object) in snapshot {
            let uid = object["metadata"]["uid"].as_str().unwrap();
            if !self.0.contains_key(uid) {
                let before =
                    self.0.values().filter(|known| known.starts_with(&format!("<uid of {name},"))).count();
                self.0.insert(uid.to_owned(), format!("<uid of {name}, {}>", before + 1));
            }
        }
    }
}

/// The snapshot, normalised. Conditions and managed fields become maps; the order of conditions with their times is kept
/// under `order`.
pub fn normal(snapshot: &Snapshot, seen: &mut Seen) -> Snapshot {
    seen.learn(snapshot);
    snapshot
        .iter()
        .map(|(name, object)| {
            let mut object = object.clone();
            metadata(&mut object["metadata"]);
            if object["kind"] == "CustomResourceDefinition" {
                // The API server's own words.
                object["status"] = Json::Null;
            }
            conditions(&mut object);
            dependencies(&mut object);
            rename(&mut object, &seen.0);
            (name.clone(), object)
        })
        .collect()
}

fn metadata(metadata: &mut Json) {
    let fields = metadata.as_object_mut().unwrap();
    for field in ["uid", "resourceVersion", "creationTimestamp"] {
        fields.remove(field);
    }
    if let Some(deleted) = fields.get_mut("deletionTimestamp") {
        *deleted = json!("<time>");
    }
    let managed = fields.remove("managedFields").unwrap_or_default();
    let managed: Map<String, Json> = managed
        .as_array()
        .into_iter()
        .flatten()
        .map(|entry| {
            let words = [&entry["manager"], &entry["operation"], &entry["subresource"], &entry["apiVersion"]];
            let words: Vec<&str> = words.into_iter().filter_map(Json::as_str).collect();
            (words.join(" "), entry["fieldsV1"].clone())
        })
        .collect();
    fields.insert("managedFields".to_owned(), Json::Object(managed));
}

fn conditions(object: &mut Json) {
    let Some(list) = object.pointer("/status/conditions").and_then(Json::as_array).cloned() else { return };
    let mut order = Vec::new();
    let mut by_type = Map::new();
    for mut condition in list {
        let kind = condition["type"].as_str().unwrap_or_default().to_owned();
        order.push(json!([kind, condition["lastTransitionTime"]]));
        if condition.get("lastTransitionTime").is_some() {
            condition["lastTransitionTime"] = json!("<time>");
        }
        assert!(by_type.insert(kind.clone(), condition).is_none(), "{kind} is there twice");
    }
    object["status"]["conditions"] = Json::Object(by_type);
    object["status"]["order"] = Json::Array(order);
}

/// kro has the dependencies of a resource in another order each time.
fn dependencies(object: &mut Json) {
    let resources = object.pointer_mut("/status/resources").and_then(Json::as_array_mut);
    for resource in resources.into_iter().flatten() {
        if let Some(list) = resource.get_mut("dependencies").and_then(Json::as_array_mut) {
            list.sort_by_key(|dependency| dependency["id"].to_string());
        }
    }
}

/// Puts names in the place of UIDs, wherever in a text they are.
fn rename(value: &mut Json, names: &BTreeMap<String, String>) {
    match value {
        Json::String(text) if text.len() >= 36 => {
            for (uid, name) in names {
                if text.contains(uid) {
                    *text = text.replace(uid, name);
                }
            }
        }
        Json::Array(items) => items.iter_mut().for_each(|item| rename(item, names)),
        Json::Object(fields) => {
            // Managed fields have UIDs in their keys.
            let old = std::mem::take(fields);
            for (key, mut field) in old {
                rename(&mut field, names);
                let mut key = Json::String(key);
                rename(&mut key, names);
                fields.insert(key.as_str().unwrap().to_owned(), field);
            }
        }
        _ => {}
    }
}
