//! Turns who we are into headers. A client certificate is no part of it: that belongs to the endpoint's TLS.

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use http::{HeaderMap, HeaderValue, Request, Response, header};
use kube::client::Body;
use parking_lot::Mutex;
use tower::util::BoxCloneService;
use tower::{BoxError, ServiceExt};

use crate::kubeconfig::exec::ExecSource;
use crate::transport::TransportError;

/// Proof of who is asking, beside a client certificate. Its `Debug` shows only what sort it is.
#[derive(Clone)]
pub struct Credential(Kind);

#[derive(Clone)]
enum Kind {
    Anonymous,
    Header {
        sort: &'static str,
        value: HeaderValue,
    },
    /// Whatever `kube` made of a trusted configuration: token files that are read again, plugins that are run again.
    Trusted(Arc<Mutex<HeaderService>>),
    /// What an allowed command of a kubeconfig prints.
    Exec(Arc<ExecSource>),
}

/// Answers a request with the headers that it was given on the way.
pub(super) type HeaderService = BoxCloneService<Request<Body>, Response<HeaderMap>, BoxError>;

impl Credential {
    /// No header: the client certificate speaks, or nobody.
    #[must_use]
    pub fn none() -> Self {
        Self(Kind::Anonymous)
    }

    /// A bearer token.
    ///
    /// # Errors
    /// The token is nothing that a header can carry.
    pub fn bearer(token: &str) -> Result<Self, TransportError> {
        Self::header("bearer token", &format!("Bearer {token}"))
    }

    /// A user name and a password.
    ///
    /// # Errors
    /// Never in practice: they are encoded.
    pub fn basic(user: &str, password: &str) -> Result<Self, TransportError> {
        let encoded = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
        Self::header("password", &format!("Basic {encoded}"))
    }

    pub(crate) fn exec(source: Arc<ExecSource>) -> Self {
        Self(Kind::Exec(source))
    }

    /// The server did not take it. One that can be renewed is, before the next request.
    pub(super) fn mark_rejected(&self) {
        if let Kind::Exec(source) = &self.0 {
            source.mark_rejected();
        }
    }

    /// When connections that were opened with it stop working: then open a new one. None for what is renewed in place.
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

    fn header(sort: &'static str, value: &str) -> Result<Self, TransportError> {
        let mut value = HeaderValue::from_str(value).map_err(|_| TransportError::Credentials {
            problem: format!("the {sort} has characters that a header cannot carry"),
        })?;
        value.set_sensitive(true);
        Ok(Self(Kind::Header { sort, value }))
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
                    // What a plugin printed may be half a token, so nothing of it is repeated.
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
            Kind::Header { sort, .. } => sort,
            Kind::Exec(_) => "Credential(from a command)",
            Kind::Trusted(_) => "Credential(from the local configuration)",
        })
    }
}
