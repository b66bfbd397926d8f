//! The check of a new connection: a request that is sent over it before any other.

use bytes::Bytes;
use futures::future::BoxFuture;
use http::StatusCode;

use super::{Call, TransportError};

/// The request to send, if there is anything to check yet.
type CheckCall = dyn Fn() -> Option<BoxFuture<'static, Result<Call, TransportError>>> + Send + Sync;
/// Whether the connection may be used after this answer.
type Verdict = dyn Fn(StatusCode, &Bytes) -> Result<(), TransportError> + Send + Sync;

/// Decides whether a new connection may be used.
pub(crate) struct ConnectionCheck {
    pub(crate) call: Box<CheckCall>,
    pub(crate) verdict: Box<Verdict>,
}
