//! Emits Events that are not about a condition. Their reasons are a closed set, which decides their type.

use kross_api::EventReason;
use kross_cluster::{Regarding, Report, Severity};

use crate::context::Context;

/// Emits an Event about an object. Returns at once.
pub(crate) fn emit(
    context: &Context,
    regarding: impl Into<Regarding>,
    reason: EventReason,
    action: &str,
    note: String,
) {
    let Some(events) = &context.events else { return };
    events.report(Report {
        regarding: regarding.into(),
        severity: if reason.is_warning() { Severity::Warning } else { Severity::Normal },
        reason: reason.as_str().to_owned(),
        action: action.to_owned(),
        note,
    });
}
