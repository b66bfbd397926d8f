//! Report: writes an instance's status if it changed, and tells of conditions that did.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kross_api::{
    Condition, ConditionStatus, ConditionType, InstanceState, RecordedCluster, annotations, managers,
};
use kross_cluster::{Regarding, Severity, StoredObject};
use kross_plan::is_minor_change;
use kross_value::Value;

use super::error::InstanceError;
use super::memory::Memory;
use crate::context::Context;
use crate::graphs::Served;
use crate::metrics::InstanceTransition;

/// Writes the status of an instance, if it is another one.
///
/// # Errors
/// The cluster refuses, or the instance has changed meanwhile.
pub(super) async fn write(
    context: &Context,
    served: &Served,
    instance: Arc<StoredObject>,
    status: Value,
) -> Result<Arc<StoredObject>, InstanceError> {
    if instance.value().get("status") == Some(&status) {
        return Ok(instance);
    }
    if served.external {
        return note(context, served, instance, &status).await;
    }
    let before = conditions(instance.value().get("status"));
    let after = conditions(Some(&status));
    let mut object = instance.value().as_object().cloned().unwrap_or_default();
    object.insert("status", status);
    let written =
        context.client.replace(&served.kind, &object.into(), Some("status"), managers::CONTROLLER).await?;
    served.instances.observe(&written);
    count_transition(context, &instance, &written);
    log(context, (&instance, &before), (&written, &after));
    tell(context, &written, &before, &after);
    Ok(Arc::new(written))
}

/// How soon a status is written again of which the API server kept less than it was given, and how often. It drops what it
/// does not know, and learns of a CRD with a new field a moment after it has taken it; without an event nobody would look
/// again.
const DROPPED_WAIT: Duration = Duration::from_millis(100);
const DROPPED_TIMES: u32 = 8;

/// How long to wait before a status is written again, if not all of it was kept.
pub(super) fn dropped(
    written: &StoredObject,
    status: &Value,
    served: &Served,
    memory: &mut Memory,
) -> Option<Duration> {
    if served.external || written.value().get("status") == Some(status) {
        memory.dropped = 0;
        return None;
    }
    memory.dropped = memory.dropped.saturating_add(1);
    (memory.dropped <= DROPPED_TIMES).then(|| DROPPED_WAIT * 2_u32.pow(memory.dropped - 1))
}

/// How long a status that has only details to add waits after the one before: three times as long each time.
const DETAIL_WAIT: Duration = Duration::from_secs(1);
const LONGEST_DETAIL_WAIT: Duration = Duration::from_secs(60);

/// How long to wait before a status is written, if it says nothing that could not wait: a thousand items that become ready one
/// after the other are no thousand news.
pub(super) fn wait(instance: &StoredObject, status: &Value, memory: &mut Memory) -> Option<Duration> {
    let before = instance.value().get("status").filter(|before| *before != status)?;
    let now = Instant::now();
    let (due, last) = match memory.detail.filter(|_| is_minor_change(before, status)) {
        Some(detail) => detail,
        None => {
            memory.detail = Some((now + DETAIL_WAIT, DETAIL_WAIT));
            return None;
        }
    };
    if now < due {
        return Some(due - now);
    }
    let next = (last * 3).min(LONGEST_DETAIL_WAIT);
    memory.detail = Some((now + next, next));
    None
}

/// The status of an existing type belongs to its own controller: state and message become annotations.
async fn note(
    context: &Context,
    served: &Served,
    instance: Arc<StoredObject>,
    status: &Value,
) -> Result<Arc<StoredObject>, InstanceError> {
    let state = status.get("state").and_then(Value::as_str).unwrap_or_default();
    let conditions = conditions(Some(status));
    let message = why(&conditions);
    if instance.annotation(annotations::STATE) == Some(state)
        && instance.annotation(annotations::MESSAGE) == Some(message)
    {
        return Ok(instance);
    }
    let notes = Value::object([
        (annotations::STATE, Value::from(state)),
        (annotations::MESSAGE, Value::from(message)),
    ]);
    // Exactly this version: what comes back to us is ours, and whoever changed it in between would not be noticed.
    let version = ("resourceVersion", Value::from(instance.resource_version().clone()));
    let patch = Value::object([("metadata", Value::object([version, ("annotations", notes)]))]);
    let namespace = instance.namespace().map(|namespace| &**namespace);
    let written = context
        .client
        .merge_patch(&served.kind, namespace, instance.name(), None, managers::STATE, &patch)
        .await?;
    served.instances.observe(&written);
    Ok(Arc::new(written))
}

/// Counts a change of state, in words from the closed set.
fn count_transition(context: &Context, before: &StoredObject, after: &StoredObject) {
    let (from_state, to_state) = (state(before), state(after));
    if from_state != to_state {
        context
            .metrics
            .instance_transitions
            .get_or_create(&InstanceTransition { from_state, to_state })
            .inc();
    }
}

/// Writes into the log what became of an instance: trouble whenever it is another one, and how it ended; the rest is for
/// those who look closely.
fn log(
    context: &Context,
    (old, before): (&StoredObject, &[Condition]),
    (new, after): (&StoredObject, &[Condition]),
) {
    let (from, to) = (state(old), state(new));
    let instance = new.key(context.client.cluster());
    let message = why(after);
    if to == InstanceState::Error.as_str() && (from != to || why(before) != message) {
        tracing::warn!(%instance, from, why = message, "an instance is in trouble");
    } else if from == InstanceState::Error.as_str() && from != to {
        tracing::info!(%instance, to, why = message, "an instance is out of trouble");
    } else if from != to {
        tracing::debug!(%instance, from, to, why = message, "an instance is in another state");
    }
}

fn state(object: &StoredObject) -> &'static str {
    let word = object.value().at(&["status", "state"]).and_then(Value::as_str);
    word.and_then(InstanceState::parse).map_or("", InstanceState::as_str)
}

/// What `Ready` says.
fn why(conditions: &[Condition]) -> &str {
    let ready = conditions.iter().find(|one| one.type_ == ConditionType::Ready.as_str());
    ready.and_then(|ready| ready.message.as_deref()).unwrap_or_default()
}

fn conditions(status: Option<&Value>) -> Vec<Condition> {
    let list = status.and_then(|status| status.get("conditions"));
    list.and_then(|list| serde_json::from_value(serde_json::Value::from(list)).ok()).unwrap_or_default()
}

/// Tells that an instance gives up what it had in a cluster that its reference no longer leads to.
pub(super) fn abandoned(context: &Context, instance: &StoredObject, cluster: &RecordedCluster) {
    let kinds: Vec<String> = cluster.contents.group_kinds.iter().map(ToString::to_string).collect();
    let note = format!(
        "what is left in cluster `{}` ({}) is given up, as confirmed: {}",
        cluster.name,
        cluster.uid,
        if kinds.is_empty() { "nothing".to_owned() } else { kinds.join(", ") }
    );
    tracing::warn!(instance = %instance.key(context.client.cluster()), "{note}");
    if let Some(events) = &context.events {
        events.report(kross_cluster::Report {
            regarding: Regarding::from(instance),
            severity: Severity::Warning,
            reason: "ClusterGivenUp".to_owned(),
            action: "Reconcile".to_owned(),
            note,
        });
    }
}

/// Tells of every condition that turned false, and of `Ready` whenever it changed.
fn tell(context: &Context, instance: &StoredObject, before: &[Condition], after: &[Condition]) {
    let Some(events) = &context.events else { return };
    for condition in after {
        let old = before.iter().find(|other| other.type_ == condition.type_).map(|other| other.status);
        let is_ready = condition.type_ == ConditionType::Ready.as_str();
        if old == Some(condition.status) || !(is_ready || condition.status == ConditionStatus::False) {
            continue;
        }
        let good = condition.status == ConditionStatus::True;
        events.report(kross_cluster::Report {
            regarding: Regarding::from(instance),
            severity: if good { Severity::Normal } else { Severity::Warning },
            reason: condition.type_.clone(),
            action: "Reconcile".to_owned(),
            note: format!(
                "{} -> {}: {}",
                old.map_or("none", ConditionStatus::as_str),
                condition.status.as_str(),
                condition.reason.as_deref().unwrap_or_default()
            ),
        });
    }
}
