//! What can fail in a reconcile of an instance beyond what its plan reports, and when the instance is reconciled next.

use std::time::Duration;

use jiff::Timestamp;
use kross_api::{ConditionType, FailureReason, InventoryError};
use kross_cluster::{ApiError, Outcome};
use kross_plan::AccountError;

use super::clients::ClientError;
use crate::planner::PlanTimeout;
use crate::retry::Retry;

/// The wait where a cache or a connection is about to be ready, should no event come.
pub(super) const SOON: Duration = Duration::from_secs(1);

/// When an instance is reconciled next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// On the next event.
    Done,
    /// After this time, since time alone may change something.
    After(Duration),
    /// With backoff, since something failed that no event will end.
    Retry,
}

/// How long it is until a time, and never zero.
pub(super) fn until(at: Timestamp) -> Duration {
    let wait = at.duration_since(Timestamp::now());
    Duration::try_from(wait).unwrap_or_default().max(Duration::from_millis(50))
}

/// A reconcile of an instance that could not be completed.
#[derive(Debug, thiserror::Error)]
pub(super) enum InstanceError {
    /// The inventory cannot be trusted.
    #[error("{0}")]
    InvalidInventory(#[from] InventoryError),
    /// The finalizer, the labels or the inventory could not be written.
    #[error("{0}")]
    WriteInventory(#[source] ApiError),
    /// The instance has changed since it was cached, so nothing may be deleted on its behalf.
    #[error("the instance has changed")]
    Outdated,
    /// Planning took too long.
    #[error(transparent)]
    Plan(#[from] PlanTimeout),
    /// It is not known as which ServiceAccount the objects are read and written.
    #[error("{0}")]
    Account(#[from] AccountError),
    /// Another request failed.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// A request is for a cluster that is not connected.
    #[error("{0}")]
    NotConnected(ClientError),
}

impl From<ClientError> for InstanceError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Api(error) => Self::Api(error),
            not_connected @ ClientError::NotConnected(_) => Self::NotConnected(not_connected),
        }
    }
}

impl InstanceError {
    /// The class of the failure, for logs and metrics.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::InvalidInventory(_) => "Inventory",
            Self::Account(_) => FailureReason::Expression.as_str(),
            Self::Outdated => FailureReason::Conflict.as_str(),
            Self::Plan(_) => FailureReason::Timeout.as_str(),
            Self::WriteInventory(error) | Self::Api(error) => error.reason().as_str(),
            Self::NotConnected(error) => error.reason().as_str(),
        }
    }

    /// The condition that reports it; none where another reconcile is enough.
    pub(super) fn condition(&self) -> Option<ConditionType> {
        match self {
            Self::InvalidInventory(_) => Some(ConditionType::InstanceManaged),
            Self::WriteInventory(error) | Self::Api(error)
                if error.is_object_not_found() || error.reason() == FailureReason::Conflict =>
            {
                None
            }
            Self::Outdated => None,
            Self::WriteInventory(_) => Some(ConditionType::InstanceManaged),
            Self::Account(_) | Self::Api(_) | Self::NotConnected(_) | Self::Plan(_) => {
                Some(ConditionType::GraphResolved)
            }
        }
    }

    /// When to reconcile again.
    pub(super) fn retry(&self) -> Retry {
        match self {
            // Somebody has to edit the instance, or the definition.
            Self::InvalidInventory(_) | Self::Account(_) => Retry::OnChange,
            Self::WriteInventory(error) | Self::Api(error) => retry(error),
            Self::Outdated | Self::NotConnected(_) | Self::Plan(_) => Retry::Backoff,
        }
    }
}

/// When to send a request again.
fn retry(error: &ApiError) -> Retry {
    match error.retry() {
        kross_cluster::Retry::Backoff => Retry::Backoff,
        kross_cluster::Retry::After(wait) => Retry::After(wait),
        // Admission policies and permissions change without an event in our caches.
        kross_cluster::Retry::WhenChanged => Retry::Backoff,
    }
}

/// What the work queue does with the key of the instance.
pub(super) fn outcome(ended: &Result<Next, InstanceError>) -> Outcome {
    match ended {
        Ok(Next::Done) => Outcome::Done,
        Ok(Next::After(wait)) => Outcome::After(*wait),
        Ok(Next::Retry) => Outcome::Retry,
        Err(error) => error.retry().into(),
    }
}
