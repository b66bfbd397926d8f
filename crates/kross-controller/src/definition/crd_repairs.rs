//! Back off: holds back the restore of a CRD that another client changes or deletes again after every restore, such as a tool that
//! applies a stored copy of it, or kro beside kross. After each restore all clients list the instances again.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use kross_api::{EventReason, managers};
use kross_cluster::{Digest, ObjectKey, StoredObject};
use kross_value::{Text, Value};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::object::Definition;
use crate::context::Context;
use crate::events;
use crate::key::Key;
use crate::repairs::{Cause, Repair, Repairs};

/// What to do about another client that changes a CRD.
const ADVICE: &str = "stop the other client from writing it, since the definition decides what is in it";

/// The CRDs that this process has written, by definition. A restart forgets them, and the backoff begins anew.
///
/// # Lock order
///
/// The lock is a leaf.
#[derive(Debug, Default)]
pub(crate) struct CrdRepairs(Mutex<HashMap<Text, WrittenCrd>>);

#[derive(Debug)]
struct WrittenCrd {
    /// The digest of what was written last.
    digest: Digest,
    repairs: Repairs,
}

impl CrdRepairs {
    /// Calls a function with the repair of a CRD, if it would be written as it was written before.
    fn with<T>(&self, restore: &Restore<'_>, act: impl FnOnce(&mut Repair) -> T) -> Option<T> {
        let mut all = self.0.lock();
        let written = all.get_mut(restore.definition.name());
        let written = written.filter(|written| written.digest == restore.digest)?;
        written.repairs.expire(Instant::now());
        written.repairs.get_mut(&restore.crd).map(act)
    }

    /// Remembers that a CRD was written.
    pub(super) fn written(&self, restore: &Restore<'_>, object: &Arc<StoredObject>) {
        let Restore { definition, crd, digest, .. } = restore;
        let now = (Instant::now(), Timestamp::now());
        let mut all = self.0.lock();
        let known = all.remove(definition.name());
        let is_repair = known.as_ref().is_some_and(|known| known.digest == *digest);
        let mut repairs = known.map(|known| known.repairs).unwrap_or_default();
        repairs.applied(crd, &digest.to_string().into(), object, is_repair, now);
        all.insert(definition.name().clone(), WrittenCrd { digest: *digest, repairs });
    }

    /// Who changes the CRD of a definition after every restore, if anybody does, and when that is to be checked again.
    fn state(&self, definition: &str) -> (Option<Text>, Option<Instant>) {
        let mut all = self.0.lock();
        let Some(WrittenCrd { repairs, .. }) = all.get_mut(definition) else { return (None, None) };
        repairs.expire(Instant::now());
        let contested = repairs.contested_with(ADVICE).next().map(|(_, contest)| contest.message);
        (contested, repairs.next_due())
    }

    /// Forgets the CRD of a definition that was deleted.
    pub(super) fn forget(&self, definition: &str) {
        drop(self.0.lock().remove(definition));
    }
}

/// The CRD of a definition that is to be written as it is desired.
pub(super) struct Restore<'a> {
    definition: &'a Definition,
    crd: ObjectKey,
    digest: Digest,
}

impl<'a> Restore<'a> {
    pub(super) fn new(context: &Context, definition: &'a Definition, name: &str, desired: &Value) -> Self {
        let (kind, cluster) = (&context.crd_kind, context.client.cluster().clone());
        let (group, kind) = (kind.group.clone(), kind.kind.clone());
        let crd = ObjectKey { cluster, group, kind, namespace: None, name: name.into() };
        Self { definition, crd, digest: Digest::of(desired) }
    }

    /// Whether the CRD must not be written yet. The definition is requeued for the time when it may be. Finds out and reports once
    /// who changes it.
    pub(super) async fn must_wait(&self, context: &Context, desired: &Value) -> bool {
        let hash = self.digest.to_string().into();
        let hold = |repair: &mut Repair| {
            let must_wait = repair.must_wait(&hash, Instant::now());
            (must_wait, repair.is_contested() && !repair.has_cause())
        };
        let Some((must_wait, is_unreported)) = context.crd_repairs.with(self, hold) else { return false };
        if is_unreported {
            let (kind, name) = (&context.crd_kind, &self.crd.name);
            let read = context.client.changed_fields(kind, None, name, managers::CONTROLLER, desired).await;
            let cause = Cause::of(read.as_deref().map(<[_]>::to_vec));
            let message = context.crd_repairs.with(self, |repair| {
                repair.set_cause(cause);
                repair.contest_with(ADVICE).message
            });
            self.report(context, message.as_deref().unwrap_or_default());
        }
        if must_wait {
            requeue(context, self.definition);
        }
        must_wait
    }

    fn report(&self, context: &Context, message: &str) {
        let Self { definition, crd, .. } = self;
        tracing::warn!(rgd = %definition.name(), crd = %crd.name, cause = message, "repairs of a CustomResourceDefinition back off");
        let note = format!("CustomResourceDefinition {}: {message}", crd.name);
        events::emit(context, &*definition.object, EventReason::RepairsBackOff, "Reconcile", note);
    }
}

/// Who changes the CRD of a definition after every restore; none if nobody does. The definition is requeued for the next restore,
/// or for the time when the CRD may have been left alone for long enough.
pub(super) fn contested(context: &Context, definition: &Definition) -> Option<Text> {
    requeue(context, definition);
    context.crd_repairs.state(definition.name()).0
}

fn requeue(context: &Context, definition: &Definition) {
    if let (_, Some(due)) = context.crd_repairs.state(definition.name()) {
        let wait = due.saturating_duration_since(Instant::now());
        context.definition_queue.add_after(&Key::Definition(definition.name().clone()), wait);
    }
}
