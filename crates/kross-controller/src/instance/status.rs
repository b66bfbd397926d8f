//! Report: writes the status of an instance if it changed, and emits Events, logs and metrics for what changed in it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use kross_api::{Condition, ConditionType, InstanceState, annotations, managers};
use kross_cluster::{Digest, StoredObject};
use kross_plan::is_minor_change;
use kross_plan::workload::resource_status;
use kross_value::Value;

use super::error::InstanceError;
use super::pass::Pass;
use crate::condition_events::{self, Health};
use crate::context::Context;
use crate::metrics::InstanceTransition;

/// The first wait before a status is written again that the API server stored without all of its fields, and how often it
/// is. The server drops fields that its schema lacks, and learns of a changed CRD a moment after it has accepted it. No
/// event tells when it has.
const PRUNED_WAIT: Duration = Duration::from_millis(100);
const PRUNED_RETRIES: u32 = 8;

/// The first wait before a status is written that changes only in details. Each further wait is three times as long.
const DETAIL_WAIT: Duration = Duration::from_secs(1);
const MAX_DETAIL_WAIT: Duration = Duration::from_secs(60);

impl Pass<'_> {
    /// Writes a status, and requeues the instance if the API server stored only a part of it.
    ///
    /// # Errors
    /// The request fails, or the instance was changed meanwhile.
    pub(super) async fn report(&mut self, status: Value) -> Result<(), InstanceError> {
        let status = self.form(status);
        self.write_status(status.clone()).await?;
        if self.served.external || self.instance.value().get("status") == Some(&status) {
            self.memory.pruned_statuses = 0;
            return Ok(());
        }
        let retries = self.memory.pruned_statuses;
        self.memory.pruned_statuses = retries.saturating_add(1);
        if retries < PRUNED_RETRIES {
            self.requeue_after(PRUNED_WAIT * 2_u32.pow(retries));
        }
        Ok(())
    }

    /// Writes a status if it changed.
    ///
    /// # Errors
    /// The request fails, or the instance was changed meanwhile.
    #[tracing::instrument(name = "report", level = "debug", skip_all)]
    pub(super) async fn write_status(&mut self, status: Value) -> Result<(), InstanceError> {
        let status = self.form(status);
        if self.instance.value().get("status") == Some(&status) {
            return Ok(());
        }
        if self.served.external {
            return self.write_state_annotations(&status).await;
        }
        let from = state(&self.instance);
        let before = conditions(self.instance.value().get("status"));
        let after = conditions(Some(&status));
        let mut object = self.instance.value().as_object().cloned().unwrap_or_default();
        object.insert("status", status);
        let client = &self.context.client;
        let written =
            client.replace(&self.served.kind, &object.into(), Some("status"), managers::CONTROLLER).await?;
        self.served.instances.observe(&written);
        count_transition(self.context, from, state(&written));
        log_transition(self.context, &written, from, ready_message(&before), ready_message(&after));
        let fails = |state: &str| state == InstanceState::Error.as_str();
        let health = Health::OfState { failed: fails(from), fails: fails(state(&written)) };
        condition_events::emit(self.context, &written, &before, &after, health);
        self.instance = Arc::new(written);
        Ok(())
    }

    /// A status in the form that the kind of the instance has.
    fn form(&self, status: Value) -> Value {
        match self.served.own_graphs {
            true => resource_status(self.instance.value(), status, Timestamp::now()),
            false => status,
        }
    }

    /// Writes state and message into annotations: the status of an existing kind belongs to its own controller.
    async fn write_state_annotations(&mut self, status: &Value) -> Result<(), InstanceError> {
        let instance = &self.instance;
        let state = status.get("state").and_then(Value::as_str).unwrap_or_default();
        let conditions = conditions(Some(status));
        let message = ready_message(&conditions);
        if instance.annotation(annotations::STATE) == Some(state)
            && instance.annotation(annotations::MESSAGE) == Some(message)
        {
            return Ok(());
        }
        let annotations = Value::object([
            (annotations::STATE, Value::from(state)),
            (annotations::MESSAGE, Value::from(message)),
        ]);
        let metadata = Value::object([("metadata", Value::object([("annotations", annotations.clone())]))]);
        let digest = Digest::of(&metadata);
        if !self.may_write_metadata(false, (digest, &metadata), managers::STATE).await {
            return Ok(());
        }
        let instance = &self.instance;
        // With the resource version: the response goes into the cache as our own write, and would hide a change that
        // somebody else made in between.
        let version = ("resourceVersion", Value::from(instance.resource_version().clone()));
        let metadata = Value::object([version, ("annotations", annotations)]);
        let patch = Value::object([("metadata", metadata)]);
        let (kind, name) = (&self.served.kind, instance.name());
        let namespace = instance.namespace().map(|namespace| &**namespace);
        let client = &self.context.client;
        let written = client.merge_patch(kind, namespace, name, None, managers::STATE, &patch).await?;
        self.served.instances.observe(&written);
        self.instance = Arc::new(written);
        self.observe_metadata(digest, managers::STATE);
        Ok(())
    }

    /// How long to delay a status that changes only in details; none to write it now. Otherwise a thousand items that become
    /// ready one after the other would cause a thousand writes.
    pub(super) fn detail_delay(&mut self, status: &Value) -> Option<Duration> {
        let status = &self.form(status.clone());
        let before = self.instance.value().get("status").filter(|before| *before != status)?;
        let now = Instant::now();
        let (due, last) = match self.memory.next_detail.filter(|_| is_minor_change(before, status)) {
            Some(next) => next,
            None => {
                self.memory.next_detail = Some((now + DETAIL_WAIT, DETAIL_WAIT));
                return None;
            }
        };
        if now < due {
            return Some(due - now);
        }
        let wait = (last * 3).min(MAX_DETAIL_WAIT);
        self.memory.next_detail = Some((now + wait, wait));
        None
    }
}

/// Counts a change of state.
fn count_transition(context: &Context, from_state: &'static str, to_state: &'static str) {
    if from_state != to_state {
        let transition = InstanceTransition { from_state, to_state };
        context.metrics.instances.transitions.get_or_create(&transition).inc();
    }
}

/// Logs a change of state: failures, whenever their message changes, and recoveries for everybody, all others for debugging.
fn log_transition(context: &Context, instance: &StoredObject, from: &str, before: &str, message: &str) {
    let to = state(instance);
    let instance = instance.key(context.client.cluster());
    if to == InstanceState::Error.as_str() && (from != to || before != message) {
        tracing::warn!(%instance, from, cause = message, "instance failed");
    } else if from == InstanceState::Error.as_str() && from != to {
        tracing::info!(%instance, to, cause = message, "instance recovered");
    } else if from != to {
        tracing::debug!(%instance, from, to, cause = message, "instance changed state");
    }
}

/// The state of an instance, from the closed set of states.
fn state(object: &StoredObject) -> &'static str {
    let word = object.value().at(&["status", "state"]).and_then(Value::as_str);
    word.and_then(InstanceState::parse).map_or("", InstanceState::as_str)
}

/// The message of `Ready`.
fn ready_message(conditions: &[Condition]) -> &str {
    let ready = conditions.iter().find(|one| one.type_ == ConditionType::Ready.as_str());
    ready.and_then(|ready| ready.message.as_deref()).unwrap_or_default()
}

fn conditions(status: Option<&Value>) -> Vec<Condition> {
    let list = status.and_then(|status| status.get("conditions"));
    list.and_then(|list| serde_json::from_value(serde_json::Value::from(list)).ok()).unwrap_or_default()
}
