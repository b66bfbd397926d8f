//! Our finalizer on definitions, revisions and instances: whether an object has it, and the patches that add and remove it.

use kross_api::FINALIZER;
use kross_cluster::StoredObject;
use kross_value::Value;

/// Whether an object has our finalizer.
pub(crate) fn is_set(object: &StoredObject) -> bool {
    all(object).iter().any(|name| name.as_str() == Some(FINALIZER))
}

/// The finalizers of an object with ours added.
pub(crate) fn with_ours(object: &StoredObject) -> Value {
    Value::list(all(object).iter().cloned().chain([FINALIZER.into()]))
}

/// A merge patch that adds our finalizer to exactly this version of an object.
pub(crate) fn addition(object: &StoredObject) -> Value {
    patch(object, with_ours(object))
}

/// A merge patch that removes our finalizer from exactly this version of an object.
pub(crate) fn removal(object: &StoredObject) -> Value {
    let others = all(object).iter().filter(|name| name.as_str() != Some(FINALIZER));
    patch(object, Value::list(others.cloned()))
}

fn all(object: &StoredObject) -> &[Value] {
    object.value().at(&["metadata", "finalizers"]).and_then(Value::as_list).unwrap_or_default()
}

fn patch(object: &StoredObject, finalizers: Value) -> Value {
    let version = ("resourceVersion", object.resource_version().clone().into());
    Value::object([("metadata", Value::object([version, ("finalizers", finalizers)]))])
}
