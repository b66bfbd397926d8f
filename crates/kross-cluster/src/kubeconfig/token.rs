//! Reads whose token a kubeconfig has, and replaces it by another one without touching anything else.

use std::fmt;

use zeroize::Zeroizing;

use super::lifetime::TokenClaims;
use super::{Accepted, AuthInfo, AuthMethod, KubeconfigPolicy, Refusal, accept};

/// How user names of ServiceAccounts begin.
const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// A ServiceAccount in the cluster of a kubeconfig.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceAccountName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl ServiceAccountName {
    /// Reads `namespace/name`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::of(text.split_once('/')?)
    }

    fn of((namespace, name): (&str, &str)) -> Option<Self> {
        let is_name = |text: &str| {
            let is_allowed =
                |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
            !text.is_empty()
                && text.len() <= 253
                && text.bytes().all(is_allowed)
                && text.starts_with(|first: char| first.is_ascii_alphanumeric())
        };
        (is_name(namespace) && is_name(name))
            .then(|| Self { namespace: namespace.to_owned(), name: name.to_owned() })
    }
}

impl fmt::Display for ServiceAccountName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl TokenClaims {
    /// The ServiceAccount that the token is for.
    pub(crate) fn service_account(&self) -> Option<ServiceAccountName> {
        let account = self.subject.as_deref()?.strip_prefix(SERVICE_ACCOUNT_PREFIX)?;
        ServiceAccountName::of(account.split_once(':')?)
    }
}

/// Why the token of a kubeconfig cannot be replaced. Shows no part of a credential.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplaceTokenError {
    /// It has no token.
    #[error("the kubeconfig has no token of a ServiceAccount: it authenticates by {method}")]
    OtherMethod {
        /// How it authenticates.
        method: AuthMethod,
    },
    /// Its token is no JSON Web Token of a ServiceAccount.
    #[error("the token in the kubeconfig is not that of a ServiceAccount")]
    OtherToken,
    /// The token is not written as one word.
    #[error(
        "the token in the kubeconfig is written over several lines or with escapes; write it as one word"
    )]
    NotOneWord,
    /// The new token has characters that tokens do not have.
    #[error("the cluster issued something that is not a token")]
    InvalidToken,
    /// The kubeconfig is refused, before or after the replacement.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

impl Accepted {
    /// The ServiceAccount whose token the kubeconfig has, as the token says.
    #[must_use]
    pub fn service_account(&self) -> Option<ServiceAccountName> {
        let AuthInfo::Token(token) = &self.auth_info else { return None };
        TokenClaims::of(token)?.service_account()
    }
}

/// The same kubeconfig with another token of a ServiceAccount, to the byte.
///
/// # Errors
/// It has no such token, or would not be accepted with the new one.
pub fn replace_token(
    kubeconfig: &[u8],
    namespace: &str,
    policy: &KubeconfigPolicy,
    token: &str,
) -> Result<Zeroizing<Vec<u8>>, ReplaceTokenError> {
    let before = accept(kubeconfig, namespace, policy)?;
    let AuthInfo::Token(old) = &before.auth_info else {
        return Err(ReplaceTokenError::OtherMethod { method: before.method() });
    };
    // Anything shorter could be part of another field.
    if before.service_account().is_none() {
        return Err(ReplaceTokenError::OtherToken);
    }
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
        return Err(ReplaceTokenError::InvalidToken);
    }
    let text = std::str::from_utf8(kubeconfig).map_err(|_| ReplaceTokenError::NotOneWord)?;
    let replaced = Zeroizing::new(text.replace(old.as_str(), token).into_bytes());
    let after = accept(&replaced, namespace, policy)?;
    let has_token = matches!(&after.auth_info, AuthInfo::Token(new) if new.as_str() == token);
    if has_token && after.server == before.server && after.anchor == before.anchor {
        Ok(replaced)
    } else {
        Err(ReplaceTokenError::NotOneWord)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_service_accounts_are_read() {
        let account = ServiceAccountName::parse("kube-system/kross").unwrap();
        assert_eq!(account.to_string(), "kube-system/kross");
        for text in ["kross", "/kross", "a/", "a/b/c", "a/../secrets", "A/b", "a/b%2f", ""] {
            assert_eq!(ServiceAccountName::parse(text), None, "{text}");
        }
        let claims =
            |subject: &str| TokenClaims { subject: Some(subject.to_owned()), ..TokenClaims::default() };
        let of = |subject: &str| claims(subject).service_account();
        assert_eq!(of("system:serviceaccount:kube-system:kross"), Some(account));
        for subject in ["admin", "system:serviceaccount:a", "system:serviceaccount:a:b:c"] {
            assert_eq!(of(subject), None, "{subject}");
        }
    }
}
