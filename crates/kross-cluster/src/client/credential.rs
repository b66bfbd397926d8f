//! The headers that authenticate requests. A client certificate is part of the endpoint's TLS configuration instead.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine;
use http::{HeaderMap, HeaderValue, Request, Response, header};
use kube::client::Body;
use parking_lot::Mutex;
use tower::util::BoxCloneService;
use tower::{BoxError, ServiceExt};

use crate::kubeconfig::exec::ExecSource;
use crate::transport::TransportError;

/// Authenticates requests, apart from a client certificate. Its `Debug` output shows the method only.
#[derive(Clone)]
pub struct Credential(Kind);

#[derive(Clone)]
enum Kind {
    Anonymous,
    Header {
        method: &'static str,
        value: HeaderValue,
        /// Whether the server has rejected it since that was last asked.
        rejected: Arc<AtomicBool>,
    },
    /// From a trusted configuration, by `kube`: reads token files and runs plugins again when needed.
    Trusted(Arc<Mutex<HeaderService>>),
    /// From the output of an allowed `exec` command.
    Exec(Arc<ExecSource>),
}

/// Responds with the headers of the request, after `kube`'s layers have added theirs.
pub(super) type HeaderService = BoxCloneService<Request<Body>, Response<HeaderMap>, BoxError>;

impl Credential {
    /// No header: authentication by client certificate, or none.
    #[must_use]
    pub fn none() -> Self {
        Self(Kind::Anonymous)
    }

    /// A bearer token.
    ///
    /// # Errors
    /// The token is not a valid header value.
    pub fn bearer(token: &str) -> Result<Self, TransportError> {
        Self::header("bearer token", &format!("Bearer {token}"))
    }

    /// A user name and a password.
    ///
    /// # Errors
    /// Never in practice, because they are encoded.
    pub fn basic(user: &str, password: &str) -> Result<Self, TransportError> {
        let encoded = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
        Self::header("password", &format!("Basic {encoded}"))
    }

    pub(crate) fn exec(source: Arc<ExecSource>) -> Self {
        Self(Kind::Exec(source))
    }

    /// The server rejected the credential. One that can be renewed is renewed before the next request.
    pub(super) fn mark_rejected(&self) {
        match &self.0 {
            Kind::Exec(source) => source.mark_rejected(),
            Kind::Header { rejected, .. } => rejected.store(true, Ordering::Relaxed),
            Kind::Anonymous | Kind::Trusted(_) => {}
        }
    }

    /// Whether the server has rejected a token or a password since this was last asked. A server may also reject a valid one while
    /// what it asks about tokens does not answer, so ask it again.
    #[must_use]
    pub fn take_rejection(&self) -> bool {
        matches!(&self.0, Kind::Header { rejected, .. } if rejected.swap(false, Ordering::Relaxed))
    }

    /// When connections that were opened with this credential stop working, if they have to be replaced then.
    #[must_use]
    pub fn expires_at(&self) -> Option<jiff::Timestamp> {
        match &self.0 {
            Kind::Exec(source) => source.certificate_expiry(),
            _ => None,
        }
    }

    pub(super) fn trusted(service: HeaderService) -> Self {
        Self(Kind::Trusted(Arc::new(Mutex::new(service))))
    }

    fn header(method: &'static str, value: &str) -> Result<Self, TransportError> {
        let mut value = HeaderValue::from_str(value).map_err(|_| TransportError::Credentials {
            problem: format!("the {method} has characters that are not allowed in a header"),
        })?;
        value.set_sensitive(true);
        Ok(Self(Kind::Header { method, value, rejected: Arc::default() }))
    }

    pub(super) async fn add_to(&self, headers: &mut HeaderMap) -> Result<(), TransportError> {
        match &self.0 {
            Kind::Anonymous => {}
            Kind::Header { value, .. } => {
                headers.insert(header::AUTHORIZATION, value.clone());
            }
            Kind::Trusted(service) => {
                let service = service.lock().clone();
                let response = service.oneshot(Request::new(Body::empty())).await.map_err(|_| {
                    // The output of a plugin may contain a part of a token, so it is not repeated.
                    TransportError::Credentials {
                        problem: "the token file cannot be read or the credential plugin failed".to_owned(),
                    }
                })?;
                headers.extend(response.into_body());
            }
            Kind::Exec(source) => {
                let header = source
                    .header()
                    .await
                    .map_err(|error| TransportError::Credentials { problem: error.to_string() })?;
                headers.extend(header.map(|value| (header::AUTHORIZATION, value)));
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            Kind::Anonymous => "Credential(none)",
            Kind::Header { method, .. } => method,
            Kind::Exec(_) => "Credential(from a command)",
            Kind::Trusted(_) => "Credential(from the local configuration)",
        })
    }
}
