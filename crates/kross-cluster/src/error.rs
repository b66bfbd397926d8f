//! Turns an answer that is no success, or no answer at all, into an error that says what was attempted on what and where, and
//! that knows its class and when to try again.

use std::fmt;
use std::time::Duration;

use http::{HeaderMap, StatusCode, header};
use kross_api::{FailureReason, Operation, RetryClass};

use crate::ClusterId;
use crate::client::ApiAnswer;
use crate::object::UnreadableObject;
use crate::transport::TransportError;

mod status;

pub use status::{FieldConflict, Missing};

pub(crate) use status::Status;

/// The longest message that is kept.
const LONGEST_MESSAGE: usize = 1024;

/// How much of the end of a longer one is kept, and what stands for its middle.
const LONGEST_END: usize = 256;
const GAP: &str = " … ";
/// The longest wait that a server can impose.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// What was attempted, on what, where.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) cluster: ClusterId,
    pub(crate) operation: Operation,
    /// What a person calls it: a kind and a name.
    pub(crate) target: String,
}

/// A failed operation on a cluster.
///
/// ```text
/// cannot update ConfigMap `shop/web` in cluster `local`: admission webhook "x" denied the request: no
/// ```
#[derive(Clone, Debug)]
pub struct ApiError(Box<Failure>);

#[derive(Clone, Debug)]
struct Failure {
    attempt: Attempt,
    reason: FailureReason,
    message: String,
    code: Option<StatusCode>,
    retry_after: Option<Duration>,
    status: Status,
}

/// When trying the same again makes sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Soon, and then ever more slowly: it may pass by itself.
    Backoff,
    /// When the server asked for it.
    After(Duration),
    /// When something else has changed. Until then it fails again, so retries may be slow.
    WhenChanged,
}

impl ApiError {
    /// From an answer that is no success.
    pub(crate) fn from_answer(attempt: Attempt, answer: &ApiAnswer) -> Self {
        let retry_after = retry_after(&answer.headers);
        Self::from_status(attempt, answer.status, Status::read(&answer.body), retry_after)
    }

    pub(crate) fn from_status(
        attempt: Attempt,
        code: StatusCode,
        status: Option<Status>,
        retry_after: Option<Duration>,
    ) -> Self {
        let status = status.unwrap_or_default();
        let reason = classify(code, &status);
        // Whatever else a server sends is not repeated: it may come from another server than the one that was asked for.
        let message = if status.message.is_empty() { describe(code) } else { status.message.clone() };
        let retry_after = retry_after.or(status.retry_after).map(|wait| wait.min(LONGEST_WAIT));
        Self(Box::new(Failure {
            attempt,
            reason,
            message: sanitise(&message),
            code: Some(code),
            retry_after,
            status,
        }))
    }

    /// The same, with more of a reason.
    pub(crate) fn because(mut self, reason: &str) -> Self {
        self.0.message = sanitise(&format!("{} {reason}", self.0.message));
        self
    }

    /// From a request without an answer.
    pub(crate) fn from_transport(mut attempt: Attempt, error: &TransportError) -> Self {
        let (reason, connecting) = match error {
            TransportError::Timeout { .. } => (FailureReason::Timeout, false),
            TransportError::Credentials { .. } => (FailureReason::Credentials, true),
            TransportError::Tls { certificate: true, .. } => (FailureReason::Credentials, true),
            TransportError::NotConnected { reason, .. } => (*reason, true),
            TransportError::TooLarge { .. } => (FailureReason::ServerError, false),
            TransportError::Broken { .. } | TransportError::Closed => (FailureReason::Unreachable, false),
            TransportError::Address
            | TransportError::Denied { .. }
            | TransportError::Resolve { .. }
            | TransportError::Connect { .. }
            | TransportError::Tls { .. } => (FailureReason::Unreachable, true),
        };
        if connecting {
            attempt.operation = Operation::Connect;
        }
        Self::own(attempt, reason, &error.to_string())
    }

    /// From an answer that cannot be read.
    pub(crate) fn unreadable(attempt: Attempt, error: &UnreadableObject) -> Self {
        Self::own(attempt, FailureReason::ServerError, &error.to_string())
    }

    /// Found out without asking anybody.
    pub(crate) fn own(attempt: Attempt, reason: FailureReason, message: &str) -> Self {
        Self(Box::new(Failure {
            attempt,
            reason,
            message: sanitise(message),
            code: None,
            retry_after: None,
            status: Status::default(),
        }))
    }

    /// A kind that the cluster does not serve.
    pub(crate) fn unknown_kind(attempt: Attempt, message: &str) -> Self {
        let mut error = Self::own(attempt, FailureReason::NotFound, message);
        error.0.status.missing = Some(Missing::Kind);
        error
    }

    /// The class of the failure.
    #[must_use]
    pub fn reason(&self) -> FailureReason {
        self.0.reason
    }

    /// What was being done.
    #[must_use]
    pub fn operation(&self) -> Operation {
        self.0.attempt.operation
    }

    /// Where.
    #[must_use]
    pub fn cluster(&self) -> &ClusterId {
        &self.0.attempt.cluster
    }

    /// What the server said, or what is known in its place: one line, bounded, without control characters.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The status code of the answer, if there was one.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        self.0.code.map(|code| code.as_u16())
    }

    /// When trying again makes sense.
    #[must_use]
    pub fn retry(&self) -> Retry {
        if let Some(wait) = self.0.retry_after {
            return Retry::After(wait);
        }
        match self.0.reason.retry() {
            RetryClass::Transient => Retry::Backoff,
            RetryClass::NeedsChange => Retry::WhenChanged,
        }
    }

    /// What was not found, if that is the failure.
    #[must_use]
    pub fn missing(&self) -> Option<&Missing> {
        if self.0.reason == FailureReason::NotFound { self.0.status.missing.as_ref() } else { None }
    }

    /// Whether the object itself is positively not there.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        matches!(self.missing(), Some(Missing::Object | Missing::Namespace(_)))
    }

    /// The fields that somebody else owns, if that is why an apply was refused.
    #[must_use]
    pub fn conflicts(&self) -> &[FieldConflict] {
        &self.0.status.conflicts
    }

    /// Who owns a label, if that is (among others) why an apply was refused.
    #[must_use]
    pub fn label_conflict(&self, label: &str) -> Option<&FieldConflict> {
        self.conflicts().iter().find(|conflict| {
            conflict.field.strip_prefix(".metadata.labels.").is_some_and(|field| field == label)
        })
    }

    /// Whether something of that name is there already.
    #[must_use]
    pub fn already_exists(&self) -> bool {
        self.0.status.reason == "AlreadyExists"
    }

    /// Whether the namespace is being deleted and takes nothing new.
    #[must_use]
    pub fn namespace_terminating(&self) -> bool {
        self.0.status.namespace_terminating
    }

    /// Whether the version that was asked for is too old, so that only a new list helps.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.0.code == Some(StatusCode::GONE) || matches!(self.0.status.reason.as_str(), "Expired" | "Gone")
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { attempt: Attempt { cluster, operation, target }, message, .. } = &*self.0;
        match operation {
            Operation::Connect => write!(f, "cannot connect to cluster `{cluster}` for {target}: {message}"),
            _ => write!(f, "cannot {operation} {target} in cluster `{cluster}`: {message}"),
        }
    }
}

impl std::error::Error for ApiError {}

fn classify(code: StatusCode, status: &Status) -> FailureReason {
    match status.reason.as_str() {
        "Timeout" | "ServerTimeout" => return FailureReason::Timeout,
        "TooManyRequests" => return FailureReason::Throttled,
        _ => {}
    }
    match code {
        StatusCode::UNAUTHORIZED => FailureReason::Unauthorized,
        // Many webhooks say 403 when they mean that the object is at fault; nobody's permissions would help.
        StatusCode::FORBIDDEN if is_denied_by_admission(&status.message) => FailureReason::Invalid,
        StatusCode::FORBIDDEN => FailureReason::Forbidden,
        StatusCode::NOT_FOUND => FailureReason::NotFound,
        // A version that the cluster has forgotten: asking anew helps.
        StatusCode::GONE => FailureReason::ServerError,
        StatusCode::CONFLICT => FailureReason::Conflict,
        StatusCode::TOO_MANY_REQUESTS => FailureReason::Throttled,
        // An apply that does not fit the schema: the server says 500, though the object is at fault.
        StatusCode::INTERNAL_SERVER_ERROR
            if status.reason.is_empty()
                && status.message.starts_with("failed to create typed patch object") =>
        {
            FailureReason::Invalid
        }
        StatusCode::REQUEST_TIMEOUT | StatusCode::GATEWAY_TIMEOUT => FailureReason::Timeout,
        _ if code.is_client_error() => FailureReason::Invalid,
        _ => FailureReason::ServerError,
    }
}

/// The words that the API server puts before whatever a webhook says.
fn is_denied_by_admission(message: &str) -> bool {
    message.starts_with("admission webhook \"") && message.contains("\" denied the request")
}

fn describe(code: StatusCode) -> String {
    match code.canonical_reason() {
        Some(reason) => format!("the server answered {} {reason}", code.as_u16()),
        None => format!("the server answered {}", code.as_u16()),
    }
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds: u64 = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// One line without control characters. Where it gets too long its middle is left out: what was tried is said at the
/// beginning, and what is wrong, such as `field is immutable` behind the whole value, at the end.
pub(crate) fn sanitise(message: &str) -> String {
    let mut line = String::with_capacity(message.len());
    for word in message.split(|character: char| character.is_control() || character.is_whitespace()) {
        if word.is_empty() {
            continue;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if line.len() > LONGEST_MESSAGE {
        let end = line.floor_char_boundary(LONGEST_MESSAGE - LONGEST_END - GAP.len());
        let begin = line.ceil_char_boundary(line.len() - LONGEST_END);
        line.replace_range(end..begin, GAP);
    }
    line
}

#[cfg(test)]
mod tests;
