//! What can fail in a reconcile of a definition, each with the reason of its condition and when it is retried.

use std::fmt;
use std::time::Duration;

use kross_api::Reason;
use kross_cluster::{ApiError, Outcome};

use crate::openapi::SchemaError;
use crate::retry::Retry;

/// The wait for a cluster that is being connected, should no event come.
pub(super) const CONNECTING: Duration = Duration::from_secs(1);

/// The wait for a definition that somebody changed during a reconcile, should no event come.
pub(super) const CHANGED: Duration = Duration::from_millis(200);

/// When a definition is reconciled next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// On the next event.
    Done,
    /// On an event that is expected, or after this time should it not come.
    Wait(Duration),
}

/// The revision that instances stay on while a newer one is refused, as the end of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Followed {
    /// That is not decided yet.
    #[default]
    Undecided,
    /// None: which one instances followed is not known, or it does not compile any more.
    Nothing,
    Revision(i64),
}

impl From<Option<i64>> for Followed {
    fn from(number: Option<i64>) -> Self {
        number.map_or(Self::Nothing, Self::Revision)
    }
}

impl fmt::Display for Followed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Undecided => Ok(()),
            Self::Nothing => formatter.write_str(
                ", or revert the edit of the definition or of the CRD; until then instances are not reconciled, since no \
                 older revision fits the CRD",
            ),
            Self::Revision(number) => write!(formatter, "; instances stay on revision {number}"),
        }
    }
}

/// A definition that cannot be served as it is.
#[derive(Debug, thiserror::Error)]
pub(super) enum DefinitionError {
    /// A cache has not synced.
    #[error("the cache of {what} has not synced yet")]
    NotSynced {
        /// The objects in it.
        what: &'static str,
    },
    /// The spec is invalid.
    #[error("{message}")]
    Invalid {
        /// All mistakes.
        message: String,
        /// Whether one of them is an unknown kind, whose CRD may still be created.
        unknown_kinds: bool,
    },
    /// Its latest revision does not compile any more.
    #[error("latest graph revision {revision} failed compilation: {message}")]
    RevisionFailed {
        /// The revision's number.
        revision: i64,
        /// All mistakes.
        message: String,
        /// Whether one of them is an unknown kind, whose CRD may be created again.
        unknown_kinds: bool,
    },
    /// The clusters that it names do not accept it, or have not yet.
    #[error("{message}")]
    Clusters {
        /// Why.
        message: String,
        /// Whether one of them is still being connected.
        connecting: bool,
    },
    /// A CRD of this name is not owned by a definition.
    #[error("failed to update CRD {crd}: CRD already exists and is not owned by KRO")]
    ForeignCrd {
        /// The CRD.
        crd: String,
    },
    /// The CRD is owned by another definition.
    #[error("failed to update CRD {crd}: CRD is owned by another ResourceGraphDefinition {owner}")]
    OtherOwner {
        /// The CRD.
        crd: String,
        /// The other definition.
        owner: String,
    },
    /// The CRD has breaking changes, which the definition does not allow.
    #[error(
        "cannot update CRD {crd}: breaking changes detected: {report}; set the annotation `{annotation}: \"true\"` to \
         apply them anyway{followed}",
        annotation = kross_api::annotations::ALLOW_BREAKING_CHANGES
    )]
    Breaking {
        /// The CRD.
        crd: String,
        /// What breaks.
        report: String,
        /// The revision that instances stay on.
        followed: Followed,
    },
    /// The API server rejects the names of the CRD.
    #[error("CRD {crd} is not established: {message}")]
    NamesRefused {
        /// The CRD.
        crd: String,
        /// The message of the API server.
        message: String,
    },
    /// Another client deletes the CRD after every restore.
    #[error("CRD {crd} does not exist{}", separated(message))]
    CrdContested {
        /// The CRD.
        crd: String,
        /// Who deletes it, and when it is created next; empty if it is created in a moment.
        message: String,
    },
    /// The CRD is being deleted.
    #[error("CRD {crd} is being deleted; it is recreated afterwards")]
    CrdDeleting {
        /// The CRD.
        crd: String,
    },
    /// It is being deleted, and the hub does not prove that it has no instances.
    #[error("cannot verify that no instance exists: {message}")]
    Unproven {
        /// What the hub answered.
        message: String,
    },
    /// The schemas of the hub could not be fetched.
    #[error(transparent)]
    Schemas(#[from] SchemaError),
    /// A request failed.
    #[error(transparent)]
    Api(#[from] ApiError),
}

impl DefinitionError {
    /// The reason of the condition that reports it.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Invalid { .. } => Reason::InvalidResourceGraph.as_str(),
            Self::NotSynced { .. }
            | Self::Unproven { .. }
            | Self::Schemas(_)
            | Self::Clusters { connecting: true, .. } => Reason::AwaitingReconciliation.as_str(),
            Self::RevisionFailed { .. }
            | Self::Clusters { .. }
            | Self::ForeignCrd { .. }
            | Self::OtherOwner { .. }
            | Self::Breaking { .. }
            | Self::NamesRefused { .. }
            | Self::CrdContested { .. }
            | Self::CrdDeleting { .. } => Reason::Failed.as_str(),
            Self::Api(error) => error.reason().as_str(),
        }
    }

    /// Whether the definition has no instances, since its kind is not its own.
    pub(super) fn has_no_instances(&self) -> bool {
        matches!(self, Self::ForeignCrd { .. } | Self::OtherOwner { .. } | Self::NamesRefused { .. })
    }

    /// When to reconcile again.
    pub(super) fn retry(&self) -> Retry {
        match self {
            Self::Invalid { unknown_kinds, .. } | Self::RevisionFailed { unknown_kinds, .. } => {
                if *unknown_kinds {
                    Retry::Backoff
                } else {
                    Retry::OnChange
                }
            }
            Self::NotSynced { .. } | Self::Unproven { .. } | Self::Schemas(_) => Retry::Backoff,
            Self::Clusters { connecting: true, .. } => Retry::After(CONNECTING),
            // A change in a cluster causes an event.
            Self::Clusters { .. }
            | Self::ForeignCrd { .. }
            | Self::OtherOwner { .. }
            | Self::Breaking { .. }
            | Self::NamesRefused { .. }
            // The definition is requeued for the next restore.
            | Self::CrdContested { .. }
            | Self::CrdDeleting { .. } => Retry::OnChange,
            Self::Api(error) => match error.retry() {
                kross_cluster::Retry::Backoff => Retry::Backoff,
                kross_cluster::Retry::After(wait) => Retry::After(wait),
                // Permissions and admission policies change without an event in our caches.
                kross_cluster::Retry::WhenChanged => Retry::After(Duration::from_secs(30)),
            },
        }
    }
}

/// The end of a message, unless it is empty.
fn separated(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(": {message}") }
}

/// What the work queue does with the key of the definition.
pub(super) fn outcome(ended: &Result<Next, DefinitionError>) -> Outcome {
    match ended {
        Ok(Next::Done) => Outcome::Done,
        Ok(Next::Wait(wait)) => Outcome::After(*wait),
        Err(error) => error.retry().into(),
    }
}
