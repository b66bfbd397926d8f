//! Makes an object an instance: finalizer, labels and inventory in one write, and the inventory again before the first write
//! of every wave that needs more of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use kross_api::{
    ClusterInventory, FINALIZER, Inventory, annotations, applyset_id, labels, managers, remote_applyset_id,
    tooling,
};
use kross_cluster::StoredObject;
use kross_value::{Object, Text, Value};

use super::error::InstanceError;
use crate::context::Context;
use crate::graphs::Served;

/// The apply set of an instance.
pub(super) fn applyset(served: &Served, instance: &StoredObject) -> Text {
    let namespace = instance.namespace().map(|namespace| &**namespace).unwrap_or_default();
    applyset_id(instance.name(), namespace, &served.kind.kind, &served.kind.group).into()
}

/// The apply set of an instance in other clusters.
pub(super) fn remote_applyset(context: &Context, served: &Served, instance: &StoredObject) -> Text {
    let namespace = instance.namespace().map(|namespace| &**namespace).unwrap_or_default();
    let (kind, hub_uid) = (&served.kind, &context.planning.hub_uid);
    remote_applyset_id(instance.name(), namespace, &kind.kind, &kind.group, hub_uid).into()
}

/// What an instance says it owns, here and elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) local: Inventory,
    pub(super) remote: ClusterInventory,
    /// When the removal of objects was first attempted that are not waited for for ever.
    pub(super) attempts: Option<Text>,
}

/// What a living instance says it owns. What was taken off one that is held comes back with what its graph makes; one that
/// begins with an inventory must have a whole one of its own.
///
/// # Errors
/// It cannot be trusted.
pub(super) fn record(instance: &StoredObject, applyset: &str) -> Result<Record, InstanceError> {
    let (labels, notes) = (texts(instance, "labels"), texts(instance, "annotations"));
    let local = if !is_held(instance) && Inventory::is_present(&labels, &notes) {
        Inventory::parse_complete(applyset, &labels, &notes)?
    } else {
        Inventory::parse(applyset, &notes)?.unwrap_or_default()
    };
    with_remote(instance, applyset, local)
}

/// What an instance says it owns, where something would be lost if it said too little.
///
/// # Errors
/// It cannot be trusted, or not all of it is there.
pub(super) fn whole_record(instance: &StoredObject, applyset: &str) -> Result<Record, InstanceError> {
    let (labels, notes) = (texts(instance, "labels"), texts(instance, "annotations"));
    with_remote(instance, applyset, Inventory::parse_complete(applyset, &labels, &notes)?)
}

fn with_remote(instance: &StoredObject, applyset: &str, local: Inventory) -> Result<Record, InstanceError> {
    let remote = match instance.annotation(annotations::CLUSTER_INVENTORY) {
        Some(text) => ClusterInventory::parse(applyset, text)?,
        None => ClusterInventory::default(),
    };
    let attempts = instance.annotation(annotations::DELETE_ATTEMPTS).map(Text::from);
    Ok(Record { local, remote, attempts })
}

/// The labels or annotations of an object.
fn texts(object: &StoredObject, map: &str) -> BTreeMap<String, String> {
    let map = object.value().at(&["metadata", map]).and_then(Value::as_object);
    map.into_iter()
        .flat_map(Object::iter)
        .filter_map(|(key, value)| Some((key.as_str().to_owned(), value.as_str()?.to_owned())))
        .collect()
}

/// The finalizers of an object.
pub(super) fn finalizers(object: &StoredObject) -> Vec<String> {
    let list = object.value().at(&["metadata", "finalizers"]).and_then(Value::as_list);
    list.unwrap_or_default().iter().filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

/// Whether an instance is held by us.
pub(super) fn is_held(object: &StoredObject) -> bool {
    finalizers(object).iter().any(|name| name == FINALIZER)
}

/// Makes sure that finalizer and labels are there, and the inventory as it should be.
///
/// # Errors
/// The cluster refuses, or the instance has changed meanwhile, or the inventory is too large.
pub(super) async fn write(
    context: &Context,
    served: &Served,
    instance: Arc<StoredObject>,
    record: &Record,
) -> Result<Arc<StoredObject>, InstanceError> {
    let applyset = applyset(served, &instance);
    let notes = [
        (annotations::CLUSTER_INVENTORY, record.remote.text(&applyset)?),
        (annotations::DELETE_ATTEMPTS, record.attempts.as_ref().map(ToString::to_string)),
    ];
    let Some(patch) = patch(context, served, &instance, &applyset, (&record.local, notes)) else {
        return Ok(instance);
    };
    let namespace = instance.namespace().map(|namespace| &**namespace);
    let written = context
        .client
        .merge_patch(&served.kind, namespace, instance.name(), None, managers::LABELLER, &patch)
        .await
        .map_err(InstanceError::Manage)?;
    served.instances.observe(&written);
    Ok(Arc::new(written))
}

/// A merge patch of what is missing; none if nothing is.
fn patch(
    context: &Context,
    served: &Served,
    instance: &StoredObject,
    applyset: &Text,
    (inventory, more): (&Inventory, [(&'static str, Option<String>); 2]),
) -> Option<Value> {
    let mut own_labels = context.ownership_labels();
    own_labels.insert(labels::DEFINITION_ID, served.uid.clone().into());
    own_labels.insert(labels::DEFINITION_NAME, served.definition.clone().into());
    own_labels.insert(labels::APPLYSET_ID, applyset.clone().into());
    let missing_labels: Object = own_labels
        .iter()
        .filter(|(key, value)| instance.label(key.as_str()) != value.as_str())
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let mut notes = inventory.annotations(applyset);
    notes.insert(annotations::APPLYSET_TOOLING.to_owned(), tooling(&context.settings.kro_version));
    let forgotten: Vec<&str> = more
        .iter()
        .filter(|(key, text)| text.is_none() && instance.annotation(key).is_some())
        .map(|(key, _)| *key)
        .collect();
    notes.extend(more.into_iter().filter_map(|(key, text)| Some((key.to_owned(), text?))));
    let mut missing_notes: Object = notes
        .iter()
        .filter(|(key, value)| instance.annotation(key) != Some(value.as_str()))
        .map(|(key, value)| (kross_value::Key::new(key), Value::from(value.as_str())))
        .collect();
    for key in forgotten {
        missing_notes.insert(key, Value::Null);
    }
    let mut finalizers = finalizers(instance);
    let held = finalizers.iter().any(|name| name == FINALIZER);
    if held && missing_labels.is_empty() && missing_notes.is_empty() {
        return None;
    }
    let mut metadata = Object::new();
    metadata.insert("resourceVersion", instance.resource_version().clone().into());
    if !held {
        finalizers.push(FINALIZER.to_owned());
        metadata.insert("finalizers", Value::list(finalizers.iter().map(|name| Value::from(name.as_str()))));
    }
    if !missing_labels.is_empty() {
        metadata.insert("labels", missing_labels.into());
    }
    if !missing_notes.is_empty() {
        metadata.insert("annotations", missing_notes.into());
    }
    Some(Value::object([("metadata", metadata.into())]))
}
