//! Turns the key of an instance in the work queue into a reconcile: of a living instance, of one that is being deleted, or
//! of one whose definition has no graph.

use jiff::Timestamp;
use kross_api::{ClusterId, ConditionType, LifecyclePhase, annotations, labels};
use kross_cluster::{ObjectKey, Outcome, StoredObject};
use kross_plan::failed_status;
use kross_value::{Text, Value};
use tracing::field::Empty;

use super::deletion::DeletionPass;
use super::error::{InstanceError, Next, outcome};
use super::own_graph;
use super::pass::Pass;
use super::selection::{self, Candidate, Found};
use crate::context::Context;
use crate::graphs::NoGraph;
use crate::metrics::UnresolvedReason;
use crate::permits::Permit;
use crate::unreadable;

/// Reconciles an instance.
#[tracing::instrument(
    level = "debug",
    skip_all,
    fields(instance = %key, rgd = Empty, reason = Empty, otel.status_code = Empty)
)]
pub(crate) async fn reconcile(context: &Context, key: &ObjectKey, permit: &Permit) -> Outcome {
    let serving = context.graphs.serving(&key.group, &key.kind);
    if serving.is_empty() {
        context.metrics.instances.no_graph(UnresolvedReason::not_available);
        return Outcome::Done;
    }
    let Candidate { served, instance, is_selected } = match selection::find(context, &serving, key).await {
        Ok(Found::Instance(candidate)) => candidate,
        Ok(Found::Nothing) => {
            context.instances.forget(key);
            context.own_graphs.forget(key);
            return Outcome::Done;
        }
        Ok(Found::Unknown) => {
            let mut outlines = serving
                .iter()
                .filter_map(|served| served.instances.unreadable(key.namespace.as_deref(), &key.name));
            return outlines.next().map_or(Outcome::Retry, |outline| unreadable::report(context, &outline));
        }
        Err(_) => return Outcome::Retry,
    };
    let Some(served) = own_graph::serve(context, key, served, &instance).await else { return Outcome::Retry };
    let (started, span) = (std::time::Instant::now(), tracing::Span::current());
    span.record("rgd", &*served.definition);
    let guard = context.instances.begin_pass();
    let mut memory = context.instances.take(key, instance.uid(), &guard);
    let is_deleting = instance.deletion_timestamp().is_some() || !is_selected;
    let phase = if is_deleting { LifecyclePhase::Deletion } else { LifecyclePhase::Active };
    let pass = Pass::new(context, &served, key, phase, instance, permit, &mut memory);
    let ended = if is_deleting { DeletionPass::new(pass).run().await } else { run(pass).await };
    context.instances.keep(key, memory);
    context.metrics.instances.reconciled(started.elapsed());
    if let Err(error) = &ended
        && !matches!(error, InstanceError::Outdated)
    {
        context.metrics.instances.errors.inc();
        span.record("reason", error.reason()).record("otel.status_code", "ERROR");
        tracing::warn!(instance = %key, reason = error.reason(), %error, "cannot reconcile instance");
    }
    let outcome = outcome(&ended);
    tracing::debug!(took = ?started.elapsed(), next = ?outcome, "reconciled instance");
    outcome
}

/// Reconciles a living instance, and writes an error into its status.
async fn run(mut pass: Pass<'_>) -> Result<Next, InstanceError> {
    let served = pass.served;
    let Some(revision) = &served.revision else { return report_no_graph(pass).await };
    pass.context.metrics.instances.graphs_found.inc();
    // An object of an existing kind may have been released and selected again.
    pass.memory.released = None;
    let ended = pass.run(&revision.graph).await;
    if let Err(error) = &ended
        && let Some(kind) = error.condition()
    {
        let (instance, now) = (pass.instance.value(), Timestamp::now());
        let status = failed_status(Some(&*revision.graph), instance, kind, &error.to_string(), now);
        pass.write_status(status).await?;
    }
    ended
}

/// Writes into the status of a living instance why its definition has no graph.
async fn report_no_graph(mut pass: Pass<'_>) -> Result<Next, InstanceError> {
    let metrics = &pass.context.metrics.instances;
    let message = match &pass.served.no_graph {
        Some(NoGraph::Invalid(message)) => {
            metrics.no_graph(UnresolvedReason::failed);
            Some(message)
        }
        Some(NoGraph::Deleted(message) | NoGraph::Later(message)) => {
            metrics.graphs_pending.inc();
            Some(message).filter(|_| !is_reported(&pass.instance))
        }
        None => {
            metrics.graphs_pending.inc();
            None
        }
    };
    if let Some(message) = message {
        let (kind, now) = (ConditionType::GraphResolved, Timestamp::now());
        let status = failed_status(None, pass.instance.value(), kind, message, now);
        pass.write_status(status).await?;
    }
    let is_later = matches!(pass.served.no_graph, Some(NoGraph::Later(_)));
    Ok(if is_later { Next::Retry } else { Next::Done })
}

/// Whether the status of an instance is about its current spec.
fn is_reported(instance: &StoredObject) -> bool {
    let conditions = instance.value().at(&["status", "conditions"]).and_then(Value::as_list);
    let generation = |condition: &Value| condition.get("observedGeneration").and_then(Value::as_int);
    conditions.is_some_and(|conditions| {
        conditions.iter().all(|condition| generation(condition) == instance.generation())
    })
}

/// The instance that the labels of an object name as its owner. It is in the hub, wherever the object is.
pub(crate) fn instance_of(object: &StoredObject) -> Option<ObjectKey> {
    let text = |label| object.label(label).map(Text::from);
    Some(ObjectKey {
        cluster: ClusterId::local(),
        group: text(labels::INSTANCE_GROUP)?,
        kind: text(labels::INSTANCE_KIND)?,
        namespace: text(labels::INSTANCE_NAMESPACE),
        name: match object.annotation(annotations::INSTANCE_NAME) {
            Some(long) => long.into(),
            None => text(labels::INSTANCE_NAME)?,
        },
    })
}
