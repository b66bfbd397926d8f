//! Turns changes of conditions into Events.

use kross_api::{Condition, ConditionStatus, ConditionType};
use kross_cluster::{Regarding, Report, Severity, StoredObject};

use crate::context::Context;

/// Emits an Event for every condition that became false, and for `Ready` whenever it changed.
pub(crate) fn emit(context: &Context, object: &StoredObject, before: &[Condition], after: &[Condition]) {
    let Some(events) = &context.events else { return };
    for condition in after {
        let old = before.iter().find(|other| other.type_ == condition.type_).map(|other| other.status);
        let is_ready = condition.type_ == ConditionType::Ready.as_str();
        if old == Some(condition.status) || !(is_ready || condition.status == ConditionStatus::False) {
            continue;
        }
        let good = condition.status == ConditionStatus::True;
        events.report(Report {
            regarding: Regarding::from(object),
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
