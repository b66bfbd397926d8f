//! What a trusted kubeconfig says of the server of a context, to register its cluster: everything but the credential.

use base64::Engine;

use super::{LocalCluster, LocalError, load};

/// The server of a context, as its kubeconfig has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerDetails {
    /// Its address.
    pub address: String,
    /// Its certificate authority, in PEM. None if the kubeconfig has none.
    pub authority: Option<String>,
    /// The name that its certificate is verified for, if it is not the host of the address.
    pub server_name: Option<String>,
    /// Whether its certificate is not verified at all.
    pub insecure: bool,
    /// Whether it is connected to through a proxy.
    pub proxied: bool,
}

impl LocalCluster {
    /// The server of the context. Files that the kubeconfig names are read.
    ///
    /// # Errors
    /// There is no such context, or its configuration cannot be used.
    pub async fn server(&self) -> Result<ServerDetails, LocalError> {
        let config = load(self).await?;
        let authority = match (&config.root_cert, &config.root_cert_file) {
            (Some(certificates), _) => Some(certificates.iter().map(|der| pem(der)).collect()),
            (None, Some(path)) => {
                let read = std::fs::read_to_string(path);
                Some(read.map_err(|source| LocalError::Authority { path: path.clone(), source })?)
            }
            (None, None) => None,
        };
        Ok(ServerDetails {
            address: config.cluster_url.to_string().trim_end_matches('/').to_owned(),
            authority,
            server_name: config.tls_server_name.clone(),
            insecure: config.accept_invalid_certs,
            proxied: config.proxy_url.is_some(),
        })
    }
}

/// A certificate in PEM.
fn pem(der: &[u8]) -> String {
    let encoded = base64::engine::general_purpose::STANDARD.encode(der);
    let mut text = String::from("-----BEGIN CERTIFICATE-----\n");
    let mut rest = encoded.as_str();
    while !rest.is_empty() {
        let (line, remaining) = rest.split_at(rest.len().min(64));
        text.push_str(line);
        text.push('\n');
        rest = remaining;
    }
    text.push_str("-----END CERTIFICATE-----\n");
    text
}
