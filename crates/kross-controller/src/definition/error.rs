//! What can go wrong with a definition, each with the reason that its condition has and when trying again makes sense.

use std::time::Duration;

use kross_api::Reason;
use kross_cluster::{ApiError, Outcome};

use crate::openapi::SchemaError;
use crate::retry::Retry;

/// How soon to look again whether a cluster is connected.
pub(super) const CONNECTING: Duration = Duration::from_secs(1);

/// How soon to look again at a definition that somebody changed while we looked at it, should no event come.
pub(super) const CHANGED: Duration = Duration::from_millis(200);

/// How a pass over a definition ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing is left to do.
    Done,
    /// Something is under way that an event will tell of; look again after this time should it not.
    Wait(Duration),
}

/// A definition that cannot be served as it is.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    /// The copies are not complete.
    #[error("the {what} of the cluster are not known yet")]
    NotSynced {
        /// What is missing.
        what: &'static str,
    },
    /// The definition has mistakes.
    #[error("{message}")]
    Invalid {
        /// All of them.
        message: String,
        /// Whether one of them is a kind that may still come.
        unknown_kinds: bool,
    },
    /// Its latest revision does not compile any more.
    #[error("latest graph revision {revision} failed compilation: {message}")]
    RevisionFailed {
        /// The revision's number.
        revision: i64,
        /// All that is wrong.
        message: String,
        /// Whether something of it is a kind that may come back.
        unknown_kinds: bool,
    },
    /// The clusters that it names do not accept it, or have not answered yet.
    #[error("{message}")]
    Clusters {
        /// What they say.
        message: String,
        /// Whether they are about to answer.
        connecting: bool,
    },
    /// A CRD of this name belongs to nobody we know.
    #[error("failed to update CRD {crd}: CRD already exists and is not owned by KRO")]
    ForeignCrd {
        /// The CRD.
        crd: String,
    },
    /// The CRD belongs to another definition.
    #[error("failed to update CRD {crd}: CRD is owned by another ResourceGraphDefinition {owner}")]
    OtherOwner {
        /// The CRD.
        crd: String,
        /// The other definition.
        owner: String,
    },
    /// Instances or clients may not survive the change.
    #[error(
        "cannot update CRD {crd}: breaking changes detected: {report}; set the annotation `{annotation}: \"true\"` to \
         make them all the same",
        annotation = kross_api::annotations::ALLOW_BREAKING_CHANGES
    )]
    Breaking {
        /// The CRD.
        crd: String,
        /// What breaks.
        report: String,
    },
    /// The API server does not accept the CRD's names.
    #[error("CRD {crd} is not established: {message}")]
    NamesRefused {
        /// The CRD.
        crd: String,
        /// What the API server says.
        message: String,
    },
    /// The CRD is being deleted.
    #[error("CRD {crd} is being deleted; it is made again when it is gone")]
    CrdDeleting {
        /// The CRD.
        crd: String,
    },
    /// The API server does not give its schemas.
    #[error(transparent)]
    Schemas(#[from] SchemaError),
    /// A request failed.
    #[error(transparent)]
    Api(#[from] ApiError),
}

impl DefinitionError {
    /// The reason of the condition that reports it.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Invalid { .. } => Reason::InvalidResourceGraph.as_str(),
            Self::NotSynced { .. } | Self::Schemas(_) | Self::Clusters { connecting: true, .. } => {
                Reason::AwaitingReconciliation.as_str()
            }
            Self::RevisionFailed { .. }
            | Self::Clusters { .. }
            | Self::ForeignCrd { .. }
            | Self::OtherOwner { .. }
            | Self::Breaking { .. }
            | Self::NamesRefused { .. }
            | Self::CrdDeleting { .. } => Reason::Failed.as_str(),
            Self::Api(error) => error.reason().as_str(),
        }
    }

    /// When trying again makes sense.
    #[must_use]
    pub fn retry(&self) -> Retry {
        match self {
            Self::Invalid { unknown_kinds, .. } | Self::RevisionFailed { unknown_kinds, .. } => {
                if *unknown_kinds {
                    Retry::Backoff
                } else {
                    Retry::OnChange
                }
            }
            Self::NotSynced { .. } | Self::Schemas(_) => Retry::Backoff,
            Self::Clusters { connecting: true, .. } => Retry::After(CONNECTING),
            // Whatever the clusters do next is an event.
            Self::Clusters { .. }
            | Self::ForeignCrd { .. }
            | Self::OtherOwner { .. }
            | Self::Breaking { .. }
            | Self::NamesRefused { .. }
            | Self::CrdDeleting { .. } => Retry::OnChange,
            Self::Api(error) => match error.retry() {
                kross_cluster::Retry::Backoff => Retry::Backoff,
                kross_cluster::Retry::After(wait) => Retry::After(wait),
                // Permissions and admission policies change without an event of ours.
                kross_cluster::Retry::WhenChanged => Retry::After(Duration::from_secs(30)),
            },
        }
    }
}

/// What the queue does with the end of a pass.
pub(super) fn outcome(ended: &Result<Next, DefinitionError>) -> Outcome {
    match ended {
        Ok(Next::Done) => Outcome::Done,
        Ok(Next::Wait(wait)) => Outcome::After(*wait),
        Err(error) => error.retry().into(),
    }
}
