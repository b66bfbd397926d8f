//! The end of an instance: its objects go in reverse waves, from what is persisted alone. No graph and no expression is
//! needed, and "gone" is what the cluster says, not a copy.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{self, StreamExt};
use jiff::Timestamp;
use kross_api::{FINALIZER, Inventory, labels, managers};
use kross_cluster::{ApiError, ApiKind, Connection, ObjectKey, Selection, StoredObject, Watch, WatchKey};
use kross_plan::{
    Deletion, DeletionPlan, DoomedObject, Hooks, Leaving, Wait, blocked_deletion_status, deletion_status,
    plan_deletion,
};
use kross_value::Value;

use super::error::{InstanceError, Next};
use super::memory::Memory;
use super::observe::Sight;
use super::reach::Reach;
use super::{apply, manage, report};
use crate::graphs::Served;
use crate::hub::Hub;

/// Lists of one instance that run at once.
const AT_ONCE: usize = 8;

/// Goes on with a deletion.
///
/// # Errors
/// The cluster refuses or does not answer, or what the instance says it owns cannot be trusted.
pub(super) async fn proceed(
    hub: &Hub,
    served: &Served,
    instance: Arc<StoredObject>,
    memory: &mut Memory,
) -> Result<Next, InstanceError> {
    let released = memory.released.as_ref() == Some(instance.uid());
    if released || !manage::is_held(&instance) {
        return Ok(Next::Done);
    }
    let applyset = manage::applyset(served, &instance);
    let inventory = match manage::inventory(&instance, &applyset) {
        Ok(inventory) => inventory.unwrap_or_default(),
        Err(error) => {
            let graph = served.revision.as_ref().map(|revision| &*revision.graph);
            let status =
                blocked_deletion_status(graph, instance.value(), &error.to_string(), Timestamp::now());
            report::write(hub, served, instance, status).await?;
            return Err(error);
        }
    };
    let reach = Reach::local(hub, served);
    let mut sight = members(&hub.connection, &instance, &applyset, &inventory, memory).await?;
    let mut instance = instance;
    let mut said = false;
    loop {
        let plan = step(&sight, memory);
        memory.attempts.clone_from(&plan.attempts);
        // Before the first delete, and when something is left to wait for; what goes in this pass needs no word each.
        let waits = plan.delete.is_empty() && plan.release.is_empty();
        if !plan.is_done() && (waits || !said) {
            said = true;
            let graph = served.revision.as_ref().map(|revision| &*revision.graph);
            let leaving = Leaving { plan: &plan, hooks: None, clusters: &[] };
            let status = deletion_status(graph, instance.value(), &leaving, Timestamp::now());
            instance = report::write(hub, served, instance, status).await?;
        }
        if waits {
            return finish(hub, served, &instance, &plan, memory).await;
        }
        let deleted = apply::delete(&reach, &plan.delete, &mut sight, memory).await;
        let released = apply::release(&reach, &plan.release, &mut sight, memory).await;
        if !deleted || !released {
            return Ok(Next::Retry);
        }
    }
}

fn step(sight: &Sight, memory: &Memory) -> DeletionPlan {
    let mut objects: Vec<DoomedObject> = sight
        .observed
        .objects
        .iter()
        .map(|(key, object)| {
            let mut doomed = DoomedObject::new(key.clone(), object);
            doomed.failure = memory.failures.get(key).cloned();
            doomed
        })
        .collect();
    objects.sort_by(|a, b| a.key.cmp(&b.key));
    plan_deletion(Deletion {
        objects: &objects,
        hooks: Hooks::Planned(&[]),
        attempts: &memory.attempts,
        kept: None,
        now: Timestamp::now(),
    })
}

/// Nothing is left to delete: let the instance go, or wait for what is going.
async fn finish(
    hub: &Hub,
    served: &Served,
    instance: &StoredObject,
    plan: &DeletionPlan,
    memory: &mut Memory,
) -> Result<Next, InstanceError> {
    if !plan.is_done() {
        return Ok(next(hub, served, plan));
    }
    let mut finalizers = manage::finalizers(instance);
    finalizers.retain(|name| name != FINALIZER);
    let metadata = Value::object([
        ("resourceVersion", instance.resource_version().clone().into()),
        ("finalizers", Value::list(finalizers.iter().map(|name| Value::from(name.as_str())))),
    ]);
    let patch = Value::object([("metadata", metadata)]);
    let namespace = instance.namespace().map(|namespace| &**namespace);
    let kind = &served.kind;
    match hub.connection.merge_patch(kind, namespace, instance.name(), None, managers::LABELLER, &patch).await
    {
        Ok(_) => {}
        Err(error) if error.is_gone() => {}
        Err(error) => return Err(error.into()),
    }
    *memory = Memory { released: Some(instance.uid().clone()), ..Memory::default() };
    Ok(Next::Done)
}

/// When to look again. Events tell when something is gone; a copy that does not follow would not, nor would one of a kind
/// that nobody watches.
fn next(hub: &Hub, served: &Served, plan: &DeletionPlan) -> Next {
    let told = |key: &ObjectKey| {
        let follows = |watch: &Watch| {
            let WatchKey { cluster, group, kind, selection, .. } = &**watch.key();
            *selection == Selection::Managed
                && (cluster, group, kind) == (&key.cluster, &key.group, &key.kind)
                && watch.is_live()
        };
        served.children.iter().any(follows)
    };
    let untold = plan.waiting.iter().any(|(doom, wait)| match wait {
        // Whoever goes before it is in this list too.
        Wait::Turn => false,
        Wait::Gone(_) => !told(&doom.key),
        Wait::For(_) | Wait::Closed(_) | Wait::Failed(_) => true,
    });
    let interval = hub.settings.instance_interval.unwrap_or(Duration::from_secs(60));
    let due = plan.recheck_at.map(|at| {
        let wait = Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default();
        wait.max(Duration::from_millis(50))
    });
    match due.into_iter().chain(untold.then_some(interval)).min() {
        Some(wait) => Next::After(wait),
        None => Next::Done,
    }
}

/// Everything that the inventory of a cluster may contain, as that cluster has it.
pub(super) async fn members(
    connection: &Connection,
    instance: &StoredObject,
    applyset: &str,
    inventory: &Inventory,
    memory: &Memory,
) -> Result<Sight, InstanceError> {
    let selector = format!("{}={applyset}", labels::APPLYSET_PART_OF);
    let home = instance.namespace().map(|namespace| &**namespace);
    let mut kinds: Vec<Arc<ApiKind>> = Vec::new();
    for kind in &inventory.group_kinds {
        match connection.kind(&kind.group, None, &kind.kind).await {
            Ok(kind) => kinds.push(kind),
            // The type is gone, and its objects with it.
            Err(error) if error.missing().is_some() => {}
            Err(error) => return Err(error.into()),
        }
    }
    let mut places: Vec<(&ApiKind, Option<&str>)> = Vec::new();
    for kind in &kinds {
        if kind.namespaced {
            let namespaces = inventory.namespaces.iter().map(String::as_str).chain(home);
            places.extend(namespaces.map(|namespace| (&**kind, Some(namespace))));
        } else {
            places.push((kind, None));
        }
    }
    let mut sight = Sight::default();
    let lists: Vec<BoxFuture<'_, _>> = places
        .iter()
        .map(|(kind, namespace)| connection.list(kind, *namespace, Some(&selector)).boxed())
        .collect();
    let answers: Vec<_> = stream::iter(lists).buffer_unordered(AT_ONCE).collect().await;
    for listed in answers {
        for object in present(listed)? {
            let key: ObjectKey = object.key(connection.cluster());
            sight.see(key, Arc::new(object), memory);
        }
    }
    Ok(sight)
}

fn present(listed: Result<Vec<StoredObject>, ApiError>) -> Result<Vec<StoredObject>, ApiError> {
    match listed {
        Err(error) if error.missing().is_some() => Ok(Vec::new()),
        listed => listed,
    }
}
