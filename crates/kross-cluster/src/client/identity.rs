//! Which cluster a server is: the UID of its `kube-system` namespace. A new connection is asked for it before it carries
//! anything else, since its address may lead to another cluster by now, which may accept the same credential.

use std::sync::{Arc, OnceLock};

use futures::future::FutureExt;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use kross_api::FailureReason;
use kross_value::Text;

use super::{Credential, JSON};
use crate::error::Status;
use crate::fence::Fence;
use crate::object::read_object;
use crate::transport::{Call, ConnectionCheck, Timeouts, TransportError};

/// Served from the API server's watch cache: a stale answer is good enough, since the UID never changes.
pub(crate) const IDENTITY_PATH: &str = "/api/v1/namespaces/kube-system?resourceVersion=0";

/// What a server answers to the request for its identity.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum IdentityAnswer {
    /// The UID.
    Uid(String),
    /// It accepts the credential, which may not read the UID, or it has no `kube-system` namespace.
    Hidden,
    /// It does not accept the credential.
    Unauthorized,
    /// It ignores the credential.
    Anonymous,
    /// It is overloaded or failing.
    Busy(StatusCode),
    /// It does not answer like a Kubernetes API server.
    Foreign(StatusCode),
}

impl IdentityAnswer {
    pub(crate) fn read(status: StatusCode, body: &[u8]) -> Self {
        match status {
            StatusCode::OK => match read_object(body) {
                Ok(object) if is_uid(object.uid()) => Self::Uid(object.uid().to_string()),
                _ => Self::Foreign(status),
            },
            StatusCode::FORBIDDEN if is_anonymous(body) => Self::Anonymous,
            StatusCode::FORBIDDEN => Self::Hidden,
            StatusCode::NOT_FOUND if is_without_uid(body) => Self::Hidden,
            StatusCode::UNAUTHORIZED => Self::Unauthorized,
            status if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() => {
                Self::Busy(status)
            }
            status => Self::Foreign(status),
        }
    }
}

/// Whether the server ignored the credential. API servers do so with passwords, which they no longer check, and treat the
/// request as one of this user.
fn is_anonymous(body: &[u8]) -> bool {
    Status::read(body).is_some_and(|status| status.message().contains("User \"system:anonymous\""))
}

/// Whether an API server says that there is no `kube-system` namespace.
fn is_without_uid(body: &[u8]) -> bool {
    Status::read(body)
        .is_some_and(|status| status.about_namespaces().about(None, "kube-system").is_object_missing())
}

/// Whether a text looks like a UID that Kubernetes generated. A hostile server could answer with the id of the local cluster.
fn is_uid(uid: &str) -> bool {
    uid.len() == 36 && uid.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f' | b'-'))
}

/// The identity that all connections of one client must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ExpectedIdentity {
    /// This UID.
    Uid(Text),
    /// No other UID than this one: a server that does not tell its own may be used. The hub's renewals of the Lease must not depend
    /// on whether its API server has time for this question.
    NoOther(Text),
    /// None that the credential may read.
    Hidden,
}

impl ExpectedIdentity {
    /// Whether a connection may be used after this answer.
    fn check(&self, answer: IdentityAnswer) -> Result<(), TransportError> {
        let other = |problem: String| Err(TransportError::OtherCluster { problem });
        let unverified = |reason, problem: String| Err(TransportError::Unverified { reason, problem });
        match (self, answer) {
            (Self::Uid(expected) | Self::NoOther(expected), IdentityAnswer::Uid(uid))
                if *expected == uid.as_str() =>
            {
                Ok(())
            }
            (Self::Hidden, IdentityAnswer::Hidden) => Ok(()),
            // Nobody else has to confirm where the hub is: the next connection may lead there again.
            (Self::NoOther(_), IdentityAnswer::Uid(uid)) => {
                unverified(FailureReason::Unreachable, another_cluster(&uid))
            }
            (Self::NoOther(_), _) => Ok(()),
            (_, IdentityAnswer::Uid(uid)) => other(another_cluster(&uid)),
            (_, IdentityAnswer::Hidden) => other(
                "the credential can no longer read the UID of namespace `kube-system`, so this may be another cluster; allow it to get that namespace".to_owned(),
            ),
            (_, IdentityAnswer::Unauthorized | IdentityAnswer::Anonymous) => {
                let problem = "the server does not accept the credentials".to_owned();
                unverified(FailureReason::Unauthorized, problem)
            }
            (_, IdentityAnswer::Busy(StatusCode::TOO_MANY_REQUESTS)) => {
                let problem = "the server answered 429 Too Many Requests".to_owned();
                unverified(FailureReason::Throttled, problem)
            }
            (_, IdentityAnswer::Busy(status)) => {
                unverified(FailureReason::ServerError, format!("the server answered {status}"))
            }
            (_, IdentityAnswer::Foreign(status)) => {
                other(format!("the server does not answer like a Kubernetes API server: {status}"))
            }
        }
    }
}

fn another_cluster(uid: &str) -> String {
    format!(
        "the server's address now leads to another cluster (UID `{uid}`); check DNS and the load balancer"
    )
}

/// Asks servers for their identity with one credential.
pub(super) struct IdentityRequest {
    agent: Option<HeaderValue>,
    credential: Credential,
}

impl IdentityRequest {
    pub(super) fn new(agent: &str, credential: &Credential) -> Arc<Self> {
        Arc::new(Self { agent: HeaderValue::from_str(agent).ok(), credential: credential.clone() })
    }

    pub(super) async fn call(&self) -> Result<Call, TransportError> {
        let mut headers = HeaderMap::new();
        headers.extend(self.agent.clone().map(|agent| (header::USER_AGENT, agent)));
        headers.insert(header::ACCEPT, HeaderValue::from_static(JSON));
        self.credential.add_to(&mut headers).await?;
        let path = Uri::from_static(IDENTITY_PATH);
        let (body, timeouts, fence) = (bytes::Bytes::new(), Timeouts::default(), Fence::default());
        Ok(Call { method: Method::GET, path, headers, body, deadline: None, timeouts, fence })
    }

    /// The check of new connections. Until the expected identity is known it accepts everything.
    pub(super) fn check(self: &Arc<Self>, expected: &Arc<OnceLock<ExpectedIdentity>>) -> ConnectionCheck {
        let (request, expected, answered) = (Arc::clone(self), Arc::clone(expected), Arc::clone(expected));
        let credential = self.credential.clone();
        ConnectionCheck {
            call: Box::new(move || {
                let request = Arc::clone(&request);
                expected.get().map(|_| async move { request.call().await }.boxed())
            }),
            verdict: Box::new(move |status, body| {
                if status == StatusCode::UNAUTHORIZED {
                    credential.mark_rejected();
                }
                match answered.get() {
                    Some(expected) => expected.check(IdentityAnswer::read(status, body)),
                    None => Ok(()),
                }
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "1a7cd54c-8a42-4c85-a7a6-1f1b93ac90a2";

    #[test]
    fn a_text_that_is_no_generated_uid_is_refused() {
        assert!(is_uid(UID));
        for uid in ["local", "", "https://127.0.0.1:6443", "1A7CD54C-8A42-4C85-A7A6-1F1B93AC90A2"] {
            assert!(!is_uid(uid), "{uid}");
        }
    }

    #[test]
    fn a_connection_is_used_only_if_its_server_answers_as_expected() {
        let verified = ExpectedIdentity::Uid(UID.into());
        assert_eq!(verified.check(IdentityAnswer::Uid(UID.to_owned())), Ok(()));
        assert_eq!(ExpectedIdentity::Hidden.check(IdentityAnswer::Hidden), Ok(()));
        let is_other = |verdict| matches!(verdict, Err(TransportError::OtherCluster { .. }));
        for answer in [
            IdentityAnswer::Uid(UID.replace('1', "2")),
            IdentityAnswer::Hidden,
            IdentityAnswer::Foreign(StatusCode::OK),
            IdentityAnswer::Foreign(StatusCode::FOUND),
            IdentityAnswer::read(StatusCode::NOT_FOUND, b"404 page not found"),
        ] {
            assert!(is_other(verified.check(answer)));
        }
        assert!(is_other(ExpectedIdentity::Hidden.check(IdentityAnswer::Uid(UID.to_owned()))));
        let lenient = ExpectedIdentity::NoOther(UID.into());
        assert_eq!(lenient.check(IdentityAnswer::Uid(UID.to_owned())), Ok(()));
        let verdict = lenient.check(IdentityAnswer::Uid(UID.replace('1', "2")));
        assert!(matches!(
            verdict,
            Err(TransportError::Unverified { reason: FailureReason::Unreachable, .. })
        ));
        for answer in [IdentityAnswer::Hidden, IdentityAnswer::Busy(StatusCode::TOO_MANY_REQUESTS)] {
            assert_eq!(lenient.check(answer), Ok(()));
        }
        for (answer, reason) in [
            (IdentityAnswer::Busy(StatusCode::TOO_MANY_REQUESTS), FailureReason::Throttled),
            (IdentityAnswer::Busy(StatusCode::BAD_GATEWAY), FailureReason::ServerError),
            (IdentityAnswer::Unauthorized, FailureReason::Unauthorized),
        ] {
            let verdict = verified.check(answer);
            assert!(matches!(verdict, Err(TransportError::Unverified { reason: r, .. }) if r == reason));
        }
    }
}
