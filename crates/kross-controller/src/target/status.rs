//! Report: writes the status of a target if it changed, and emits Events for the conditions that changed.

use jiff::Timestamp;
use kross_cluster::ApiError;
use kross_plan::workload::{TargetObservation, plan_target_status};

use super::object::Target;
use crate::condition_events::{self, Health};
use crate::context::Context;
use crate::workload::{self, WorkloadKind};

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
    let status = plan_target_status(&target.status, target.object.facts(), observed, now);
    if status == target.status {
        return Ok(());
    }
    let mut json = serde_json::to_value(&status).unwrap_or_default();
    if let Some(fields) = json.as_object_mut() {
        for field in FIELDS {
            fields.entry(field).or_insert(serde_json::Value::Null);
        }
    }
    let written = workload::write_status(context, WorkloadKind::Target, &target.object, json.into()).await?;
    condition_events::emit(
        context,
        &written,
        &target.status.conditions,
        &status.conditions,
        Health::OfConditions,
    );
    Ok(())
}
