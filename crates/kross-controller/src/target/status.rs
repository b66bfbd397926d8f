//! Report: writes the status of a target if it changed, and emits Events for the conditions that changed.

use jiff::Timestamp;
use kross_api::managers;
use kross_cluster::ApiError;
use kross_plan::workload::{TargetObservation, plan_target_status};
use kross_value::Value;

use super::object::Target;
use crate::condition_events;
use crate::context::Context;
use crate::workload::WorkloadKind;

/// The fields of the status. All of them are written, so that those without a value are removed.
const FIELDS: [&str; 2] = ["conditions", "cluster"];

/// Writes the status if it changed.
///
/// # Errors
/// The request fails, or the target was changed meanwhile.
pub(super) async fn write(
    context: &Context,
    target: &Target,
    observed: &TargetObservation<'_>,
    now: Timestamp,
) -> Result<(), ApiError> {
    let status = plan_target_status(&target.status, target.facts(), observed, now);
    if status == target.status {
        return Ok(());
    }
    let mut json = serde_json::to_value(&status).unwrap_or_default();
    if let Some(fields) = json.as_object_mut() {
        for field in FIELDS {
            fields.entry(field).or_insert(serde_json::Value::Null);
        }
    }
    let version = ("resourceVersion", target.object.resource_version().clone().into());
    let patch = Value::object([("metadata", Value::object([version])), ("status", Value::from(json))]);
    let (kind, name) = (WorkloadKind::Target.api_kind(), target.object.name());
    let namespace = Some(target.namespace());
    let written = context
        .client
        .merge_patch(&kind, namespace, name, Some("status"), managers::WORKLOAD, &patch)
        .await?;
    if let Some(cache) = context.workload.cache(WorkloadKind::Target) {
        cache.observe(&written);
    }
    condition_events::emit(context, &written, &target.status.conditions, &status.conditions);
    Ok(())
}
