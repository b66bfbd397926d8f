//! Turns an instance in the queue into a pass over it: whether it lives, is being deleted, or has nobody who serves it.

use std::sync::Arc;

use jiff::Timestamp;
use kross_api::{ClusterId, ConditionType, LifecyclePhase};
use kross_cluster::{Lookup, ObjectKey, Outcome, StoredObject};
use kross_plan::failed_status;
use kross_value::{Text, Value};

use super::error::{InstanceError, Next, outcome};
use super::manage::Record;
use super::memory::Memory;
use super::pass::Pass;
use super::{deletion, manage, report};
use crate::context::Context;
use crate::graphs::{Halt, Served};
use crate::metrics::UnresolvedReason;
use crate::permits::Permit;

/// Looks at an instance.
#[tracing::instrument(level = "debug", skip_all, fields(instance = %key))]
pub(crate) async fn reconcile(context: &Context, key: &ObjectKey, permit: &Permit) -> Outcome {
    let Some(served) = context.graphs.serving(&key.group, &key.kind) else {
        context.metrics.no_graph(UnresolvedReason::not_available);
        return Outcome::Done;
    };
    let (instance, chosen) = match served.instances.get(key.namespace.as_deref(), &key.name) {
        Lookup::Found(instance) => (instance, true),
        Lookup::Absent if served.external => match let_go(context, &served, key).await {
            Ok(Some(instance)) => (instance, false),
            Ok(None) => return Outcome::Done,
            Err(_) => return Outcome::Retry,
        },
        Lookup::Absent => {
            context.instances.forget(key);
            return Outcome::Done;
        }
        Lookup::Unknown => return Outcome::Retry,
    };
    let started = std::time::Instant::now();
    let visit = context.instances.visit();
    let mut memory = context.instances.take(key, instance.uid(), &visit);
    let deleting = instance.deletion_timestamp().is_some() || !chosen;
    let ended = if deleting {
        deletion::proceed(context, &served, permit, instance, &mut memory).await
    } else {
        live(context, &served, key, permit, instance, &mut memory).await
    };
    context.instances.keep(key, memory);
    context.metrics.passed(started.elapsed());
    if let Err(error) = &ended {
        context.metrics.instance_errors.inc();
        tracing::warn!(instance = %key, reason = error.reason(), %error, "cannot reconcile an instance");
    }
    let outcome = outcome(&ended);
    tracing::debug!(took = ?started.elapsed(), next = ?outcome, "looked at an instance");
    outcome
}

/// An existing object that is an instance no more, since nothing chooses it: if it is still held by us, it is to be let go
/// as if it were deleted, but stays.
async fn let_go(
    context: &Context,
    served: &Served,
    key: &ObjectKey,
) -> Result<Option<Arc<StoredObject>>, kross_cluster::ApiError> {
    let found = match context.client.get(&served.kind, key.namespace.as_deref(), &key.name).await {
        Ok(found) => Some(found),
        Err(error) if error.missing().is_some() => None,
        Err(error) => return Err(error),
    };
    let held = found.filter(manage::is_held);
    if held.is_none() {
        context.instances.forget(key);
    }
    Ok(held.map(Arc::new))
}

async fn live(
    context: &Context,
    served: &Served,
    key: &ObjectKey,
    permit: &Permit,
    instance: Arc<StoredObject>,
    memory: &mut Memory,
) -> Result<Next, InstanceError> {
    let Some(revision) = &served.revision else {
        return halted(context, served, instance).await;
    };
    context.metrics.graphs_found.inc();
    // It may have been let go and chosen again.
    memory.released = None;
    let record = Record::default();
    let (graph, phase) = (&*revision.graph, LifecyclePhase::Active);
    let mut pass = Pass { context, served, graph, key, permit, phase, instance, record, memory };
    let ended = pass.run().await;
    if let Some(kind) = ended.as_ref().err().and_then(InstanceError::condition) {
        let message = ended.as_ref().err().map(ToString::to_string).unwrap_or_default();
        let status = failed_status(Some(pass.graph), pass.instance.value(), kind, &message, Timestamp::now());
        report::write(context, served, pass.instance, status).await?;
    }
    ended
}

/// A living instance for which nothing new is made.
async fn halted(
    context: &Context,
    served: &Served,
    instance: Arc<StoredObject>,
) -> Result<Next, InstanceError> {
    let why = match &served.halt {
        Some(Halt::Broken(why)) => {
            context.metrics.no_graph(UnresolvedReason::failed);
            Some(why)
        }
        Some(Halt::Ended(why)) => {
            context.metrics.graphs_pending.inc();
            Some(why).filter(|_| !is_reported(&instance))
        }
        None => {
            context.metrics.graphs_pending.inc();
            None
        }
    };
    if let Some(why) = why {
        let (kind, now) = (ConditionType::GraphResolved, Timestamp::now());
        let status = failed_status(None, instance.value(), kind, why, now);
        report::write(context, served, instance, status).await?;
    }
    Ok(Next::Done)
}

/// Whether the status of an instance is about its spec as it is.
fn is_reported(instance: &StoredObject) -> bool {
    let conditions = instance.value().at(&["status", "conditions"]).and_then(Value::as_list);
    let generation = |condition: &Value| condition.get("observedGeneration").and_then(Value::as_int);
    conditions.is_some_and(|conditions| {
        conditions.iter().all(|condition| generation(condition) == instance.generation())
    })
}

/// The instance that an object says it belongs to, wherever the object is.
pub(crate) fn instance_of(object: &StoredObject) -> Option<ObjectKey> {
    use kross_api::labels;
    let text = |label| object.label(label).map(Text::from);
    Some(ObjectKey {
        cluster: ClusterId::local(),
        group: text(labels::INSTANCE_GROUP)?,
        kind: text(labels::INSTANCE_KIND)?,
        namespace: text(labels::INSTANCE_NAMESPACE),
        name: text(labels::INSTANCE_NAME)?,
    })
}
