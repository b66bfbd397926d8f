//! The end of an instance: its objects go in reverse waves, from what is persisted alone. No graph and no expression is
//! needed, and "gone" is what the cluster says, not a copy.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kross_api::{FINALIZER, Operation, managers};
use kross_cluster::{ObjectKey, Selection, StoredObject};
use kross_plan::{
    Deletion, DeletionPlan, Hooks, Leaving, Wait, blocked_deletion_status, deletion_status, plan_deletion,
};
use kross_value::Value;

use super::clusters::Asker;
use super::error::{InstanceError, Next};
use super::memory::Memory;
use super::reach::Reach;
use super::remains::{Remains, gather};
use super::{apply, manage, report};
use crate::graphs::Served;
use crate::hub::Hub;
use crate::turns::Turn;

/// How soon to look again where something is about to be known.
const SOON: Duration = Duration::from_secs(1);

/// Goes on with a deletion.
///
/// # Errors
/// The cluster refuses or does not answer, or what the instance says it owns cannot be trusted.
pub(super) async fn proceed(
    hub: &Hub,
    served: &Served,
    turn: &Turn,
    instance: Arc<StoredObject>,
    memory: &mut Memory,
) -> Result<Next, InstanceError> {
    let released = memory.released.as_ref() == Some(instance.uid());
    if released || !manage::is_held(&instance) {
        return Ok(Next::Done);
    }
    let applyset = manage::applyset(served, &instance);
    let record = match manage::record(&instance, &applyset) {
        Ok(record) => record,
        Err(error) => {
            let graph = served.revision.as_ref().map(|revision| &*revision.graph);
            let status =
                blocked_deletion_status(graph, instance.value(), &error.to_string(), Timestamp::now());
            report::write(hub, served, instance, status).await?;
            return Err(error);
        }
    };
    let (mut reach, key) = (Reach::local(hub, served, turn), instance.key(hub.connection.cluster()));
    let asker = Asker { hub, key: &key, instance: &Arc::clone(&instance), recorded: &record.remote };
    let mut remains = gather(&asker, served, &record, &mut reach, memory).await?;
    if remains.sight.connecting {
        // Whether it answers is known in a moment; it says so.
        return Ok(Next::After(SOON));
    }
    let mut instance = instance;
    let mut said = false;
    loop {
        let plan = step(&remains, memory);
        memory.attempts.clone_from(&plan.attempts);
        // Before the first delete, and when something is left to wait for; what goes in this pass needs no word each.
        let waits = plan.delete.is_empty() && plan.release.is_empty();
        if !plan.is_done() && (waits || !said) {
            said = true;
            let graph = served.revision.as_ref().map(|revision| &*revision.graph);
            let leaving = Leaving { plan: &plan, hooks: None, clusters: &remains.clusters };
            let status = deletion_status(graph, instance.value(), &leaving, Timestamp::now());
            instance = report::write(hub, served, instance, status).await?;
        }
        if waits {
            return finish(hub, served, &reach, &instance, &plan, memory).await;
        }
        let sight = &mut remains.sight;
        let deleted = apply::delete(&reach, &plan.delete, sight, memory).await;
        let released = apply::release(&reach, &plan.release, sight, memory).await;
        if !deleted || !released {
            return Ok(Next::Retry);
        }
    }
}

fn step(remains: &Remains, memory: &Memory) -> DeletionPlan {
    let objects = remains.doomed(memory);
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
    reach: &Reach<'_>,
    instance: &StoredObject,
    plan: &DeletionPlan,
    memory: &mut Memory,
) -> Result<Next, InstanceError> {
    if !plan.is_done() {
        return Ok(next(hub, reach, plan));
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
    hub.instances.release(&instance.key(hub.connection.cluster()), memory);
    *memory = Memory { released: Some(instance.uid().clone()), ..Memory::default() };
    Ok(Next::Done)
}

/// When to look again. Events tell when something is gone; a copy that does not follow would not, nor would one of a kind
/// that nobody watches.
fn next(hub: &Hub, reach: &Reach<'_>, plan: &DeletionPlan) -> Next {
    let told = |key: &ObjectKey| {
        let watch = reach.child(&key.cluster, &key.group, &key.kind);
        watch.is_some_and(|watch| watch.key().selection == Selection::Managed && watch.is_live())
    };
    let untold = plan.waiting.iter().any(|(doom, wait)| match wait {
        // Whoever goes before it is in this list too.
        Wait::Turn => false,
        Wait::Gone(_) => !told(&doom.key),
        // A cluster that is connected wakes those who wait for it.
        Wait::Closed(trouble) => trouble.operation != Some(Operation::Connect),
        Wait::For(_) | Wait::Failed(_) => true,
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
