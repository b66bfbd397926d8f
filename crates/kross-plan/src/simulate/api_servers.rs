//! What API servers do to objects that are written: merge what is applied, give UIDs and generations, remove what an earlier apply
//! set and a later one does not.

use std::collections::HashMap;

use jiff::Timestamp;
use kross_api::{INTERNAL_KEY_PREFIX, KEY_PREFIX, ObjectKey, labels, whole_seconds};
use kross_value::{Object, Value};

/// The API servers of all simulated clusters.
#[derive(Clone, Debug, Default)]
pub(super) struct ApiServers {
    uids: u64,
    applied: HashMap<ObjectKey, Value>,
}

impl ApiServers {
    /// The object as the server stores it when this is applied. `created` is what exists of an object that was never applied.
    pub(super) fn apply(
        &mut self,
        key: &ObjectKey,
        before: Option<&Value>,
        created: Option<&Value>,
        desired: &Value,
        now: Timestamp,
    ) -> Value {
        let last = self.applied.insert(key.clone(), desired.clone());
        let known = before.or(created).map(|known| match &last {
            Some(last) => without_given_up(known, last, desired),
            None => known.clone(),
        });
        let stored = known.map_or_else(|| desired.clone(), |known| merged(&known, desired));
        let changed = before.is_some_and(|before| content(before) != content(&stored));
        self.completed(key, stored, changed, now)
    }

    /// What was applied last.
    pub(super) fn applied(&self, key: &ObjectKey) -> Option<&Value> {
        self.applied.get(key)
    }

    /// Whether an object has everything that was applied last.
    pub(super) fn has_applied(&self, key: &ObjectKey, stored: &Value) -> bool {
        self.applied.get(key).is_none_or(|applied| merged(stored, applied) == *stored)
    }

    /// Forgets an object that does not exist any more, or is not managed any more.
    pub(super) fn forget(&mut self, key: &ObjectKey) {
        self.applied.remove(key);
    }

    /// An object with the changes that another client writes.
    pub(super) fn patch(&self, before: &Value, patch: &Value) -> Value {
        let patched = patched(before, patch);
        let changed = content(before) != content(&patched);
        let generation = patched.at(&["metadata", "generation"]).and_then(Value::as_int);
        match (changed, generation) {
            (true, Some(generation)) if patch.at(&["metadata", "generation"]).is_none() => {
                with_metadata(patched, "generation", Value::from(generation + 1))
            }
            _ => patched,
        }
    }

    /// The object with what every server adds.
    pub(super) fn completed(
        &mut self,
        key: &ObjectKey,
        stored: Value,
        changed: bool,
        now: Timestamp,
    ) -> Value {
        let mut metadata = stored.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
        if metadata.get("uid").is_none() {
            self.uids += 1;
            metadata.insert("uid", Value::from(format!("00000000-0000-0000-0000-{:012}", self.uids)));
        }
        let generation = metadata.get("generation").and_then(Value::as_int);
        metadata.insert("generation", Value::from(generation.map_or(1, |it| it + i64::from(changed))));
        if metadata.get("creationTimestamp").is_none() {
            metadata.insert("creationTimestamp", Value::from(whole_seconds(now)));
        }
        let mut stored = stored;
        if let Some(fields) = stored.as_object_mut() {
            fields.insert("metadata", Value::Object(metadata));
            if key.kind == *"CustomResourceDefinition" && !fields.contains_key("status") {
                fields.insert("status", established());
            }
        }
        stored
    }
}

fn established() -> Value {
    let condition = Value::object([("type", Value::from("Established")), ("status", Value::from("True"))]);
    Value::object([("conditions", Value::list([condition]))])
}

/// What counts for the generation: everything but metadata and status.
fn content(object: &Value) -> Object {
    let mut content = object.as_object().cloned().unwrap_or_default();
    content.remove("metadata");
    content.remove("status");
    content
}

pub(super) fn with_metadata(mut object: Value, field: &str, value: Value) -> Value {
    let mut metadata = object.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    metadata.insert(field, value);
    if let Some(fields) = object.as_object_mut() {
        fields.insert("metadata", Value::Object(metadata));
    }
    object
}

/// The object without the marks of its instance.
pub(super) fn released(object: &Value) -> Value {
    let is_mark = |key: &str, value: &Value| {
        key.starts_with(KEY_PREFIX)
            || key.starts_with(INTERNAL_KEY_PREFIX)
            || key == labels::APPLYSET_PART_OF
            || (key == labels::MANAGED_BY && value.as_str() == Some(labels::MANAGED_BY_KRO))
    };
    let mut released = object.clone();
    for field in ["labels", "annotations"] {
        let Some(Value::Object(marks)) = object.at(&["metadata", field]) else { continue };
        let kept = marks.iter().filter(|(key, value)| !is_mark(key.as_str(), value));
        let kept: Object = kept.map(|(key, value)| (key.clone(), value.clone())).collect();
        released = with_metadata(released, field, Value::Object(kept));
    }
    released
}

/// Merges objects; everything else is replaced.
fn merged(below: &Value, above: &Value) -> Value {
    let (Value::Object(below), Value::Object(above)) = (below, above) else {
        return above.clone();
    };
    let mut both: Object = below.clone();
    for (key, value) in above.iter() {
        let value = below.get(key).map_or_else(|| value.clone(), |known| merged(known, value));
        both.insert(key.clone(), value);
    }
    Value::Object(both)
}

/// A JSON merge patch: null removes a field.
pub(super) fn patched(below: &Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let mut both: Object = below.as_object().cloned().unwrap_or_default();
    for (key, value) in patch.iter() {
        if value.is_null() {
            both.remove(key);
            continue;
        }
        let known = both.get(key).cloned().unwrap_or_default();
        both.insert(key.clone(), patched(&known, value));
    }
    Value::Object(both)
}

/// What is left of an object without the fields that were applied last and are not applied any more.
fn without_given_up(known: &Value, last: &Value, desired: &Value) -> Value {
    let (Value::Object(known), Value::Object(last), Value::Object(desired)) = (known, last, desired) else {
        return known.clone();
    };
    let mut kept = Object::new();
    for (key, value) in known.iter() {
        match (last.get(key), desired.get(key)) {
            (Some(_), None) => {}
            (Some(last), Some(desired)) => {
                kept.insert(key.clone(), without_given_up(value, last, desired));
            }
            (None, _) => {
                kept.insert(key.clone(), value.clone());
            }
        }
    }
    Value::Object(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(json: &str) -> Value {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_field_that_is_not_applied_any_more_is_removed_and_one_of_another_client_stays() {
        let mut servers = ApiServers::default();
        let key = ObjectKey {
            cluster: kross_api::ClusterId::local(),
            group: "".into(),
            kind: "ConfigMap".into(),
            namespace: Some("a".into()),
            name: "b".into(),
        };
        let now = Timestamp::UNIX_EPOCH;
        let first = servers.apply(&key, None, None, &value(r#"{"data": {"one": "1", "two": "2"}}"#), now);
        let changed = servers.patch(&first, &value(r#"{"data": {"theirs": "3"}}"#));
        assert_eq!(changed.at(&["metadata", "generation"]), Some(&Value::from(2)));
        let second = servers.apply(&key, Some(&changed), None, &value(r#"{"data": {"one": "1"}}"#), now);
        assert_eq!(second.get("data").unwrap().to_string(), r#"{"one":"1","theirs":"3"}"#);
        assert_eq!(second.at(&["metadata", "generation"]), Some(&Value::from(3)));
        assert!(servers.has_applied(&key, &second));
        assert!(!servers.has_applied(&key, &servers.patch(&second, &value(r#"{"data": {"one": "x"}}"#))));
    }

    #[test]
    fn a_merge_patch_removes_what_is_null() {
        let patched =
            patched(&value(r#"{"a": {"b": 1, "c": 2}}"#), &value(r#"{"a": {"b": null}, "d": [1]}"#));
        assert_eq!(patched.to_string(), r#"{"a":{"c":2},"d":[1]}"#);
    }
}
