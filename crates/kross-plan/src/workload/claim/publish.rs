//! Publishes a bound claim: copies its connection Secret, and creates the target of the same name and labels.

use kross_api::{
    BindingPhase, COMPUTE_GROUP, ConditionStatus, ConditionType, INTERNAL_KEY_PREFIX, KEY_PREFIX,
    ManagedClusterReference, Reason, WORKLOAD_GROUP, annotations, labels,
};
use kross_value::{Object, Value};

use super::super::connection::is_controlled_by;
use super::super::managed::is_ready;
use super::managed::exact_version;
use super::{
    Claim, ClaimAction, ClaimObservation, ClaimPlan, ClaimReport, ObservedManaged, ObservedTarget, describe,
    is_deleting,
};

/// Plans the next step of a claim that is bound.
pub(super) fn plan(
    claim: &Claim<'_>,
    resource: &ManagedClusterReference,
    observed: &ClaimObservation,
) -> ClaimPlan {
    let mut report = ClaimReport::new(claim, BindingPhase::Bound);
    report.set_true(ConditionType::Synced, Reason::Bound, bound_message(resource, observed));
    let Some(secret) = &claim.spec.write_connection_secret_to_ref else { return ClaimPlan::report(report) };
    match &observed.copy {
        None => return ClaimPlan::act(ClaimAction::CopySecret),
        Some(Err(refusal)) => {
            let kind = ConditionType::ConnectionSecretPropagated;
            report.set_false(kind, refusal.reason, refusal.message.clone());
            unchanged_target(claim, observed, &mut report);
            return ClaimPlan::report(report);
        }
        Some(Ok(())) => {
            let message = format!("copied to Secret `{}`", secret.name);
            report.set_true(ConditionType::ConnectionSecretPropagated, Reason::Propagated, message);
        }
    }
    if let Some(action) = publish(claim, &secret.name, observed, &mut report) {
        return ClaimPlan::act(action);
    }
    ClaimPlan::report(report)
}

fn bound_message(resource: &ManagedClusterReference, observed: &ClaimObservation) -> String {
    let what = describe(resource);
    match &observed.managed {
        ObservedManaged::Found(managed) if !is_ready(&managed.value) => {
            format!("bound to {what}, which is not Ready now")
        }
        _ => format!("bound to {what}"),
    }
}

/// Without a copy of the connection Secret no target is created: the Secret could be anybody's. An existing one stays.
fn unchanged_target(claim: &Claim<'_>, observed: &ClaimObservation, report: &mut ClaimReport) {
    let kind = ConditionType::TargetPublished;
    match &observed.target {
        ObservedTarget::Found(target) if is_controlled_by(target, claim.uid) => {
            report.set_true(kind, Reason::Published, published(claim));
        }
        _ => {
            let message = "waiting for the connection Secret to be copied";
            report.set(kind, ConditionStatus::Unknown, Reason::NotReached, message);
        }
    }
}

fn published(claim: &Claim<'_>) -> String {
    format!("published as KubernetesTarget `{}`", claim.name)
}

/// The next write of the target, or its condition.
fn publish(
    claim: &Claim<'_>,
    secret: &str,
    observed: &ClaimObservation,
    report: &mut ClaimReport,
) -> Option<ClaimAction> {
    let kind = ConditionType::TargetPublished;
    match &observed.target {
        ObservedTarget::Unknown => {
            let message = "waiting for the list of KubernetesTargets";
            report.set(kind, ConditionStatus::Unknown, Reason::NotReached, message);
        }
        ObservedTarget::NotServed => report.set_false(
            kind,
            Reason::RequestFailed,
            "the kind KubernetesTarget is not served; install its CRD with `kross crds | kubectl apply --server-side -f -`",
        ),
        ObservedTarget::Absent => {
            return Some(ClaimAction::CreateTarget(target_for(claim, secret)));
        }
        ObservedTarget::Found(target) if !is_controlled_by(target, claim.uid) => {
            let message = format!(
                "KubernetesTarget `{}` exists and does not belong to this claim, so the cluster is not published; delete it, or create the claim with another name",
                claim.name
            );
            report.set_false(kind, Reason::NameTaken, message);
        }
        ObservedTarget::Found(target) if is_deleting(target) => {
            let message = format!(
                "KubernetesTarget `{}` is being deleted; it is created again once it is deleted",
                claim.name
            );
            report.set_false(kind, Reason::Deleting, message);
        }
        ObservedTarget::Found(target) => {
            if !is_in_step(claim, target) {
                return Some(ClaimAction::PatchTarget(target_patch(claim, secret, target)));
            }
            report.set_true(kind, Reason::Published, published(claim));
        }
    }
    None
}

/// The target of a claim.
fn target_for(claim: &Claim<'_>, secret: &str) -> Value {
    let owner = Value::object([
        ("apiVersion", format!("{COMPUTE_GROUP}/v1alpha1").into()),
        ("kind", "KubernetesCluster".into()),
        ("name", claim.name.into()),
        ("uid", claim.uid.into()),
        ("controller", Value::Bool(true)),
        ("blockOwnerDeletion", Value::Bool(true)),
    ]);
    let labels = propagated(claim.labels);
    let keys = Value::object([(annotations::CLAIM_LABELS, label_keys(&labels).into())]);
    let metadata = Value::object([
        ("namespace", claim.namespace.into()),
        ("name", claim.name.into()),
        ("labels", labels.into()),
        ("annotations", keys),
        ("ownerReferences", Value::list([owner])),
    ]);
    Value::object([
        ("apiVersion", format!("{WORKLOAD_GROUP}/v1alpha1").into()),
        ("kind", "KubernetesTarget".into()),
        ("metadata", metadata),
        ("spec", secret_reference(secret)),
    ])
}

/// A merge patch that gives a target the labels of its claim, and removes those that the claim has lost. Labels and a
/// `connectionSecretRef` that somebody else wrote stay.
fn target_patch(claim: &Claim<'_>, secret: &str, target: &Value) -> Value {
    let mut labels = propagated(claim.labels);
    let keys = label_keys(&labels);
    for key in recorded_keys(target).split(',').filter(|key| !key.is_empty()) {
        if !labels.contains_key(key) {
            labels.insert(key, Value::Null);
        }
    }
    let mut metadata = exact_version(target);
    metadata.insert("labels", labels.into());
    metadata.insert("annotations", Value::object([(annotations::CLAIM_LABELS, keys.into())]));
    let mut patch = Object::new();
    patch.insert("metadata", metadata.into());
    if target.at(&["spec", "connectionSecretRef"]).is_none() {
        patch.insert("spec", secret_reference(secret));
    }
    patch.into()
}

fn secret_reference(secret: &str) -> Value {
    Value::object([("connectionSecretRef", Value::object([("name", secret.into())]))])
}

/// The keys of the labels that were copied from the claim.
fn recorded_keys(target: &Value) -> &str {
    super::super::managed::annotation(target, annotations::CLAIM_LABELS).unwrap_or_default()
}

/// Whether a target has the labels of its claim, and none that the claim has lost.
fn is_in_step(claim: &Claim<'_>, target: &Value) -> bool {
    let labels = propagated(claim.labels);
    let live = |key: &str| target.at(&["metadata", "labels"]).and_then(|labels| labels.get(key));
    recorded_keys(target) == label_keys(&labels)
        && labels.iter().all(|(key, value)| live(key.as_str()) == Some(value))
        && target.at(&["spec", "connectionSecretRef"]).is_some()
}

/// The labels of a claim without our own: a claim may be the object of an instance, its target is not.
fn propagated(all: &Object) -> Object {
    let ours = |key: &str| {
        [KEY_PREFIX, INTERNAL_KEY_PREFIX].iter().any(|prefix| key.starts_with(prefix))
            || [labels::APPLYSET_ID, labels::APPLYSET_PART_OF].contains(&key)
    };
    let kept = all.iter().filter(|(key, value)| {
        let is_managed_by =
            key.as_str() == labels::MANAGED_BY && value.as_str() == Some(labels::MANAGED_BY_KRO);
        !ours(key.as_str()) && !is_managed_by
    });
    kept.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// The keys of labels, to find out which of them a claim has lost.
fn label_keys(labels: &Object) -> String {
    let mut keys: Vec<&str> = labels.keys().map(kross_value::Key::as_str).collect();
    keys.sort_unstable();
    keys.join(",")
}
