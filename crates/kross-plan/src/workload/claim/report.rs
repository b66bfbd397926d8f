//! Phase and conditions of a claim.

use kross_api::{BindingPhase, ConditionStatus, ConditionType, Reason};

use super::Claim;

/// Phase and conditions of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimReport {
    /// `status.bindingPhase`.
    pub phase: BindingPhase,
    /// The conditions, `Ready` excepted.
    pub conditions: Vec<ClaimCondition>,
    /// The conditions that `Ready` summarizes.
    pub dependents: &'static [ConditionType],
}

/// A condition of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimCondition {
    /// Its type.
    pub kind: ConditionType,
    /// Its status.
    pub status: ConditionStatus,
    /// Its reason.
    pub reason: Reason,
    /// Its message.
    pub message: String,
}

impl ClaimReport {
    /// A report in which nothing was reached yet.
    pub(super) fn new(claim: &Claim<'_>, phase: BindingPhase) -> Self {
        let is_published = claim.spec.write_connection_secret_to_ref.is_some();
        let mut report = Self {
            phase,
            conditions: Vec::new(),
            dependents: if is_published { ConditionType::CLAIM } else { &[ConditionType::Synced] },
        };
        report.set(ConditionType::Synced, ConditionStatus::Unknown, Reason::AwaitingReconciliation, "");
        for kind in [ConditionType::ConnectionSecretPropagated, ConditionType::TargetPublished] {
            if is_published {
                let message = "waiting for the claim to be bound";
                report.set(kind, ConditionStatus::Unknown, Reason::NotReached, message);
            } else {
                // It is what the user asked for, so `Ready` does not depend on it.
                let message = "`writeConnectionSecretToRef` is not set, so the connection Secret is not copied and the cluster is not published; set it to the name of a Secret";
                report.set(kind, ConditionStatus::False, Reason::NotRequested, message);
            }
        }
        report
    }

    pub(super) fn set_true(&mut self, kind: ConditionType, reason: Reason, message: impl Into<String>) {
        self.set(kind, ConditionStatus::True, reason, message);
    }

    pub(super) fn set_false(&mut self, kind: ConditionType, reason: Reason, message: impl Into<String>) {
        self.set(kind, ConditionStatus::False, reason, message);
    }

    pub(super) fn set(
        &mut self,
        kind: ConditionType,
        status: ConditionStatus,
        reason: Reason,
        message: impl Into<String>,
    ) {
        self.conditions.retain(|condition| condition.kind != kind);
        self.conditions.push(ClaimCondition { kind, status, reason, message: message.into() });
    }
}
