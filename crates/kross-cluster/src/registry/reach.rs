//! Goes to a cluster and finds out which one it is and whether it takes the credential.

use std::time::Duration;

use http::{HeaderMap, Method, StatusCode, Uri};
use kross_api::{ConnectStep, ConnectionAdvice, ConnectionFailure, FailureReason};
use tokio::time::{Instant, timeout};

use super::connection_state::{ClusterIdentity, failed};
use crate::client::{ApiRequest, ClusterClient};
use crate::error::{Status, sanitise};
use crate::object::read_object;
use crate::transport::{Call, Endpoint, Transport, TransportError, TransportOptions};

/// From the server's memory: an old answer is good enough, since the UID never changes.
const IDENTITY: &str = "/api/v1/namespaces/kube-system?resourceVersion=0";

/// What the cluster says about itself.
pub(super) enum Answer {
    /// Its UID.
    Uid(String),
    /// It takes the credential, which may not read the UID.
    Anonymous,
    /// It is there but has something else to do.
    Busy(ConnectionFailure),
}

/// Asks a cluster who it is. Whatever it answers, it is there.
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
        StatusCode::FORBIDDEN | StatusCode::NOT_FOUND => Ok(Answer::Anonymous),
        StatusCode::UNAUTHORIZED => {
            let cause = "the cluster does not accept the credentials";
            Err(unauthorized(cause, ConnectionAdvice::RenewCredential))
        }
        status if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() => {
            let throttled = status == StatusCode::TOO_MANY_REQUESTS;
            let reason = if throttled { FailureReason::Throttled } else { FailureReason::ServerError };
            let cause = format!("the cluster answers {status}");
            Ok(Answer::Busy(failed(ConnectStep::Reach, reason, cause, ConnectionAdvice::Retried)))
        }
        status => Err(unexpected(format!("the server answers {status}"))),
    }
}

fn unauthorized(cause: &str, advice: ConnectionAdvice) -> ConnectionFailure {
    failed(ConnectStep::Authenticate, FailureReason::Unauthorized, cause, advice)
}

/// The failure of a server that answers as no API server does.
fn unexpected(cause: String) -> ConnectionFailure {
    failed(ConnectStep::Reach, FailureReason::ServerError, cause, ConnectionAdvice::CheckServer)
}

/// Whether the server passed over our credential. It does so with passwords, which no API server checks any more, and calls
/// whoever asks by this name.
fn is_anonymous(body: &[u8]) -> bool {
    Status::read(body).is_some_and(|status| status.message().contains("User \"system:anonymous\""))
}

/// Whether it looks like the UIDs that Kubernetes makes. A server could answer anything, also the id of the local cluster.
fn is_uid(uid: &str) -> bool {
    uid.len() == 36 && uid.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f' | b'-'))
}

/// The failure of a request without an answer.
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
        // A cluster that accepts connections and never answers is as dark as any other.
        TransportError::Timeout { .. } => {
            (ConnectStep::Reach, FailureReason::Unreachable, ConnectionAdvice::CheckNetwork)
        }
        _ => (ConnectStep::Reach, FailureReason::Unreachable, ConnectionAdvice::CheckServerAndNetwork),
    };
    failed(step, reason, sanitise(&error.to_string()), advice)
}

impl Answer {
    /// Which cluster it is. What was known before stays where the answer does not say.
    pub(super) fn identity(
        self,
        server: &str,
        known: Option<&ClusterIdentity>,
    ) -> Result<ClusterIdentity, ConnectionFailure> {
        match self {
            Self::Uid(uid) => Ok(ClusterIdentity::verified(&uid)),
            Self::Anonymous => Ok(known.cloned().unwrap_or_else(|| ClusterIdentity::unverified(server))),
            Self::Busy(failure) => Err(failure),
        }
    }
}

/// Whether anybody answers at all. Shows no credential.
pub(super) async fn knock(endpoint: &Endpoint, limit: Duration) -> bool {
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
    fn only_what_looks_like_a_uid_is_taken_for_one() {
        assert!(is_uid("1a7cd54c-8a42-4c85-a7a6-1f1b93ac90a2"));
        for uid in ["local", "", "https://127.0.0.1:6443", "1A7CD54C-8A42-4C85-A7A6-1F1B93AC90A2"] {
            assert!(!is_uid(uid), "{uid}");
        }
    }
}
