//! Resolves a cluster reference: immediately if it is static, otherwise once its expressions have values.

use std::collections::BTreeMap;
use std::fmt;

use super::{
    Authority, ClusterReference, Credentials, Poll, Published, SecretNamespace, SelectorTemplate,
    TargetChoice, Template,
};
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

impl SecretAddress {
    /// The address as the status has it: the key only if it is not the default.
    #[must_use]
    pub fn status_text(&self) -> String {
        if self.key == KUBECONFIG_KEY { self.to_string() } else { format!("{self}/{}", self.key) }
    }

    /// The address that a status has.
    #[must_use]
    pub fn from_status(text: &str) -> Option<Self> {
        let (namespace, rest) = text.split_once('/')?;
        let (name, key) = rest.split_once('/').unwrap_or((rest, KUBECONFIG_KEY));
        Some(Self { namespace: namespace.to_owned(), name: name.to_owned(), key: key.to_owned() })
    }
}

impl fmt::Display for SecretAddress {
    /// `namespace/name`, as shown in messages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A cluster reference without expressions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedCluster {
    /// The display name of the cluster in messages and status.
    pub display: String,
    /// Where the credentials are.
    pub credentials: ResolvedCredentials,
    /// By whose authority the credentials are used.
    pub authority: Authority,
    /// If set, the cluster is polled instead of watched.
    pub poll: Option<Poll>,
}

/// Where a cluster's credentials are, without expressions.
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
    /// In the connection Secret of a `KubernetesTarget` that matches the selector.
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

/// A cluster reference that cannot be resolved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError<E> {
    /// An expression failed or is waiting for data.
    #[error("cannot evaluate the cluster reference")]
    Expression(E),
    /// An expression evaluated to an empty string.
    #[error("`{path}` evaluated to an empty string")]
    Empty {
        /// The field.
        path: String,
    },
    /// `kubeconfigSecretRef` evaluated to something other than `name` or `namespace/name`.
    #[error("`{path}` evaluated to `{text}`, which is neither `name` nor `namespace/name`")]
    Malformed {
        /// The field.
        path: String,
        /// The value.
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

    /// Resolves the reference for an instance in a namespace (`None` for a cluster-scoped instance). `value` evaluates
    /// the templates.
    ///
    /// # Errors
    ///
    /// The first error of `value`, or an unusable value.
    pub fn resolve<E>(
        &self,
        instance_namespace: Option<&str>,
        mut value: impl FnMut(&Template) -> Result<String, E>,
    ) -> Result<ResolvedCluster, ResolveError<E>> {
        let mut non_empty = |template: &Template| match value(template) {
            Ok(text) if text.is_empty() => Err(ResolveError::Empty { path: template.path().to_owned() }),
            other => other.map_err(ResolveError::Expression),
        };
        let default_namespace = instance_namespace.unwrap_or(SYSTEM_NAMESPACE);
        let credentials = self.credentials.resolve(default_namespace, &mut non_empty)?;
        let address = credentials.to_string();
        let display = match &self.name {
            Some(name) => format!("{} ({address})", non_empty(name)?),
            None => address,
        };
        let authority = self.authority_in(credentials.namespace(), instance_namespace);
        Ok(ResolvedCluster { display, credentials, authority, poll: self.poll })
    }
}

impl Credentials {
    fn resolve<E>(
        &self,
        default_namespace: &str,
        value: &mut impl FnMut(&Template) -> Result<String, ResolveError<E>>,
    ) -> Result<ResolvedCredentials, ResolveError<E>> {
        Ok(match self {
            Self::Secret(secret) => ResolvedCredentials::Secret(SecretAddress {
                namespace: match &secret.namespace {
                    SecretNamespace::Given(namespace) => value(namespace)?,
                    SecretNamespace::Instance => default_namespace.to_owned(),
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
                    namespace: namespace.unwrap_or(default_namespace).to_owned(),
                    name: name.to_owned(),
                    key: KUBECONFIG_KEY.to_owned(),
                })
            }
            Self::Published(Published { choice, namespace }) => {
                let namespace = match namespace {
                    Some(namespace) => value(namespace)?,
                    None => default_namespace.to_owned(),
                };
                match choice {
                    TargetChoice::Name(name) => ResolvedCredentials::Target { namespace, name: value(name)? },
                    TargetChoice::Selector(selector) => {
                        ResolvedCredentials::TargetSelector { namespace, selector: selector.resolve(value)? }
                    }
                }
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

/// Parses `name` or `namespace/name`.
pub(super) fn split_secret_text(text: &str) -> Option<(Option<&str>, &str)> {
    let (namespace, name) = match text.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, text),
    };
    (!name.is_empty() && !name.contains('/') && namespace != Some("")).then_some((namespace, name))
}
