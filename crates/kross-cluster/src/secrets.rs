//! Turns a Secret that a cluster reference names into the bytes of a kubeconfig, if its owner offers it to whoever asks. An
//! instance's author chooses the name, so everything that may not be used looks the same: absent, not offered, or offered to
//! somebody else.

use base64::Engine;
use kross_api::{KUBECONFIG_NAME_SUFFIX, SecretAddress, annotations, labels};
use kross_value::Value;
use zeroize::Zeroizing;

use crate::object::StoredObject;

/// In the list of namespaces: every one, and instances without one.
const EVERYWHERE: &str = "*";

/// What an operator demands of Secrets with kubeconfigs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SecretPolicy {
    /// Whether each of them must say which namespaces may use it.
    pub require_allowed_namespaces: bool,
}

/// Who wants to use a Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SecretConsumer<'a> {
    /// A definition, for its static reference: whoever may write definitions may name any Secret that is offered at all.
    Definition,
    /// An instance in this namespace, or in none.
    Instance(Option<&'a str>),
}

impl<'a> From<Option<&'a str>> for SecretConsumer<'a> {
    fn from(namespace: Option<&'a str>) -> Self {
        Self::Instance(namespace)
    }
}

/// A Secret that is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretRefusal {
    /// It is missing, not offered, or not offered to whoever asks. Which of them is nobody's business.
    #[error(
        "cannot use Secret `{secret}`: it must exist, {}{}, and not be of a type `kubernetes.io/*`",
        offered_text(secret),
        allowed_text(consumer.as_deref())
    )]
    NotOffered {
        /// The Secret.
        secret: String,
        /// What its annotation must allow.
        consumer: Option<String>,
    },
    /// The reference came out as something that no Secret can be called.
    #[error(
        "cannot use Secret `{secret}`: this is no name that a Secret can have; names have lower-case letters, digits, \
         `-` and `.`"
    )]
    Name {
        /// What it came out as, shortened.
        secret: String,
    },
    /// The key came out as something that no key can be called.
    #[error(
        "cannot use Secret `{secret}`: it can have no key `{key}`; keys have letters, digits, `-`, `_` and `.`"
    )]
    KeyName {
        /// The Secret.
        secret: String,
        /// What the key came out as, shortened.
        key: String,
    },
    /// It has no such key.
    #[error(
        "Secret `{secret}` has no key `{key}`; store the kubeconfig there, or name another key in the reference"
    )]
    Key {
        /// The Secret.
        secret: String,
        /// The key.
        key: String,
    },
}

impl SecretRefusal {
    /// The refusal of a Secret that is not there: the same as of one that is not offered.
    #[must_use]
    pub fn not_offered<'a>(address: &SecretAddress, consumer: impl Into<SecretConsumer<'a>>) -> Self {
        let consumer = match consumer.into() {
            SecretConsumer::Definition => None,
            SecretConsumer::Instance(namespace) => Some(namespace.unwrap_or(EVERYWHERE).to_owned()),
        };
        Self::NotOffered { secret: address.to_string(), consumer }
    }
}

/// What a name says, everybody knows.
fn offered_text(secret: &str) -> &'static str {
    if secret.ends_with(KUBECONFIG_NAME_SUFFIX) {
        return "";
    }
    "be named `*-kubeconfig` or have the label `kro.run/cluster-credentials: \"true\"`, "
}

fn allowed_text(consumer: Option<&str>) -> String {
    match consumer {
        Some(EVERYWHERE) => {
            "have `*` in the annotation `kro.run/allowed-namespaces` if it has one, since the instance has no namespace"
                .to_owned()
        }
        Some(namespace) => {
            format!("list `{namespace}` in the annotation `kro.run/allowed-namespaces` if it has one")
        }
        None => "have the annotation `kro.run/allowed-namespaces` if this controller requires it".to_owned(),
    }
}

/// Refuses an address that cannot be a Secret's, before anything is asked for by that name.
///
/// # Errors
/// A part of it is no name.
pub fn check_address(address: &SecretAddress) -> Result<(), SecretRefusal> {
    let name = |text: &str, most: usize, letters: &str| {
        let letter = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
        !text.is_empty()
            && text.len() <= most
            && text.starts_with(letter)
            && text.ends_with(letter)
            && text.chars().all(|other| letter(other) || letters.contains(other))
            && !text.contains("..")
    };
    let key = |text: &str| {
        !text.is_empty()
            && text.len() <= 253
            && text.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter))
            && text != "."
            && !text.starts_with("..")
    };
    let shown = |text: &str| text.chars().filter(|letter| !letter.is_control()).take(128).collect();
    let secret = shown(&address.to_string());
    if !name(&address.namespace, 63, "-") || !name(&address.name, 253, "-.") {
        return Err(SecretRefusal::Name { secret });
    }
    if !key(&address.key) {
        return Err(SecretRefusal::KeyName { secret, key: shown(&address.key) });
    }
    Ok(())
}

/// Whether a Secret of this name and these labels is offered at all.
#[must_use]
pub fn is_offered(name: &str, label: Option<&str>) -> bool {
    label == Some("true") || name.ends_with(KUBECONFIG_NAME_SUFFIX)
}

/// Whether a Secret of this type can hold a kubeconfig. Types of Kubernetes itself say what is in their Secrets, such as the
/// token of a ServiceAccount: nobody gets at that by giving it a name.
fn is_suitable(kind: Option<&str>) -> bool {
    let domain = kind.and_then(|kind| kind.split_once('/')).map(|(domain, _)| domain);
    !domain.is_some_and(|domain| domain == "kubernetes.io" || domain.ends_with(".kubernetes.io"))
}

/// The kubeconfig in a Secret, if whoever asks may use it.
///
/// # Errors
/// It may not be used, or the key is not there.
pub fn read_kubeconfig<'a>(
    secret: &StoredObject,
    address: &SecretAddress,
    consumer: impl Into<SecretConsumer<'a>>,
    policy: &SecretPolicy,
) -> Result<Zeroizing<Vec<u8>>, SecretRefusal> {
    check_address(address)?;
    let consumer = consumer.into();
    let named = **secret.name() == *address.name
        && secret.namespace().is_some_and(|namespace| **namespace == *address.namespace);
    if !named
        || !is_suitable(secret.value().get("type").and_then(Value::as_str))
        || !is_offered(secret.name(), secret.label(labels::CLUSTER_CREDENTIALS))
        || !is_allowed(secret.annotation(annotations::ALLOWED_NAMESPACES), consumer, policy)
    {
        return Err(SecretRefusal::not_offered(address, consumer));
    }
    let encoded = secret.value().get("data").and_then(|data| data.get(&address.key)).and_then(Value::as_str);
    encoded
        .and_then(|text| base64::engine::general_purpose::STANDARD.decode(text).ok())
        .map(Zeroizing::new)
        .ok_or_else(|| SecretRefusal::Key { secret: address.to_string(), key: address.key.clone() })
}

fn is_allowed(annotation: Option<&str>, consumer: SecretConsumer<'_>, policy: &SecretPolicy) -> bool {
    let Some(allowed) = annotation else { return !policy.require_allowed_namespaces };
    let mut allowed = allowed.split(',').map(str::trim);
    match consumer {
        SecretConsumer::Definition => true,
        SecretConsumer::Instance(namespace) => {
            allowed.any(|entry| entry == EVERYWHERE || namespace.is_some_and(|namespace| entry == namespace))
        }
    }
}

#[cfg(test)]
mod tests;
