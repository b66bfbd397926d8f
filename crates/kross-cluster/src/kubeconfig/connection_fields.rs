//! Accepts a connection Secret: its kubeconfig, or the fields that Crossplane's providers write in place of one. Both pass the
//! same rules, so that the fields give access to nothing that a kubeconfig could not.

use base64::Engine as _;
use kross_api::connection_keys;
use zeroize::Zeroizing;

use super::config::User;
use super::fields::LocatedText;
use super::refusal::{Refusal, RefusalReason};
use super::trust_anchor::trust_anchor;
use super::{Accepted, KubeconfigPolicy, Warning, accept, address, auth_info, certificate, fingerprint};
use crate::kubeconfig::exec::ClusterInfo;

/// Separates the fields in what the fingerprint is derived from.
const SEPARATOR: [u8; 2] = [0, 0xff];

/// Parses the data of a connection Secret of a namespace, which `field` reads by key. A kubeconfig takes precedence over the fields.
///
/// # Errors
/// The first rule that it breaks.
pub fn accept_connection(
    field: impl Fn(&str) -> Option<Zeroizing<Vec<u8>>>,
    namespace: &str,
    policy: &KubeconfigPolicy,
) -> Result<Accepted, Refusal> {
    let value = |key: &str| field(key).filter(|value| !value.is_empty());
    match value(connection_keys::KUBECONFIG) {
        Some(text) => accept(&text, namespace, policy),
        None => accept_fields(&value, namespace, policy).map_err(Refusal::of_connection_fields),
    }
}

fn accept_fields(
    value: &impl Fn(&str) -> Option<Zeroizing<Vec<u8>>>,
    namespace: &str,
    policy: &KubeconfigPolicy,
) -> Result<Accepted, Refusal> {
    let server = server(value)?;
    let uri = address::server(&server, &policy.denied)?;
    let authorities = match pem(value, connection_keys::CLUSTER_CA) {
        Some(field) => Some(certificate::authorities(&field)?),
        None if policy.system_roots => None,
        None => return Err(Refusal::new(RefusalReason::NoAuthority, connection_keys::CLUSTER_CA, None)),
    };
    let (user, ignores_password) = user(value)?;
    // Only an `exec` command needs it, and there is none.
    let info = ClusterInfo { server: server.text.to_string(), server_name: None, authority: None };
    let auth_info = auth_info(user, policy, namespace, info)?;
    let mut warnings = Vec::new();
    if ignores_password {
        warnings.push(Warning::PasswordIgnored);
    }
    if matches!(auth_info, super::AuthInfo::Basic { .. }) {
        warnings.push(Warning::Basic);
    }
    let keys = authorities.as_ref().map(|found| &found.keys);
    let anchor = trust_anchor(&uri, None, keys);
    let (authorities, authorities_end) = match authorities {
        Some(found) => (Some(std::sync::Arc::new(found.roots)), found.not_after),
        None => (None, None),
    };
    Ok(Accepted {
        namespace: namespace.into(),
        anchor,
        server: uri,
        server_name: None,
        authorities,
        authorities_end,
        auth_info,
        warnings,
        denied: policy.denied.clone().into(),
        fingerprint: fingerprint(&all_fields(value)),
    })
}

/// The address of the server: `endpoint` is a host or a URL, and `port` counts where it has none.
fn server(value: &impl Fn(&str) -> Option<Zeroizing<Vec<u8>>>) -> Result<LocatedText, Refusal> {
    let missing = || Refusal::new(RefusalReason::NoEndpoint, connection_keys::ENDPOINT, None);
    let mut endpoint = text(value, connection_keys::ENDPOINT)?.ok_or_else(missing)?;
    if !endpoint.text.contains("://") {
        endpoint.text = Zeroizing::new(format!("https://{}", *endpoint.text));
    }
    let Some(port) = text(value, connection_keys::PORT)? else { return Ok(endpoint) };
    let is_number = port.text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number || port.text.parse::<u16>().ok().is_none_or(|port| port == 0) {
        return Err(port.refuse(RefusalReason::Server));
    }
    let whole = endpoint.text.trim_end_matches('/').to_owned();
    let (scheme, rest) = whole.split_once("://").unwrap_or(("https", &whole));
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    // A colon inside of brackets belongs to an IPv6 address.
    let after_host = authority.rsplit_once(']').map_or(authority, |(_, after)| after);
    match after_host.rsplit_once(':') {
        Some((_, own)) if own == port.text.as_str() => {}
        Some(_) => return Err(port.refuse(RefusalReason::Server)),
        None => {
            endpoint.text = Zeroizing::new(format!("{scheme}://{authority}:{}{path}", *port.text));
        }
    }
    Ok(endpoint)
}

/// The credential, and whether it has a password that is ignored: some providers write one next to a certificate.
fn user(value: &impl Fn(&str) -> Option<Zeroizing<Vec<u8>>>) -> Result<(User, bool), Refusal> {
    let certificate = pem(value, connection_keys::CLIENT_CERT);
    let key = pem(value, connection_keys::CLIENT_KEY);
    let token = text(value, connection_keys::TOKEN)?;
    let mut username = text(value, connection_keys::USERNAME)?;
    let mut password = text(value, connection_keys::PASSWORD)?;
    let incomplete = |key: &str| Err(Refusal::new(RefusalReason::Incomplete, key, None));
    let has_certificate = match (&certificate, &key) {
        (Some(_), None) => return incomplete(connection_keys::CLIENT_CERT),
        (None, Some(_)) => return incomplete(connection_keys::CLIENT_KEY),
        (certificate, _) => certificate.is_some(),
    };
    if has_certificate && token.is_some() {
        return Err(Refusal::new(RefusalReason::SeveralMethods, "", None));
    }
    let mut ignores_password = false;
    if has_certificate || token.is_some() {
        ignores_password = username.take().is_some() | password.take().is_some();
    } else if username.is_some() != password.is_some() {
        let key = if username.is_some() { connection_keys::USERNAME } else { connection_keys::PASSWORD };
        return incomplete(key);
    }
    let path = String::new();
    let user = User { path, line: 0, token, certificate, key, username, password, exec: None };
    Ok((user, ignores_password))
}

/// A field that is text. Line breaks at its end are dropped, since files that Secrets are made from have them.
fn text(
    value: &impl Fn(&str) -> Option<Zeroizing<Vec<u8>>>,
    key: &str,
) -> Result<Option<LocatedText>, Refusal> {
    let Some(bytes) = value(key) else { return Ok(None) };
    let text = std::str::from_utf8(&bytes).map_err(|_| Refusal::new(RefusalReason::Encoding, key, None))?;
    let text = Zeroizing::new(text.trim_end_matches(['\r', '\n']).to_owned());
    Ok(Some(LocatedText { text, path: key.to_owned(), line: 0 }).filter(|field| !field.text.is_empty()))
}

/// A field that is PEM, as a kubeconfig has it.
fn pem(value: &impl Fn(&str) -> Option<Zeroizing<Vec<u8>>>, key: &str) -> Option<LocatedText> {
    let bytes = value(key)?;
    let text = Zeroizing::new(base64::engine::general_purpose::STANDARD.encode(&*bytes));
    Some(LocatedText { text, path: key.to_owned(), line: 0 })
}

fn all_fields(value: &impl Fn(&str) -> Option<Zeroizing<Vec<u8>>>) -> Zeroizing<Vec<u8>> {
    let mut all = Zeroizing::new(b"connection fields".to_vec());
    for key in connection_keys::ALL {
        all.extend_from_slice(&SEPARATOR);
        if let Some(value) = value(key) {
            all.extend_from_slice(&value.len().to_le_bytes());
            all.extend_from_slice(&value);
        }
    }
    all
}

#[cfg(test)]
mod tests;
