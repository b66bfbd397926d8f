//! Parses the certificates and keys of a kubeconfig for TLS, and reads when they expire.

use base64::Engine;
use jiff::Timestamp;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use zeroize::Zeroizing;

use super::fields::LocatedText;
use super::refusal::{Refusal, RefusalReason};
use super::trust_anchor::AuthorityKeys;

/// The maximum number of certificates in a field, because each takes time to parse.
const MAX_CERTIFICATES: usize = 512;

/// The certificate authorities that the server is verified with.
pub(super) struct Authorities {
    pub(super) roots: RootCertStore,
    /// What they tell about the identity of the cluster.
    pub(super) keys: AuthorityKeys,
    /// When the last of them expires; `None` if that cannot be read.
    pub(super) not_after: Option<Timestamp>,
}

/// A client certificate with its chain and its key.
pub(crate) struct ClientCertificate {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    key: Zeroizing<Vec<u8>>,
    pub(crate) not_before: Option<Timestamp>,
    pub(crate) not_after: Option<Timestamp>,
}

impl ClientCertificate {
    /// The key. It is stored as text that is wiped when dropped; TLS keeps another copy.
    pub(crate) fn key(&self) -> Option<PrivateKeyDer<'static>> {
        PrivateKeyDer::from_pem_slice(&self.key).ok()
    }
}

/// What is wrong with a client certificate and its key.
pub(crate) enum CertificateError {
    Certificate,
    Key,
    EncryptedKey,
    KeyMismatch,
}

pub(super) fn authorities(field: &LocatedText) -> Result<Authorities, Refusal> {
    let refuse = || field.refuse(RefusalReason::Authority);
    let certificates = decode(&field.text).and_then(|pem| certificates(&pem)).ok_or_else(refuse)?;
    let mut roots = RootCertStore::empty();
    for certificate in &certificates {
        roots.add(certificate.clone()).map_err(|_| refuse())?;
    }
    let expiries: Option<Vec<Timestamp>> = certificates.iter().map(|der| not_after(der)).collect();
    let keys = AuthorityKeys::of(&certificates, &roots);
    Ok(Authorities { roots, keys, not_after: expiries.and_then(|expiries| expiries.into_iter().max()) })
}

pub(super) fn client_certificate(
    certificate: &LocatedText,
    key: &LocatedText,
) -> Result<ClientCertificate, Refusal> {
    let pem = decode(&certificate.text).ok_or_else(|| certificate.refuse(RefusalReason::Certificate))?;
    let key_pem = decode(&key.text).ok_or_else(|| key.refuse(RefusalReason::Certificate))?;
    certificate_and_key(&pem, key_pem).map_err(|certificate_error| match certificate_error {
        CertificateError::Certificate => certificate.refuse(RefusalReason::Certificate),
        CertificateError::Key => key.refuse(RefusalReason::Certificate),
        CertificateError::EncryptedKey => key.refuse(RefusalReason::EncryptedKey),
        CertificateError::KeyMismatch => key.refuse(RefusalReason::KeyMismatch),
    })
}

/// Parses a certificate and a key from PEM, and checks that they belong together.
pub(crate) fn certificate_and_key(
    certificate: &[u8],
    key: Zeroizing<Vec<u8>>,
) -> Result<ClientCertificate, CertificateError> {
    let chain = certificates(certificate).ok_or(CertificateError::Certificate)?;
    if key.windows(9).any(|window| window == b"ENCRYPTED") {
        return Err(CertificateError::EncryptedKey);
    }
    let not_before = chain.first().and_then(|der| not_before(der));
    let not_after = chain.first().and_then(|der| not_after(der));
    let pair = ClientCertificate { chain, key, not_before, not_after };
    let key = pair.key().ok_or(CertificateError::Key)?;
    let provider = crate::crypto_provider();
    match rustls::sign::CertifiedKey::from_der(pair.chain.clone(), key, &provider) {
        Ok(_) => Ok(pair),
        Err(rustls::Error::InconsistentKeys(_)) => Err(CertificateError::KeyMismatch),
        Err(rustls::Error::InvalidCertificate(_)) => Err(CertificateError::Certificate),
        Err(_) => Err(CertificateError::Key),
    }
}

/// Decodes base64 that may have line breaks.
fn decode(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    let whole: Zeroizing<String> =
        Zeroizing::new(text.chars().filter(|character| !character.is_ascii_whitespace()).collect());
    base64::engine::general_purpose::STANDARD.decode(whole.as_bytes()).ok().map(Zeroizing::new)
}

/// All certificates of a PEM text; `None` if it has none or too many, or one is invalid.
fn certificates(pem: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let found: Vec<_> =
        CertificateDer::pem_slice_iter(pem).take(MAX_CERTIFICATES + 1).collect::<Result<_, _>>().ok()?;
    (!found.is_empty() && found.len() <= MAX_CERTIFICATES).then_some(found)
}

/// When a certificate expires.
fn not_after(certificate: &[u8]) -> Option<Timestamp> {
    let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
    Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()
}

/// From when on a certificate is valid.
fn not_before(certificate: &[u8]) -> Option<Timestamp> {
    let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
    Timestamp::from_second(certificate.validity().not_before.timestamp()).ok()
}
