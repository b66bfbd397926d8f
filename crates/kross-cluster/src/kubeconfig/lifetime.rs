//! Turns the credential of an accepted kubeconfig into the time in which clusters accept it.

use base64::Engine;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use super::{Accepted, AuthInfo};

/// From when until when a credential is valid, as far as it tells. That of a token is what its issuer wrote into it: nobody has
/// verified the signature, so nothing but warnings and renewals may depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CredentialLifetime {
    /// When it was issued.
    pub issued_at: Option<Timestamp>,
    /// When it expires. None if it does not expire, or does not tell.
    pub expires_at: Option<Timestamp>,
}

impl CredentialLifetime {
    /// How long it is valid in total, if it tells both.
    #[must_use]
    pub fn duration(&self) -> Option<SignedDuration> {
        Some(self.expires_at?.duration_since(self.issued_at?)).filter(SignedDuration::is_positive)
    }
}

/// What a JSON Web Token of a ServiceAccount says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct TokenClaims {
    /// The user name, such as `system:serviceaccount:kube-system:kross`.
    #[serde(rename = "sub")]
    pub(crate) subject: Option<String>,
    #[serde(rename = "iat")]
    pub(super) issued_at: Option<serde_json::Number>,
    #[serde(rename = "exp")]
    pub(super) expires_at: Option<serde_json::Number>,
}

impl TokenClaims {
    /// Reads them. None if the token is no JSON Web Token.
    pub(crate) fn of(token: &str) -> Option<Self> {
        let payload = token.split('.').nth(1)?;
        let payload = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(payload).ok()?;
        serde_json::from_slice(&payload).ok()
    }

    pub(crate) fn lifetime(&self) -> CredentialLifetime {
        CredentialLifetime {
            issued_at: self.issued_at.as_ref().and_then(moment),
            expires_at: self.expires_at.as_ref().and_then(moment),
        }
    }
}

/// Seconds since 1970. Some issuers write fractions.
fn moment(seconds: &serde_json::Number) -> Option<Timestamp> {
    if let Some(seconds) = seconds.as_i64() {
        return Timestamp::from_second(seconds).ok();
    }
    let seconds = SignedDuration::try_from_secs_f64(seconds.as_f64()?).ok()?;
    Timestamp::from_duration(SignedDuration::from_secs(seconds.as_secs())).ok()
}

impl Accepted {
    /// From when until when the credential is valid: the claims of a token, or the dates of a client certificate. That of an `exec`
    /// command is known once it has run.
    #[must_use]
    pub fn lifetime(&self) -> CredentialLifetime {
        match &self.auth_info {
            AuthInfo::Token(token) => {
                TokenClaims::of(token).map(|claims| claims.lifetime()).unwrap_or_default()
            }
            AuthInfo::Certificate(certificate) => {
                CredentialLifetime { issued_at: certificate.not_before, expires_at: certificate.not_after }
            }
            AuthInfo::Exec(_, source) => CredentialLifetime {
                issued_at: None,
                expires_at: source.get().and_then(|source| source.credential_expiry()),
            },
            AuthInfo::Basic { .. } => CredentialLifetime::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(claims: &str) -> String {
        format!("e30.{}.c2ln", base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(claims))
    }

    #[test]
    fn the_lifetime_of_a_token_is_in_its_claims() {
        let claims =
            TokenClaims::of(&token(r#"{"iat":1000,"exp":4600.5,"sub":"system:serviceaccount:a:b"}"#));
        let claims = claims.unwrap();
        let lifetime = claims.lifetime();
        assert_eq!(lifetime.expires_at.unwrap().as_second(), 4600);
        assert_eq!(lifetime.duration().unwrap().as_secs(), 3600);
        assert_eq!(claims.subject.as_deref(), Some("system:serviceaccount:a:b"));
    }

    #[test]
    fn claims_that_make_no_sense_are_no_lifetime() {
        let huge = TokenClaims::of(&token(r#"{"iat":1e300,"exp":9223372036854775807}"#)).unwrap();
        assert_eq!(huge.lifetime(), CredentialLifetime::default());
        let backwards = TokenClaims::of(&token(r#"{"iat":2000,"exp":1000}"#)).unwrap();
        assert_eq!(backwards.lifetime().duration(), None);
        for text in ["s3cret", "a.b.c", "", &token("[]"), &token(r#"{"exp":"soon"}"#)] {
            assert_eq!(TokenClaims::of(text), None, "{text}");
        }
    }
}
