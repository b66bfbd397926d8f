//! The changes of a simulated instance: edits, the request of its deletion, and what the controller writes.

use jiff::Timestamp;
use kross_api::{annotations, whole_seconds};
use kross_graph::Graph;
use kross_value::{Object, Value};

use super::api_servers::{patched, with_metadata};
use super::defaults::admitted;

/// The instance with the changes of a user, as a merge patch.
pub(super) fn edited(graph: &Graph, before: &Value, patch: &Value) -> Value {
    let after = admitted(graph, &patched(before, patch));
    let generation = before.at(&["metadata", "generation"]).and_then(Value::as_int).unwrap_or(1);
    let changed = i64::from(before.get("spec") != after.get("spec"));
    with_metadata(after, "generation", Value::from(generation + changed))
}

/// The instance after its deletion was requested.
pub(super) fn deleting(instance: &Value, now: Timestamp) -> Value {
    with_metadata(instance.clone(), "deletionTimestamp", Value::from(whole_seconds(now)))
}

pub(super) fn is_deleting(instance: &Value) -> bool {
    instance.at(&["metadata", "deletionTimestamp"]).is_some_and(|time| !time.is_null())
}

/// The instance with what the controller must remember over a restart.
pub(super) fn persisted(instance: &Value, text: Option<&str>) -> Value {
    let before = instance.at(&["metadata", "annotations"]).and_then(Value::as_object);
    let mut kept: Object = before.cloned().unwrap_or_default();
    match text {
        Some(text) => kept.insert(annotations::DELETE_ATTEMPTS, Value::from(text)),
        None => kept.remove(annotations::DELETE_ATTEMPTS),
    };
    if before.is_none() && kept.is_empty() {
        return instance.clone();
    }
    with_metadata(instance.clone(), "annotations", Value::Object(kept))
}
