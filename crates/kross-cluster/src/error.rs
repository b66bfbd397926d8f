//! Errors of requests to a cluster: what was attempted on which object in which cluster, the class of the failure, and
//! when to retry.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use http::{HeaderMap, StatusCode, header};
use kross_api::{FailureReason, Operation, RetryClass};

use crate::ClusterId;
use crate::client::ApiResponse;
use crate::object::UnreadableObject;
use crate::transport::TransportError;

mod status;

pub use status::{FieldConflict, Missing, without_keys};

pub(crate) use status::Status;

/// The maximum length of a message.
const MAX_MESSAGE: usize = 1024;

/// How much of the end of a longer message is kept, and what replaces its middle.
const MAX_END: usize = 256;
const ELLIPSIS: &str = " … ";
/// What to do about a response that no API server sends.
const CHECK_PROXY: &str = "check the load balancer or proxy in front of the API server";
/// The longest delay that a server can ask for.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// What was attempted, on what, and where.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) cluster: ClusterId,
    pub(crate) operation: Operation,
    /// The kind and name, for messages.
    pub(crate) target: String,
}

/// A failed request to a cluster.
///
/// ```text
/// cannot update ConfigMap `shop/web` in cluster `local`: admission webhook "x" denied the request: no
/// ```
#[derive(Clone, Debug)]
pub struct ApiError(Box<ErrorDetails>);

#[derive(Clone, Debug)]
struct ErrorDetails {
    attempt: Attempt,
    reason: FailureReason,
    message: String,
    code: Option<StatusCode>,
    retry_after: Option<Duration>,
    status: Status,
    /// Whether the response, or all responses together, exceed a limit.
    too_large: bool,
    /// Whether nothing was sent because this process does not hold the Lease.
    fenced: bool,
}

/// When to retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// With exponential backoff: the failure may pass.
    Backoff,
    /// After the time that the server asked for.
    After(Duration),
    /// When something has changed. Until then a retry fails again, so retries may be rare.
    WhenChanged,
}

impl ApiError {
    /// From a response without success.
    pub(crate) fn from_response(attempt: Attempt, response: &ApiResponse) -> Self {
        let retry_after = retry_after(&response.headers);
        Self::from_status(attempt, response.status, Status::read(&response.body), retry_after)
    }

    pub(crate) fn from_status(
        attempt: Attempt,
        code: StatusCode,
        status: Option<Status>,
        retry_after: Option<Duration>,
    ) -> Self {
        let status = status.unwrap_or_default();
        let reason = classify(code, &status);
        // Nothing but a `Status` is quoted: it may come from another server than the expected one.
        let message = if status.message.is_empty() { describe(code) } else { status.message.clone() };
        let retry_after = retry_after.or(status.retry_after).map(|wait| wait.min(MAX_WAIT));
        Self(Box::new(ErrorDetails {
            attempt,
            reason,
            message: sanitise(&message),
            code: Some(code),
            retry_after,
            status,
            too_large: false,
            fenced: false,
        }))
    }

    /// From a response that no API server sends: what is wrong with it, and what to check.
    pub(crate) fn unexpected_response(attempt: Attempt, problem: &str) -> Self {
        Self::new(attempt, FailureReason::ServerError, &format!("{problem}; {CHECK_PROXY}"))
    }

    /// Adds what proves nothing about a response, and what to check.
    pub(crate) fn without_proof(mut self, problem: &str) -> Self {
        self.0.message = sanitise(&format!("{}; {problem}; {CHECK_PROXY}", self.0.message));
        self
    }

    /// The same error, now that a complete discovery does not list the kind.
    pub(crate) fn of_unserved_kind(mut self) -> Self {
        self.0.message = sanitise(&format!("{}; discovery does not list the kind", self.0.message));
        self.0.status.missing = Some(Missing::Kind);
        self
    }

    /// Whether the path of the request may be one that the cluster does not serve.
    pub(crate) fn may_be_unserved(&self) -> bool {
        self.missing() == Some(&Missing::Unexplained) && !self.0.status.names_object()
    }

    /// Adds a reason to the message.
    pub(crate) fn with_reason(mut self, reason: &str) -> Self {
        self.0.message = sanitise(&format!("{} {reason}", self.0.message));
        self
    }

    /// From a request without a response.
    pub(crate) fn from_transport(mut attempt: Attempt, error: &TransportError) -> Self {
        let (reason, connecting) = match error {
            TransportError::Timeout { .. } => (FailureReason::Timeout, false),
            TransportError::Credentials { .. } => (FailureReason::Credentials, true),
            TransportError::Tls { certificate: true, .. } => (FailureReason::Credentials, true),
            TransportError::NotConnected { reason, .. } | TransportError::Unverified { reason, .. } => {
                (*reason, true)
            }
            TransportError::OtherCluster { .. } => (FailureReason::Credentials, true),
            TransportError::TooLarge { .. } => (FailureReason::ServerError, false),
            // The cluster is fine: another process leads.
            TransportError::Fenced => (FailureReason::Conflict, false),
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
        let mut failed = Self::new(attempt, reason, &error.to_string());
        failed.0.too_large = matches!(error, TransportError::TooLarge { .. });
        failed.0.fenced = *error == TransportError::Fenced;
        failed
    }

    /// Whether the response exceeds the limit: a list may succeed in smaller pages.
    pub(crate) fn is_too_large(&self) -> bool {
        self.0.too_large
    }

    /// Whether nothing was sent because this process does not hold the Lease. That says nothing about the cluster.
    #[must_use]
    pub fn is_fenced(&self) -> bool {
        self.0.fenced
    }

    /// From a response that cannot be parsed.
    pub(crate) fn unreadable(attempt: Attempt, error: &UnreadableObject) -> Self {
        if error.is_foreign() {
            return Self::unexpected_response(attempt, &error.to_string());
        }
        Self::new(attempt, FailureReason::ServerError, &error.to_string())
    }

    /// A cluster sends more than a limit allows. That lasts until somebody deletes something or raises the limit.
    pub(crate) fn over_limit(attempt: Attempt, problem: &str) -> Self {
        let mut error = Self::new(attempt, FailureReason::ServerError, problem);
        error.0.too_large = true;
        error
    }

    /// A failure that was found without a request.
    pub(crate) fn new(attempt: Attempt, reason: FailureReason, message: &str) -> Self {
        Self(Box::new(ErrorDetails {
            attempt,
            reason,
            message: sanitise(message),
            code: None,
            retry_after: None,
            status: Status::default(),
            too_large: false,
            fenced: false,
        }))
    }

    /// The cluster does not serve a kind.
    pub(crate) fn unknown_kind(attempt: Attempt, message: &str) -> Self {
        let mut error = Self::new(attempt, FailureReason::NotFound, message);
        error.0.status.missing = Some(Missing::Kind);
        error
    }

    /// The class of the failure.
    #[must_use]
    pub fn reason(&self) -> FailureReason {
        self.0.reason
    }

    /// What was attempted.
    #[must_use]
    pub fn operation(&self) -> Operation {
        self.0.attempt.operation
    }

    /// The cluster.
    #[must_use]
    pub fn cluster(&self) -> &ClusterId {
        &self.0.attempt.cluster
    }

    /// The message of the server, or ours: one line of bounded length, without control characters.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The message for an object that has values of a Secret: what a server says about such an object may quote them, so that
    /// only the reason and the field are kept.
    #[must_use]
    pub fn message_without_values(&self) -> Cow<'_, str> {
        let (Some(code), false) = (self.0.code, self.quotes_no_values()) else {
            return Cow::Borrowed(self.message());
        };
        let Status { reason, fields, .. } = &self.0.status;
        let mut message = describe(code);
        if !reason.is_empty() && reason.bytes().all(|byte| byte.is_ascii_alphabetic()) && reason.len() < 40 {
            message.push_str(&format!(" ({reason})"));
        }
        if !fields.is_empty() {
            message.push_str(&format!(" about `{}`", fields.join("`, `")));
        }
        message.push_str("; its message is not shown, because the object may have values of a Secret");
        Cow::Owned(message)
    }

    /// Whether a message is one that API servers write without looking at the content of the object.
    fn quotes_no_values(&self) -> bool {
        let message = self.message();
        match self.code() {
            Some(401 | 404 | 429) => true,
            Some(403) => {
                self.namespace_terminating()
                    || (message.contains(" is forbidden: User \"")
                        && message.contains(" cannot ")
                        && !message.contains("admission"))
                    || message.contains(" is forbidden: exceeded quota: ")
            }
            _ => false,
        }
    }

    /// The status code of the response, if there was one.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        self.0.code.map(|code| code.as_u16())
    }

    /// When to retry.
    #[must_use]
    pub fn retry(&self) -> Retry {
        if let Some(wait) = self.0.retry_after {
            return Retry::After(wait);
        }
        // Nothing has to change in the cluster before the API server answers again.
        if self.missing() == Some(&Missing::Unexplained) {
            return Retry::Backoff;
        }
        if self.0.too_large {
            return Retry::WhenChanged;
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

    /// Whether the cluster does not serve the kind, as a complete discovery says that was fetched since the request.
    #[must_use]
    pub fn is_kind_not_served(&self) -> bool {
        self.missing() == Some(&Missing::Kind)
    }

    /// Whether the API server says that the object, or its namespace, does not exist.
    #[must_use]
    pub fn is_object_not_found(&self) -> bool {
        matches!(self.missing(), Some(Missing::Object | Missing::Namespace(_)))
    }

    /// The fields that other managers own, if that is why an apply was rejected.
    #[must_use]
    pub fn conflicts(&self) -> &[FieldConflict] {
        &self.0.status.conflicts
    }

    /// The manager of a label, if it is one of the conflicts of an apply.
    #[must_use]
    pub fn label_conflict(&self, label: &str) -> Option<&FieldConflict> {
        self.conflicts().iter().find(|conflict| {
            conflict.field.strip_prefix(".metadata.labels.").is_some_and(|field| field == label)
        })
    }

    /// Whether the namespace is being deleted and accepts no new objects.
    #[must_use]
    pub fn namespace_terminating(&self) -> bool {
        self.0.status.namespace_terminating
    }

    /// Whether the resource version has expired, so that a new list is needed.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.0.code == Some(StatusCode::GONE) || matches!(self.0.status.reason.as_str(), "Expired" | "Gone")
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ErrorDetails { attempt: Attempt { cluster, operation, target }, message, .. } = &*self.0;
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
        // Many webhooks respond with 403 if the object is invalid; permissions would not help.
        StatusCode::FORBIDDEN if is_denied_by_admission(&status.message) => FailureReason::Invalid,
        StatusCode::FORBIDDEN => FailureReason::Forbidden,
        StatusCode::NOT_FOUND => FailureReason::NotFound,
        // The resource version has expired: a new request helps.
        StatusCode::GONE => FailureReason::ServerError,
        StatusCode::CONFLICT => FailureReason::Conflict,
        StatusCode::TOO_MANY_REQUESTS => FailureReason::Throttled,
        // The server responds with 500 to an apply that does not match the schema, although the object is invalid.
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

/// The prefix that the API server adds to the message of a webhook.
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

/// Characters that are not shown, or change how others are: what a server says must not look like something else.
pub(crate) fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// One line without control characters and characters that are not shown. If it is too long, its middle is left out: the beginning has what was
/// attempted, and the end the cause, such as `field is immutable` after a long value.
pub(crate) fn sanitise(message: &str) -> String {
    let mut line = String::with_capacity(message.len());
    for word in message.split(|character: char| is_hidden(character) || character.is_whitespace()) {
        if word.is_empty() {
            continue;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if line.len() > MAX_MESSAGE {
        let end = line.floor_char_boundary(MAX_MESSAGE - MAX_END - ELLIPSIS.len());
        let begin = line.ceil_char_boundary(line.len() - MAX_END);
        line.replace_range(end..begin, ELLIPSIS);
    }
    line
}

#[cfg(test)]
mod tests;
