//! Reconciles targets: copies the connection Secret of a managed resource, connects to the cluster, and reports its state. A
//! target that is deleted is kept while an instance or a resource of an application has objects in its cluster.

mod connection;
mod deletion;
mod object;
mod propagation;
mod status;
mod users;

pub(crate) use connection::Targets;

use std::sync::Arc;

use jiff::Timestamp;
use kross_api::FailureReason;
use kross_cluster::{ApiError, Lookup, Outcome, SecretName, StoredObject};
use kross_plan::workload::{TargetDeletion, TargetObservation, TargetPropagation};
use kross_value::{Text, Value};

use self::deletion::{Deletion, delete};
use self::object::Target;
use self::propagation::Progress;
use crate::context::Context;
use crate::finalizer;
use crate::key::WorkloadKey;
use crate::unreadable;
use crate::workload::WorkloadKind;

/// A target was created, changed or deleted.
pub(crate) fn target_changed(
    context: &Context,
    old: Option<&StoredObject>,
    new: Option<&StoredObject>,
    ours: bool,
) {
    if let Some(key) = new.or(old).filter(|_| !ours).and_then(|it| WorkloadKey::of(WorkloadKind::Target, it))
    {
        context.workload_queue.add(&key);
    }
}

/// A claim was created, changed or deleted: its target is not ready while the claim is released.
pub(crate) fn claim_changed(context: &Context, old: Option<&StoredObject>, new: Option<&StoredObject>) {
    let phase = |claim: &StoredObject| claim.value().at(&["status", "bindingPhase"]).cloned();
    let Some(claim) = new.or(old).filter(|_| old.and_then(phase) != new.and_then(phase)) else { return };
    let Some(key) = WorkloadKey::of(WorkloadKind::Claim, claim) else { return };
    context.workload_queue.add(&WorkloadKey { kind: WorkloadKind::Target, ..key });
}

/// A resource of an application was created, changed or deleted: its target may have lost its last user. Applications themselves
/// have nothing in the cluster.
pub(crate) fn user_changed(context: &Context, old: Option<&StoredObject>, new: Option<&StoredObject>) {
    let Some(user) = new.or(old) else { return };
    if WorkloadKind::find(user.group(), user.kind()) != Some(WorkloadKind::ApplicationResource) {
        return;
    }
    let key = user.key(context.client.cluster());
    match new {
        Some(new) => drop(context.observe_inventory(&key, new)),
        None => context.forget_inventory(&key),
    }
}

/// The targets whose connection Secret this is. One that cannot be read may name any Secret of its namespace.
pub(crate) fn with_secret(context: &Context, secret: &SecretName) -> Vec<WorkloadKey> {
    let Some(cache) = context.workload.cache(WorkloadKind::Target) else { return Vec::new() };
    let name = |target: &StoredObject| {
        target.value().at(&["spec", "connectionSecretRef", "name"]).and_then(Value::as_str).map(Text::from)
    };
    let is_named = |target: &&Arc<StoredObject>| {
        target.namespace() == Some(&secret.namespace)
            && (name(target).as_ref() == Some(&secret.name) || target.unreadable().is_some())
    };
    let known = cache.known();
    known.iter().filter(is_named).filter_map(|it| WorkloadKey::of(WorkloadKind::Target, it)).collect()
}

/// Whether the inventory of somebody who may use a target names it.
pub(crate) fn is_used(context: &Context, target: &WorkloadKey) -> bool {
    !users::indexed(context, target).is_empty()
}

/// Whether nobody uses a target whose connection Secret this is, by complete lists.
///
/// # Errors
/// A list fails.
pub(crate) async fn is_unused(context: &Context, secret: &SecretName) -> Result<bool, ApiError> {
    for target in with_secret(context, secret) {
        let is_unused = !is_used(context, &target)
            && users::listed(context, &target).await?.is_some_and(|users| users.is_empty());
        if !is_unused {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Reconciles a target.
pub(crate) async fn reconcile(context: &Context, namespace: &str, name: &str) -> Outcome {
    let key = WorkloadKey { kind: WorkloadKind::Target, namespace: namespace.into(), name: name.into() };
    let cache = context.workload.cache(WorkloadKind::Target);
    if let Some(outline) = cache.as_ref().and_then(|cache| cache.unreadable(Some(namespace), name)) {
        return unreadable::report(context, &outline);
    }
    match cache.map(|cache| cache.get(Some(namespace), name)) {
        Some(Lookup::Found(object)) => match Target::read(object) {
            Ok(target) => reconcile_target(context, &key, target).await,
            Err(error) => {
                tracing::warn!(target = %key, error, "cannot read target");
                Outcome::Done
            }
        },
        // The cache requeues it when it has synced.
        Some(Lookup::Unknown) => Outcome::Done,
        Some(Lookup::Absent) | None => {
            forget(context, &key);
            Outcome::Done
        }
    }
}

/// The target was deleted, or its CRD was.
fn forget(context: &Context, key: &WorkloadKey) {
    context.targets.forget(context, key);
    context.managed.forget(key);
    context.connection_secrets.forget(key);
}

async fn reconcile_target(context: &Context, key: &WorkloadKey, mut target: Target) -> Outcome {
    if !finalizer::is_set(&target.object) {
        if target.is_deleting() {
            forget(context, key);
            return Outcome::Done;
        }
        if let Err(error) = target.patch(context, &finalizer::addition(&target.object)).await {
            return failed(key, "cannot add finalizer to target", &error);
        }
    }
    // Before anything is copied: a target that was released a moment ago may still be in the cache.
    let (deletion, retry) = match delete(context, key, &target).await {
        Deletion::NotRequested => (None, Outcome::Done),
        Deletion::Waiting(why, retry) => (Some(why), retry),
        Deletion::Released => {
            forget(context, key);
            return Outcome::Done;
        }
        Deletion::Failed(error) if error.reason() == FailureReason::Conflict => return Outcome::Retry,
        Deletion::Failed(error) => {
            // Nothing is copied: the copy may be deleted already, and after a lost response the target too.
            let message = format!("the deletion cannot go on: {}", error.message());
            let deletion = Some(TargetDeletion::Blocked(message));
            return report(context, key, &target, (TargetPropagation::Unknown, deletion), Outcome::Retry)
                .await;
        }
    };
    let (propagation, retry) = match propagation::reconcile(context, key, &mut target).await {
        Progress::Known(propagation) => (propagation, retry),
        // Nothing changes until the cache has synced, which requeues the target.
        Progress::Pending => (TargetPropagation::Unknown, retry),
        Progress::Failed(error) => match propagation::failure(&error) {
            Some(refusal) => (refusal, Outcome::Retry),
            None => return failed(key, "cannot copy the connection Secret of a target", &error),
        },
    };
    report(context, key, &target, (propagation, deletion), retry).await
}

/// Connects to the cluster, and reports its state.
async fn report(
    context: &Context,
    key: &WorkloadKey,
    target: &Target,
    (propagation, deletion): (TargetPropagation, Option<TargetDeletion>),
    retry: Outcome,
) -> Outcome {
    let connection = context.targets.connect(context, key, target);
    let observed = TargetObservation { name: target.object.name(), propagation, connection, deletion };
    match status::write(context, target, &observed, Timestamp::now()).await {
        Ok(()) => retry,
        Err(error) => failed(key, "cannot write status of target", &error),
    }
}

/// A conflict is a change that the cache does not have yet; everything else is worth a line.
fn failed(key: &WorkloadKey, what: &'static str, error: &ApiError) -> Outcome {
    if error.is_object_not_found() {
        return Outcome::Done;
    }
    if error.reason() != FailureReason::Conflict {
        tracing::warn!(target = %key, %error, "{what}");
    }
    Outcome::Retry
}
