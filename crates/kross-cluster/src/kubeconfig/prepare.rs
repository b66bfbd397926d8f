//! Turns an accepted kubeconfig into an endpoint and a credential: checks the expiry of its certificates, loads the
//! system's certificate authorities where they are allowed, and runs an allowed `exec` command.

use std::sync::Arc;

use jiff::Timestamp;
use rustls::client::{ResolvesClientCert, Resumption};
use rustls::{ClientConfig, RootCertStore};

use super::exec::{ExecError, ExecSource};
use super::{Accepted, AuthInfo};
use crate::client::Credential;
use crate::transport::{Endpoint, TransportError};

/// An accepted kubeconfig cannot be used now. Shows no part of a credential.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrepareError {
    /// A certificate has expired.
    #[error("the {what} of the kubeconfig expired at {until}; store a kubeconfig with a new one")]
    Expired {
        /// Which one.
        what: &'static str,
        /// When it expired.
        until: Timestamp,
    },
    /// The system has no certificate authorities.
    #[error("the system has no certificate authorities; add `certificate-authority-data` to the kubeconfig")]
    NoSystemRoots,
    /// TLS does not accept the certificates.
    #[error("the certificates of the kubeconfig cannot be used")]
    Certificates,
    /// The `exec` command issued no credential.
    #[error(transparent)]
    Exec(#[from] ExecError),
    /// The address cannot be used.
    #[error(transparent)]
    Transport(#[from] TransportError),
}

impl Accepted {
    /// The endpoint and the credential of a client.
    ///
    /// # Errors
    /// A certificate has expired, or the `exec` command issued no credential.
    pub async fn prepare(&self) -> Result<(Endpoint, Credential), PrepareError> {
        self.check_expiry(Timestamp::now())?;
        let roots = match &self.authorities {
            Some(roots) => Arc::clone(roots),
            None => {
                tokio::task::spawn_blocking(system_roots).await.map_err(|_| PrepareError::NoSystemRoots)??
            }
        };
        let provider = Arc::new(crate::crypto_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|_| PrepareError::Certificates)?
            .with_root_certificates(roots);
        let (tls, credential) = match &self.auth_info {
            AuthInfo::Certificate(certificate) => {
                let key = certificate.key().ok_or(PrepareError::Certificates)?;
                let tls = builder
                    .with_client_auth_cert(certificate.chain.clone(), key)
                    .map_err(|_| PrepareError::Certificates)?;
                (tls, Credential::none())
            }
            AuthInfo::Token(token) => (builder.with_no_client_auth(), Credential::bearer(token)?),
            AuthInfo::Basic { user, password } => {
                (builder.with_no_client_auth(), Credential::basic(user, password)?)
            }
            AuthInfo::Exec(command, source) => {
                let source = source.get_or_try_init(|| ExecSource::start(Arc::clone(command))).await?;
                // Makes sure that there is a valid credential: a TLS handshake cannot wait for one.
                source.header().await?;
                let resolver: Arc<dyn ResolvesClientCert> = Arc::<ExecSource>::clone(source);
                let mut tls = builder.with_client_cert_resolver(resolver);
                // A resumed session would keep the certificate of its first handshake.
                tls.resumption = Resumption::disabled();
                (tls, Credential::exec(Arc::clone(source)))
            }
        };
        let endpoint = Endpoint::new(&self.server, tls, self.server_name.as_deref())?;
        let endpoint = endpoint.denying(Arc::clone(&self.denied)).of_namespace(self.namespace.clone());
        Ok((endpoint, credential))
    }

    /// TLS does not check the expiry of certificate authorities, and servers do not say why they reject a client
    /// certificate.
    fn check_expiry(&self, now: Timestamp) -> Result<(), PrepareError> {
        let client = match &self.auth_info {
            AuthInfo::Certificate(certificate) => certificate.not_after,
            _ => None,
        };
        for (what, until) in [("certificate authority", self.authorities_end), ("client certificate", client)]
        {
            match until {
                Some(until) if until < now => return Err(PrepareError::Expired { what, until }),
                _ => {}
            }
        }
        Ok(())
    }
}

fn system_roots() -> Result<Arc<RootCertStore>, PrepareError> {
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if added == 0 { Err(PrepareError::NoSystemRoots) } else { Ok(Arc::new(roots)) }
}
