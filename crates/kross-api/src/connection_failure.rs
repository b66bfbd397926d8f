//! Why a remote cluster is not connected: one value, made by whoever connects and carried unchanged by definitions,
//! instances and plans. Its text is rendered here and nowhere else.

use std::fmt;

use jiff::Timestamp;
use kross_value::Text;
use serde::Serialize;

use crate::status::whole_seconds;
use crate::vocabulary::{ConditionType, FailureReason, Reason};

/// Why a remote cluster is not connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionFailure {
    /// The step that failed.
    pub step: ConnectStep,
    /// The class of the failure, as resources report it and expressions see it.
    pub reason: FailureReason,
    /// What went wrong, without the cluster's name and without advice.
    pub cause: Text,
    /// What to do about it.
    pub advice: ConnectionAdvice,
    /// Since when the cluster has not been connected.
    pub since: Timestamp,
    /// When the cluster last answered, if it ever did.
    pub last_contact: Option<Timestamp>,
    /// When the controller connects again; none where it waits for a change of the Secret, the instance or the definition.
    pub next_attempt: Option<Timestamp>,
}

impl ConnectionFailure {
    /// A failure that begins now and is not retried: callers fill in what else they know.
    #[must_use]
    pub fn new(
        step: ConnectStep,
        reason: FailureReason,
        cause: impl Into<Text>,
        advice: ConnectionAdvice,
        now: Timestamp,
    ) -> Self {
        Self { step, reason, cause: cause.into(), advice, since: now, last_contact: None, next_attempt: None }
    }

    /// The sentence that people read, about the cluster that they know by this name.
    #[must_use]
    pub fn message(&self, cluster: &str) -> String {
        let Self { cause, advice, .. } = self;
        let last_seen = self
            .last_contact
            .map_or_else(String::new, |time| format!(", last seen at {}", whole_seconds(time)));
        let advice = match advice {
            ConnectionAdvice::None => String::new(),
            advice => format!("; {advice}"),
        };
        format!("cluster `{cluster}` is not connected{last_seen}: {cause}{advice}")
    }

    /// The bare cause, which expressions see as `error`.
    #[must_use]
    pub fn error(&self) -> &Text {
        &self.cause
    }

    /// The reason of a condition that is False because of it.
    #[must_use]
    pub fn condition_reason(&self) -> Reason {
        self.step.condition_reason()
    }

    /// Whether another failure is the same problem, whenever it began and whenever it is retried.
    #[must_use]
    pub fn is_same_problem(&self, other: &Self) -> bool {
        let problem = |failure: &Self| (failure.step, failure.reason);
        problem(self) == problem(other) && self.cause == other.cause && self.advice == other.advice
    }
}

/// A step of connecting to a cluster, in order; each is named after what it checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum ConnectStep {
    /// The controller can and did try to connect: it fails while the first attempt runs.
    Attempt,
    /// The KubernetesTarget exists and may be used.
    Target,
    /// The KubernetesTarget is ready.
    TargetReady,
    /// The Secret exists and may be used.
    Secret,
    /// The Secret has the key.
    Key,
    /// The kubeconfig is acceptable.
    Parse,
    /// The cluster answers.
    Reach,
    /// The cluster accepts the credential, and proves its own identity.
    Authenticate,
    /// The cluster is the one in which the instance has its objects.
    Identify,
}

impl ConnectStep {
    /// The reason of a condition that is False because this step failed.
    #[must_use]
    pub const fn condition_reason(self) -> Reason {
        match self {
            Self::Attempt => Reason::NotConnected,
            Self::Target => Reason::NoTarget,
            Self::TargetReady => Reason::TargetNotReady,
            Self::Secret => Reason::SecretNotAvailable,
            Self::Key => Reason::SecretKeyMissing,
            Self::Parse => Reason::KubeconfigInvalid,
            Self::Reach => Reason::Unreachable,
            Self::Authenticate => Reason::AuthenticationFailed,
            Self::Identify => Reason::IdentityChanged,
        }
    }

    /// The condition of a definition that is False because this step failed.
    #[must_use]
    pub const fn definition_condition(self) -> ConditionType {
        match self {
            Self::Target
            | Self::TargetReady
            | Self::Secret
            | Self::Key
            | Self::Parse
            | Self::Authenticate => ConditionType::ClusterValidated,
            Self::Attempt | Self::Reach | Self::Identify => ConditionType::ClusterAccessible,
        }
    }
}

/// What to do about a connection failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionAdvice {
    /// Nothing more: the cause says what to do.
    None,
    /// The controller lacks permissions on the Secret.
    AllowSecretAccess,
    /// The kubeconfig's credential cannot be used as it is written.
    CheckKubeconfig,
    /// One of the two sides does not trust the other's certificate.
    CheckCertificates,
    /// Something answers that is no API server.
    CheckServer,
    /// Nothing answers.
    CheckNetwork,
    /// Nothing answers, and the address may be wrong.
    CheckServerAndNetwork,
    /// The kubeconfig has no credential that the cluster knows.
    AddCredential,
    /// The cluster knows the credential no longer.
    RenewCredential,
    /// The credential is a token of the hub, which the other cluster has seen by now.
    ReplaceHubToken,
    /// The cluster is busy: nothing to do.
    Retried,
    /// The Secret points to another cluster than before.
    ConfirmCluster {
        /// The command that gives up what the instance has in the cluster from before.
        command: String,
    },
    /// The Secret points to a cluster that does not tell whether it is the same as before.
    VerifyCluster {
        /// The command that gives up what the instance has in the cluster from before.
        command: String,
    },
}

impl ConnectionAdvice {
    /// Whether the instance waits for its owner to decide, and not for the cluster to answer.
    #[must_use]
    pub const fn needs_decision(&self) -> bool {
        matches!(self, Self::ConfirmCluster { .. } | Self::VerifyCluster { .. })
    }
}

impl fmt::Display for ConnectionAdvice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "",
            Self::AllowSecretAccess => "allow the controller to get, list and watch it",
            Self::CheckKubeconfig => "check the kubeconfig in the Secret",
            Self::CheckCertificates => {
                "check `certificate-authority-data` and the client certificate in the kubeconfig"
            }
            Self::CheckServer => "check `server` in the kubeconfig",
            Self::CheckNetwork => "check that the cluster is up and that the network allows traffic",
            Self::CheckServerAndNetwork => {
                "check `server` in the kubeconfig, that the cluster is up and that the network allows traffic"
            }
            Self::AddCredential => {
                "put a kubeconfig with a token or a client certificate into the Secret"
            }
            Self::RenewCredential => {
                "they may have expired or been revoked: put a new kubeconfig into the Secret"
            }
            Self::ReplaceHubToken => {
                "put a kubeconfig with a token of this cluster into the Secret, and revoke the token that it has seen"
            }
            Self::Retried => "the controller retries",
            Self::ConfirmCluster { command } => {
                return write!(f, "restore the Secret, or give up those objects with `{command}`");
            }
            Self::VerifyCluster { command } => {
                return write!(
                    f,
                    "allow the credential to get namespace `kube-system` there, or give up those objects with `{command}`"
                );
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(cause: &str, advice: ConnectionAdvice) -> ConnectionFailure {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        ConnectionFailure::new(ConnectStep::Reach, FailureReason::Unreachable, cause, advice, now)
    }

    #[test]
    fn the_message_has_the_cluster_the_last_contact_the_cause_and_the_advice_in_this_order() {
        let mut failure = failure("connection refused", ConnectionAdvice::CheckServer);
        assert_eq!(
            failure.message("eu"),
            "cluster `eu` is not connected: connection refused; check `server` in the kubeconfig"
        );
        failure.last_contact = Some(Timestamp::from_second(1_800_000_000).unwrap());
        failure.advice = ConnectionAdvice::None;
        assert_eq!(
            failure.message("eu"),
            "cluster `eu` is not connected, last seen at 2027-01-15T08:00:00Z: connection refused"
        );
        assert_eq!(failure.error(), "connection refused");
    }

    #[test]
    fn a_problem_is_the_same_whenever_it_began() {
        let first = failure("connection refused", ConnectionAdvice::CheckServer);
        let since = Timestamp::from_second(1_900_000_000).unwrap();
        let later = ConnectionFailure { since, next_attempt: Some(since), ..first.clone() };
        assert!(first.is_same_problem(&later));
        assert!(!first.is_same_problem(&failure("no route to host", ConnectionAdvice::CheckServer)));
    }

    #[test]
    fn a_step_has_one_reason_and_one_condition() {
        for (step, reason, condition) in [
            (ConnectStep::Attempt, "NotConnected", "ClusterAccessible"),
            (ConnectStep::Secret, "SecretNotAvailable", "ClusterValidated"),
            (ConnectStep::Key, "SecretKeyMissing", "ClusterValidated"),
            (ConnectStep::Parse, "KubeconfigInvalid", "ClusterValidated"),
            (ConnectStep::Reach, "Unreachable", "ClusterAccessible"),
            (ConnectStep::Authenticate, "AuthenticationFailed", "ClusterValidated"),
            (ConnectStep::Identify, "IdentityChanged", "ClusterAccessible"),
        ] {
            assert_eq!(step.condition_reason().as_str(), reason);
            assert_eq!(step.definition_condition().as_str(), condition);
        }
    }
}
