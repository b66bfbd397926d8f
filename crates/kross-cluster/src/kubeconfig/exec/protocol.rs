//! The exec protocol: the input of a command, and its output, an `ExecCredential` with a token, or with a certificate
//! and its key.

use http::HeaderValue;
use jiff::Timestamp;
use rustls::sign::CertifiedKey;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use zeroize::Zeroizing;

use super::{ExecCommand, ExecError};
use crate::kubeconfig::certificate::{CertificateError, certificate_and_key};

/// A credential that a command issued.
#[derive(Clone)]
pub(super) struct IssuedCredential {
    pub(super) header: Option<HeaderValue>,
    pub(super) certificate: Option<Arc<CertifiedKey>>,
    pub(super) expires: Option<Timestamp>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecCredential {
    api_version: String,
    kind: String,
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    expiration_timestamp: Option<String>,
    token: Option<Zeroizing<String>>,
    client_certificate_data: Option<String>,
    client_key_data: Option<Zeroizing<String>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ExecInfo<'a> {
    api_version: &'a str,
    kind: &'static str,
    spec: Spec<'a>,
}

#[derive(Serialize)]
struct Spec<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<Cluster<'a>>,
    interactive: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Cluster<'a> {
    server: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tls_server_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate_authority_data: Option<&'a str>,
}

/// The input of the command, in the environment variable `KUBERNETES_EXEC_INFO`.
pub(super) fn exec_info(exec: &ExecCommand) -> Result<String, ExecError> {
    let cluster = exec.cluster.as_ref().map(|cluster| Cluster {
        server: &cluster.server,
        tls_server_name: cluster.server_name.as_deref(),
        certificate_authority_data: cluster.authority.as_deref(),
    });
    let spec = Spec { cluster, interactive: false };
    serde_json::to_string(&ExecInfo { api_version: &exec.version, kind: "ExecCredential", spec })
        .map_err(|_| exec.problem("cannot be run: its input cannot be encoded"))
}

/// Parses the output of the command.
pub(super) fn parse(exec: &ExecCommand, printed: &[u8]) -> Result<IssuedCredential, ExecError> {
    let problem = |text: &str| exec.problem(text);
    // The error of the parser could quote a part of the output.
    let credential: ExecCredential =
        serde_json::from_slice(printed).map_err(|_| problem("printed no `ExecCredential`"))?;
    if credential.kind != "ExecCredential" || credential.api_version != exec.version {
        return Err(problem(&format!(
            "printed something other than an `ExecCredential` of `{}`",
            exec.version
        )));
    }
    let status = credential.status.ok_or_else(|| problem("printed an `ExecCredential` without status"))?;
    let expires = match status.expiration_timestamp.filter(|text| !text.is_empty()) {
        Some(text) => Some(text.parse().map_err(|_| problem("printed an invalid `expirationTimestamp`"))?),
        None => None,
    };
    let token = status.token.filter(|token| !token.is_empty());
    let certificate = status.client_certificate_data.filter(|text| !text.is_empty());
    let key = status.client_key_data.filter(|text| !text.is_empty());
    let (header, certificate) = match (token, certificate, key) {
        (Some(token), None, None) => (
            Some(
                bearer(&token)
                    .ok_or_else(|| problem("printed a token with characters that a token must not have"))?,
            ),
            None,
        ),
        (None, Some(certificate), Some(key)) => (None, Some(certified(exec, &certificate, &key)?)),
        (None, None, None) => return Err(problem("printed no credential")),
        (Some(_), ..) => {
            return Err(problem("printed a token and a certificate, but only one of them is allowed"));
        }
        _ => return Err(problem("printed a certificate without its key, or a key without its certificate")),
    };
    Ok(IssuedCredential { header, certificate, expires })
}

fn bearer(token: &str) -> Option<HeaderValue> {
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return None;
    }
    let mut value = HeaderValue::from_str(&Zeroizing::new(format!("Bearer {token}"))).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn certified(exec: &ExecCommand, certificate: &str, key: &str) -> Result<Arc<CertifiedKey>, ExecError> {
    let certificate_error = |certificate_error| {
        exec.problem(match certificate_error {
            CertificateError::Certificate => "printed a certificate that cannot be used",
            CertificateError::Key => "printed a key that cannot be used",
            CertificateError::EncryptedKey => "printed an encrypted key",
            CertificateError::KeyMismatch => "printed a key that does not belong to the certificate",
        })
    };
    let pair = certificate_and_key(certificate.as_bytes(), Zeroizing::new(key.as_bytes().to_vec()))
        .map_err(certificate_error)?;
    let key = pair.key().ok_or_else(|| certificate_error(CertificateError::Key))?;
    let provider = crate::crypto_provider();
    CertifiedKey::from_der(pair.chain, key, &provider)
        .map(Arc::new)
        .map_err(|_| certificate_error(CertificateError::Key))
}
