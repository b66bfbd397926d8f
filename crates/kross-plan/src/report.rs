//! Turns a walk into the status of the instance: its state, conditions, resources, clusters and the author's own fields.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kross_api::{
    Condition, ConditionSet, ConditionStatus, ConditionType, InstanceState, ManagedResource, ObjectKey,
    Reason, ResourceState, cut_middle as bounded, whole_seconds,
};
use kross_graph::{Field, Placement, Scope};
use kross_value::{Object, Text, Value};
use serde::Serialize;

use crate::deletion::{DeletionPlan, OwnedObject, Wait};
use crate::desired::json_size;
use crate::plan::NodePlan;
use crate::progress::{Progress, ResourceFailure};
use crate::walk::Walk;

mod author;
mod cause;
mod cluster_status;
mod deletion_status;
mod minor_change;
mod resources;
mod without_plan;

pub use deletion_status::{DeletionProgress, blocked_deletion_status, deletion_status};
pub use minor_change::is_minor_change;
pub use without_plan::{failed_status, suspended_status};

/// The parts of an instance's status.
pub(crate) struct Report {
    pub(crate) state: InstanceState,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) message: Text,
    pub(crate) resources: Vec<ManagedResource>,
    pub(crate) status: Value,
}

pub(crate) fn report(walk: &Walk<'_>, prune: &DeletionPlan, scope: &Scope<'_>) -> Report {
    let input = &walk.input;
    let mut state = state(walk, prune);
    let mut conditions = conditions(walk, prune);
    let resources = resources::entries(walk, prune);
    let mut status = match author_fields(walk, scope) {
        Ok(fields) => fields,
        Err(message) => {
            state = InstanceState::Error;
            conditions.set_false(ConditionType::ResourcesReady, Reason::NotReady, message, input.now);
            Object::new()
        }
    };
    let message = ready_message(&conditions);
    if walk.nodes.iter().any(|node| node.progress.is_unreachable()) {
        keep_last_known(&mut status, &input.instance.raw_status(), &|key| input.graph.status.get(key));
    }
    let written = if input.graph.conditions.is_empty() {
        wire(conditions.conditions())
    } else {
        let own = author::conditions(
            (input.graph, input.instance),
            &conditions,
            scope,
            input.now,
            Some(input.settings),
        );
        if own.degraded {
            state = InstanceState::Error;
        }
        wire(&own.conditions)
    };
    status.insert("state", Value::from(state.as_str()));
    status.insert("conditions", written);
    let is_authors = |field: &str| input.graph.status.get(field).is_some();
    if !is_authors("managedResources") && !resources.is_empty() {
        status.insert("managedResources", wire(&resources));
    }
    let clusters = cluster_status::entries(walk, prune);
    if !is_authors("clusters") && !clusters.is_empty() {
        status.insert("clusters", wire(&clusters));
    }
    let conditions = conditions.conditions().to_vec();
    Report { state, conditions, message, resources, status: Value::Object(status) }
}

/// The author's fields that have a value now.
///
/// # Errors
/// They are too large for the status of an object.
fn author_fields(walk: &Walk<'_>, scope: &Scope<'_>) -> Result<Object, String> {
    let mut errors = Vec::new();
    let Some(Value::Object(fields)) = walk.input.graph.status.render_available(scope, &mut errors) else {
        return Ok(Object::new());
    };
    let limit = walk.input.settings.limits.status_size;
    let size = json_size(&fields);
    if size <= limit {
        return Ok(fields);
    }
    Err(format!(
        "the fields that the definition adds to the status have {size} bytes, and at most {limit} are allowed \
         (`--instance-max-status-size`)"
    ))
}

/// Keeps the last known value of the author's fields that have none now, because they read objects in a cluster that is not
/// connected.
fn keep_last_known<'a>(status: &mut Object, before: &Object, declared: &dyn Fn(&str) -> Option<Field<'a>>) {
    for (key, known) in before.iter() {
        let Some(field) = declared(key.as_str()) else { continue };
        match (status.get_mut(key.as_str()), known) {
            (None, known) => {
                status.insert(key.clone(), known.clone());
            }
            (Some(Value::Object(now)), Value::Object(known)) => {
                keep_last_known(now, known, &|key| field.get(key));
            }
            (Some(_), _) => {}
        }
    }
}

/// A value as it is on the wire.
fn wire<T: Serialize + ?Sized>(value: &T) -> Value {
    serde_json::to_value(value).map(Value::from).unwrap_or_default()
}

fn ready_message(conditions: &ConditionSet) -> Text {
    let ready = conditions.get(ConditionType::Ready);
    ready.and_then(|ready| ready.message.as_deref()).unwrap_or_default().into()
}

fn state(walk: &Walk<'_>, prune: &DeletionPlan) -> InstanceState {
    let failed = |node: &NodePlan| matches!(node.progress, Progress::Failed(_));
    let undeletable = prune.waiting.iter().any(|(_, wait)| matches!(wait, Wait::Failed(_)));
    if undeletable || walk.nodes.iter().any(failed) {
        InstanceState::Error
    } else if walk.nodes.iter().all(|node| node.progress.is_complete())
        && walk.input.observed.contested_metadata.is_none()
    {
        InstanceState::Active
    } else {
        InstanceState::InProgress
    }
}

fn conditions(walk: &Walk<'_>, prune: &DeletionPlan) -> ConditionSet {
    let input = &walk.input;
    let now = input.now;
    let is_remote = input.graph.nodes.iter().any(|node| matches!(node.placement, Placement::Remote(_)));
    let clusters = ConditionType::INSTANCE_CLUSTERS.iter().filter(|_| is_remote);
    // Where the author defines conditions, the built-in ones are not in the status and have no history.
    let before = if input.graph.conditions.is_empty() { input.instance.built_in() } else { Vec::new() };
    let mut set = ConditionSet::new(
        ConditionType::INSTANCE.iter().chain(clusters).copied(),
        input.instance.facts(),
        &before,
        now,
    );
    match &input.observed.contested_metadata {
        None => set.set_true(ConditionType::InstanceManaged, Reason::Managed, MANAGED, now),
        Some(message) => {
            let message = format!("instance metadata: {message}");
            set.set_false(ConditionType::InstanceManaged, Reason::ManagementFailed, message, now)
        }
    };
    set.set_true(ConditionType::GraphResolved, Reason::Resolved, RESOLVED, now);
    match cause::of_resources(walk, prune) {
        None => set.set_true(ConditionType::ResourcesReady, Reason::AllResourcesReady, READY, now),
        Some((reason, message)) => set.set_false(ConditionType::ResourcesReady, reason, message, now),
    };
    if is_remote {
        cluster_status::conditions(walk, prune, &mut set);
    }
    set
}

const MANAGED: &str = "instance is properly managed with finalizers and labels";
const RESOLVED: &str = "runtime graph created and all resources resolved";
const READY: &str = "all resources are created and ready";

/// When the deletion of objects was first attempted, from memory or from the status.
pub(crate) fn attempts(
    previous: &[ManagedResource],
    pending: &[OwnedObject],
    walk: &Walk<'_>,
) -> BTreeMap<ObjectKey, Timestamp> {
    let mut attempts = walk.input.observed.attempts.clone();
    for object in pending {
        let same = |entry: &&ManagedResource| {
            entry.state == ResourceState::Deleting
                && entry.id == object.node.as_str()
                && entry.name.as_deref() == Some(object.key.name.as_str())
                && entry.namespace.as_deref() == object.key.namespace.as_deref()
                && entry.kind.as_deref() == Some(object.key.kind.as_str())
                && entry.cluster.as_deref() == walk.display_of(&object.key)
        };
        let entry = previous.iter().find(same);
        if let Some(since) = entry.and_then(|entry| entry.last_update_time.as_deref()?.parse().ok()) {
            let known = attempts.entry(object.key.clone()).or_insert(since);
            *known = (*known).min(since);
        }
    }
    attempts
}

/// The message of a failure with the time when it began, if that is known.
fn since(failure: &ResourceFailure) -> String {
    match failure.since {
        Some(time) => format!("{} (since {})", failure.message, whole_seconds(time)),
        None => failure.message.to_string(),
    }
}

/// Sets a condition to Unknown.
fn set_unknown(set: &mut ConditionSet, kind: ConditionType, reason: Reason, message: &str, now: Timestamp) {
    set.set(kind, ConditionStatus::Unknown, reason, message, now);
}
