//! Checks the `server` of a kubeconfig.

use std::net::IpAddr;

use http::Uri;
use rustls::pki_types::ServerName;

use super::fields::LocatedText;
use super::refusal::{Refusal, RefusalReason};
use crate::cidr::{Cidr, is_denied};

/// The address of a server, if it may be connected to. Host names are checked again when they are resolved.
pub(super) fn server(field: &LocatedText, denied: &[Cidr]) -> Result<Uri, Refusal> {
    let refuse = |reason| field.refuse(reason);
    let text = field.text.as_str();
    // `http` drops the fragment, so look for it in the text.
    if text.contains('#') {
        return Err(refuse(RefusalReason::Query));
    }
    let uri: Uri = text.parse().map_err(|_| refuse(RefusalReason::Server))?;
    let authority = uri.authority().ok_or_else(|| refuse(RefusalReason::Server))?;
    if authority.as_str().contains('@') {
        return Err(refuse(RefusalReason::UserInfo));
    }
    if uri.scheme() != Some(&http::uri::Scheme::HTTPS) {
        return Err(refuse(RefusalReason::NotHttps));
    }
    if uri.query().is_some() {
        return Err(refuse(RefusalReason::Query));
    }
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    // `http` drops an invalid port as well.
    let port_is_fine = match authority.as_str().strip_prefix(authority.host()) {
        Some("") => true,
        Some(rest) => {
            rest.strip_prefix(':').and_then(|port| port.parse::<u16>().ok()).is_some_and(|port| port > 0)
        }
        None => false,
    };
    if !port_is_fine || ServerName::try_from(host).is_err() {
        return Err(refuse(RefusalReason::Server));
    }
    match host.parse::<IpAddr>() {
        Ok(address) if is_denied(address, denied) => {
            Err(refuse(RefusalReason::Denied).detail(address.to_string()))
        }
        _ => Ok(uri),
    }
}

/// The name that the server's certificate is verified for.
pub(super) fn server_name(field: &LocatedText) -> Result<String, Refusal> {
    match ServerName::try_from(field.text.as_str()) {
        Ok(_) => Ok(field.text.to_string()),
        Err(_) => Err(field.refuse(RefusalReason::ServerName)),
    }
}
