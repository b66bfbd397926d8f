//! Plans the next step of a claim: it gets a class, a managed resource, a binding, a copy of the connection Secret and a target,
//! in this order. Every step follows from what is observed, so that a controller that was killed goes on where it stopped.

mod class;
mod deletion;
mod managed;
mod publish;
mod report;

#[cfg(test)]
mod tests;

use kross_api::{
    BindingPhase, ConditionType, KubernetesClusterClassSpec, KubernetesClusterSpec, ManagedClusterReference,
    Reason, ReclaimPolicy,
};
use kross_value::{Object, Value};

pub use report::{ClaimCondition, ClaimReport};

use super::managed::PropagationRefusal;

/// What the name of a managed resource starts with that is provisioned for a claim. The UID of the claim follows.
const NAME_PREFIX: &str = "cluster-";

/// A claim.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its UID.
    pub uid: &'a str,
    /// Its labels.
    pub labels: &'a Object,
    /// Its spec.
    pub spec: &'a KubernetesClusterSpec,
    /// `status.bindingPhase`.
    pub phase: Option<BindingPhase>,
    /// Whether it has our finalizer.
    pub has_finalizer: bool,
    /// Whether it is being deleted.
    pub is_deleting: bool,
}

impl Claim<'_> {
    /// The name of the managed resource that is provisioned for this claim.
    #[must_use]
    pub fn managed_name(&self) -> String {
        format!("{NAME_PREFIX}{}", self.uid)
    }

    /// Whether its managed resource is provisioned for it, and did not exist before.
    fn provisions(&self, resource: &ManagedClusterReference) -> bool {
        resource.name == self.managed_name()
    }

    /// Whether it was bound before.
    fn was_bound(&self) -> bool {
        matches!(self.phase, Some(BindingPhase::Bound | BindingPhase::Released))
    }
}

/// A class.
#[derive(Clone, Debug)]
pub struct ClaimClass {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: Object,
    /// Whether it is the class of claims that name none.
    pub is_default: bool,
    /// Its spec.
    pub spec: KubernetesClusterClassSpec,
}

/// What was observed for a claim.
#[derive(Clone, Debug)]
pub struct ClaimObservation {
    /// The classes; none while they are not known.
    pub classes: Option<Vec<ClaimClass>>,
    /// The managed resource of `resourceRef`.
    pub managed: ObservedManaged,
    /// The result of the copy of the connection Secret, if it was attempted in this reconcile.
    pub copy: Option<Result<(), PropagationRefusal>>,
    /// Whether the copy of the connection Secret was deleted in this reconcile.
    pub is_secret_deleted: bool,
    /// The object that has the name of the claim's target.
    pub target: ObservedTarget,
    /// What holds the deletion of the claim back. Only while it is deleted.
    pub users: ObservedUsers,
}

/// The managed resource of a claim.
#[derive(Clone, Debug)]
pub enum ObservedManaged {
    /// It is not known yet.
    Unknown,
    /// Its kind is not served, is refused, or its object cannot be read.
    Unavailable(PropagationRefusal),
    /// It does not exist.
    Absent,
    /// It exists.
    Found(ManagedObject),
}

/// A managed resource that exists.
#[derive(Clone, Debug)]
pub struct ManagedObject {
    /// The object.
    pub value: Value,
    /// What its kind has.
    pub fields: BindingFields,
}

/// Which fields for a binding the schema of a managed kind has. What it does not have is written as an annotation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BindingFields {
    /// `spec.claimRef`.
    pub claim_ref: bool,
    /// `status.bindingPhase`.
    pub binding_phase: bool,
}

/// The object that has the name of a claim's target.
#[derive(Clone, Debug)]
pub enum ObservedTarget {
    /// It is not known yet.
    Unknown,
    /// Targets are not installed.
    NotServed,
    /// There is none.
    Absent,
    /// It exists.
    Found(Value),
}

/// What holds the deletion of a claim back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObservedUsers {
    /// They are not known: a list has failed, or was not made.
    Unknown,
    /// The targets, in any namespace, that publish the managed resource, as `namespace/name`.
    Targets(Vec<String>),
}

/// What to do next for a claim, and what to report if there is nothing to do.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimPlan {
    /// The next write. Afterwards the claim is planned again.
    pub action: Option<ClaimAction>,
    /// Phase and conditions; none if they stay as they are.
    pub report: Option<ClaimReport>,
}

/// A write for a claim.
#[derive(Clone, Debug, PartialEq)]
pub enum ClaimAction {
    /// Adds our finalizer to the claim.
    AddFinalizer,
    /// Sets `classRef` and `resourceRef` of the claim, before the managed resource is created.
    Reference {
        /// The class.
        class: String,
        /// The managed resource.
        resource: ManagedClusterReference,
    },
    /// Creates the managed resource from a class, see [`managed_for`].
    Provision {
        /// The class.
        class: String,
    },
    /// A merge patch of the managed resource.
    PatchManaged(Value),
    /// A merge patch of the status of the managed resource.
    PatchManagedStatus(Value),
    /// Copies the connection Secret of the managed resource.
    CopySecret,
    /// Creates the target.
    CreateTarget(Value),
    /// A merge patch of the target.
    PatchTarget(Value),
    /// Deletes the target of this UID.
    DeleteTarget {
        /// Its UID.
        uid: String,
    },
    /// Lists the targets that publish the managed resource.
    ListUsers,
    /// Deletes the copy of the connection Secret.
    DeleteSecret,
    /// Deletes the managed resource of this UID.
    DeleteManaged {
        /// Its UID.
        uid: String,
    },
    /// Removes our finalizer from the claim.
    RemoveFinalizer,
}

impl ClaimPlan {
    fn act(action: ClaimAction) -> Self {
        Self { action: Some(action), report: None }
    }

    fn report(report: ClaimReport) -> Self {
        Self { action: None, report: Some(report) }
    }

    /// Something is not known yet. The status stays as it is.
    fn wait() -> Self {
        Self { action: None, report: None }
    }
}

/// Plans the next step of a claim.
#[must_use]
pub fn plan_claim(claim: &Claim<'_>, observed: &ClaimObservation) -> ClaimPlan {
    if claim.is_deleting {
        return deletion::plan(claim, observed);
    }
    if !claim.has_finalizer {
        return ClaimPlan::act(ClaimAction::AddFinalizer);
    }
    match &claim.spec.resource_ref {
        None => class::choose(claim, observed.classes.as_deref()),
        Some(resource) => managed::plan(claim, resource, observed),
    }
}

/// The managed resource of a class for a claim. It names the claim from the start, and is not bound before it is ready.
#[must_use]
pub fn managed_for(claim: &Claim<'_>, class: &ClaimClass, fields: BindingFields) -> Value {
    managed::provisioned(claim, class, fields)
}

/// What the managed resource of a claim is called in messages.
fn describe(resource: &ManagedClusterReference) -> String {
    format!("{} `{}`", resource.kind, resource.name)
}

/// The reclaim policy that is recorded on a managed resource. A value that is not known keeps the resource.
fn recorded_policy(managed: &Value) -> Option<ReclaimPolicy> {
    let text = super::managed::annotation(managed, kross_api::annotations::RECLAIM_POLICY)?;
    Some(ReclaimPolicy::parse(text).unwrap_or(ReclaimPolicy::Retain))
}

/// The claim could not be served, for this reason.
fn refused(claim: &Claim<'_>, phase: BindingPhase, reason: Reason, message: String) -> ClaimPlan {
    let mut report = ClaimReport::new(claim, phase);
    report.set_false(ConditionType::Synced, reason, message);
    ClaimPlan::report(report)
}

/// The UID of an object.
fn uid(object: &Value) -> &str {
    object.at(&["metadata", "uid"]).and_then(Value::as_str).unwrap_or_default()
}

/// Whether an object is being deleted.
fn is_deleting(object: &Value) -> bool {
    object.at(&["metadata", "deletionTimestamp"]).is_some_and(|time| !time.is_null())
}
