//! Provisions the managed resource of a claim, and binds it. `Ready` is needed to become bound, not to stay so.

use kross_api::{
    BindingPhase, COMPUTE_GROUP, ConditionType, ManagedClusterReference, Reason, ReclaimPolicy, annotations,
};
use kross_value::{Object, Value};

use super::super::managed::{ClaimReference, binding_phase, claim_of, is_bound, is_ready};
use super::{
    BindingFields, Claim, ClaimAction, ClaimClass, ClaimObservation, ClaimPlan, ClaimReport, ManagedObject,
    ObservedManaged, class, describe, is_deleting, publish, recorded_policy, refused,
};

/// Plans the next step for a claim that has a `resourceRef`.
pub(super) fn plan(
    claim: &Claim<'_>,
    resource: &ManagedClusterReference,
    observed: &ClaimObservation,
) -> ClaimPlan {
    match &observed.managed {
        ObservedManaged::Unknown => ClaimPlan::wait(),
        ObservedManaged::Unavailable(refusal) => {
            // A kind that is not served for a moment does not unbind anything.
            let phase = claim.phase.unwrap_or(BindingPhase::Unbindable);
            refused(claim, phase, refusal.reason, refusal.message.clone())
        }
        ObservedManaged::Absent => absent(claim, resource, observed.classes.as_deref()),
        ObservedManaged::Found(managed) => found(claim, resource, managed, observed),
    }
}

fn absent(
    claim: &Claim<'_>,
    resource: &ManagedClusterReference,
    classes: Option<&[ClaimClass]>,
) -> ClaimPlan {
    let what = describe(resource);
    if claim.was_bound() {
        // A new cluster in place of the one that was lost would be empty.
        let message =
            format!("{what} was deleted; delete this claim, and create it again to get another cluster");
        return refused(claim, BindingPhase::Released, Reason::ManagedResourceNotFound, message);
    }
    let unbindable = |reason, message| refused(claim, BindingPhase::Unbindable, reason, message);
    if !claim.provisions(resource) {
        let message =
            format!("{what} does not exist; create it, or create a claim with another `resourceRef`");
        return unbindable(Reason::ManagedResourceNotFound, message);
    }
    let Some(classes) = classes else { return ClaimPlan::wait() };
    match class::find(claim, classes) {
        Err(message) => unbindable(Reason::NoClass, message),
        Ok(class) => {
            let template = &class.spec.template;
            if (&template.api_version, &template.kind) != (&resource.api_version, &resource.kind) {
                let message = format!(
                    "the template of KubernetesClusterClass `{}` is now of kind `{} {}`, and this claim was given {what}; delete the claim and create it again",
                    class.name, template.api_version, template.kind
                );
                return unbindable(Reason::NoClass, message);
            }
            ClaimPlan::act(ClaimAction::Provision { class: class.name.clone() })
        }
    }
}

fn found(
    claim: &Claim<'_>,
    resource: &ManagedClusterReference,
    managed: &ManagedObject,
    observed: &ClaimObservation,
) -> ClaimPlan {
    let (what, value) = (describe(resource), &managed.value);
    if !names(claim, value) {
        return not_offered(claim, resource);
    }
    if binding_phase(value) == Some(BindingPhase::Released) && has_uid(value) {
        let message =
            format!("{what} was released; delete this claim, and create it again to get another cluster");
        return refused(claim, BindingPhase::Released, Reason::Released, message);
    }
    if is_deleting(value) {
        let phase = claim.phase.unwrap_or(BindingPhase::Unbindable);
        return refused(claim, phase, Reason::Deleting, format!("{what} is being deleted"));
    }
    if !is_ready(value) && !claim.was_bound() && !is_bound_to(claim, value) {
        return not_ready(claim, &what, value);
    }
    if let Some(action) = bind(claim, resource, managed) {
        return ClaimPlan::act(action);
    }
    publish::plan(claim, resource, observed)
}

/// Whether a managed resource names a claim, with or without its UID.
pub(super) fn names(claim: &Claim<'_>, managed: &Value) -> bool {
    claim_of(managed).is_some_and(|reference| reference.names(claim.namespace, claim.name, claim.uid))
}

fn has_uid(managed: &Value) -> bool {
    claim_of(managed).is_some_and(|reference| reference.uid.is_some())
}

/// Whether a managed resource is bound to a claim.
pub(super) fn is_bound_to(claim: &Claim<'_>, managed: &Value) -> bool {
    names(claim, managed) && has_uid(managed) && is_bound(managed)
}

fn not_offered(claim: &Claim<'_>, resource: &ManagedClusterReference) -> ClaimPlan {
    let what = describe(resource);
    let phase = if claim.was_bound() { BindingPhase::Released } else { BindingPhase::Unbindable };
    if claim.provisions(resource) {
        let message = format!(
            "{what} exists and does not name this claim, so it is not used; delete it, or delete the claim and create it again"
        );
        return refused(claim, phase, Reason::NameTaken, message);
    }
    // Whom else it is offered to is not for this namespace to know.
    let message = format!(
        "{what} is not offered to this claim; its owner offers it with `spec.claimRef`, or with the annotation `{}: {}/{}` if its kind has no `claimRef`",
        annotations::CLAIM,
        claim.namespace,
        claim.name
    );
    refused(claim, phase, Reason::NotOffered, message)
}

fn not_ready(claim: &Claim<'_>, what: &str, managed: &Value) -> ClaimPlan {
    let conditions = managed.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default();
    let field = |condition: &Value, name| condition.get(name).and_then(Value::as_str).map(str::to_owned);
    let ready = conditions.iter().find(|one| field(one, "type").as_deref() == Some("Ready"));
    let message = match ready {
        None => format!("waiting for {what} to become Ready"),
        Some(ready) => {
            let reason = field(ready, "reason").unwrap_or_default();
            format!("waiting for {what} to become Ready; its condition has reason `{reason}`")
        }
    };
    let mut report = ClaimReport::new(claim, BindingPhase::Unbindable);
    report.set_false(ConditionType::Synced, Reason::ManagedResourceNotReady, message);
    ClaimPlan::report(report)
}

/// The next write that binds a managed resource to a claim; none once it is bound.
fn bind(
    claim: &Claim<'_>,
    resource: &ManagedClusterReference,
    managed: &ManagedObject,
) -> Option<ClaimAction> {
    let (value, fields) = (&managed.value, managed.fields);
    let policy = recorded_policy(value)
        .is_none()
        .then(|| if claim.provisions(resource) { ReclaimPolicy::Delete } else { ReclaimPolicy::Retain });
    let mut notes = Object::new();
    if let Some(policy) = policy {
        notes.insert(annotations::RECLAIM_POLICY, policy.as_str().into());
    }
    if !fields.binding_phase
        && annotated(value, annotations::BINDING_PHASE) != Some(BindingPhase::Bound.as_str())
    {
        notes.insert(annotations::BINDING_PHASE, BindingPhase::Bound.as_str().into());
    }
    let mut spec = None;
    if !has_uid(value) {
        if fields.claim_ref {
            spec = Some(("spec", Value::object([("claimRef", claim_ref(claim))])));
        } else {
            notes.insert(annotations::CLAIM, claim_name(claim).into());
        }
    }
    if spec.is_some() || !notes.is_empty() {
        let mut metadata = exact_version(value);
        if !notes.is_empty() {
            metadata.insert("annotations", notes.into());
        }
        let entries = [("metadata", Value::from(metadata))].into_iter().chain(spec);
        return Some(ClaimAction::PatchManaged(Value::object(entries)));
    }
    let phase = value.at(&["status", "bindingPhase"]).and_then(Value::as_str);
    (fields.binding_phase && phase != Some(BindingPhase::Bound.as_str()))
        .then(|| ClaimAction::PatchManagedStatus(phase_patch(value, BindingPhase::Bound)))
}

/// The write that releases a managed resource from its claim; none once it is released. It still names the claim, so that no
/// other claim of the same name gets it.
pub(super) fn release(managed: &ManagedObject) -> Option<ClaimAction> {
    let value = &managed.value;
    if binding_phase(value) == Some(BindingPhase::Released) {
        return None;
    }
    if managed.fields.binding_phase {
        return Some(ClaimAction::PatchManagedStatus(phase_patch(value, BindingPhase::Released)));
    }
    let mut metadata = exact_version(value);
    let phase = [(annotations::BINDING_PHASE, BindingPhase::Released.as_str().into())];
    metadata.insert("annotations", Value::object(phase));
    Some(ClaimAction::PatchManaged(Value::object([("metadata", metadata.into())])))
}

/// The managed resource of a class for a claim.
pub(super) fn provisioned(claim: &Claim<'_>, class: &ClaimClass, fields: BindingFields) -> Value {
    let template = &class.spec.template;
    let metadata = template.metadata.as_ref();
    let entries = |map: Option<&std::collections::BTreeMap<String, String>>| -> Object {
        map.into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str().into())).collect()
    };
    let mut notes = entries(metadata.and_then(|metadata| metadata.annotations.as_ref()));
    let policy = class.spec.reclaim_policy.unwrap_or_default();
    notes.insert(annotations::RECLAIM_POLICY, policy.as_str().into());
    notes.remove(annotations::CLAIM);
    let mut spec = template.spec.as_object().cloned().unwrap_or_default();
    name_secret(&mut spec, &claim.managed_name());
    if fields.claim_ref {
        spec.insert("claimRef", claim_ref(claim));
    } else {
        notes.insert(annotations::CLAIM, claim_name(claim).into());
    }
    // The annotation with the UID of the claim would mean that it is bound.
    notes.insert(annotations::BINDING_PHASE, BindingPhase::Unbound.as_str().into());
    let labels = entries(metadata.and_then(|metadata| metadata.labels.as_ref()));
    let mut metadata = Object::new();
    metadata.insert("name", claim.managed_name().into());
    if !labels.is_empty() {
        metadata.insert("labels", labels.into());
    }
    metadata.insert("annotations", notes.into());
    Value::object([
        ("apiVersion", template.api_version.as_str().into()),
        ("kind", template.kind.as_str().into()),
        ("metadata", metadata.into()),
        ("spec", spec.into()),
    ])
}

/// A connection Secret without a name gets that of the managed resource: the resources of a class must not share one.
fn name_secret(spec: &mut Object, name: &str) {
    let secret = spec.get_mut("writeConnectionSecretToRef").and_then(Value::as_object_mut);
    if let Some(secret) = secret.filter(|secret| !secret.contains_key("name")) {
        secret.insert("name", name.into());
    }
}

fn claim_ref(claim: &Claim<'_>) -> Value {
    Value::object([
        ("apiVersion", format!("{COMPUTE_GROUP}/v1alpha1").into()),
        ("kind", "KubernetesCluster".into()),
        ("namespace", claim.namespace.into()),
        ("name", claim.name.into()),
        ("uid", claim.uid.into()),
    ])
}

fn claim_name(claim: &Claim<'_>) -> String {
    let (namespace, name) = (claim.namespace.to_owned(), claim.name.to_owned());
    ClaimReference { namespace, name, uid: Some(claim.uid.to_owned()) }.to_string()
}

fn phase_patch(managed: &Value, phase: BindingPhase) -> Value {
    let status = Value::object([("bindingPhase", phase.as_str().into())]);
    Value::object([("metadata", exact_version(managed).into()), ("status", status)])
}

/// Metadata of a patch for exactly this version of an object: two claims never bind the same managed resource.
pub(super) fn exact_version(object: &Value) -> Object {
    let field = |name: &'static str| Some((name, object.at(&["metadata", name])?.clone()));
    [field("uid"), field("resourceVersion")].into_iter().flatten().collect()
}

fn annotated<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    super::super::managed::annotation(object, name)
}
