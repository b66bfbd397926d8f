//! Delete: keeps a target while somebody uses it, then deletes its copy of the connection Secret and removes the finalizer. With
//! the annotation `kro.run/force-delete` it does not wait, and the audit log says whose objects are given up.

use std::time::Duration;

use kross_api::{EventReason, managers};
use kross_cluster::{ApiError, AuditCluster, AuditObject, AuditRecord, AuditVerb, ObjectKey, Outcome};
use kross_plan::workload::{TargetDeletion, copy_name};

use super::object::Target;
use super::users;
use crate::connection_secret::{copy_owner, delete_copy};
use crate::context::Context;
use crate::events;
use crate::finalizer;
use crate::key::WorkloadKey;
use crate::workload::WorkloadKind;

/// How long until it is asked again whether an instance that no definition serves uses a target.
const UNSERVED_WAIT: Duration = Duration::from_secs(60);

/// How far a deletion is.
pub(super) enum Deletion {
    /// Nobody deletes the target.
    NotRequested,
    /// The finalizer is removed.
    Released,
    /// Somebody uses the target.
    Waiting(TargetDeletion, Outcome),
    /// A request failed, or an object has changed meanwhile.
    Failed(ApiError),
}

/// Deletes a target whose deletion was requested, unless somebody uses it.
pub(super) async fn delete(context: &Context, key: &WorkloadKey, target: &Target) -> Deletion {
    if !target.is_deleting() {
        return Deletion::NotRequested;
    }
    reconcile(context, key, target).await.unwrap_or_else(Deletion::Failed)
}

async fn reconcile(context: &Context, key: &WorkloadKey, target: &Target) -> Result<Deletion, ApiError> {
    let in_use = |users: &[ObjectKey]| TargetDeletion::InUse(users.iter().map(users::describe).collect());
    // The index requeues the target with every change of its users.
    let indexed = users::indexed(context, key);
    if !indexed.is_empty() && !target.is_forced() {
        return Ok(Deletion::Waiting(in_use(&indexed), Outcome::Done));
    }
    let listed = match users::listed(context, key).await {
        Ok(Some(listed)) => listed,
        Ok(None) => {
            let message = "the users of the target are not known yet".to_owned();
            return Ok(Deletion::Waiting(TargetDeletion::Blocked(message), Outcome::Retry));
        }
        Err(_) if target.is_forced() => indexed,
        Err(error) => return Err(error),
    };
    if !listed.is_empty() {
        if !target.is_forced() {
            return Ok(Deletion::Waiting(in_use(&listed), Outcome::After(UNSERVED_WAIT)));
        }
        // A conflict is retried, and is no other deletion.
        if context.targets.is_first_forced(target.object.uid()) {
            report_forced(context, target, &listed);
        }
    }
    // After a restore the copy may have the UID of an earlier target: then it is somebody else's, and is kept.
    delete_copy(context, &copy_owner(&target.object), &copy_name(target.object.name())).await?;
    release(context, target).await?;
    context.targets.forget_forced(target.object.uid());
    tracing::info!(target = %key, forced = target.is_forced(), "released target");
    Ok(Deletion::Released)
}

/// Removes the finalizer.
async fn release(context: &Context, target: &Target) -> Result<(), ApiError> {
    let (kind, patch) = (WorkloadKind::Target.api_kind(), finalizer::removal(&target.object));
    let (namespace, name) = (Some(target.namespace()), target.object.name());
    let patched = context.client.merge_patch(&kind, namespace, name, None, managers::WORKLOAD, &patch);
    match patched.await {
        Ok(_) => Ok(()),
        Err(error) if error.is_object_not_found() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Records that a target is deleted although it is used: one audit record for each user, and an Event.
fn report_forced(context: &Context, target: &Target, users: &[ObjectKey]) {
    let object = target.object.key(context.client.cluster());
    let mut cluster = AuditCluster::named(format!("{}/{}", target.namespace(), target.object.name()));
    let known = target.status.cluster.as_ref().and_then(|cluster| cluster.uid.as_deref());
    cluster.uid = known.unwrap_or_default().into();
    let secret = target.spec.connection_secret_ref.as_ref();
    let secret = secret.map(|secret| format!("{}/{}", target.namespace(), secret.name)).unwrap_or_default();
    for user in users {
        let record = AuditRecord::new(cluster.clone(), AuditVerb::Abandon)
            .with(secret.as_str(), None)
            .on_behalf_of(Some(user))
            .on(AuditObject::from(&object));
        context.settings.clusters.audit.record(record);
    }
    let named: Vec<String> = users.iter().take(10).map(users::describe).collect();
    tracing::warn!(target = %object, users = users.len(), "deleted a target that is used, as an annotation requests");
    let note = format!(
        "the target is deleted while it is used by {}{}, as an annotation requests",
        named.join(", "),
        if users.len() > named.len() { ", and others" } else { "" }
    );
    events::emit(context, &*target.object, EventReason::ForceDeleted, "Delete", note);
}
