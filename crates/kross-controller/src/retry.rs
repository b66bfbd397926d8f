//! When a reconcile that failed is tried again. Definitions and instances answer it for each of their errors.

use std::time::Duration;

use kross_cluster::Outcome;

/// When to reconcile again after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    /// With exponential backoff.
    Backoff,
    /// After this time.
    After(Duration),
    /// When something changes: trying again before that is of no use.
    OnChange,
}

impl From<Retry> for Outcome {
    /// What the work queue does with the key.
    fn from(retry: Retry) -> Self {
        match retry {
            Retry::Backoff => Self::Retry,
            Retry::After(wait) => Self::After(wait),
            Retry::OnChange => Self::Done,
        }
    }
}
