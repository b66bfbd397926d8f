//! Turns an address, an authority and a credential into a kubeconfig: as text with everything inline, and as a client.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::certificates::Identity;

/// The credential of a user.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// A bearer token.
    Token(String),
    /// A client certificate.
    Certificate(Identity),
}

impl fmt::Debug for Credential {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Token(_) => "Token",
            Self::Certificate(_) => "Certificate",
        })
    }
}

/// A kubeconfig with one cluster and one user. Its text ([`fmt::Display`]) is complete and refers to no file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kubeconfig {
    /// The name of its cluster, its user and its context.
    pub name: String,
    /// The address of the API server.
    pub server: String,
    /// The certificate of the authority that signed the server's certificate, in PEM.
    pub authority: String,
    /// The credential of the user.
    pub credential: Credential,
}

/// Why a client could not be created from a kubeconfig.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The kubeconfig is invalid.
    #[error("cannot use the kubeconfig `{name}`")]
    Kubeconfig {
        /// The name of the kubeconfig.
        name: String,
        /// The cause.
        #[source]
        source: Box<kube::config::KubeconfigError>,
    },
    /// The client could not be created.
    #[error("cannot create a client from the kubeconfig `{name}`")]
    Client {
        /// The name of the kubeconfig.
        name: String,
        /// The cause.
        #[source]
        source: Box<kube::Error>,
    },
}

impl Kubeconfig {
    /// The same user with another server and authority, for a proxy in front of the API server.
    #[must_use]
    pub fn through(&self, server: &str, authority: &str) -> Self {
        Self { server: server.to_owned(), authority: authority.to_owned(), ..self.clone() }
    }

    /// A client that does not retry, so that callers see every answer of the server. It belongs to the runtime it is created on.
    ///
    /// # Errors
    /// The kubeconfig has no valid address or certificate.
    pub async fn client(&self) -> Result<kube::Client, ClientError> {
        let config = self.config().await?;
        kube::Client::try_from(config)
            .map_err(|source| ClientError::Client { name: self.name.clone(), source: Box::new(source) })
    }

    /// The configuration of such a client, to be changed before the client is created.
    ///
    /// # Errors
    /// As [`Kubeconfig::client`].
    pub async fn config(&self) -> Result<kube::Config, ClientError> {
        // Only the first call in a process takes effect, and all callers install the same provider.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let error = |source| ClientError::Kubeconfig { name: self.name.clone(), source: Box::new(source) };
        let parsed = kube::config::Kubeconfig::from_yaml(&self.to_string()).map_err(error)?;
        let mut config =
            kube::Config::from_custom_kubeconfig(parsed, &kube::config::KubeConfigOptions::default())
                .await
                .map_err(error)?;
        config.default_retry = false;
        Ok(config)
    }
}

impl fmt::Display for Kubeconfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, server, authority, credential } = self;
        let authority = STANDARD.encode(authority);
        write!(
            formatter,
            "apiVersion: v1\nkind: Config\ncurrent-context: {name}\nclusters:\n- name: {name}\n  cluster:\n    server: {server}\n    \
             certificate-authority-data: {authority}\ncontexts:\n- name: {name}\n  context:\n    cluster: {name}\n    user: {name}\n\
             users:\n- name: {name}\n  user:\n"
        )?;
        match credential {
            Credential::Token(token) => writeln!(formatter, "    token: {token}"),
            Credential::Certificate(identity) => writeln!(
                formatter,
                "    client-certificate-data: {}\n    client-key-data: {}",
                STANDARD.encode(&identity.certificate),
                STANDARD.encode(&identity.key)
            ),
        }
    }
}
