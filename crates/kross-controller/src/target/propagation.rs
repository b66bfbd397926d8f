//! Propagate: copies the connection Secret of the managed resource that a target names, and sets `connectionSecretRef`.

use kross_api::{BindingPhase, ConditionType, FailureReason, ManagedClusterReference, Reason};
use kross_cluster::{ApiError, Lookup};
use kross_plan::workload::{
    PropagationRefusal, TargetPropagation, TargetSecret, check_bound, copy_name, is_controlled_by,
    target_secret,
};
use kross_value::Value;

use super::object::Target;
use super::users;
use crate::connection_secret::{Propagation, copy_owner, delete_copy, propagate};
use crate::context::Context;
use crate::key::WorkloadKey;
use crate::managed_resource::{self, Managed};
use crate::workload::WorkloadKind;

/// The result of a step.
pub(super) enum Progress {
    /// Whether the Secret is in the namespace.
    Known(TargetPropagation),
    /// A cache has not synced. It requeues the target when it has.
    Pending,
    /// A request failed.
    Failed(ApiError),
}

/// Brings the connection Secret into the namespace of the target.
pub(super) async fn reconcile(context: &Context, key: &WorkloadKey, target: &mut Target) -> Progress {
    match (target_secret(&target.spec, target.object.name()), target.spec.cluster_ref.clone()) {
        (TargetSecret::Local(_), _) | (TargetSecret::Copy, None) => local(context, key, target).await,
        (TargetSecret::Copy, Some(reference)) => copy(context, key, target, &reference).await,
    }
}

/// The target has a Secret of its own. A copy that was made before is deleted.
async fn local(context: &Context, key: &WorkloadKey, target: &Target) -> Progress {
    context.managed.forget(key);
    context.connection_secrets.forget(key);
    let kind = ConditionType::ConnectionSecretPropagated.as_str();
    let last = target.status.conditions.iter().find(|condition| condition.type_ == kind);
    let had_copy = last.is_some_and(|last| last.reason.as_deref() != Some(Reason::LocalSecret.as_str()));
    if had_copy && target.spec.cluster_ref.is_some() {
        let name = copy_name(target.object.name());
        if let Err(error) = delete_copy(context, &copy_owner(&target.object), &name).await {
            return Progress::Failed(error);
        }
    }
    match released_by(context, target) {
        Some(refusal) => Progress::Known(TargetPropagation::Refused(refusal)),
        None => Progress::Known(TargetPropagation::Local),
    }
}

/// Why the Secret of a target that belongs to a claim is not kept in step any more, if so: the claim lost its managed resource.
fn released_by(context: &Context, target: &Target) -> Option<PropagationRefusal> {
    let claims = context.workload.cache(WorkloadKind::Claim)?;
    let Lookup::Found(claim) = claims.get(Some(target.namespace()), target.object.name()) else {
        return None;
    };
    let phase = claim.value().at(&["status", "bindingPhase"]).and_then(Value::as_str);
    let is_released = phase == Some(BindingPhase::Released.as_str());
    (is_released && is_controlled_by(target.object.value(), claim.uid())).then(|| {
        let message = format!(
            "KubernetesCluster `{}/{}` is released: its managed resource was deleted or belongs to another claim",
            target.namespace(),
            claim.name()
        );
        PropagationRefusal::new(Reason::Released, message)
    })
}

async fn copy(
    context: &Context,
    key: &WorkloadKey,
    target: &mut Target,
    reference: &ManagedClusterReference,
) -> Progress {
    let refused = |refusal| Progress::Known(TargetPropagation::Refused(refusal));
    let managed = match managed_resource::find(context, key, reference) {
        Managed::Found { object, .. } => object,
        Managed::Pending => return Progress::Pending,
        Managed::Refused(refusal) => return refused(refusal),
    };
    if managed.deletion_timestamp().is_some() && target.spec.connection_secret_ref.is_none() {
        let message = format!("managed resource {} is being deleted", managed_resource::describe(reference));
        return refused(PropagationRefusal::new(Reason::Deleting, message));
    }
    if let Err(refusal) = check_bound(managed.value(), &managed_resource::describe(reference)) {
        return refused(refusal);
    }
    let (owner, name) = (copy_owner(&target.object), copy_name(target.object.name()));
    match propagate(context, key, &owner, &name, &managed).await {
        Propagation::Current { source, is_terminating } => {
            let written = match is_terminating && !target.is_deleting() {
                true => replace_copy(context, key, target, &name).await,
                false => set_reference(context, target, &name).await,
            };
            match written {
                Ok(()) => Progress::Known(TargetPropagation::Propagated(source)),
                Err(error) => Progress::Failed(error),
            }
        }
        Propagation::Pending => Progress::Pending,
        Propagation::Refused(refusal) => refused(refusal),
        Propagation::Failed(error) => Progress::Failed(error),
    }
}

/// Somebody deletes the copy. It goes once nobody uses the target, and its deletion requeues the target, which makes a new one.
async fn replace_copy(
    context: &Context,
    key: &WorkloadKey,
    target: &Target,
    name: &str,
) -> Result<(), ApiError> {
    if users::indexed(context, key).is_empty()
        && users::listed(context, key).await?.is_some_and(|users| users.is_empty())
    {
        delete_copy(context, &copy_owner(&target.object), name).await?;
    }
    Ok(())
}

/// Sets `connectionSecretRef`, unless it has a value.
async fn set_reference(context: &Context, target: &mut Target, name: &str) -> Result<(), ApiError> {
    if target.spec.connection_secret_ref.is_some() {
        return Ok(());
    }
    let version = ("resourceVersion", target.object.resource_version().clone().into());
    let reference = Value::object([("name", name.into())]);
    let patch = Value::object([
        ("metadata", Value::object([version])),
        ("spec", Value::object([("connectionSecretRef", reference)])),
    ]);
    target.patch(context, &patch).await
}

/// What a target reports about a request that failed; none for a failure that passes, which does not concern its users.
pub(super) fn failure(error: &ApiError) -> Option<TargetPropagation> {
    if !matches!(error.reason(), FailureReason::Forbidden | FailureReason::Invalid) {
        return None;
    }
    let message = format!("the connection Secret cannot be copied: {}", error.message());
    Some(TargetPropagation::Refused(PropagationRefusal::new(Reason::RequestFailed, message)))
}
