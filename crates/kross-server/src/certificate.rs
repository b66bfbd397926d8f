//! The certificate of pages that are served over TLS: read from files and again when they change, given by the controller, or
//! self-signed.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::{Timestamp, ToSpan, civil::Date, tz::TimeZone};
use kross_cluster::crypto_provider;
use kross_controller::{ServingCertificate, ServingCertificates};
use parking_lot::{Mutex, RwLock};
use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::time::Instant;

/// How often the files are read again, at most: only new connections read them.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// How often the controller is asked, at most.
const GIVEN_INTERVAL: Duration = Duration::from_secs(1);
/// How long a self-signed certificate is used. It is valid for twice as long.
const SELF_SIGNED_AGE: Duration = Duration::from_secs(182 * 24 * 60 * 60);
/// The largest file that is read.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The files of a certificate and its key, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, followed by those of intermediate authorities.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// A certificate that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file has other content.
    #[error("`{}` has no {expected} in PEM", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What it must have.
        expected: &'static str,
        /// Why it was not found.
        #[source]
        source: pem::Error,
    },
    /// Certificate and key cannot be used together.
    #[error("cannot use the certificate in `{}` with the key in `{}`", files.certificate.display(), files.key.display())]
    Pair {
        /// The files.
        files: CertificateFiles,
        /// Why.
        #[source]
        source: rustls::Error,
    },
    /// No certificate could be created.
    #[error("cannot create a self-signed certificate")]
    SelfSigned(#[source] rcgen::Error),
    /// A certificate of the controller cannot be used.
    #[error("cannot read the certificate of the controller")]
    Given(#[source] pem::Error),
    /// TLS cannot be configured.
    #[error("cannot configure TLS")]
    Tls(#[source] rustls::Error),
}

/// A certificate for TLS that is always current.
#[derive(Debug)]
pub struct ServerCertificate {
    source: Source,
    provider: Arc<CryptoProvider>,
    current: Arc<Current>,
    /// When it was last read or created.
    checked: Mutex<Instant>,
    interval: Duration,
}

/// Where a certificate comes from.
#[derive(Clone, Debug)]
enum Source {
    SelfSigned,
    Files(CertificateFiles),
    /// None until the controller has one.
    Given(ServingCertificates),
}

/// The certificate in use; none while there is none, so that handshakes fail.
#[derive(Debug)]
struct Current(RwLock<Option<Arc<CertifiedKey>>>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.read().clone()
    }
}

impl ServerCertificate {
    /// Reads the certificate, or creates a self-signed one where there are no files.
    ///
    /// # Errors
    /// The files cannot be read, or do not belong together.
    pub fn new(files: Option<CertificateFiles>) -> Result<Self, CertificateError> {
        match files {
            Some(files) => Self::checked_every(Source::Files(files), CHECK_INTERVAL),
            None => Self::checked_every(Source::SelfSigned, SELF_SIGNED_AGE),
        }
    }

    /// Serves with the certificates of the controller, each from the moment when there is one.
    ///
    /// # Errors
    /// The first one cannot be used.
    pub fn following(certificates: ServingCertificates) -> Result<Self, CertificateError> {
        Self::checked_every(Source::Given(certificates), GIVEN_INTERVAL)
    }

    fn checked_every(source: Source, interval: Duration) -> Result<Self, CertificateError> {
        let provider = Arc::new(crypto_provider());
        let key = load(&source, &provider)?;
        let current = Arc::new(Current(RwLock::new(key.map(Arc::new))));
        Ok(Self { source, provider, current, checked: Mutex::new(Instant::now()), interval })
    }

    /// The configuration for TLS 1.2 and 1.3 with this certificate.
    pub(crate) fn tls_config(&self) -> Result<ServerConfig, CertificateError> {
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_safe_default_protocol_versions()
            .map_err(CertificateError::Tls)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&self.current) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }

    /// Uses the certificate that there is now, if that was not checked recently. While it cannot be used, for example
    /// because only one of the files was replaced so far, the previous one stays in use.
    pub(crate) async fn refresh(&self) {
        {
            let mut checked = self.checked.lock();
            if checked.elapsed() < self.interval {
                return;
            }
            *checked = Instant::now();
        }
        let (source, provider) = (self.source.clone(), Arc::clone(&self.provider));
        match tokio::task::spawn_blocking(move || load(&source, &provider)).await {
            Ok(Ok(key)) => {
                let mut current = self.current.0.write();
                let chain = |key: Option<&CertifiedKey>| key.map(|key| key.cert.clone());
                if chain(current.as_deref()) != chain(key.as_ref()) {
                    *current = key.map(Arc::new);
                    drop(current);
                    tracing::info!("using the new certificate of the pages");
                }
            }
            Ok(Err(error)) => {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                tracing::warn!(%error, cause, "cannot reload the certificate of the pages; using the previous one");
            }
            Err(error) => tracing::warn!(%error, "cannot reload the certificate of the pages"),
        }
    }
}

fn load(source: &Source, provider: &CryptoProvider) -> Result<Option<CertifiedKey>, CertificateError> {
    match source {
        Source::SelfSigned => self_signed(provider).map(Some),
        Source::Files(files) => from_files(files, provider).map(Some),
        Source::Given(certificates) => {
            let given = certificates.borrow().clone();
            given.map(|given| from_pem(&given, provider)).transpose()
        }
    }
}

fn from_pem(given: &ServingCertificate, provider: &CryptoProvider) -> Result<CertifiedKey, CertificateError> {
    let certificates: Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(given.certificate.as_bytes()).collect();
    let key = PrivateKeyDer::from_pem_slice(given.key.as_bytes()).map_err(CertificateError::Given)?;
    let certificates = certificates.map_err(CertificateError::Given)?;
    CertifiedKey::from_der(certificates, key, provider).map_err(CertificateError::Tls)
}

fn from_files(files: &CertificateFiles, provider: &CryptoProvider) -> Result<CertifiedKey, CertificateError> {
    let content = |path: &Path, expected| {
        let path = path.to_owned();
        move |source| CertificateError::Content { path, expected, source }
    };
    let certificates = read(&files.certificate)?;
    let certificates: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&certificates)
        .collect::<Result<_, _>>()
        .map_err(content(&files.certificate, "certificate"))?;
    let key =
        PrivateKeyDer::from_pem_slice(&read(&files.key)?).map_err(content(&files.key, "private key"))?;
    CertifiedKey::from_der(certificates, key, provider)
        .map_err(|source| CertificateError::Pair { files: files.clone(), source })
}

fn read(path: &Path) -> Result<Vec<u8>, CertificateError> {
    let mut content = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_FILE_BYTES).read_to_end(&mut content));
    read.map_err(|source| CertificateError::Read { path: path.to_owned(), source })?;
    Ok(content)
}

/// A certificate that no authority has signed, valid for a year from now.
fn self_signed(provider: &CryptoProvider) -> Result<CertifiedKey, CertificateError> {
    let sign = || {
        let key = KeyPair::generate()?;
        let mut parameters = CertificateParams::new(["localhost".to_owned(), "127.0.0.1".to_owned()])?;
        parameters.distinguished_name.push(DnType::CommonName, "kross");
        let part = |number: i8| u8::try_from(number).unwrap_or(1);
        let midnight = |date: Date| date_time_ymd(date.year().into(), part(date.month()), part(date.day()));
        let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
        parameters.not_before = midnight(today.saturating_sub(1.day()));
        parameters.not_after = midnight(today.saturating_add(1.year()));
        Ok((parameters.self_signed(&key)?.der().clone(), key.serialize_der()))
    };
    let (certificate, key) = sign().map_err(CertificateError::SelfSigned)?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key));
    CertifiedKey::from_der(vec![certificate], key, provider).map_err(CertificateError::Tls)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, pair: &rcgen::CertifiedKey<KeyPair>) -> CertificateFiles {
        let files = CertificateFiles { certificate: folder.join("tls.crt"), key: folder.join("tls.key") };
        std::fs::write(&files.certificate, pair.cert.pem()).unwrap();
        std::fs::write(&files.key, pair.signing_key.serialize_pem()).unwrap();
        files
    }

    fn pair() -> rcgen::CertifiedKey<KeyPair> {
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap()
    }

    fn used(certificate: &ServerCertificate) -> Vec<u8> {
        certificate.current.0.read().as_ref().unwrap().cert[0].to_vec()
    }

    #[tokio::test]
    async fn a_certificate_that_changed_is_used_once_certificate_and_key_fit() {
        let (folder, [old, new]) = (tempfile::tempdir().unwrap(), [pair(), pair()]);
        let files = write(folder.path(), &old);
        let certificate =
            ServerCertificate::checked_every(Source::Files(files.clone()), Duration::ZERO).unwrap();
        std::fs::write(&files.certificate, new.cert.pem()).unwrap();
        certificate.refresh().await;
        assert_eq!(used(&certificate), old.cert.der().to_vec());
        std::fs::write(&files.key, new.signing_key.serialize_pem()).unwrap();
        certificate.refresh().await;
        assert_eq!(used(&certificate), new.cert.der().to_vec());
        std::fs::remove_file(&files.certificate).unwrap();
        certificate.refresh().await;
        assert_eq!(used(&certificate), new.cert.der().to_vec());
    }

    #[tokio::test]
    async fn files_are_not_read_for_every_connection() {
        let folder = tempfile::tempdir().unwrap();
        let certificate = ServerCertificate::new(Some(write(folder.path(), &pair()))).unwrap();
        let first = used(&certificate);
        write(folder.path(), &pair());
        certificate.refresh().await;
        assert_eq!(used(&certificate), first);
    }

    #[tokio::test]
    async fn a_self_signed_certificate_is_replaced_before_it_expires() {
        let certificate = ServerCertificate::checked_every(Source::SelfSigned, Duration::ZERO).unwrap();
        let first = used(&certificate);
        certificate.refresh().await;
        assert_ne!(used(&certificate), first);
    }

    #[tokio::test]
    async fn a_certificate_of_the_controller_is_used_as_soon_as_there_is_one() {
        let (sender, certificates) = tokio::sync::watch::channel(None);
        let certificate =
            ServerCertificate::checked_every(Source::Given(certificates), Duration::ZERO).unwrap();
        certificate.refresh().await;
        assert!(certificate.current.0.read().is_none());
        for pair in [pair(), pair()] {
            let given =
                ServingCertificate { certificate: pair.cert.pem(), key: pair.signing_key.serialize_pem() };
            sender.send_replace(Some(Arc::new(given)));
            certificate.refresh().await;
            assert_eq!(used(&certificate), pair.cert.der().to_vec());
        }
        sender.send_replace(Some(Arc::new(ServingCertificate {
            certificate: "none".to_owned(),
            key: "none".to_owned(),
        })));
        let last = used(&certificate);
        certificate.refresh().await;
        assert_eq!(used(&certificate), last, "the previous one stays in use");
    }

    #[test]
    fn errors_name_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let files = write(folder.path(), &pair());
        let error =
            |files: &CertificateFiles| ServerCertificate::new(Some(files.clone())).unwrap_err().to_string();
        std::fs::write(&files.key, pair().signing_key.serialize_pem()).unwrap();
        assert!(error(&files).starts_with("cannot use the certificate in `"), "{}", error(&files));
        std::fs::write(&files.key, "none").unwrap();
        assert_eq!(error(&files), format!("`{}` has no private key in PEM", files.key.display()));
        std::fs::remove_file(&files.certificate).unwrap();
        assert_eq!(error(&files), format!("cannot read `{}`", files.certificate.display()));
    }
}
