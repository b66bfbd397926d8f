//! Makes an object an instance: finalizer, labels and inventory in one write, and the inventory again before the first write
//! of every wave that needs more of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use kross_api::{FINALIZER, Inventory, annotations, applyset_id, labels, managers, tooling};
use kross_cluster::StoredObject;
use kross_value::{Object, Text, Value};

use super::error::InstanceError;
use crate::graphs::Served;
use crate::hub::Hub;

/// The apply set of an instance.
pub(super) fn applyset(served: &Served, instance: &StoredObject) -> Text {
    let namespace = instance.namespace().map(|namespace| &**namespace).unwrap_or_default();
    applyset_id(instance.name(), namespace, &served.kind.kind, &served.kind.group).into()
}

/// What an instance says it owns; none if it says nothing.
///
/// # Errors
/// It cannot be trusted.
pub(super) fn inventory(instance: &StoredObject, applyset: &str) -> Result<Option<Inventory>, InstanceError> {
    let map = instance.value().at(&["metadata", "annotations"]).and_then(Value::as_object);
    let map: BTreeMap<String, String> = map
        .into_iter()
        .flat_map(Object::iter)
        .filter_map(|(key, value)| Some((key.as_str().to_owned(), value.as_str()?.to_owned())))
        .collect();
    Ok(Inventory::parse(applyset, &map)?)
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

/// Makes sure that finalizer, labels and an inventory with at least `needed` are there.
///
/// # Errors
/// The cluster refuses, or the instance has changed meanwhile, or its inventory cannot be trusted.
pub(super) async fn ensure(
    hub: &Hub,
    served: &Served,
    instance: Arc<StoredObject>,
    needed: &Inventory,
) -> Result<Arc<StoredObject>, InstanceError> {
    let applyset = applyset(served, &instance);
    let mut wanted = inventory(&instance, &applyset)?.unwrap_or_default();
    wanted.extend(needed);
    write(hub, served, instance, &applyset, &wanted).await
}

/// Shrinks the inventory to what is there.
///
/// # Errors
/// As [`ensure`].
pub(super) async fn shrink(
    hub: &Hub,
    served: &Served,
    instance: Arc<StoredObject>,
    left: &Inventory,
) -> Result<Arc<StoredObject>, InstanceError> {
    let applyset = applyset(served, &instance);
    write(hub, served, instance, &applyset, left).await
}

async fn write(
    hub: &Hub,
    served: &Served,
    instance: Arc<StoredObject>,
    applyset: &Text,
    inventory: &Inventory,
) -> Result<Arc<StoredObject>, InstanceError> {
    let Some(patch) = patch(hub, served, &instance, applyset, inventory) else { return Ok(instance) };
    let namespace = instance.namespace().map(|namespace| &**namespace);
    let written = hub
        .connection
        .merge_patch(&served.kind, namespace, instance.name(), None, managers::LABELLER, &patch)
        .await
        .map_err(InstanceError::Manage)?;
    served.instances.observe(&written);
    Ok(Arc::new(written))
}

/// A merge patch of what is missing; none if nothing is.
fn patch(
    hub: &Hub,
    served: &Served,
    instance: &StoredObject,
    applyset: &Text,
    inventory: &Inventory,
) -> Option<Value> {
    let mut own_labels = hub.ownership_labels();
    own_labels.insert(labels::DEFINITION_ID, served.uid.clone().into());
    own_labels.insert(labels::DEFINITION_NAME, served.definition.clone().into());
    own_labels.insert(labels::APPLYSET_ID, applyset.clone().into());
    let missing_labels: Object = own_labels
        .iter()
        .filter(|(key, value)| instance.label(key.as_str()) != value.as_str())
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let mut notes = inventory.annotations(applyset);
    notes.insert(annotations::APPLYSET_TOOLING.to_owned(), tooling(&hub.settings.kro_version));
    let missing_notes: Object = notes
        .iter()
        .filter(|(key, value)| instance.annotation(key) != Some(value.as_str()))
        .map(|(key, value)| (kross_value::Key::new(key), Value::from(value.as_str())))
        .collect();
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
