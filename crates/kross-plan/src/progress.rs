//! The progress of a node or of one of its objects, and what status and conditions say about it.

use std::sync::Arc;

use jiff::Timestamp;
use kross_api::{ConnectionFailure, FailureReason, Operation, ResourceState};
use kross_value::Text;

/// The progress of a node or of one of its objects.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// As desired and ready.
    Ready,
    /// Not part of the graph now.
    Skipped(Skip),
    /// Applied but not ready, or an external object that does not exist.
    Waiting(Text),
    /// Ready, but another client changes it again after every repair. Repairs back off, and nodes that depend on it continue.
    Contested(Text),
    /// Waits for its namespace, for the CustomResourceDefinition of its kind, or to be created again after another client
    /// has deleted it repeatedly.
    Held(Text),
    /// Differs from the desired object and is to be applied now.
    Applying,
    /// Waits for other nodes to be ready.
    Blocked {
        /// Their ids.
        by: Vec<Text>,
    },
    /// An expression waits for data.
    Unresolved(Text),
    /// Its cluster is not connected, and the instance never succeeded there.
    NotConnected(ResourceFailure),
    /// The object is being deleted by somebody else.
    Deleting(Text),
    /// Failed.
    Failed(ResourceFailure),
}

/// Why a node is skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Skip {
    /// An expression of `includeWhen` is false.
    Condition(Text),
    /// A node that it depends on is skipped.
    Dependency(Text),
    /// It is a deletion hook.
    DeletionOnly,
    /// It exists only until the instance is deleted.
    ActiveOnly,
    /// It is a deletion hook that has completed.
    Completed,
}

/// A failure as the status of an instance reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceFailure {
    /// The operation that failed, if one did.
    pub operation: Option<Operation>,
    /// The class of the failure.
    pub reason: FailureReason,
    /// The sentence that people read.
    pub message: Text,
    /// The bare error, which expressions see.
    pub error: Text,
    /// Since when.
    pub since: Option<Timestamp>,
    /// Why the cluster is not connected, if that is the failure.
    pub connection: Option<Arc<ConnectionFailure>>,
}

impl ResourceFailure {
    /// The failure of a cluster that is not connected.
    #[must_use]
    pub fn not_connected(cluster: &str, failure: &ConnectionFailure) -> Self {
        Self {
            operation: Some(Operation::Connect),
            reason: failure.reason,
            message: failure.message(cluster).into(),
            error: failure.error().clone(),
            since: Some(failure.since),
            connection: Some(Arc::new(failure.clone())),
        }
    }

    /// The failure of a cluster before the first attempt to connect has ended.
    #[must_use]
    pub fn connecting(cluster: &str) -> Self {
        Self {
            operation: Some(Operation::Connect),
            reason: FailureReason::Unreachable,
            message: format!("connecting to cluster `{cluster}`").into(),
            error: "".into(),
            since: None,
            connection: None,
        }
    }

    /// The failure of an expression, or of its value.
    #[must_use]
    pub fn expression(message: impl Into<Text>) -> Self {
        let message = message.into();
        Self {
            operation: None,
            reason: FailureReason::Expression,
            error: message.clone(),
            message,
            since: None,
            connection: None,
        }
    }

    /// The failure of an object that somebody else owns.
    #[must_use]
    pub fn conflict(message: impl Into<Text>) -> Self {
        Self { reason: FailureReason::Conflict, ..Self::expression(message) }
    }
}

impl Progress {
    /// Whether nodes that depend on this one can continue.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        matches!(self, Self::Ready)
    }

    /// Whether nothing is left to do.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        matches!(self, Self::Ready | Self::Skipped(_))
    }

    /// Whether all of its objects are applied.
    #[must_use]
    pub fn is_applied(&self) -> bool {
        matches!(self, Self::Ready | Self::Skipped(_) | Self::Waiting(_) | Self::Contested(_))
    }

    /// Whether its desired objects are not known, so that none may be pruned.
    #[must_use]
    pub fn is_unresolved(&self) -> bool {
        matches!(self, Self::Blocked { .. } | Self::Unresolved(_))
    }

    /// The state in status.
    #[must_use]
    pub fn state(&self) -> ResourceState {
        match self {
            Self::Ready => ResourceState::Ready,
            Self::Skipped(_) => ResourceState::Skipped,
            Self::Waiting(_) | Self::Unresolved(_) | Self::NotConnected(_) => ResourceState::Pending,
            Self::Held(_) | Self::Blocked { .. } => ResourceState::Blocked,
            Self::Applying | Self::Contested(_) => ResourceState::Applying,
            Self::Deleting(_) => ResourceState::Deleting,
            Self::Failed(_) => ResourceState::Error,
        }
    }

    /// Whether its cluster is not connected.
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        self.failure().is_some_and(|failure| failure.operation == Some(Operation::Connect))
    }

    /// The failure, if it has one.
    #[must_use]
    pub fn failure(&self) -> Option<&ResourceFailure> {
        match self {
            Self::Failed(failure) | Self::NotConnected(failure) => Some(failure),
            _ => None,
        }
    }

    /// What it waits for, or what failed; none if neither.
    #[must_use]
    pub fn message(&self) -> Option<Text> {
        Some(match self {
            Self::Ready | Self::Applying => return None,
            Self::Skipped(skip) => skip.message(),
            Self::Waiting(message)
            | Self::Contested(message)
            | Self::Held(message)
            | Self::Unresolved(message)
            | Self::Deleting(message) => message.clone(),
            Self::Blocked { by } => format!("waiting for {}", quoted(by)).into(),
            Self::NotConnected(failure) | Self::Failed(failure) => failure.message.clone(),
        })
    }

    /// How much it says about a collection: the progress with the highest weight counts.
    pub(crate) fn weight(&self) -> u8 {
        match self {
            Self::Ready => 0,
            Self::Skipped(_) => 1,
            Self::Contested(_) => 2,
            Self::Waiting(_) => 3,
            Self::Held(_) => 4,
            Self::Applying => 5,
            Self::Blocked { .. } => 6,
            Self::Unresolved(_) => 7,
            Self::NotConnected(_) => 8,
            Self::Deleting(_) => 9,
            Self::Failed(_) => 10,
        }
    }
}

impl Skip {
    fn message(&self) -> Text {
        match self {
            Self::Condition(expression) => format!("`includeWhen` is false: `{expression}`").into(),
            Self::Dependency(id) => format!("`{id}`, which it depends on, is skipped").into(),
            Self::DeletionOnly => "exists only while the instance is being deleted".into(),
            Self::ActiveOnly => "exists only until the instance is deleted".into(),
            Self::Completed => "has completed".into(),
        }
    }
}

/// `a`, `b` and `c` in backticks.
pub(crate) fn quoted<'a>(ids: impl IntoIterator<Item = &'a Text>) -> String {
    let ids: Vec<String> = ids.into_iter().map(|id| format!("`{id}`")).collect();
    match ids.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}
