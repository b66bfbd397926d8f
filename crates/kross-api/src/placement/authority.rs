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

/// What an instance cannot choose once it exists. Expressions of references that read only this have one value.
#[derive(Clone, Copy, Debug, Default)]
pub struct InstanceIdentity<'a> {
    /// Its namespace, if it is in one.
    pub namespace: Option<&'a str>,
    /// Its name; none if it stands for all instances in the namespace.
    pub name: Option<&'a str>,
    /// Its UID; none if it is not known.
    pub uid: Option<&'a str>,
}

impl Authority {
    /// The authority of a reference that an inventory has, where these are the references of the definition and of its kept
    /// revisions. An inventory grants nothing by itself.
    #[must_use]
    pub fn of_recorded<'r>(
        references: impl IntoIterator<Item = &'r ClusterReference>,
        credentials: &ResolvedCredentials,
        instance: InstanceIdentity<'_>,
    ) -> Self {
        let namespace = credentials.namespace();
        let grants = |reference: &ClusterReference| {
            reference.leads_to(credentials, instance)
                && reference.authority_in(namespace, instance.namespace) == Self::Granted
        };
        let is_own = Some(namespace) == instance.namespace;
        if is_own || references.into_iter().any(grants) { Self::Granted } else { Self::ByOwner }
    }

    /// As [`Authority::of_recorded`], for a Secret whichever of its keys is used.
    #[must_use]
    pub fn of_recorded_secret<'r>(
        references: impl IntoIterator<Item = &'r ClusterReference>,
        (namespace, name): (&str, &str),
        instance: InstanceIdentity<'_>,
    ) -> Self {
        let grants = |reference: &ClusterReference| {
            reference.leads_to_secret((namespace, name), instance)
                && reference.authority_in(namespace, instance.namespace) == Self::Granted
        };
        let is_own = Some(namespace) == instance.namespace;
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

    /// Whether the reference could resolve to these credentials for an instance.
    #[must_use]
    pub fn leads_to(&self, credentials: &ResolvedCredentials, instance: InstanceIdentity<'_>) -> bool {
        let default_namespace = instance.namespace.unwrap_or(SYSTEM_NAMESPACE);
        let could_be = |template: &Template, text: &str| template.could_be(text, instance);
        match (&self.credentials, credentials) {
            (_, ResolvedCredentials::Secret(SecretAddress { namespace, name, key })) => {
                self.leads_to_secret((namespace, name), instance)
                    && match &self.credentials {
                        Credentials::Secret(SecretTemplate { key: Some(template), .. }) => {
                            could_be(template, key)
                        }
                        _ => key == KUBECONFIG_KEY,
                    }
            }
            (Credentials::Published(published), other) => {
                let Published { choice, namespace } = published;
                let is_there = match namespace {
                    Some(template) => could_be(template, other.namespace()),
                    None => other.namespace() == default_namespace,
                };
                is_there
                    && match (choice, other) {
                        (TargetChoice::Name(template), ResolvedCredentials::Target { name, .. }) => {
                            could_be(template, name)
                        }
                        (TargetChoice::Name(_), _) => false,
                        (TargetChoice::Selector(_), _) => true,
                    }
            }
            (Credentials::Secret(_) | Credentials::SecretByText(_), _) => false,
        }
    }

    /// Whether the reference could resolve to some key of the Secret with this namespace and name.
    fn leads_to_secret(&self, (namespace, name): (&str, &str), instance: InstanceIdentity<'_>) -> bool {
        let default_namespace = instance.namespace.unwrap_or(SYSTEM_NAMESPACE);
        let could_be = |template: &Template, text: &str| template.could_be(text, instance);
        match &self.credentials {
            Credentials::Secret(secret) => {
                let is_there = match &secret.namespace {
                    SecretNamespace::Given(given) => could_be(given, namespace),
                    SecretNamespace::Instance => namespace == default_namespace,
                    SecretNamespace::System => namespace == SYSTEM_NAMESPACE,
                };
                is_there && could_be(&secret.name, name)
            }
            Credentials::SecretByText(text) => {
                (namespace == default_namespace && could_be(text, name))
                    || could_be(text, &format!("{namespace}/{name}"))
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

/// A part of a template.
#[derive(Debug, PartialEq, Eq)]
enum Part<'t> {
    Text(&'t str),
    /// An expression that may have any value.
    Any,
    /// An expression that has no value for the instance.
    Nothing,
}

impl Template {
    /// Whether the template could evaluate to a text for an instance: exactly, where its expressions read what the instance cannot
    /// choose, and otherwise as far as what is written around them tells.
    fn could_be(&self, text: &str, instance: InstanceIdentity<'_>) -> bool {
        let mut parts = self.parts(instance).into_iter().peekable();
        let (mut rest, mut is_open) = (text, false);
        while let Some(part) = parts.next() {
            match part {
                Part::Any => is_open = true,
                Part::Nothing => return false,
                Part::Text(wanted) if is_open && parts.peek().is_none() => return rest.ends_with(wanted),
                // The first place leaves the most room for what follows.
                Part::Text(wanted) if is_open => match rest.split_once(wanted) {
                    Some((_, after)) => (rest, is_open) = (after, false),
                    None => return false,
                },
                Part::Text(wanted) => match rest.strip_prefix(wanted) {
                    Some(after) => rest = after,
                    None => return false,
                },
            }
        }
        is_open || rest.is_empty()
    }

    /// What is written, with the values of the expressions that read what the instance cannot choose. Adjacent texts are apart.
    fn parts<'t>(&'t self, instance: InstanceIdentity<'t>) -> Vec<Part<'t>> {
        let (mut parts, mut rest) = (Vec::new(), self.as_str());
        while let Some((written, after)) = rest.split_once("${") {
            let end = expression_end(after);
            let expression = after.get(..end).unwrap_or_default().trim();
            let known = |value: Option<&'t str>| value.map_or(Part::Any, Part::Text);
            parts.push(Part::Text(written));
            parts.push(match expression {
                "schema.metadata.namespace" => instance.namespace.map_or(Part::Nothing, Part::Text),
                "schema.metadata.name" => known(instance.name),
                "schema.metadata.uid" => known(instance.uid),
                _ => Part::Any,
            });
            rest = after.get(end..).and_then(|after| after.strip_prefix('}')).unwrap_or_default();
        }
        parts.push(Part::Text(rest));
        parts
    }
}

/// Where the brace is that closes an expression; the end of the text if there is none. Braces in strings do not count.
fn expression_end(text: &str) -> usize {
    let (mut depth, mut quote, mut is_escaped) = (0_usize, None, false);
    for (at, character) in text.char_indices() {
        match (quote, character) {
            (Some(_), _) if is_escaped => is_escaped = false,
            (Some(_), '\\') => is_escaped = true,
            (Some(open), _) if open == character => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(character),
            (None, '{') => depth += 1,
            (None, '}') if depth == 0 => return at,
            (None, '}') => depth -= 1,
            (None, _) => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests;
