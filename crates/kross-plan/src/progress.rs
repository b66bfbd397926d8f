//! How far a node or one of its objects is, as an enum with data, and what status and conditions say of it.

use std::sync::Arc;

use jiff::Timestamp;
use kross_api::{ConnectionFailure, FailureReason, Operation, ResourceState};
use kross_value::Text;

/// How far a node or one of its objects is.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// As desired and ready.
    Ready,
    /// Left out.
    Skipped(Skip),
    /// Applied, but not ready, or an external object that is not there.
    Waiting(Text),
    /// Must wait for its namespace or for the definition of its kind.
    Held(Text),
    /// Differs from what is desired and is to be written now.
    Applying,
    /// Waits for other nodes to be ready.
    Blocked {
        /// Their ids.
        by: Vec<Text>,
    },
    /// An expression waits for data that is not there yet.
    Unresolved(Text),
    /// Its cluster did not answer yet.
    Unconnected(ResourceFailure),
    /// Somebody deleted the object, and it is not gone yet.
    Deleting(Text),
    /// Failed.
    Failed(ResourceFailure),
}

/// Why a node is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Skip {
    /// An expression of `includeWhen` is false.
    Condition(Text),
    /// A node that it needs is left out.
    Dependency(Text),
    /// It exists only while the instance is being deleted.
    DeletionOnly,
    /// It exists only while the instance lives.
    ActiveOnly,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceFailure {
    /// What was being done.
    pub operation: Option<Operation>,
    /// The class of the failure.
    pub reason: FailureReason,
    /// What went wrong, in a sentence.
    pub message: Text,
    /// The error in its own words, as expressions see it.
    pub error: Text,
    /// Since when.
    pub since: Option<Timestamp>,
    /// Why the cluster is not connected, if that is what went wrong.
    pub connection: Option<Arc<ConnectionFailure>>,
}

impl ResourceFailure {
    /// The cluster that people know by this name is not connected.
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

    /// Nobody has tried yet to connect to the cluster that people know by this name.
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

    /// An expression, or what came out of it, cannot be used.
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

    /// Another owner is in the way.
    #[must_use]
    pub fn conflict(message: impl Into<Text>) -> Self {
        Self { reason: FailureReason::Conflict, ..Self::expression(message) }
    }
}

impl Progress {
    /// Whether nodes that need this one can go on.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        matches!(self, Self::Ready)
    }

    /// Whether nothing more is to come.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        matches!(self, Self::Ready | Self::Skipped(_))
    }

    /// Whether everything that it desires is written.
    #[must_use]
    pub fn is_applied(&self) -> bool {
        matches!(self, Self::Ready | Self::Skipped(_) | Self::Waiting(_))
    }

    /// Whether it is not known what the objects should be, so that none may be pruned.
    #[must_use]
    pub fn is_unresolved(&self) -> bool {
        matches!(self, Self::Blocked { .. } | Self::Unresolved(_))
    }

    /// The word in status.
    #[must_use]
    pub fn state(&self) -> ResourceState {
        match self {
            Self::Ready => ResourceState::Ready,
            Self::Skipped(_) => ResourceState::Skipped,
            Self::Waiting(_) | Self::Unresolved(_) | Self::Unconnected(_) => ResourceState::Pending,
            Self::Held(_) | Self::Blocked { .. } => ResourceState::Blocked,
            Self::Applying => ResourceState::Applying,
            Self::Deleting(_) => ResourceState::Deleting,
            Self::Failed(_) => ResourceState::Error,
        }
    }

    /// Whether its cluster does not answer.
    #[must_use]
    pub fn is_dark(&self) -> bool {
        self.failure().is_some_and(|failure| failure.operation == Some(Operation::Connect))
    }

    /// What went wrong, if something did.
    #[must_use]
    pub fn failure(&self) -> Option<&ResourceFailure> {
        match self {
            Self::Failed(failure) | Self::Unconnected(failure) => Some(failure),
            _ => None,
        }
    }

    /// What is being waited for, or what went wrong. None when all is well.
    #[must_use]
    pub fn message(&self) -> Option<Text> {
        Some(match self {
            Self::Ready | Self::Applying => return None,
            Self::Skipped(skip) => skip.message(),
            Self::Waiting(message)
            | Self::Held(message)
            | Self::Unresolved(message)
            | Self::Deleting(message) => message.clone(),
            Self::Blocked { by } => format!("waits for {}", quoted(by)).into(),
            Self::Unconnected(failure) | Self::Failed(failure) => failure.message.clone(),
        })
    }

    /// The larger, the more it says about a collection that contains it.
    pub(crate) fn weight(&self) -> u8 {
        match self {
            Self::Ready => 0,
            Self::Skipped(_) => 1,
            Self::Waiting(_) => 2,
            Self::Held(_) => 3,
            Self::Applying => 4,
            Self::Blocked { .. } => 5,
            Self::Unresolved(_) => 6,
            Self::Unconnected(_) => 7,
            Self::Deleting(_) => 8,
            Self::Failed(_) => 9,
        }
    }
}

impl Skip {
    fn message(&self) -> Text {
        match self {
            Self::Condition(expression) => format!("`includeWhen` is false: `{expression}`").into(),
            Self::Dependency(id) => format!("`{id}`, which it needs, is skipped").into(),
            Self::DeletionOnly => "exists only while the instance is being deleted".into(),
            Self::ActiveOnly => "exists only while the instance lives".into(),
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
