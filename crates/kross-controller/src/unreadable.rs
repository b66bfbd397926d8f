//! Reports a definition or an instance that cannot be read.

use kross_cluster::{Outcome, Regarding, Report, Severity, StoredObject};

use crate::context::Context;

/// Emits an Event on the object. Its next version is an event of the cache and requeues it, so there is nothing to retry.
pub(crate) fn report(context: &Context, outline: &StoredObject) -> Outcome {
    if let (Some(events), Some(error)) = (&context.events, outline.unreadable()) {
        events.report(Report {
            regarding: Regarding::from(outline),
            severity: Severity::Warning,
            reason: "Unreadable".to_owned(),
            action: "Reconcile".to_owned(),
            note: format!(
                "{} is not reconciled: {error}; its objects are not changed; nest its fields less deeply or delete it",
                outline.kind()
            ),
        });
    }
    Outcome::Done
}
