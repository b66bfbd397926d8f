//! Turns a cluster reference into an address: at once when it is static, else when its expressions have values.

use std::collections::BTreeMap;
use std::fmt;

use super::{ClusterReference, Credentials, Poll, Published, SecretNamespace, SelectorTemplate, Template};
use crate::vocabulary::{KUBECONFIG_KEY, SYSTEM_NAMESPACE};
use crate::{LabelSelector, Scope, SelectorRequirement};

/// A key of a Secret.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SecretAddress {
    /// Namespace of the Secret.
    pub namespace: String,
    /// Name of the Secret.
    pub name: String,
    /// Key in the Secret.
    pub key: String,
}

impl fmt::Display for SecretAddress {
    /// `namespace/name`, the way messages name a reference.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A reference whose expressions have values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedCluster {
    /// The name that messages and status show.
    pub display: String,
    /// Where the credentials are.
    pub credentials: ResolvedCredentials,
    /// Polls the cluster instead of watching it.
    pub poll: Option<Poll>,
}

/// Where the credentials are, without expressions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResolvedCredentials {
    /// In a Secret.
    Secret(SecretAddress),
    /// In the connection Secret of the named `KubernetesTarget`.
    Target {
        /// Namespace of the `KubernetesTarget`.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// In the connection Secret of a `KubernetesTarget` that the selector chooses.
    TargetSelector {
        /// Namespace of the `KubernetesTarget`.
        namespace: String,
        /// Its labels.
        selector: LabelSelector,
    },
}

impl fmt::Display for ResolvedCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Secret(secret) => secret.fmt(f),
            Self::Target { name, .. } => f.write_str(name),
            Self::TargetSelector { namespace, .. } => write!(f, "a KubernetesTarget of {namespace}"),
        }
    }
}

/// A reference that came out as no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError<E> {
    /// An expression failed or is still waiting for data.
    #[error("cannot evaluate the cluster reference")]
    Expression(E),
    /// An expression came out as an empty string.
    #[error("`{path}` came out empty")]
    Empty {
        /// The field.
        path: String,
    },
    /// `kubeconfigSecretRef` came out as something else than `name` or `namespace/name`.
    #[error("`{path}` came out as `{text}`, which is neither `name` nor `namespace/name`")]
    Malformed {
        /// The field.
        path: String,
        /// What it came out as.
        text: String,
    },
}

impl ClusterReference {
    /// Whether the Secret is known without an instance of the given scope.
    #[must_use]
    pub fn is_static(&self, scope: Scope) -> bool {
        self.static_cluster(scope).is_some()
    }

    /// The cluster, if it is known without an instance of the given scope.
    #[must_use]
    pub fn static_cluster(&self, scope: Scope) -> Option<ResolvedCluster> {
        let Credentials::Secret(secret) = &self.credentials else {
            return None;
        };
        if scope == Scope::Namespaced && secret.namespace == SecretNamespace::Instance {
            return None;
        }
        self.resolve(None, |template| template.literal().map(str::to_owned).ok_or(())).ok()
    }

    /// The cluster, once `value` gives the values of templates and the instance's namespace is known (`None` for a
    /// cluster-scoped instance).
    ///
    /// # Errors
    ///
    /// The first error of `value`, or a value that is no name.
    pub fn resolve<E>(
        &self,
        instance_namespace: Option<&str>,
        mut value: impl FnMut(&Template) -> Result<String, E>,
    ) -> Result<ResolvedCluster, ResolveError<E>> {
        let mut filled = |template: &Template| match value(template) {
            Ok(text) if text.is_empty() => Err(ResolveError::Empty { path: template.path().to_owned() }),
            other => other.map_err(ResolveError::Expression),
        };
        let home = instance_namespace.unwrap_or(SYSTEM_NAMESPACE);
        let credentials = self.credentials.resolve(home, &mut filled)?;
        let place = credentials.to_string();
        let display = match &self.name {
            Some(name) => format!("{} ({place})", filled(name)?),
            None => place,
        };
        Ok(ResolvedCluster { display, credentials, poll: self.poll })
    }
}

impl Credentials {
    fn resolve<E>(
        &self,
        home: &str,
        value: &mut impl FnMut(&Template) -> Result<String, ResolveError<E>>,
    ) -> Result<ResolvedCredentials, ResolveError<E>> {
        Ok(match self {
            Self::Secret(secret) => ResolvedCredentials::Secret(SecretAddress {
                namespace: match &secret.namespace {
                    SecretNamespace::Given(namespace) => value(namespace)?,
                    SecretNamespace::Instance => home.to_owned(),
                    SecretNamespace::System => SYSTEM_NAMESPACE.to_owned(),
                },
                name: value(&secret.name)?,
                key: match &secret.key {
                    Some(key) => value(key)?,
                    None => KUBECONFIG_KEY.to_owned(),
                },
            }),
            Self::SecretByText(template) => {
                let text = value(template)?;
                let Some((namespace, name)) = split_secret_text(&text) else {
                    return Err(ResolveError::Malformed { path: template.path().to_owned(), text });
                };
                ResolvedCredentials::Secret(SecretAddress {
                    namespace: namespace.unwrap_or(home).to_owned(),
                    name: name.to_owned(),
                    key: KUBECONFIG_KEY.to_owned(),
                })
            }
            Self::Published(Published::Name(name)) => {
                ResolvedCredentials::Target { namespace: home.to_owned(), name: value(name)? }
            }
            Self::Published(Published::Selector(selector)) => {
                let selector = selector.resolve(value)?;
                ResolvedCredentials::TargetSelector { namespace: home.to_owned(), selector }
            }
        })
    }
}

impl SelectorTemplate {
    fn resolve<E>(
        &self,
        value: &mut impl FnMut(&Template) -> Result<String, ResolveError<E>>,
    ) -> Result<LabelSelector, ResolveError<E>> {
        let mut labels = BTreeMap::new();
        for (key, template) in &self.labels {
            labels.insert(key.clone(), value(template)?);
        }
        let mut requirements = Vec::new();
        for (key, operator, values) in &self.requirements {
            let values = values.iter().map(&mut *value).collect::<Result<Vec<_>, _>>()?;
            let (key, operator) = (key.clone(), operator.clone());
            requirements.push(SelectorRequirement { key, operator, values: values.into() });
        }
        Ok(LabelSelector {
            match_labels: (!labels.is_empty()).then_some(labels),
            match_expressions: requirements.into(),
        })
    }
}

/// Reads `name` or `namespace/name`.
pub(super) fn split_secret_text(text: &str) -> Option<(Option<&str>, &str)> {
    let (namespace, name) = match text.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, text),
    };
    (!name.is_empty() && !name.contains('/') && namespace != Some("")).then_some((namespace, name))
}
