//! Probes a cluster: which one it is, and whether it accepts the credential.

use std::time::Duration;

use http::{HeaderMap, Method, StatusCode, Uri};
use kross_api::{ConnectStep, ConnectionAdvice, ConnectionFailure, FailureReason};
use tokio::time::{Instant, timeout};

use super::connection_state::{ClusterIdentity, failed};
use crate::client::{ApiRequest, ClusterClient};
use crate::error::{Status, sanitise};
use crate::fence::Fence;
use crate::object::read_object;
use crate::transport::{Call, Endpoint, Transport, TransportError, TransportOptions};

/// Served from the API server's watch cache: a stale answer is good enough, since the UID never changes.
const IDENTITY: &str = "/api/v1/namespaces/kube-system?resourceVersion=0";

/// What a cluster answers to a probe.
pub(super) enum Answer {
    /// Its UID.
    Uid(String),
    /// It accepts the credential, which may not read the UID.
    Unidentified,
    /// It is overloaded or failing.
    Busy(ConnectionFailure),
}

/// Reads a cluster's UID. Every answer proves that a server is there.
pub(super) async fn identify(client: &ClusterClient, limit: Duration) -> Result<Answer, ConnectionFailure> {
    let request = client.exchange(ApiRequest::get(IDENTITY.to_owned()));
    let answer = match timeout(limit, request).await {
        Ok(answer) => answer.map_err(|error| unanswered(&error))?,
        Err(_) => return Err(unanswered(&TransportError::Timeout { after: limit })),
    };
    match answer.status {
        StatusCode::OK => match read_object(&answer.body) {
            Ok(object) if is_uid(object.uid()) => Ok(Answer::Uid(object.uid().to_string())),
            _ => Err(unexpected("the answer is not that of a Kubernetes API server".to_owned())),
        },
        StatusCode::FORBIDDEN if is_anonymous(&answer.body) => Err(unauthorized(
            "the cluster does not accept the credentials: it authenticated the request as `system:anonymous`",
            ConnectionAdvice::AddCredential,
        )),
        StatusCode::FORBIDDEN | StatusCode::NOT_FOUND => Ok(Answer::Unidentified),
        StatusCode::UNAUTHORIZED => {
            let cause = "the cluster does not accept the credentials";
            Err(unauthorized(cause, ConnectionAdvice::RenewCredential))
        }
        status if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() => {
            let throttled = status == StatusCode::TOO_MANY_REQUESTS;
            let reason = if throttled { FailureReason::Throttled } else { FailureReason::ServerError };
            let cause = format!("the cluster answered {status}");
            Ok(Answer::Busy(failed(ConnectStep::Reach, reason, cause, ConnectionAdvice::Retried)))
        }
        status => Err(unexpected(format!("the server answered {status}"))),
    }
}

fn unauthorized(cause: &str, advice: ConnectionAdvice) -> ConnectionFailure {
    failed(ConnectStep::Authenticate, FailureReason::Unauthorized, cause, advice)
}

/// The failure of a server that does not answer like an API server.
fn unexpected(cause: String) -> ConnectionFailure {
    failed(ConnectStep::Reach, FailureReason::ServerError, cause, ConnectionAdvice::CheckServer)
}

/// Whether the server ignored the credential. API servers do so with passwords, which they no longer check, and treat the
/// request as one of this user.
fn is_anonymous(body: &[u8]) -> bool {
    Status::read(body).is_some_and(|status| status.message().contains("User \"system:anonymous\""))
}

/// Whether a text looks like a UID that Kubernetes generated. A hostile server could answer with the id of the local cluster.
fn is_uid(uid: &str) -> bool {
    uid.len() == 36 && uid.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f' | b'-'))
}

/// The failure of a request that got no answer.
fn unanswered(error: &TransportError) -> ConnectionFailure {
    let (step, reason, advice) = match error {
        TransportError::Tls { certificate: true, .. } => {
            (ConnectStep::Authenticate, FailureReason::Credentials, ConnectionAdvice::CheckCertificates)
        }
        TransportError::Denied { .. } => {
            (ConnectStep::Parse, FailureReason::Credentials, ConnectionAdvice::None)
        }
        TransportError::Credentials { .. } => {
            (ConnectStep::Authenticate, FailureReason::Credentials, ConnectionAdvice::CheckKubeconfig)
        }
        // A cluster that accepts connections and never answers is as unreachable as any other.
        TransportError::Timeout { .. } => {
            (ConnectStep::Reach, FailureReason::Unreachable, ConnectionAdvice::CheckNetwork)
        }
        _ => (ConnectStep::Reach, FailureReason::Unreachable, ConnectionAdvice::CheckServerAndNetwork),
    };
    failed(step, reason, sanitise(&error.to_string()), advice)
}

impl Answer {
    /// The cluster's identity. Without a UID in the answer, the one that is known from before is kept.
    pub(super) fn identity(
        self,
        server: &str,
        known: Option<&ClusterIdentity>,
    ) -> Result<ClusterIdentity, ConnectionFailure> {
        match self {
            Self::Uid(uid) => Ok(ClusterIdentity::verified(&uid)),
            Self::Unidentified => Ok(known.cloned().unwrap_or_else(|| ClusterIdentity::unverified(server))),
            Self::Busy(failure) => Err(failure),
        }
    }
}

/// Whether any server answers at all. Sends no credential.
pub(super) async fn is_answering(endpoint: &Endpoint, limit: Duration) -> bool {
    let options = TransportOptions {
        connect_timeout: limit,
        tls_timeout: limit,
        max_streams: 1,
        ..TransportOptions::default()
    };
    let call = Call {
        method: Method::GET,
        path: Uri::from_static("/readyz"),
        headers: HeaderMap::new(),
        body: bytes::Bytes::new(),
        deadline: Some(Instant::now() + limit),
        fence: Fence::default(),
    };
    match Transport::new(endpoint.without_certificate(), options).send(&call).await {
        Ok(_) | Err(TransportError::Tls { certificate: true, .. }) => true,
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_no_generated_uid_is_refused() {
        assert!(is_uid("1a7cd54c-8a42-4c85-a7a6-1f1b93ac90a2"));
        for uid in ["local", "", "https://127.0.0.1:6443", "1A7CD54C-8A42-4C85-A7A6-1F1B93AC90A2"] {
            assert!(!is_uid(uid), "{uid}");
        }
    }
}
