//! Decides by whose authority an instance uses the credentials that a cluster reference names: whoever wrote their namespace. The
//! author of a definition may name any namespace; what an instance chooses needs the permission of the owner of the credentials.

use super::resolve::split_secret_text;
use super::{
    ClusterReference, Credentials, Published, ResolvedCredentials, SecretAddress, SecretNamespace,
    SecretTemplate, TargetChoice, Template,
};
use crate::vocabulary::{KUBECONFIG_KEY, SYSTEM_NAMESPACE};

/// By whose authority an instance uses credentials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Authority {
    /// By its own or that of the definition: they are in the namespace of the instance, or in one that the definition fixes.
    Granted,
    /// By that of their owner, who must allow it with `kro.run/allowed-namespaces`: an expression, or only an inventory, names
    /// their namespace.
    #[default]
    ByOwner,
}

impl Authority {
    /// The authority of a reference that an inventory has, where these are the references of the definition and of its kept
    /// revisions. An inventory grants nothing by itself.
    #[must_use]
    pub fn of_recorded<'r>(
        references: impl IntoIterator<Item = &'r ClusterReference>,
        credentials: &ResolvedCredentials,
        instance_namespace: Option<&str>,
    ) -> Self {
        let namespace = credentials.namespace();
        let grants = |reference: &ClusterReference| {
            reference.leads_to(credentials, instance_namespace)
                && reference.authority_in(namespace, instance_namespace) == Self::Granted
        };
        let is_own = Some(namespace) == instance_namespace;
        if is_own || references.into_iter().any(grants) { Self::Granted } else { Self::ByOwner }
    }

    /// As [`Authority::of_recorded`], for a Secret whichever of its keys is used.
    #[must_use]
    pub fn of_recorded_secret<'r>(
        references: impl IntoIterator<Item = &'r ClusterReference>,
        (namespace, name): (&str, &str),
        instance_namespace: Option<&str>,
    ) -> Self {
        let grants = |reference: &ClusterReference| {
            reference.leads_to_secret((namespace, name), instance_namespace)
                && reference.authority_in(namespace, instance_namespace) == Self::Granted
        };
        let is_own = Some(namespace) == instance_namespace;
        if is_own || references.into_iter().any(grants) { Self::Granted } else { Self::ByOwner }
    }
}

impl ResolvedCredentials {
    /// The namespace of the Secret or of the target.
    #[must_use]
    pub fn namespace(&self) -> &str {
        match self {
            Self::Secret(secret) => &secret.namespace,
            Self::Target { namespace, .. } | Self::TargetSelector { namespace, .. } => namespace,
        }
    }
}

impl ClusterReference {
    /// The authority of this reference, where it has resolved to credentials in this namespace for an instance in a namespace, or
    /// in none.
    pub(super) fn authority_in(&self, namespace: &str, instance_namespace: Option<&str>) -> Authority {
        let is_system =
            namespace == SYSTEM_NAMESPACE && !matches!(self.credentials, Credentials::Published(_));
        if Some(namespace) == instance_namespace || is_system || self.fixes_namespace() {
            Authority::Granted
        } else {
            Authority::ByOwner
        }
    }

    /// Whether the definition decides in which namespace the credentials are: literally, or because it leaves the namespace out.
    #[must_use]
    pub fn fixes_namespace(&self) -> bool {
        match &self.credentials {
            Credentials::Secret(secret) => match &secret.namespace {
                SecretNamespace::Given(namespace) => namespace.literal().is_some(),
                SecretNamespace::Instance | SecretNamespace::System => true,
            },
            Credentials::SecretByText(text) => text.literal().is_some() || namespace_prefix(text).is_some(),
            Credentials::Published(Published { namespace, .. }) => {
                namespace.as_ref().is_none_or(|namespace| namespace.literal().is_some())
            }
        }
    }

    /// The template that has the expression from which the namespace of the credentials comes, if the definition does not fix it.
    #[must_use]
    pub fn computed_namespace(&self) -> Option<&Template> {
        if self.fixes_namespace() {
            return None;
        }
        match &self.credentials {
            Credentials::Secret(secret) => match &secret.namespace {
                SecretNamespace::Given(namespace) => Some(namespace),
                SecretNamespace::Instance | SecretNamespace::System => None,
            },
            Credentials::SecretByText(text) => Some(text),
            Credentials::Published(Published { namespace, .. }) => namespace.as_ref(),
        }
    }

    /// Whether the reference could resolve to these credentials for an instance in a namespace, or in none.
    #[must_use]
    pub fn leads_to(&self, credentials: &ResolvedCredentials, instance_namespace: Option<&str>) -> bool {
        let default_namespace = instance_namespace.unwrap_or(SYSTEM_NAMESPACE);
        match (&self.credentials, credentials) {
            (_, ResolvedCredentials::Secret(SecretAddress { namespace, name, key })) => {
                self.leads_to_secret((namespace, name), instance_namespace)
                    && match &self.credentials {
                        Credentials::Secret(SecretTemplate { key: Some(template), .. }) => {
                            template.could_be(key)
                        }
                        _ => key == KUBECONFIG_KEY,
                    }
            }
            (Credentials::Published(published), other) => {
                let Published { choice, namespace } = published;
                let is_there = match namespace {
                    Some(template) => template.could_be(other.namespace()),
                    None => other.namespace() == default_namespace,
                };
                is_there
                    && match (choice, other) {
                        (TargetChoice::Name(template), ResolvedCredentials::Target { name, .. }) => {
                            template.could_be(name)
                        }
                        (TargetChoice::Name(_), _) => false,
                        (TargetChoice::Selector(_), _) => true,
                    }
            }
            (Credentials::Secret(_) | Credentials::SecretByText(_), _) => false,
        }
    }

    /// Whether the reference could resolve to some key of the Secret with this namespace and name.
    fn leads_to_secret(&self, (namespace, name): (&str, &str), instance_namespace: Option<&str>) -> bool {
        let default_namespace = instance_namespace.unwrap_or(SYSTEM_NAMESPACE);
        match &self.credentials {
            Credentials::Secret(secret) => {
                let is_there = match &secret.namespace {
                    SecretNamespace::Given(given) => given.could_be(namespace),
                    SecretNamespace::Instance => namespace == default_namespace,
                    SecretNamespace::System => namespace == SYSTEM_NAMESPACE,
                };
                is_there && secret.name.could_be(name)
            }
            Credentials::SecretByText(text) => {
                (namespace == default_namespace && text.could_be(name))
                    || text.could_be(&format!("{namespace}/{name}"))
            }
            Credentials::Published(_) => false,
        }
    }
}

/// The namespace in `namespace/${…}`: no value of the expression changes it.
fn namespace_prefix(text: &Template) -> Option<&str> {
    let literal = text.as_str().split_once("${").map_or(text.as_str(), |(literal, _)| literal);
    let (namespace, _) = literal.split_once('/')?;
    // A name that begins with a literal has to be valid as such.
    split_secret_text(&format!("{namespace}/x")).map(|_| namespace)
}

impl Template {
    /// Whether the template could evaluate to a text, as far as what is written around its expressions tells.
    fn could_be(&self, text: &str) -> bool {
        let written = self.as_str();
        let Some((prefix, _)) = written.split_once("${") else { return written == text };
        // Whatever comes after the last brace is literal.
        let suffix = written.rsplit_once('}').map_or("", |(_, suffix)| suffix);
        text.strip_prefix(prefix).is_some_and(|rest| rest.ends_with(suffix))
    }
}

#[cfg(test)]
mod tests;
