//! Turns a Secret into a credential that may be used, or into the reason why not.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kross_api::{FailureReason, KUBECONFIG_NAME_SUFFIX, SecretAddress, labels};
use kross_value::{Text, Value};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::link::{Failure, Step};
use crate::connection::Credential;
use crate::object::StoredObject;
use crate::transport::Endpoint;

/// A kubeconfig that may be used.
pub(super) struct Source {
    server: String,
    authority: Vec<u8>,
    proof: Proof,
}

enum Proof {
    Token(String),
    Certificate { certificate: Vec<u8>, key: Vec<u8> },
}

impl Source {
    pub(super) fn server(&self) -> &str {
        &self.server
    }

    pub(super) fn method(&self) -> Text {
        match self.proof {
            Proof::Token(_) => "token".into(),
            Proof::Certificate { .. } => "client certificate".into(),
        }
    }

    /// Makes what a connection needs.
    #[expect(clippy::unused_async, reason = "a credential plugin will be waited for here")]
    pub(super) async fn prepare(&self) -> Result<(Endpoint, Credential), Failure> {
        let unusable = |what: &str| refused(Step::Parse, format!("{what} is not usable"), "");
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut roots = rustls::RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&self.authority) {
            let certificate = certificate.map_err(|_| unusable("`certificate-authority-data`"))?;
            roots.add(certificate).map_err(|_| unusable("`certificate-authority-data`"))?;
        }
        let builder = rustls::ClientConfig::builder().with_root_certificates(roots);
        let (tls, credential) = match &self.proof {
            Proof::Token(token) => {
                let credential = Credential::bearer(token).map_err(|_| unusable("`token`"))?;
                (builder.with_no_client_auth(), credential)
            }
            Proof::Certificate { certificate, key } => {
                let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
                let chain = chain.map_err(|_| unusable("`client-certificate-data`"))?;
                let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| unusable("`client-key-data`"))?;
                let tls = builder
                    .with_client_auth_cert(chain, key)
                    .map_err(|_| unusable("`client-certificate-data` with `client-key-data`"))?;
                (tls, Credential::none())
            }
        };
        let address = self.server.parse().map_err(|_| unusable("`server`"))?;
        let endpoint = Endpoint::new(&address, tls, None).map_err(|_| unusable("`server`"))?;
        Ok((endpoint, credential))
    }
}

fn refused(step: Step, cause: impl Into<String>, advice: &str) -> Failure {
    Failure { step, reason: FailureReason::Credentials, cause: cause.into(), advice: advice.to_owned() }
}

/// The same words for a Secret that is missing, is none of clusters, or may not be used: who may not use it does not learn
/// which.
pub(super) fn missing(secret: &SecretAddress) -> Failure {
    refused(
        Step::Secret,
        format!("there is no Secret `{secret}` that may be used here"),
        "create it with the label `kro.run/cluster-credentials: \"true\"` or a name that ends in `-kubeconfig`",
    )
}

/// Whether an asker may use the Secret.
pub(super) fn permit(secret: &StoredObject, _asker: Option<&str>) -> bool {
    secret.label(labels::CLUSTER_CREDENTIALS) == Some("true")
        || secret.name().ends_with(KUBECONFIG_NAME_SUFFIX)
}

/// The bytes of the kubeconfig.
pub(super) fn content(secret: &StoredObject, address: &SecretAddress) -> Result<Vec<u8>, Failure> {
    let text = secret.value().get("data").and_then(|data| data.get(&address.key)).and_then(Value::as_str);
    let absent = || {
        let cause = format!("the Secret has no key `{}`", address.key);
        refused(Step::Key, cause, "put the kubeconfig under that key")
    };
    STANDARD.decode(text.ok_or_else(absent)?).map_err(|_| absent())
}

/// Reads a kubeconfig, field by field.
pub(super) fn accept(bytes: &[u8]) -> Result<Source, Failure> {
    read(bytes).ok_or_else(|| refused(Step::Parse, "the kubeconfig is not acceptable", ""))
}

fn read(bytes: &[u8]) -> Option<Source> {
    let config = kube::config::Kubeconfig::from_yaml(std::str::from_utf8(bytes).ok()?).ok()?;
    let config = serde_json::to_value(config).ok()?;
    let named = |list: &str, name: &serde_json::Value| {
        config.get(list)?.as_array()?.iter().find(|item| item.get("name") == Some(name)).cloned()
    };
    let context = named("contexts", config.get("current-context")?)?.get("context")?.clone();
    let cluster = named("clusters", context.get("cluster")?)?.get("cluster")?.clone();
    let user = named("users", context.get("user")?)?.get("user")?.clone();
    let text = |object: &serde_json::Value, field: &str| object.get(field)?.as_str().map(str::to_owned);
    let proof = match text(&user, "token") {
        Some(token) => Proof::Token(token),
        None => Proof::Certificate {
            certificate: STANDARD.decode(text(&user, "client-certificate-data")?).ok()?,
            key: STANDARD.decode(text(&user, "client-key-data")?).ok()?,
        },
    };
    let server = text(&cluster, "server").filter(|server| server.starts_with("https://"))?;
    let authority = STANDARD.decode(text(&cluster, "certificate-authority-data")?).ok()?;
    Some(Source { server, authority, proof })
}
