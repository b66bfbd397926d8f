//! Probes a cluster: which one it is, and whether it accepts the credential.

use std::time::Duration;

use http::{HeaderMap, Method, StatusCode, Uri};
use kross_api::{ConnectStep, ConnectionAdvice, ConnectionFailure, FailureReason};
use tokio::time::{Instant, timeout};

use super::connection_state::{ClusterIdentity, failed};
use crate::client::{IdentityAnswer, Transports};
use crate::error::sanitise;
use crate::fence::Fence;
use crate::transport::{Call, Endpoint, Timeouts, Transport, TransportError, TransportOptions};

/// What a cluster answers to a probe.
pub(super) enum Answer {
    /// Its UID.
    Uid(String),
    /// It accepts the credential, which may not read the UID.
    Unidentified,
    /// It is overloaded or failing.
    Busy(ConnectionFailure),
}

/// Asks a cluster which one it is. Every answer proves that a server is there.
pub(super) async fn identify(transports: &Transports, limit: Duration) -> Result<Answer, ConnectionFailure> {
    let answer = match timeout(limit, transports.identify(limit)).await {
        Ok(answer) => answer.map_err(|error| unanswered(&error))?,
        Err(_) => return Err(unanswered(&TransportError::Timeout { after: limit })),
    };
    match answer {
        IdentityAnswer::Uid(uid) => Ok(Answer::Uid(uid)),
        IdentityAnswer::Hidden => Ok(Answer::Unidentified),
        IdentityAnswer::Anonymous => Err(unauthorized(
            "the cluster does not accept the credentials: it authenticated the request as `system:anonymous`",
            ConnectionAdvice::AddCredential,
        )),
        IdentityAnswer::Unauthorized => {
            let cause = "the cluster does not accept the credentials";
            Err(unauthorized(cause, ConnectionAdvice::RenewCredential))
        }
        IdentityAnswer::Busy(status) => {
            let throttled = status == StatusCode::TOO_MANY_REQUESTS;
            let reason = if throttled { FailureReason::Throttled } else { FailureReason::ServerError };
            let cause = format!("the cluster answered {status}");
            Ok(Answer::Busy(failed(ConnectStep::Reach, reason, cause, ConnectionAdvice::Retried)))
        }
        IdentityAnswer::Foreign(StatusCode::OK) => {
            Err(unexpected("the answer is not that of a Kubernetes API server".to_owned()))
        }
        // Something in front of the API server does not know the path.
        IdentityAnswer::Foreign(StatusCode::NOT_FOUND) => Err(unexpected(
            "the server answered 404 Not Found for namespace `kube-system` without saying that it does not exist"
                .to_owned(),
        )),
        IdentityAnswer::Foreign(status) => Err(unexpected(format!("the server answered {status}"))),
    }
}

fn unauthorized(cause: &str, advice: ConnectionAdvice) -> ConnectionFailure {
    failed(ConnectStep::Authenticate, FailureReason::Unauthorized, cause, advice)
}

/// The failure of a server that does not answer like an API server.
fn unexpected(cause: String) -> ConnectionFailure {
    failed(ConnectStep::Reach, FailureReason::ServerError, cause, ConnectionAdvice::CheckServer)
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
    /// The cluster's identity. Without a UID it is the server's URL, even if the UID was known before: the server may be that
    /// of another cluster by now.
    pub(super) fn identity(&self, server: &str, anchor: &str) -> Result<ClusterIdentity, ConnectionFailure> {
        match self {
            Self::Uid(uid) => Ok(ClusterIdentity::verified(uid, anchor)),
            Self::Unidentified => Ok(ClusterIdentity::unverified(server, anchor)),
            Self::Busy(failure) => Err(failure.clone()),
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
        timeouts: Timeouts::default(),
    };
    match Transport::new(endpoint.without_certificate(), options).send(&call).await {
        Ok(_) | Err(TransportError::Tls { certificate: true, .. }) => true,
        Err(_) => false,
    }
}
