//! Reconciles claims: binds or provisions a managed resource, copies its connection Secret, and publishes a target. The planner
//! decides each step from what is observed (`kross_plan::workload::plan_claim`).

mod act;
mod observe;
mod pass;
mod status;

use kross_cluster::{Lookup, Outcome, StoredObject};
use kross_value::Value;

use crate::context::Context;
use crate::key::WorkloadKey;
use crate::unreadable;
use crate::workload::WorkloadKind;

/// A claim was created, changed or deleted.
pub(crate) fn claim_changed(
    context: &Context,
    old: Option<&StoredObject>,
    new: Option<&StoredObject>,
    ours: bool,
) {
    if let Some(key) = new.or(old).filter(|_| !ours).and_then(|it| WorkloadKey::of(WorkloadKind::Claim, it)) {
        context.workload_queue.add(&key);
    }
}

/// A class was created, changed or deleted: claims may be provisioned from it now.
pub(crate) fn class_changed(context: &Context, _old: Option<&StoredObject>, _new: Option<&StoredObject>) {
    requeue_if(context, |claim| {
        let phase = claim.value().at(&["status", "bindingPhase"]).and_then(Value::as_str);
        phase != Some(kross_api::BindingPhase::Bound.as_str())
    });
}

/// A target was created, changed or deleted: the claim that it was made for, or whose managed resource it publishes, may go on.
pub(crate) fn target_changed(context: &Context, old: Option<&StoredObject>, new: Option<&StoredObject>) {
    let Some(target) = new.or(old) else { return };
    if old.zip(new).is_none_or(|(old, new)| concerns_claim(old, new))
        && let Some(key) = WorkloadKey::of(WorkloadKind::Target, target)
    {
        let key = WorkloadKey { kind: WorkloadKind::Claim, ..key };
        let claims = context.workload.cache(WorkloadKind::Claim);
        if claims.is_some_and(|claims| !matches!(claims.get(Some(&key.namespace), &key.name), Lookup::Absent))
        {
            context.workload_queue.add(&key);
        }
    }
    // A claim that is being deleted waits for every target that publishes its cluster or uses its copy of the Secret.
    let facts = |target: &StoredObject| {
        let secret = target.value().at(&["spec", "connectionSecretRef", "name"]).cloned();
        (secret, target.unreadable().is_some())
    };
    if old.map(facts) != new.map(facts) {
        requeue_if(context, |claim| claim.deletion_timestamp().is_some());
    }
}

/// Whether a change of a target is one that its claim has to know.
fn concerns_claim(old: &StoredObject, new: &StoredObject) -> bool {
    let parts = |object: &StoredObject| {
        let value = object.value();
        let metadata =
            ["labels", "annotations", "ownerReferences"].map(|field| value.at(&["metadata", field]).cloned());
        (metadata, value.get("spec").cloned(), object.deletion_timestamp().map(str::to_owned))
    };
    let status = |object: &StoredObject| object.value().get("status").cloned();
    // The claim repeats why its target is not deleted yet.
    parts(old) != parts(new) || (new.deletion_timestamp().is_some() && status(old) != status(new))
}

fn requeue_if(context: &Context, condition: impl Fn(&StoredObject) -> bool) {
    let Some(claims) = context.workload.cache(WorkloadKind::Claim) else { return };
    for claim in claims.known().iter().filter(|claim| condition(claim)) {
        if let Some(key) = WorkloadKey::of(WorkloadKind::Claim, claim) {
            context.workload_queue.add(&key);
        }
    }
}

/// Reconciles a claim.
pub(crate) async fn reconcile(context: &Context, namespace: &str, name: &str) -> Outcome {
    let Some(cache) = context.workload.cache(WorkloadKind::Claim) else { return Outcome::Done };
    let key = WorkloadKey { kind: WorkloadKind::Claim, namespace: namespace.into(), name: name.into() };
    if let Some(outline) = cache.unreadable(Some(namespace), name) {
        return unreadable::report(context, &outline);
    }
    match cache.get(Some(namespace), name) {
        Lookup::Found(claim) => pass::run(context, &key, cache, claim).await,
        Lookup::Absent => {
            context.managed.forget(&key);
            context.connection_secrets.forget(&key);
            Outcome::Done
        }
        // Its cache requeues it once it has synced.
        Lookup::Unknown => Outcome::Done,
    }
}
