//! The certificates in the Secret of the webhook: the one that is served, the next one, and the authorities of both. Decides when
//! the next one is due.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use kross_value::Value;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, KeyUsagePurpose, PublicKeyData, date_time_ymd,
};
use x509_parser::extensions::GeneralName;

use super::ServingCertificate;

const AUTHORITIES: &str = "ca.crt";
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const NEXT_CERTIFICATE: &str = "next.crt";
const NEXT_KEY: &str = "next.key";
/// A certificate is valid from this long before it is issued, for API servers whose clock is behind.
const BACKDATED: Duration = Duration::from_secs(300);
/// How long API servers may take until they use an authority that was published.
const PROPAGATION: Duration = Duration::from_secs(300);

/// The content of the Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bundle {
    /// The certificates of the authorities that are trusted, each in PEM.
    authorities: Vec<String>,
    pub(super) current: ServingCertificate,
    pub(super) next: Option<ServingCertificate>,
}

/// What a certificate says of itself.
struct Facts {
    issued: Timestamp,
    expires: Timestamp,
    names: Vec<String>,
}

impl Bundle {
    /// Reads the data of a Secret; none if it has no certificate.
    pub(super) fn read(secret: &Value) -> Option<Self> {
        let text = |key: &str| {
            let encoded = secret.at(&["data", key])?.as_str()?;
            String::from_utf8(STANDARD.decode(encoded).ok()?).ok()
        };
        let pair = |certificate, key| {
            let pair = ServingCertificate { certificate: text(certificate)?, key: text(key)? };
            (!pair.certificate.is_empty() && !pair.key.is_empty()).then_some(pair)
        };
        Some(Self {
            authorities: split(&text(AUTHORITIES)?),
            current: pair(CERTIFICATE, KEY)?,
            next: pair(NEXT_CERTIFICATE, NEXT_KEY),
        })
    }

    /// The data of the Secret. Entries that are not used are null, as in a merge patch.
    pub(super) fn data(&self) -> Value {
        let encoded = |text: &str| Value::from(STANDARD.encode(text));
        let next = |part: fn(&ServingCertificate) -> &str| {
            self.next.as_ref().map_or(Value::Null, |next| encoded(part(next)))
        };
        let mut data = vec![
            (AUTHORITIES, encoded(&self.authorities.concat())),
            (CERTIFICATE, encoded(&self.current.certificate)),
            (KEY, encoded(&self.current.key)),
        ];
        data.push((NEXT_CERTIFICATE, next(|next| &next.certificate)));
        data.push((NEXT_KEY, next(|next| &next.key)));
        Value::object(data)
    }

    /// The authorities, as a `caBundle`.
    pub(super) fn trusted(&self) -> String {
        STANDARD.encode(self.authorities.concat())
    }

    /// When the certificate that is served expires.
    pub(super) fn expires(&self) -> Option<Timestamp> {
        facts(&self.current).map(|facts| facts.expires)
    }
}

/// What the Secret should have; none if it has that.
///
/// # Errors
/// No certificate can be issued.
pub(super) fn due(
    stored: Option<&Bundle>,
    names: &[String],
    now: Timestamp,
    validity: Duration,
) -> Result<Option<Bundle>, rcgen::Error> {
    let usable = |certificate: &ServingCertificate| {
        let facts = facts(certificate)?;
        let is_named = names.first().is_none_or(|name| facts.names.contains(name));
        (is_named && now < facts.expires).then_some(facts)
    };
    let Some(stored) = stored else { return first(names, now, validity).map(Some) };
    let next = stored.next.as_ref().and_then(|next| Some((next, usable(next)?)));
    let promoted = |next: &ServingCertificate| Bundle {
        authorities: stored.authorities.clone(),
        current: next.clone(),
        next: None,
    };
    match (usable(&stored.current), next) {
        (Some(_), Some((next, facts))) => {
            let published = facts.issued.saturating_add(propagation(&facts));
            let is_published = published.is_ok_and(|published| published <= now);
            Ok(is_published.then(|| promoted(next)))
        }
        (Some(facts), None) if now < renewal(&facts) => Ok(None),
        (Some(_), None) => {
            let (authority, next) = issue(names, now, validity)?;
            let mut authorities = stored.authorities.clone();
            authorities.retain(|authority| expiry(authority).is_some_and(|expires| now < expires));
            authorities.push(authority);
            Ok(Some(Bundle { authorities, current: stored.current.clone(), next: Some(next) }))
        }
        (None, Some((next, _))) => Ok(Some(promoted(next))),
        (None, None) => first(names, now, validity).map(Some),
    }
}

fn first(names: &[String], now: Timestamp, validity: Duration) -> Result<Bundle, rcgen::Error> {
    let (authority, current) = issue(names, now, validity)?;
    Ok(Bundle { authorities: vec![authority], current, next: None })
}

fn lifetime(facts: &Facts) -> Duration {
    facts.expires.duration_since(facts.issued).try_into().unwrap_or_default()
}

/// When two thirds of the lifetime have passed.
fn renewal(facts: &Facts) -> Timestamp {
    facts.expires.saturating_sub(lifetime(facts) / 3).unwrap_or(facts.issued)
}

fn propagation(facts: &Facts) -> Duration {
    PROPAGATION.min(lifetime(facts) / 10)
}

/// A certificate for these names, and the authority that has signed it, whose key nobody has any more.
fn issue(
    names: &[String],
    now: Timestamp,
    validity: Duration,
) -> Result<(String, ServingCertificate), rcgen::Error> {
    // The names of authorities differ, so that clients find the right one at once.
    let subject = format!("kross-webhook-{}", now.as_millisecond());
    let valid = |mut parameters: CertificateParams, subject: &str| {
        let start = Duration::from_secs(u64::try_from(now.as_second()).unwrap_or(0));
        let epoch = date_time_ymd(1970, 1, 1);
        parameters.not_before = epoch + start.saturating_sub(BACKDATED);
        parameters.not_after = epoch + start.saturating_add(validity);
        parameters.distinguished_name = DistinguishedName::new();
        parameters.distinguished_name.push(DnType::CommonName, subject);
        parameters
    };
    let mut authority = valid(CertificateParams::default(), &subject);
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
    let server = names.first().map_or("webhook", String::as_str);
    let mut server = valid(CertificateParams::new(names)?, server);
    server.use_authority_key_identifier_extension = true;
    server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate()?;
    let certificate = server.signed_by(&key, &authority)?;
    let served = ServingCertificate { certificate: certificate.pem(), key: key.serialize_pem() };
    Ok((authority.pem(), served))
}

/// Reads a certificate; none if it is not one, or not of its key.
fn facts(pair: &ServingCertificate) -> Option<Facts> {
    let (_, pem) = x509_parser::pem::parse_x509_pem(pair.certificate.as_bytes()).ok()?;
    let certificate = pem.parse_x509().ok()?;
    let key = KeyPair::from_pem(&pair.key).ok()?;
    if certificate.public_key().raw != key.subject_public_key_info() {
        return None;
    }
    let time = |time: x509_parser::time::ASN1Time| Timestamp::from_second(time.timestamp()).ok();
    let validity = certificate.validity();
    let names = certificate.subject_alternative_name().ok().flatten()?;
    let dns = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        _ => None,
    };
    Some(Facts {
        issued: time(validity.not_before)?.saturating_add(BACKDATED).ok()?,
        expires: time(validity.not_after)?,
        names: names.value.general_names.iter().filter_map(dns).collect(),
    })
}

/// When an authority expires.
fn expiry(authority: &str) -> Option<Timestamp> {
    let (_, pem) = x509_parser::pem::parse_x509_pem(authority.as_bytes()).ok()?;
    Timestamp::from_second(pem.parse_x509().ok()?.validity().not_after.timestamp()).ok()
}

/// The certificates of a PEM text.
fn split(text: &str) -> Vec<String> {
    const END: &str = "-----END CERTIFICATE-----";
    text.split_inclusive(END)
        .filter(|part| part.contains(END))
        .map(|part| format!("{}\n", part.trim()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALIDITY: Duration = Duration::from_secs(90 * 24 * 3600);
    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn names() -> Vec<String> {
        vec!["kross-webhook.kro-system.svc".to_owned(), "localhost".to_owned()]
    }

    fn now() -> Timestamp {
        "2026-11-19T12:00:00Z".parse().unwrap()
    }

    fn due_at(stored: Option<&Bundle>, now: Timestamp) -> Option<Bundle> {
        due(stored, &names(), now, VALIDITY).unwrap()
    }

    fn created() -> Bundle {
        due_at(None, now()).unwrap()
    }

    /// What a Secret with this bundle has.
    fn stored(bundle: &Bundle) -> Bundle {
        Bundle::read(&Value::object([("data", bundle.data())])).unwrap()
    }

    #[test]
    fn the_first_certificate_is_valid_now_for_all_names() {
        let bundle = created();
        let facts = facts(&bundle.current).unwrap();
        assert_eq!(facts.names, names());
        assert_eq!(facts.issued, now());
        assert_eq!(facts.expires, now() + VALIDITY);
        assert_eq!(stored(&bundle), bundle);
        assert_eq!(due_at(Some(&bundle), now()), None);
    }

    #[test]
    fn the_next_authority_is_published_before_its_certificate_is_served() {
        let first = created();
        assert_eq!(due_at(Some(&first), now() + DAY * 59), None);
        let renewed = now() + DAY * 61;
        let staged = due_at(Some(&first), renewed).unwrap();
        assert_eq!(staged.current, first.current);
        assert_eq!(staged.authorities.len(), 2);
        let staged = stored(&staged);
        assert_eq!(due_at(Some(&staged), renewed + PROPAGATION / 2), None);
        let promoted = due_at(Some(&staged), renewed + PROPAGATION).unwrap();
        assert_eq!(Some(&promoted.current), staged.next.as_ref());
        assert_eq!((promoted.authorities.len(), &promoted.next), (2, &None), "both are trusted meanwhile");
        // The first authority has expired by the next rotation.
        let staged = due_at(Some(&promoted), renewed + DAY * 61).unwrap();
        assert_eq!(staged.authorities.len(), 2);
        assert!(!staged.authorities.contains(&first.authorities[0]));
    }

    #[test]
    fn what_cannot_be_used_is_replaced_at_once() {
        let first = created();
        let expired = due_at(Some(&first), now() + VALIDITY).unwrap();
        assert_ne!(expired.current, first.current);
        let other = due(Some(&first), &["other.svc".to_owned()], now(), VALIDITY).unwrap().unwrap();
        assert_eq!((other.authorities.len(), other.next), (1, None));
        let key = created().current.key;
        let mixed = Bundle { current: ServingCertificate { key, ..first.current.clone() }, ..first };
        assert!(due_at(Some(&mixed), now()).is_some());
        let next = Some(created().current);
        let broken = Bundle { next, ..mixed };
        assert_eq!(
            due_at(Some(&broken), now()).unwrap().current,
            broken.next.unwrap(),
            "the next one is there"
        );
    }

    #[test]
    fn a_secret_without_a_certificate_is_empty() {
        assert_eq!(Bundle::read(&Value::object([])), None);
        assert_eq!(Bundle::read(&Value::object([("data", Value::object([]))])), None);
    }
}
