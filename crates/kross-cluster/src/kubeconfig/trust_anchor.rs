//! Turns a kubeconfig into the trust anchor of its server: what a server must prove, beside the UID that it claims, to be the
//! same cluster as another one. Anybody can claim a UID; nobody else has the keys of a private certificate authority.

use std::collections::{BTreeSet, HashSet};
use std::sync::OnceLock;

use http::Uri;
use kross_value::Text;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};

/// The port of a server address that has none.
const HTTPS_PORT: u16 = 443;

/// The certificate authorities of a kubeconfig, as far as they identify a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AuthorityKeys {
    /// Name and public key of each. A certificate that was renewed with the same key is the same authority.
    keys: BTreeSet<(Vec<u8>, Vec<u8>)>,
    /// Whether one of them may certify servers of others.
    public: bool,
}

impl AuthorityKeys {
    /// The keys of these certificates, which `roots` was made from.
    pub(super) fn of(certificates: &[CertificateDer<'_>], roots: &RootCertStore) -> Self {
        let keys: BTreeSet<(Vec<u8>, Vec<u8>)> = roots
            .roots
            .iter()
            .map(|root| (root.subject.to_vec(), root.subject_public_key_info.to_vec()))
            .collect();
        let is_known = keys.iter().any(|(_, key)| public_keys().contains(key));
        // An intermediate authority of a public root would not be found among the roots.
        let public = is_known || !certificates.iter().all(|certificate| is_self_issued(certificate));
        Self { keys, public }
    }
}

/// The trust anchor of a server: its certificate authorities and, where those certify servers of others too, its host. Without
/// `authorities` the server is verified with the roots of the system. A path is that of a proxy in front of several clusters: there
/// the authority vouches for the proxy alone.
pub(super) fn trust_anchor(
    server: &Uri,
    server_name: Option<&str>,
    authorities: Option<&AuthorityKeys>,
) -> Text {
    let mut hash = Sha256::new();
    let mut add = |part: &[u8]| {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    };
    let path = server.path().trim_end_matches('/');
    let is_host_needed = authorities.is_none_or(|authorities| authorities.public) || !path.is_empty();
    match authorities {
        Some(authorities) => {
            for (name, key) in &authorities.keys {
                add(name);
                add(key);
            }
        }
        None => add(b"system roots"),
    }
    if is_host_needed {
        let host = server.host().unwrap_or_default().to_ascii_lowercase();
        let port = server.port_u16().unwrap_or(HTTPS_PORT);
        add(format!("{host}:{port}{path}").as_bytes());
        // The name that the certificate is checked against.
        add(server_name.unwrap_or_default().to_ascii_lowercase().as_bytes());
    }
    let digest = hash.finalize();
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect::<String>().into()
}

/// Whether a certificate names itself as its issuer, as roots do.
fn is_self_issued(certificate: &CertificateDer<'_>) -> bool {
    x509_parser::parse_x509_certificate(certificate)
        .is_ok_and(|(_, certificate)| certificate.subject().as_raw() == certificate.issuer().as_raw())
}

/// The public keys of the roots that browsers trust, and of those that this system trusts. Read once.
fn public_keys() -> &'static HashSet<Vec<u8>> {
    static KEYS: OnceLock<HashSet<Vec<u8>>> = OnceLock::new();
    KEYS.get_or_init(|| {
        let mut system = RootCertStore::empty();
        system.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let roots = webpki_roots::TLS_SERVER_ROOTS.iter().chain(&system.roots);
        roots.map(|root| root.subject_public_key_info.to_vec()).collect()
    })
}

#[cfg(test)]
mod tests {
    use kross_local::{CertificateAuthority, Validity};
    use rustls::pki_types::pem::PemObject;

    use super::*;

    fn keys(certificates: &[String]) -> AuthorityKeys {
        let certificates: Vec<CertificateDer<'static>> =
            certificates.iter().map(|pem| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).collect();
        let mut roots = RootCertStore::empty();
        certificates.iter().for_each(|certificate| roots.add(certificate.clone()).unwrap());
        AuthorityKeys::of(&certificates, &roots)
    }

    fn anchor(server: &str, name: Option<&str>, authorities: Option<&AuthorityKeys>) -> Text {
        trust_anchor(&server.parse().unwrap(), name, authorities)
    }

    fn public(keys: &AuthorityKeys) -> AuthorityKeys {
        AuthorityKeys { public: true, ..keys.clone() }
    }

    #[test]
    fn a_private_authority_identifies_a_cluster_wherever_its_server_is() {
        let [one, other] =
            ["one", "other"].map(|name| CertificateAuthority::new(name).unwrap().certificate());
        let (both, turned) = (keys(&[one.clone(), other.clone()]), keys(&[other.clone(), one.clone()]));
        let (one, other) = (keys(&[one]), keys(&[other]));
        assert!(!one.public && !other.public);
        let (near, far) = ("https://10.0.0.1:6443", "https://api.example.com");
        assert_eq!(anchor(near, None, Some(&one)), anchor(far, Some("kubernetes"), Some(&one)));
        assert_ne!(anchor(near, None, Some(&one)), anchor(near, None, Some(&other)));
        // Whoever has the key of one of two authorities could answer in place of the other's server.
        assert_ne!(anchor(near, None, Some(&one)), anchor(near, None, Some(&both)));
        assert_eq!(anchor(near, None, Some(&turned)), anchor(near, None, Some(&both)));
    }

    #[test]
    fn a_public_authority_identifies_a_cluster_together_with_its_host() {
        let authority = public(&keys(&[CertificateAuthority::new("public").unwrap().certificate()]));
        for authorities in [None, Some(&authority)] {
            let here = anchor("https://api.example.com", None, authorities);
            assert_eq!(here, anchor("https://API.example.com:443/", None, authorities));
            for other in ["https://api.example.org", "https://api.example.com:6443"] {
                assert_ne!(here, anchor(other, None, authorities), "{other}");
            }
            assert_ne!(here, anchor("https://api.example.com", Some("evil.example.org"), authorities));
        }
    }

    #[test]
    fn clusters_behind_one_proxy_are_told_apart_by_their_paths() {
        let keys = keys(&[CertificateAuthority::new("proxy").unwrap().certificate()]);
        let at = |path: &str| anchor(&format!("https://proxy{path}"), None, Some(&keys));
        assert_ne!(at("/k8s/clusters/production"), at("/k8s/clusters/tenant"));
        assert_eq!(at("/k8s/clusters/tenant"), at("/k8s/clusters/tenant/"));
    }

    #[test]
    fn an_authority_that_another_one_issued_is_as_public_as_that_one() {
        let root = CertificateAuthority::new("root").unwrap();
        let issued = root.server(&["intermediate".to_owned()], Validity::Current).unwrap().certificate;
        assert!(keys(&[issued]).public);
    }

    #[test]
    fn roots_of_browsers_are_public() {
        let known = webpki_roots::TLS_SERVER_ROOTS.first().unwrap();
        assert!(public_keys().contains(known.subject_public_key_info.as_ref()));
    }
}
