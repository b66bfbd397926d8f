//! Reports a definition or an instance that cannot be read.

use kross_api::EventReason;
use kross_cluster::{Outcome, StoredObject};

use crate::context::Context;
use crate::events;

/// Emits an Event on the object. Its next version is an event of the cache and requeues it, so there is nothing to retry.
pub(crate) fn report(context: &Context, outline: &StoredObject) -> Outcome {
    if let Some(error) = outline.unreadable() {
        let note = format!(
            "{} is not reconciled: {error}; its objects are not changed; nest its fields less deeply or delete it",
            outline.kind()
        );
        events::emit(context, outline, EventReason::Unreadable, "Reconcile", note);
    }
    Outcome::Done
}
