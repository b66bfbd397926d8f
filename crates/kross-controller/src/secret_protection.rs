//! Keeps our finalizer on the kubeconfig Secrets that ask for protection, as long as the inventory of an instance names them. A
//! namespace can then be deleted as a whole: its Secrets wait for the objects in their clusters.

use std::collections::BTreeSet;
use std::time::Duration;

use kross_api::{EventReason, FailureReason, PROTECTION_FINALIZER, labels};
use kross_cluster::{
    ApiError, ApiKind, KubeconfigSecret, ObjectKey, Outcome, SecretName, Selection, StoredObject,
};
use kross_value::Value;
use tokio::time::Instant;

use crate::context::Context;
use crate::events;
use crate::graphs::Served;
use crate::key::{Key, WorkloadKey};
use crate::kinds;
use crate::recorded_authority;
use crate::secret_users::{InventoryReference, references_of};
use crate::target;
use crate::workload::WorkloadKind;

/// How long until a write that the controller may not do is attempted again.
const FORBIDDEN_WAIT: Duration = Duration::from_secs(600);
/// How long until it is asked again whether an instance that no definition serves names a Secret.
const UNSERVED_WAIT: Duration = Duration::from_secs(60);
/// How long until the Secrets are listed again after a failure.
const LIST_WAIT: Duration = Duration::from_secs(5);

/// Adds the finalizer to a Secret, or removes it. Sends no request if it is as it should be.
pub(crate) async fn reconcile(context: &Context, name: &SecretName) -> Outcome {
    // One that has a user is watched soon, which requeues it.
    let is_unused = !has_users(context, name);
    let secret = match context.clusters.secret(name, is_unused).await {
        Ok(Some(secret)) => secret,
        Ok(None) => return Outcome::Done,
        Err(error) => {
            tracing::warn!(secret = %name, %error, "cannot read protected Secret");
            return Outcome::Retry;
        }
    };
    if secret.is_protection_requested() && is_offered_to_a_user(context, name, &secret) {
        // A finalizer cannot be added to an object that is being deleted.
        if secret.is_protected() || (secret.is_terminating() && !secret.has_finalizer()) {
            return Outcome::Done;
        }
        return write(context, name, &secret, true).await;
    }
    if !secret.has_marks() {
        return Outcome::Done;
    }
    if secret.is_protection_requested() {
        match is_named(context, name).await {
            Ok(Some(false)) => {}
            // The index requeues it with its last user.
            Ok(Some(true)) if is_offered_to_a_user(context, name, &secret) => return Outcome::Done,
            Ok(Some(true)) if !has_users(context, name) => {
                return Outcome::After(UNSERVED_WAIT);
            }
            Ok(Some(true)) => {}
            Ok(None) => return Outcome::Retry,
            Err(error) => {
                tracing::warn!(secret = %name, %error, "cannot determine whether Secret is still used");
                return Outcome::Retry;
            }
        }
    }
    write(context, name, &secret, false).await
}

/// Whether the inventory of an instance that may use a Secret names it. An inventory is written by whoever may edit the instance,
/// and must not keep the Secrets of others.
fn is_offered_to_a_user(context: &Context, name: &SecretName, secret: &KubeconfigSecret) -> bool {
    let is_offered = |user: &ObjectKey| {
        secret.is_offered_to(user.namespace.as_deref(), recorded_authority::of_user(context, user, name))
    };
    context.secret_users.one_of_each_namespace(name).iter().any(is_offered)
        || is_used_through_a_target(context, name)
}

/// Whether the index has a user of a Secret.
fn has_users(context: &Context, name: &SecretName) -> bool {
    context.secret_users.any(name, |_| true) || is_used_through_a_target(context, name)
}

/// Whether somebody uses a target whose connection Secret this is. The target offers it.
fn is_used_through_a_target(context: &Context, name: &SecretName) -> bool {
    target::with_secret(context, name).iter().any(|target| target::is_used(context, target))
}

/// Adds the Secrets to the queue that have our finalizer from an earlier process: their last user may be deleted by now.
pub(crate) async fn requeue_protected(context: &Context) {
    loop {
        match context.clusters.protected_secrets().await {
            Ok(secrets) => {
                for secret in secrets {
                    context.definition_queue.add(&Key::Secret(secret));
                }
                return;
            }
            Err(error) if error.reason() == FailureReason::Forbidden => {
                tracing::warn!(
                    %error,
                    advice = "if Secrets have the label `kro.run/protect`, allow the controller to list Secrets in all namespaces",
                    "cannot list protected Secrets; finalizers of Secrets that are not used any more are not removed"
                );
                return;
            }
            Err(error) => tracing::warn!(%error, "cannot list protected Secrets; retrying"),
        }
        tokio::time::sleep(LIST_WAIT).await;
    }
}

async fn write(context: &Context, name: &SecretName, secret: &KubeconfigSecret, protect: bool) -> Outcome {
    let change = if protect { "add" } else { "remove" };
    match context.clusters.set_protection(secret, protect).await {
        Ok(()) => {
            tracing::debug!(secret = %name, change, "changed finalizer of Secret");
            Outcome::Done
        }
        Err(error) if error.reason() == FailureReason::Conflict => Outcome::Retry,
        Err(error) => {
            let is_forbidden = error.reason() == FailureReason::Forbidden;
            let note = format!(
                "cannot {change} finalizer `{PROTECTION_FINALIZER}`: {}{}",
                error.message(),
                if is_forbidden { "; allow the controller to patch Secrets in this namespace" } else { "" }
            );
            tracing::warn!(secret = %name, change, cause = note, "cannot change finalizer of Secret");
            if is_forbidden {
                events::emit(context, secret.regarding(), EventReason::ProtectionFailed, "Protect", note);
            }
            if is_forbidden { Outcome::After(FORBIDDEN_WAIT) } else { Outcome::Retry }
        }
    }
}

/// Whether the inventory of any instance in the hub names a Secret that the index has no user of. None while that is not known,
/// since a cache has not synced.
async fn is_named(context: &Context, name: &SecretName) -> Result<Option<bool>, ApiError> {
    let (Some(crds), Some(definitions)) = (context.crds.list_readable(), context.definitions.list_readable())
    else {
        return Ok(None);
    };
    if crds.iter().any(|crd| is_unsynced(context, crd)) {
        return Ok(None);
    }
    let mut served = context.graphs.all();
    served.retain(|served| served.instances.is_authoritative());
    served.iter().for_each(|served| index(context, served));
    if has_users(context, name) {
        return Ok(Some(true));
    }
    let mut wanted = BTreeSet::from([InventoryReference::Secret(name.clone())]);
    for WorkloadKey { namespace, name, .. } in target::with_secret(context, name) {
        wanted.insert(InventoryReference::Target { namespace, name });
    }
    let covers = |served: &Served, kind: &ApiKind| {
        served.kind.group == kind.group
            && served.kind.kind == kind.kind
            && served.instances.key().selection == Selection::All
    };
    let is_ours =
        |crd: &StoredObject| crd.label(labels::OWNED).is_some() && kinds::is_established(crd.value());
    let ours = crds.iter().filter(|crd| is_ours(crd));
    for kind in ours.filter_map(|crd| kinds::served_by(crd.value())) {
        if !served.iter().any(|served| covers(served, &kind)) && names_in(context, &kind, &wanted).await? {
            return Ok(Some(true));
        }
    }
    let unserved = definitions
        .iter()
        .filter(|definition| !served.iter().any(|served| served.definition == *definition.name()));
    for (group, kind) in unserved.filter_map(|definition| existing_kind(definition)) {
        let served = context.client.served_kind(group, kind, Instant::now()).await?;
        if let Some(kind) = served
            && names_in(context, &kind, &wanted).await?
        {
            return Ok(Some(true));
        }
    }
    Ok(Some(false))
}

/// Whether a CRD serves targets or their users, and not all of them are known yet.
fn is_unsynced(context: &Context, crd: &StoredObject) -> bool {
    let kind = kinds::served_by(crd.value()).filter(|_| kinds::is_established(crd.value()));
    match kind.and_then(|kind| WorkloadKind::find(&kind.group, &kind.kind)) {
        Some(kind @ (WorkloadKind::Target | WorkloadKind::ApplicationResource)) => {
            !context.workload.cache(kind).is_some_and(|cache| cache.is_authoritative())
        }
        _ => false,
    }
}

/// The existing kind whose objects are the instances of a definition: group and kind.
pub(crate) fn existing_kind(definition: &StoredObject) -> Option<(&str, &str)> {
    let reference = definition.value().at(&["spec", "schema", "externalRef"])?;
    let text = |field| reference.get(field).and_then(Value::as_str);
    Some((kinds::group_of(text("apiVersion")?), text("kind")?))
}

/// Indexes the instances in a cache, unless its events have done that.
fn index(context: &Context, served: &Served) {
    let (users, cache) = (&context.secret_users, served.instances.key());
    if users.is_indexed(cache) {
        return;
    }
    for instance in served.instances.known() {
        // What the index has of it comes from an event or from our own write, and is not older.
        let key = instance.key(context.client.cluster());
        if !users.contains(&key) {
            users.observe(&key, &instance);
        }
    }
    users.set_indexed(cache);
}

/// Whether the inventory of an instance of a kind that no definition serves now names a Secret, or a target that uses it.
async fn names_in(
    context: &Context,
    kind: &ApiKind,
    wanted: &BTreeSet<InventoryReference>,
) -> Result<bool, ApiError> {
    let selector = format!("{}={}", labels::OWNED, labels::OWNED_TRUE);
    match context.client.list_with_outlines(kind, None, Some(&selector)).await {
        Ok(instances) => Ok(instances.iter().any(|instance| !references_of(instance).is_disjoint(wanted))),
        // Its CRD was deleted, and its objects with it.
        Err(error) if error.is_kind_not_served() => Ok(false),
        Err(error) => Err(error),
    }
}
