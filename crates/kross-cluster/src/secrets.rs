//! Reads the kubeconfig in a Secret that a cluster reference names, if the Secret is offered to its consumer. The
//! author of an instance chooses the name, so a Secret that may not be used always looks the same, whether it is
//! absent, not offered, or offered to others.

use std::fmt;

use base64::Engine;
use kross_api::{Authority, KUBECONFIG_NAME_SUFFIX, SecretAddress, annotations, labels};
use kross_value::{Text, Value};
use zeroize::Zeroizing;

use crate::error::is_hidden;
use crate::object::StoredObject;

/// In the list of allowed namespaces: all namespaces, and instances without one.
const EVERYWHERE: &str = "*";

/// What the operator requires of kubeconfig Secrets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SecretPolicy {
    /// Whether each Secret must list the namespaces that may use it.
    pub require_allowed_namespaces: bool,
}

/// Who uses a Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SecretConsumer<'a> {
    /// A definition, in a static reference: its author may name any Secret that is offered at all.
    Definition,
    /// An instance in this namespace, or a cluster-scoped one, by this authority.
    Instance(Option<&'a str>, Authority),
}

impl SecretConsumer<'_> {
    /// Whether the Secret must allow this consumer, because nobody else does.
    #[must_use]
    pub fn needs_owner(self) -> bool {
        matches!(self, Self::Instance(_, Authority::ByOwner))
    }
}

impl<'a> From<Option<&'a str>> for SecretConsumer<'a> {
    /// An instance whose definition fixes the namespace of the Secret.
    fn from(namespace: Option<&'a str>) -> Self {
        Self::Instance(namespace, Authority::Granted)
    }
}

/// The namespace and the name of a Secret.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SecretName {
    /// Its namespace.
    pub namespace: Text,
    /// Its name.
    pub name: Text,
}

impl fmt::Display for SecretName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl From<&SecretAddress> for SecretName {
    fn from(address: &SecretAddress) -> Self {
        Self { namespace: address.namespace.as_str().into(), name: address.name.as_str().into() }
    }
}

/// A Secret cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretRefusal {
    /// It does not exist, is not offered, or is not offered to this consumer. The message does not say which.
    #[error(
        "cannot use Secret `{secret}`: it must exist, {}{}, and not have a type of `kubernetes.io/*`; {}",
        offered_text(secret),
        allowed_text(consumer.as_deref(), *authority),
        namespace_text(secret, *authority)
    )]
    NotOffered {
        /// The Secret.
        secret: String,
        /// The namespace that its annotation must allow.
        consumer: Option<String>,
        /// By whose authority it was to be used.
        authority: Authority,
    },
    /// The reference evaluates to an invalid name.
    #[error(
        "cannot use Secret `{secret}`: not a valid Secret name; names consist of lower-case letters, digits, `-` and `.`"
    )]
    Name {
        /// The name, shortened.
        secret: String,
    },
    /// The reference evaluates to an invalid key.
    #[error(
        "cannot use Secret `{secret}`: `{key}` is not a valid key; keys consist of letters, digits, `-`, `_` and `.`"
    )]
    KeyName {
        /// The Secret.
        secret: String,
        /// The key, shortened.
        key: String,
    },
    /// The connection Secret of a target does not exist.
    #[error(
        "connection Secret `{secret}` does not exist; create it, or change `connectionSecretRef` of the target"
    )]
    Absent {
        /// The Secret.
        secret: String,
    },
    /// The connection Secret of a target has a type of Kubernetes.
    #[error(
        "cannot use connection Secret `{secret}`: it has a type of `kubernetes.io/*`; store the connection in a Secret of type `Opaque`"
    )]
    Type {
        /// The Secret.
        secret: String,
    },
    /// It does not have the key.
    #[error(
        "Secret `{secret}` has no key `{key}`; store the kubeconfig under this key, or set another key in the reference"
    )]
    Key {
        /// The Secret.
        secret: String,
        /// The key.
        key: String,
    },
}

impl SecretRefusal {
    /// The refusal of a Secret that does not exist, which is the same as that of one that is not offered.
    #[must_use]
    pub fn not_offered<'a>(address: &SecretAddress, consumer: impl Into<SecretConsumer<'a>>) -> Self {
        let (consumer, authority) = match consumer.into() {
            SecretConsumer::Definition => (None, Authority::Granted),
            SecretConsumer::Instance(namespace, authority) => {
                (Some(namespace.unwrap_or(EVERYWHERE).to_owned()), authority)
            }
        };
        Self::NotOffered { secret: address.to_string(), consumer, authority }
    }
}

/// Left out if the name already fulfils it.
fn offered_text(secret: &str) -> &'static str {
    if secret.ends_with(KUBECONFIG_NAME_SUFFIX) {
        return "";
    }
    "be named `*-kubeconfig` or have the label `kro.run/cluster-credentials: \"true\"`, "
}

fn allowed_text(consumer: Option<&str>, authority: Authority) -> String {
    if authority == Authority::ByOwner {
        let consumer = consumer.unwrap_or(EVERYWHERE);
        return format!("list `{consumer}` in the annotation `kro.run/allowed-namespaces`");
    }
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

/// What the namespace in the reference means for the Secret.
fn namespace_text(secret: &str, authority: Authority) -> String {
    match authority {
        Authority::Granted => {
            "if it is in another namespace, set the namespace in the cluster reference".to_owned()
        }
        Authority::ByOwner => {
            let namespace = secret.split('/').next().unwrap_or_default();
            format!(
                "it needs the annotation because neither the definition nor a kept revision of it sets the namespace `{namespace}`"
            )
        }
    }
}

/// Refuses an address that cannot be that of a Secret, before it is used in a request.
///
/// # Errors
/// A part of the address is invalid.
pub fn check_address(address: &SecretAddress) -> Result<(), SecretRefusal> {
    let name = |text: &str, max_length: usize, separators: &str| {
        let is_alphanumeric = |character: char| character.is_ascii_lowercase() || character.is_ascii_digit();
        !text.is_empty()
            && text.len() <= max_length
            && text.starts_with(is_alphanumeric)
            && text.ends_with(is_alphanumeric)
            && text.chars().all(|other| is_alphanumeric(other) || separators.contains(other))
            && !text.contains("..")
    };
    let key = |text: &str| {
        !text.is_empty()
            && text.len() <= 253
            && text.chars().all(|character| character.is_ascii_alphanumeric() || "-_.".contains(character))
            && text != "."
            && !text.starts_with("..")
    };
    let shown = |text: &str| text.chars().filter(|character| !is_hidden(*character)).take(128).collect();
    let secret = shown(&address.to_string());
    if !name(&address.namespace, 63, "-") || !name(&address.name, 253, "-.") {
        return Err(SecretRefusal::Name { secret });
    }
    if !key(&address.key) {
        return Err(SecretRefusal::KeyName { secret, key: shown(&address.key) });
    }
    Ok(())
}

/// Whether a Secret with this name and this label is offered at all.
#[must_use]
pub fn is_offered(name: &str, label: Option<&str>) -> bool {
    label == Some("true") || name.ends_with(KUBECONFIG_NAME_SUFFIX)
}

/// Whether a Secret of this type can have a kubeconfig. Types of Kubernetes have other content, such as ServiceAccount
/// tokens, which a name must not give access to.
fn is_suitable(kind: Option<&str>) -> bool {
    let domain = kind.and_then(|kind| kind.split_once('/')).map(|(domain, _)| domain);
    !domain.is_some_and(|domain| domain == "kubernetes.io" || domain.ends_with(".kubernetes.io"))
}

/// Reads the kubeconfig in a Secret, if the consumer may use it.
///
/// # Errors
/// The Secret may not be used, or does not have the key.
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
    read_value(secret, &address.key)
        .ok_or_else(|| SecretRefusal::Key { secret: address.to_string(), key: address.key.clone() })
}

/// Whether a Secret can be the connection Secret of a target. The target authorises it, so it needs neither label nor suffix, and
/// its annotation does not count.
///
/// # Errors
/// The Secret has a type of Kubernetes.
pub(crate) fn check_connection(secret: &StoredObject, address: &SecretAddress) -> Result<(), SecretRefusal> {
    check_address(address)?;
    if is_suitable(secret.value().get("type").and_then(Value::as_str)) {
        return Ok(());
    }
    Err(SecretRefusal::Type { secret: address.to_string() })
}

/// The value of a key of a Secret.
pub(crate) fn read_value(secret: &StoredObject, key: &str) -> Option<Zeroizing<Vec<u8>>> {
    let encoded = secret.value().get("data").and_then(|data| data.get(key)).and_then(Value::as_str)?;
    base64::engine::general_purpose::STANDARD.decode(encoded).ok().map(Zeroizing::new)
}

pub(crate) fn is_allowed(
    annotation: Option<&str>,
    consumer: SecretConsumer<'_>,
    policy: &SecretPolicy,
) -> bool {
    let Some(allowed) = annotation else {
        return !consumer.needs_owner() && !policy.require_allowed_namespaces;
    };
    let mut allowed = allowed.split(',').map(str::trim);
    match consumer {
        SecretConsumer::Definition => true,
        SecretConsumer::Instance(namespace, _) => {
            allowed.any(|entry| entry == EVERYWHERE || namespace.is_some_and(|namespace| entry == namespace))
        }
    }
}

#[cfg(test)]
mod tests;
