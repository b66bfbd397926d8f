//! Finds the definition that an object is an instance of. A kind with a CRD of ours has one definition. Objects of an existing
//! kind may be selected by several definitions, or by none any more: then the one that owns the object decides.

use std::sync::Arc;

use kross_api::labels;
use kross_cluster::{ApiError, Lookup, ObjectKey, StoredObject};

use crate::context::Context;
use crate::finalizer;
use crate::graphs::Served;

/// An object and the definition that it is an instance of.
pub(super) struct Candidate {
    pub(super) served: Arc<Served>,
    pub(super) instance: Arc<StoredObject>,
    /// Whether the definition selects the object. If not, the object is released: its children are deleted, and it stays.
    pub(super) is_selected: bool,
}

pub(super) enum Found {
    Instance(Candidate),
    /// The object was deleted, or no definition owns or selects it.
    Nothing,
    /// A cache has not synced, or the definition that owns the object is not served yet: nothing may be decided.
    Unknown,
}

/// Finds the definition that an object is an instance of, among those that serve its kind.
///
/// # Errors
/// The object cannot be read.
pub(super) async fn find(
    context: &Context,
    serving: &[Arc<Served>],
    key: &ObjectKey,
) -> Result<Found, ApiError> {
    let mut selecting = Vec::new();
    for served in serving {
        match served.instances.get(key.namespace.as_deref(), &key.name) {
            Lookup::Found(instance) => selecting.push((served, instance)),
            Lookup::Absent => {}
            Lookup::Unknown => return Ok(Found::Unknown),
        }
    }
    let Some(existing) = serving.iter().find(|served| served.external) else {
        let selected = selecting.into_iter().next();
        return Ok(selected.map_or(Found::Nothing, |(served, instance)| selected_by(served, instance)));
    };
    let instance = match selecting.first() {
        Some((_, instance)) => Arc::clone(instance),
        None => match read(context, existing, key).await? {
            Some(instance) => instance,
            None => return Ok(Found::Nothing),
        },
    };
    let owner = owner(&instance);
    let owned = |served: &Arc<Served>| owner == Some(served.definition.as_str());
    if let Some((served, instance)) = selecting.iter().find(|(served, _)| owned(served)) {
        return Ok(selected_by(served, Arc::clone(instance)));
    }
    if let Some(served) = serving.iter().find(|served| owned(served)) {
        return Ok(Found::Instance(Candidate { served: Arc::clone(served), instance, is_selected: false }));
    }
    // Another definition must not take the object over, nor delete its children, while its owner is only not served yet.
    if let Some(owner) = owner
        && context.definitions.get(None, owner) != Lookup::Absent
    {
        return Ok(Found::Unknown);
    }
    Ok(match selecting.into_iter().next() {
        Some((served, instance)) => selected_by(served, instance),
        // The definition that owned it was deleted: any other one can delete its children by the inventory.
        None if owner.is_some() => {
            Found::Instance(Candidate { served: Arc::clone(existing), instance, is_selected: false })
        }
        None => Found::Nothing,
    })
}

fn selected_by(served: &Arc<Served>, instance: Arc<StoredObject>) -> Found {
    Found::Instance(Candidate { served: Arc::clone(served), instance, is_selected: true })
}

/// The name of the definition that owns an object; none if the object does not have our finalizer.
fn owner(instance: &StoredObject) -> Option<&str> {
    finalizer::is_set(instance).then(|| instance.label(labels::DEFINITION_NAME).unwrap_or_default())
}

async fn read(
    context: &Context,
    served: &Served,
    key: &ObjectKey,
) -> Result<Option<Arc<StoredObject>>, ApiError> {
    match context.client.get(&served.kind, key.namespace.as_deref(), &key.name).await {
        Ok(found) => Ok(Some(Arc::new(found))),
        Err(error) if error.is_object_not_found() || error.is_kind_not_served() => Ok(None),
        Err(error) => Err(error),
    }
}
