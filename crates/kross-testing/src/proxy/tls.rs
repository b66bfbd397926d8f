//! The proxy's TLS configurations. Towards clients it presents its own certificate and accepts any client certificate;
//! towards the API server it verifies the server certificate and presents the client's.

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

/// Why TLS could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A certificate or key cannot be read.
    #[error("cannot read {0} from PEM")]
    Pem(&'static str, #[source] rustls::pki_types::pem::Error),
    /// Certificate and key do not match, or are not supported.
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

/// The certificate that a client with this identity presents.
pub(super) fn presented(identity: &Identity) -> Result<Vec<u8>, TlsError> {
    certificate(&identity.certificate).map(|certificate| certificate.to_vec())
}

/// The configuration towards clients.
pub(super) fn server(identity: &Identity) -> Result<Arc<ServerConfig>, TlsError> {
    let provider = provider();
    let mut config = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(Arc::new(AnyClientCertificate(provider)))
        .with_single_cert(vec![certificate(&identity.certificate)?], key(&identity.key)?)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// The configuration towards the API server.
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

/// Accepts any client certificate, also an expired one, since the API server decides about it. Verifies only that the client
/// has the key.
#[derive(Debug)]
struct AnyClientCertificate(Arc<CryptoProvider>);

impl ClientCertVerifier for AnyClientCertificate {
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
