//! Normalizes a snapshot: removes times and versions, and replaces UIDs by the names of their objects.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json, json};

use crate::side::Snapshot;

/// The UIDs that a scenario has observed on one side, with the names of their objects.
#[derive(Clone, Default)]
pub struct SeenUids(BTreeMap<String, String>);

impl SeenUids {
    /// Learns the UIDs of a snapshot. An object that was created again gets another number than the one before.
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

/// The normalized snapshot. Conditions and managed fields become maps; the order of conditions with their times is in
/// `order`.
pub fn normalize(snapshot: &Snapshot, seen: &mut SeenUids) -> Snapshot {
    seen.learn(snapshot);
    snapshot
        .iter()
        .map(|(name, object)| {
            let mut object = object.clone();
            metadata(&mut object["metadata"]);
            if object["kind"] == "CustomResourceDefinition" {
                // Written by the API server alone.
                object["status"] = Json::Null;
            }
            conditions(&mut object);
            dependencies(&mut object);
            replace_uids(&mut object, &seen.0);
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
        assert!(by_type.insert(kind.clone(), condition).is_none(), "there are two conditions `{kind}`");
    }
    object["status"]["conditions"] = Json::Object(by_type);
    object["status"]["order"] = Json::Array(order);
}

/// Sorts the dependencies of a resource, which kro writes in random order.
fn dependencies(object: &mut Json) {
    let resources = object.pointer_mut("/status/resources").and_then(Json::as_array_mut);
    for resource in resources.into_iter().flatten() {
        if let Some(list) = resource.get_mut("dependencies").and_then(Json::as_array_mut) {
            list.sort_by_key(|dependency| dependency["id"].to_string());
        }
    }
}

/// Replaces UIDs by names, anywhere in a text.
fn replace_uids(value: &mut Json, names: &BTreeMap<String, String>) {
    match value {
        Json::String(text) if text.len() >= 36 => {
            for (uid, name) in names {
                if text.contains(uid) {
                    *text = text.replace(uid, name);
                }
            }
        }
        Json::Array(items) => items.iter_mut().for_each(|item| replace_uids(item, names)),
        Json::Object(fields) => {
            // Keys of managed fields contain UIDs.
            let old = std::mem::take(fields);
            for (key, mut field) in old {
                replace_uids(&mut field, names);
                let mut key = Json::String(key);
                replace_uids(&mut key, names);
                fields.insert(key.as_str().unwrap().to_owned(), field);
            }
        }
        _ => {}
    }
}
