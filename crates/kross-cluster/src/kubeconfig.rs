//! Parses the kubeconfig of a remote cluster, which is untrusted, into an endpoint and a credential. Only what is
//! listed here is accepted; everything else is refused with a reason that may be shown to anyone.
//!
//! `accept` is a pure function: it reads no file, resolves no name and runs no command. The result is built field by
//! field; nothing else of the text reaches TLS, HTTP or a process.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base64::Engine as _;
use http::Uri;
use jiff::Timestamp;
use kross_value::Text;
use rustls::RootCertStore;
use sha2::{Digest as _, Sha256};
use tokio::sync::OnceCell;
use zeroize::Zeroizing;

mod address;
pub(crate) mod certificate;
mod config;
mod connection_fields;
mod document;
pub(crate) mod exec;
mod fields;
mod lifetime;
mod prepare;
mod refusal;
#[cfg(test)]
mod tests;
mod token;
mod trust_anchor;

pub use connection_fields::accept_connection;
pub use exec::{ExecError, ExecRule, InvalidExecRule};
pub use lifetime::CredentialLifetime;
pub use prepare::PrepareError;
pub use refusal::{Refusal, RefusalReason};
pub use token::{ReplaceTokenError, ServiceAccountName, replace_token};

pub(crate) use lifetime::TokenClaims;

use crate::cidr::Cidr;

use certificate::ClientCertificate;
use config::{Cluster, User};
use exec::{ClusterInfo, ExecCommand, ExecSource};
use trust_anchor::trust_anchor;

/// What the operator allows kubeconfigs to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeconfigPolicy {
    /// Whether servers of kubeconfigs without a certificate authority are verified with those of the system.
    pub system_roots: bool,
    /// Commands that `exec` may run, and what for.
    pub exec_allow: Vec<ExecRule>,
    /// Environment variables that such a command inherits from the controller.
    pub exec_env: Vec<String>,
    /// The timeout of such a command.
    pub exec_timeout: Duration,
    /// Addresses that are never connected to, whatever host name resolves to them.
    pub denied: Vec<Cidr>,
}

impl Default for KubeconfigPolicy {
    /// No system roots, no commands, and no addresses without API servers.
    fn default() -> Self {
        Self {
            system_roots: false,
            exec_allow: Vec::new(),
            exec_env: Vec::new(),
            exec_timeout: Duration::from_secs(30),
            denied: Cidr::denied_by_default(),
        }
    }
}

/// The authentication method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AuthMethod {
    /// A client certificate.
    ClientCertificate,
    /// A bearer token.
    Token,
    /// A user name and a password.
    Basic,
    /// The output of an allowed command.
    Exec,
}

impl AuthMethod {
    /// The name, as in status and audit records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClientCertificate => "client-certificate",
            Self::Token => "token",
            Self::Basic => "basic",
            Self::Exec => "exec",
        }
    }
}

impl fmt::Display for AuthMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Something in an accepted kubeconfig that the operator should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// It uses a password.
    Basic,
    /// It has a password next to a token or a client certificate.
    PasswordIgnored,
    /// It verifies the server for another name than the host of its address.
    ServerName {
        /// That name.
        name: String,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Basic => f.write_str(
                "the kubeconfig uses a password, which current API servers do not support; use a token or a client certificate",
            ),
            Self::PasswordIgnored => f.write_str(
                "the password is ignored, since there is a token or a client certificate; remove `username` and `password` from the Secret",
            ),
            Self::ServerName { name } => {
                write!(f, "the server's certificate is verified for `{name}`, not for the host of its address")
            }
        }
    }
}

/// An accepted kubeconfig. Its `Debug` output shows no secret.
#[derive(Clone)]
pub struct Accepted {
    /// That of the Secret.
    namespace: Text,
    server: Uri,
    server_name: Option<String>,
    authorities: Option<Arc<RootCertStore>>,
    /// When the last certificate authority expires.
    authorities_end: Option<Timestamp>,
    auth_info: AuthInfo,
    warnings: Vec<Warning>,
    denied: Arc<[Cidr]>,
    fingerprint: Text,
    /// What a server must prove to be the same cluster as another one.
    anchor: Text,
}

/// The credential of the user.
#[derive(Clone)]
enum AuthInfo {
    Certificate(Arc<ClientCertificate>),
    Token(Arc<Zeroizing<String>>),
    Basic {
        user: Arc<Zeroizing<String>>,
        password: Arc<Zeroizing<String>>,
    },
    /// The command, and the credential that it issued, which outlives a connection.
    Exec(Arc<ExecCommand>, Arc<OnceCell<Arc<ExecSource>>>),
}

/// Parses the kubeconfig in a Secret of a namespace, and refuses everything that is not listed.
///
/// ```
/// use kross_cluster::{KubeconfigPolicy, RefusalReason, accept};
///
/// let hostile = b"
/// apiVersion: v1
/// kind: Config
/// current-context: a
/// contexts: [{name: a, context: {cluster: a, user: a}}]
/// clusters: [{name: a, cluster: {server: 'https://10.0.0.1:6443', certificate-authority: /etc/hosts}}]
/// users: [{name: a, user: {token: t}}]
/// ";
/// let refusal = accept(hostile, "shop", &KubeconfigPolicy::default()).unwrap_err();
/// assert_eq!(refusal.reason(), RefusalReason::FilePath);
/// assert_eq!(refusal.path(), "clusters[0].cluster.certificate-authority");
/// ```
///
/// # Errors
/// The first rule that the kubeconfig breaks.
pub fn accept(text: &[u8], namespace: &str, policy: &KubeconfigPolicy) -> Result<Accepted, Refusal> {
    let document = document::read(text)?;
    let current = config::read(document, |exec| exec::check(exec, policy, namespace))?;
    let Cluster { path, line, server, server_name, authority } = current.cluster;
    let missing = |field: &str, reason| Refusal::new(reason, format!("{path}.{field}"), Some(line));
    let server = server.ok_or_else(|| missing("server", RefusalReason::Server))?;
    let uri = address::server(&server, &policy.denied)?;
    if let Some(exec) = &current.user.exec {
        exec::check_server(exec, policy, namespace, &server, &uri)?;
    }
    let server_name = server_name.as_ref().map(address::server_name).transpose()?;
    let authorities = match &authority {
        Some(field) => Some(certificate::authorities(field)?),
        None if policy.system_roots => None,
        None => return Err(missing("certificate-authority-data", RefusalReason::NoAuthority)),
    };
    let info = ClusterInfo {
        server: server.text.to_string(),
        server_name: server_name.clone(),
        authority: authority.map(|field| field.text.to_string()),
    };
    let auth_info = auth_info(current.user, policy, namespace, info)?;
    let mut warnings = Vec::new();
    if matches!(auth_info, AuthInfo::Basic { .. }) {
        warnings.push(Warning::Basic);
    }
    warnings.extend(server_name.clone().map(|name| Warning::ServerName { name }));
    let keys = authorities.as_ref().map(|found| &found.keys);
    let anchor = trust_anchor(&uri, server_name.as_deref(), keys);
    let (authorities, authorities_end) = match authorities {
        Some(found) => (Some(Arc::new(found.roots)), found.not_after),
        None => (None, None),
    };
    Ok(Accepted {
        namespace: namespace.into(),
        anchor,
        server: uri,
        server_name,
        authorities,
        authorities_end,
        auth_info,
        warnings,
        denied: policy.denied.clone().into(),
        fingerprint: fingerprint(text),
    })
}

/// The credential of a user, which must have exactly one.
fn auth_info(
    user: User,
    policy: &KubeconfigPolicy,
    namespace: &str,
    cluster: ClusterInfo,
) -> Result<AuthInfo, Refusal> {
    let User { path, line, token, certificate, key, username, password, exec } = user;
    let refuse = |field: &str, reason| {
        let path = if field.is_empty() { path.clone() } else { format!("{path}.{field}") };
        Refusal::new(reason, path, Some(line))
    };
    let methods = usize::from(token.is_some())
        + usize::from(certificate.is_some() || key.is_some())
        + usize::from(username.is_some() || password.is_some())
        + usize::from(exec.is_some());
    match methods {
        0 => return Err(refuse("", RefusalReason::NoCredential)),
        1 => {}
        _ => return Err(refuse("", RefusalReason::SeveralMethods)),
    }
    if let Some(exec) = exec {
        let command = exec::command(exec, policy, namespace, cluster);
        return Ok(AuthInfo::Exec(Arc::new(command), Arc::default()));
    }
    if let Some(token) = token {
        let printable = token.text.bytes().all(|byte| byte.is_ascii_graphic());
        return if printable {
            Ok(AuthInfo::Token(Arc::new(token.text)))
        } else {
            Err(token.refuse(RefusalReason::Token))
        };
    }
    match (certificate, key, username, password) {
        (Some(certificate), Some(key), ..) => {
            Ok(AuthInfo::Certificate(Arc::new(certificate::client_certificate(&certificate, &key)?)))
        }
        (Some(_), None, ..) => Err(refuse("client-certificate-data", RefusalReason::Incomplete)),
        (None, Some(_), ..) => Err(refuse("client-key-data", RefusalReason::Incomplete)),
        (_, _, Some(user), Some(_)) if user.text.contains(':') => Err(user.refuse(RefusalReason::Type)),
        (_, _, Some(user), Some(password)) => {
            Ok(AuthInfo::Basic { user: Arc::new(user.text), password: Arc::new(password.text) })
        }
        (_, _, Some(_), None) => Err(refuse("username", RefusalReason::Incomplete)),
        (_, _, None, _) => Err(refuse("password", RefusalReason::Incomplete)),
    }
}

impl Accepted {
    /// The address of the API server.
    #[must_use]
    pub fn server(&self) -> &Uri {
        &self.server
    }

    /// The authentication method.
    #[must_use]
    pub fn method(&self) -> AuthMethod {
        match &self.auth_info {
            AuthInfo::Certificate(_) => AuthMethod::ClientCertificate,
            AuthInfo::Token(_) => AuthMethod::Token,
            AuthInfo::Basic { .. } => AuthMethod::Basic,
            AuthInfo::Exec(..) => AuthMethod::Exec,
        }
    }

    /// What the operator should know about it.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// The id of the key that signed the token, if it is a JWT.
    #[must_use]
    pub(crate) fn key_id(&self) -> Option<String> {
        let AuthInfo::Token(token) = &self.auth_info else { return None };
        let header =
            base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(token.split('.').next()?).ok()?;
        let header: serde_json::Value = serde_json::from_slice(&header).ok()?;
        header.get("kid")?.as_str().map(str::to_owned)
    }

    /// Identifies this kubeconfig, in this process only: its content cannot be derived from it.
    #[must_use]
    pub fn fingerprint(&self) -> Text {
        self.fingerprint.clone()
    }

    /// The trust anchor: servers that claim the same UID are one cluster only if theirs are equal.
    pub(crate) fn trust_anchor(&self) -> &Text {
        &self.anchor
    }
}

impl fmt::Debug for Accepted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Accepted")
            .field("server", &format_args!("{}", self.server))
            .field("method", &self.method().as_str())
            .field("fingerprint", &self.fingerprint)
            .finish_non_exhaustive()
    }
}

/// A hash with a salt that is unique to this process, so that a short password cannot be found by trying.
fn fingerprint(text: &[u8]) -> Text {
    static SALT: OnceLock<[u8; 32]> = OnceLock::new();
    let salt = SALT.get_or_init(|| {
        let mut salt = [0; 32];
        // Without randomness there is no TLS either; the fingerprint is then only as good as the hash.
        let _ = crate::crypto_provider().secure_random.fill(&mut salt);
        salt
    });
    let hash = Sha256::new().chain_update(salt).chain_update(text).finalize();
    hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect::<String>().into()
}
