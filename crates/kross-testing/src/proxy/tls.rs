//! Turns PEM into the two sides of the proxy's TLS: towards clients it shows its own certificate and takes any of theirs;
//! towards the API server it checks the certificate and shows the client's.

use std::sync::Arc;

use kross_local::Identity;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    ClientConfig, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, ServerConfig,
    SignatureScheme,
};

/// TLS could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A certificate or key is not readable.
    #[error("cannot read {0} from PEM")]
    Pem(&'static str, #[source] rustls::pki_types::pem::Error),
    /// They do not fit together.
    #[error("cannot set up TLS")]
    Setup(#[from] Error),
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn certificate(pem: &str) -> Result<CertificateDer<'static>, TlsError> {
    CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|source| TlsError::Pem("a certificate", source))
}

fn key(pem: &str) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|source| TlsError::Pem("a private key", source))
}

/// The certificate by which a client with this identity is recognised.
pub(super) fn presented(identity: &Identity) -> Result<Vec<u8>, TlsError> {
    certificate(&identity.certificate).map(|certificate| certificate.to_vec())
}

/// Towards clients.
pub(super) fn server(identity: &Identity) -> Result<Arc<ServerConfig>, TlsError> {
    let provider = provider();
    let mut config = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(Arc::new(AnyClient(provider)))
        .with_single_cert(vec![certificate(&identity.certificate)?], key(&identity.key)?)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Towards the API server.
pub(super) fn client(authority: &str, identity: Option<&Identity>) -> Result<ClientConfig, TlsError> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate(authority)?)?;
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    Ok(match identity {
        Some(identity) => {
            builder.with_client_auth_cert(vec![certificate(&identity.certificate)?], key(&identity.key)?)?
        }
        None => builder.with_no_client_auth(),
    })
}

/// Takes any client certificate, expired ones too: whether it is good is for the API server to say. That the client has the
/// key is checked.
#[derive(Debug)]
struct AnyClient(Arc<CryptoProvider>);

impl ClientCertVerifier for AnyClient {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
