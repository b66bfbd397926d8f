//! Issues certificates: each control plane has an authority that signs the certificates of its server and clients.

use std::fmt;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};

/// Why a certificate could not be issued.
#[derive(Debug, thiserror::Error)]
#[error("cannot issue a certificate for `{subject}`")]
pub struct CertificateError {
    subject: String,
    #[source]
    source: rcgen::Error,
}

/// A certificate and its private key, both in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// The private key (PKCS #8).
    pub key: String,
}

impl fmt::Debug for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Identity")
    }
}

/// The validity of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// Valid for longer than any test runs.
    Current,
    /// Expired at the end of 2020.
    Expired,
}

/// A certificate authority in memory.
pub struct CertificateAuthority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl fmt::Debug for CertificateAuthority {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("CertificateAuthority")
    }
}

impl CertificateAuthority {
    /// Creates a new authority.
    ///
    /// # Errors
    /// The system's random number generator fails.
    pub fn new(name: &str) -> Result<Self, CertificateError> {
        let issue = || {
            let mut parameters = CertificateParams::default();
            parameters.distinguished_name.push(DnType::CommonName, name);
            parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            parameters.key_usages = vec![
                KeyUsagePurpose::KeyCertSign,
                KeyUsagePurpose::CrlSign,
                KeyUsagePurpose::DigitalSignature,
            ];
            CertifiedIssuer::self_signed(parameters, KeyPair::generate()?)
        };
        issue().map(|issuer| Self { issuer }).map_err(error(name))
    }

    /// The authority's own certificate, in PEM.
    #[must_use]
    pub fn certificate(&self) -> String {
        self.issuer.pem()
    }

    /// A certificate for a server with these host names and addresses.
    ///
    /// # Errors
    /// A name is invalid.
    pub fn server(&self, names: &[String], validity: Validity) -> Result<Identity, CertificateError> {
        let subject = names.first().map_or("server", String::as_str);
        let parameters = CertificateParams::new(names).map_err(error(subject))?;
        self.issue(parameters, subject, None, ExtendedKeyUsagePurpose::ServerAuth, validity)
    }

    /// A client certificate that authenticates `user`, as a member of `group` if given.
    ///
    /// # Errors
    /// The system's random number generator fails.
    pub fn client(
        &self,
        user: &str,
        group: Option<&str>,
        validity: Validity,
    ) -> Result<Identity, CertificateError> {
        self.issue(CertificateParams::default(), user, group, ExtendedKeyUsagePurpose::ClientAuth, validity)
    }

    fn issue(
        &self,
        mut parameters: CertificateParams,
        subject: &str,
        group: Option<&str>,
        purpose: ExtendedKeyUsagePurpose,
        validity: Validity,
    ) -> Result<Identity, CertificateError> {
        parameters.distinguished_name = rcgen::DistinguishedName::new();
        parameters.distinguished_name.push(DnType::CommonName, subject);
        if let Some(group) = group {
            parameters.distinguished_name.push(DnType::OrganizationName, group);
        }
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        parameters.extended_key_usages = vec![purpose];
        parameters.not_before = date_time_ymd(2020, 1, 1);
        parameters.not_after = match validity {
            Validity::Current => date_time_ymd(2099, 12, 31),
            Validity::Expired => date_time_ymd(2020, 12, 31),
        };
        let issue = || {
            let key = KeyPair::generate()?;
            let certificate = parameters.signed_by(&key, &self.issuer)?;
            Ok(Identity { certificate: certificate.pem(), key: key.serialize_pem() })
        };
        issue().map_err(error(subject))
    }
}

fn error(subject: &str) -> impl FnOnce(rcgen::Error) -> CertificateError {
    let subject = subject.to_owned();
    move |source| CertificateError { subject, source }
}
