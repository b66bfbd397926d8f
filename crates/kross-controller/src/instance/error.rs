//! What can go wrong with an instance beyond what its plan reports, and how a pass ended.

use std::time::Duration;

use jiff::Timestamp;
use kross_api::{ConditionType, FailureReason, InventoryError};
use kross_cluster::{ApiError, Outcome};

use super::reach::ReachError;
use crate::retry::Retry;

/// How soon to look again where something is about to be known.
pub(super) const SOON: Duration = Duration::from_secs(1);

/// How a pass over an instance ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Events tell when there is something to do.
    Done,
    /// Time alone may change something.
    After(Duration),
    /// Something failed that may pass by itself.
    Retry,
}

/// How long until a time at which something may change, but never no time at all.
pub(super) fn until(at: Timestamp) -> Duration {
    let wait = at.duration_since(Timestamp::now());
    Duration::try_from(wait).unwrap_or_default().max(Duration::from_millis(50))
}

/// An instance that could not be looked at to the end.
#[derive(Debug, thiserror::Error)]
pub(super) enum InstanceError {
    /// What the instance says it owns cannot be trusted.
    #[error("{0}")]
    Inventory(#[from] InventoryError),
    /// Finalizer, labels or inventory could not be written.
    #[error("{0}")]
    Manage(#[source] ApiError),
    /// Another request failed.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The request has to go to a cluster that is not connected.
    #[error("{0}")]
    Unreached(ReachError),
}

impl From<ReachError> for InstanceError {
    fn from(error: ReachError) -> Self {
        match error {
            ReachError::Api(error) => Self::Api(error),
            unreached @ ReachError::NotConnected(_) => Self::Unreached(unreached),
        }
    }
}

impl InstanceError {
    /// The class of the failure, for logs and metrics.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Inventory(_) => "Inventory",
            Self::Manage(error) | Self::Api(error) => error.reason().as_str(),
            Self::Unreached(error) => error.reason().as_str(),
        }
    }

    /// The condition that reports it; none where the instance only has to be looked at again.
    pub(super) fn condition(&self) -> Option<ConditionType> {
        match self {
            Self::Inventory(_) => Some(ConditionType::InstanceManaged),
            Self::Manage(error) | Self::Api(error)
                if error.is_gone() || error.reason() == FailureReason::Conflict =>
            {
                None
            }
            Self::Manage(_) => Some(ConditionType::InstanceManaged),
            Self::Api(_) | Self::Unreached(_) => Some(ConditionType::GraphResolved),
        }
    }

    /// When trying again makes sense.
    pub(super) fn retry(&self) -> Retry {
        match self {
            // Only somebody who edits the instance can help.
            Self::Inventory(_) => Retry::OnChange,
            Self::Manage(error) | Self::Api(error) => retry(error),
            Self::Unreached(_) => Retry::Backoff,
        }
    }
}

/// When trying a request again makes sense.
pub(super) fn retry(error: &ApiError) -> Retry {
    match error.retry() {
        kross_cluster::Retry::Backoff => Retry::Backoff,
        kross_cluster::Retry::After(wait) => Retry::After(wait),
        // Policies and permissions change without an event of ours.
        kross_cluster::Retry::WhenChanged => Retry::Backoff,
    }
}

/// What the queue does with the end of a pass.
pub(super) fn outcome(ended: &Result<Next, InstanceError>) -> Outcome {
    match ended {
        Ok(Next::Done) => Outcome::Done,
        Ok(Next::After(wait)) => Outcome::After(*wait),
        Ok(Next::Retry) => Outcome::Retry,
        Err(error) => error.retry().into(),
    }
}
