//! Plans the deletion of a claim: first its target, then the copy of the connection Secret, then the managed resource, which
//! is deleted or released. Nothing happens to the managed resource while a target in any namespace publishes it.

use kross_api::{ConditionType, ManagedClusterReference, Reason, ReclaimPolicy};
use kross_value::Value;

use super::super::connection::is_controlled_by;
use super::managed::{is_bound_to, names, release};
use super::{
    BindingPhase, Claim, ClaimAction, ClaimObservation, ClaimPlan, ClaimReport, ManagedObject,
    ObservedManaged, ObservedTarget, ObservedUsers, describe, is_deleting, recorded_policy, uid,
};

/// How many targets a message names.
const MAX_NAMED: usize = 10;

/// Plans the next step of a claim that is being deleted.
pub(super) fn plan(claim: &Claim<'_>, observed: &ClaimObservation) -> ClaimPlan {
    if !claim.has_finalizer {
        // Finalizers of others keep it; for us there is nothing left to do.
        return ClaimPlan::wait();
    }
    let writes_secret = claim.spec.write_connection_secret_to_ref.is_some();
    match &observed.target {
        ObservedTarget::Unknown => return ClaimPlan::wait(),
        ObservedTarget::Found(target) if is_controlled_by(target, claim.uid) => {
            if !is_deleting(target) {
                return ClaimPlan::act(ClaimAction::DeleteTarget { uid: uid(target).to_owned() });
            }
            // The users of the target need the copy to delete their objects.
            if observed.copy.is_none()
                && writes_secret
                && matches!(observed.managed, ObservedManaged::Found(_))
            {
                return ClaimPlan::act(ClaimAction::CopySecret);
            }
            return held_back(claim, &target_message(claim, target));
        }
        ObservedTarget::NotServed | ObservedTarget::Absent | ObservedTarget::Found(_) => {}
    }
    match &observed.users {
        ObservedUsers::Unknown => return ClaimPlan::act(ClaimAction::ListUsers),
        ObservedUsers::Targets(users) if !users.is_empty() => {
            return held_back(claim, &users_message(claim, users));
        }
        ObservedUsers::Targets(_) => {}
    }
    if writes_secret && !observed.is_secret_deleted {
        return ClaimPlan::act(ClaimAction::DeleteSecret);
    }
    reclaim(claim, observed)
}

/// Deletes or releases the managed resource, then removes the finalizer.
fn reclaim(claim: &Claim<'_>, observed: &ClaimObservation) -> ClaimPlan {
    let done = ClaimPlan::act(ClaimAction::RemoveFinalizer);
    let Some(resource) = &claim.spec.resource_ref else { return done };
    match &observed.managed {
        ObservedManaged::Unknown => ClaimPlan::wait(),
        // Of a kind that is not served there is no object, and of one that is refused there never was.
        ObservedManaged::Unavailable(refusal)
            if matches!(refusal.reason, Reason::ManagedKindNotServed | Reason::ManagedKindRefused) =>
        {
            done
        }
        ObservedManaged::Unavailable(refusal) => waiting(claim, refusal.reason, &refusal.message),
        ObservedManaged::Absent => done,
        ObservedManaged::Found(managed) => match reclaim_of(claim, resource, managed) {
            None => done,
            Some(ReclaimPolicy::Retain) => release(managed).map_or(done, ClaimPlan::act),
            Some(ReclaimPolicy::Delete) if is_deleting(&managed.value) => {
                waiting(claim, Reason::Deleting, &format!("waiting for {} to be deleted", describe(resource)))
            }
            Some(ReclaimPolicy::Delete) => {
                ClaimPlan::act(ClaimAction::DeleteManaged { uid: uid(&managed.value).to_owned() })
            }
        },
    }
}

/// What happens to a managed resource; nothing if it is not this claim's.
fn reclaim_of(
    claim: &Claim<'_>,
    resource: &ManagedClusterReference,
    managed: &ManagedObject,
) -> Option<ReclaimPolicy> {
    let value = &managed.value;
    let provisioned = claim.provisions(resource);
    // One that existed before and was never bound is only offered.
    let is_ours = if provisioned { names(claim, value) } else { is_bound_to(claim, value) };
    let default = if provisioned { ReclaimPolicy::Delete } else { ReclaimPolicy::Retain };
    is_ours.then(|| recorded_policy(value).unwrap_or(default))
}

fn held_back(claim: &Claim<'_>, message: &str) -> ClaimPlan {
    waiting(claim, Reason::InUse, message)
}

fn waiting(claim: &Claim<'_>, reason: Reason, message: &str) -> ClaimPlan {
    let mut report = ClaimReport::new(claim, claim.phase.unwrap_or(BindingPhase::Unbindable));
    for kind in
        [ConditionType::Synced, ConditionType::ConnectionSecretPropagated, ConditionType::TargetPublished]
    {
        report.set_false(kind, reason, message);
    }
    ClaimPlan::report(report)
}

/// Why the target of the claim is not deleted yet, as the target says it.
fn target_message(claim: &Claim<'_>, target: &Value) -> String {
    let conditions = target.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default();
    let field = |condition: &Value, name| condition.get(name).and_then(Value::as_str).map(str::to_owned);
    let ready = conditions.iter().find(|one| field(one, "type").as_deref() == Some("Ready"));
    let is_held = |reason: &str| [Reason::InUse.as_str(), Reason::Deleting.as_str()].contains(&reason);
    let held = ready.filter(|ready| field(ready, "reason").as_deref().is_some_and(is_held));
    let cause = held.and_then(|held| field(held, "message")).unwrap_or_default();
    let waits = format!("waiting for KubernetesTarget `{}/{}` to be deleted", claim.namespace, claim.name);
    if cause.is_empty() { waits } else { format!("{waits}: {cause}") }
}

fn users_message(claim: &Claim<'_>, users: &[String]) -> String {
    let what = claim.spec.resource_ref.as_ref().map(describe).unwrap_or_default();
    let mut named: Vec<String> = users.iter().map(|user| format!("`{user}`")).collect();
    named.sort();
    let more = named.len().saturating_sub(MAX_NAMED);
    named.truncate(MAX_NAMED);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!(
        "{what} is published by the KubernetesTargets {}{rest}; delete them to delete this claim",
        named.join(", ")
    )
}
