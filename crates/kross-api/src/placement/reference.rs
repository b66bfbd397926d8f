//! The internal form of a cluster reference: its strings are templates with their paths in the document.

use std::time::Duration;

use kross_value::Text;

use crate::vocabulary::KUBECONFIG_KEY;

/// A string that may contain `${}` expressions, and its path in the document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    text: Text,
    path: Text,
}

impl Template {
    /// Creates a template for a string at a path of the document, such as `spec.cluster.name`.
    #[must_use]
    pub fn new(text: impl Into<Text>, path: impl Into<Text>) -> Self {
        Self { text: text.into(), path: path.into() }
    }

    /// The string as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The path of the string in the document.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The string, if it contains no expression.
    #[must_use]
    pub fn literal(&self) -> Option<&str> {
        (!self.text.contains("${")).then_some(&*self.text)
    }
}

/// How a reference is written. The spelling determines the defaults, the display name and the allowed dependencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Spelling {
    /// `cluster: {name, namespace?, key?}`.
    Short,
    /// `cluster: {name, kubeconfigSecret: {name, namespace, key?}}`.
    Long,
    /// `cluster: {name, kubeconfigSecretRef}`.
    LongByString,
    /// `target: {cluster: {kubeconfigSecretName, kubeconfigSecretNamespace?}}`.
    Target,
    /// `target: {kubernetesTarget: {name | selector}}`.
    Published,
}

impl Spelling {
    /// Whether templates that inherit a definition's reference in this spelling must not have dependencies.
    #[must_use]
    pub fn is_long(self) -> bool {
        matches!(self, Self::Long | Self::LongByString)
    }
}

/// A reference to a cluster, in any spelling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterReference {
    /// The path of the reference in the document, such as `spec.resources[2].cluster`.
    pub path: Text,
    /// How it is written.
    pub spelling: Spelling,
    /// The display name, in the long spellings.
    pub name: Option<Template>,
    /// Where the credentials are.
    pub credentials: Credentials,
    /// If set, the cluster is polled instead of watched.
    pub poll: Option<Poll>,
}

/// Where a cluster's credentials are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// In a Secret with separate name, namespace and key.
    Secret(SecretTemplate),
    /// In a Secret that is written as `name` or `namespace/name`.
    SecretByText(Template),
    /// In the connection Secret of a `KubernetesTarget` in the namespace of the instance.
    Published(Published),
}

/// A Secret with separate name, namespace and key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretTemplate {
    /// Name of the Secret.
    pub name: Template,
    /// Namespace of the Secret.
    pub namespace: SecretNamespace,
    /// Key in the Secret; `None` is `kubeconfig`.
    pub key: Option<Template>,
}

/// The namespace of a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretNamespace {
    /// The given namespace.
    Given(Template),
    /// The namespace of the instance, or `kro-system` for a cluster-scoped instance.
    Instance,
    /// `kro-system`.
    System,
}

/// A cluster that is published as a `KubernetesTarget`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// Which target of its namespace it is.
    pub choice: TargetChoice,
    /// Namespace of the target; `None` is that of the instance.
    pub namespace: Option<Template>,
}

/// Which `KubernetesTarget` of a namespace is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetChoice {
    /// Selected by the name of the `KubernetesTarget`.
    Name(Template),
    /// Selected by the labels of the `KubernetesTarget`.
    Selector(SelectorTemplate),
}

/// A label selector whose values may contain expressions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SelectorTemplate {
    /// Labels and the values they must have.
    pub labels: Vec<(String, Template)>,
    /// Key, operator and values of the other requirements.
    pub requirements: Vec<(String, String, Vec<Template>)>,
}

/// How often a cluster is polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Poll {
    /// Time between two polls.
    pub interval: Duration,
    /// Maximum random delay that is added to each interval.
    pub jitter: Duration,
}

impl ClusterReference {
    /// Every string of the reference that may contain expressions.
    #[must_use]
    pub fn templates(&self) -> Vec<&Template> {
        let mut all: Vec<&Template> = self.name.iter().collect();
        match &self.credentials {
            Credentials::Secret(secret) => {
                all.push(&secret.name);
                if let SecretNamespace::Given(namespace) = &secret.namespace {
                    all.push(namespace);
                }
                all.extend(&secret.key);
            }
            Credentials::SecretByText(text) => all.push(text),
            Credentials::Published(Published { choice, namespace }) => {
                match choice {
                    TargetChoice::Name(name) => all.push(name),
                    TargetChoice::Selector(selector) => {
                        all.extend(selector.labels.iter().map(|(_, value)| value));
                        all.extend(selector.requirements.iter().flat_map(|(_, _, values)| values));
                    }
                }
                all.extend(namespace);
            }
        }
        all
    }

    /// Whether another reference resolves to the same credentials for every instance, regardless of its path and spelling.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        match (&self.credentials, &other.credentials) {
            (Credentials::Secret(ours), Credentials::Secret(theirs)) => ours.parts() == theirs.parts(),
            (Credentials::SecretByText(ours), Credentials::SecretByText(theirs)) => ours.text == theirs.text,
            (
                Credentials::Published(Published { choice: TargetChoice::Name(ours), namespace }),
                Credentials::Published(Published { choice: TargetChoice::Name(theirs), namespace: other }),
            ) => {
                ours.text == theirs.text
                    && namespace.as_ref().map(Template::as_str) == other.as_ref().map(Template::as_str)
            }
            _ => self == other,
        }
    }
}

impl SecretTemplate {
    /// Namespace, name and key as written.
    fn parts(&self) -> (Option<&str>, bool, &str, &str) {
        let (given, system) = match &self.namespace {
            SecretNamespace::Given(namespace) => (Some(namespace.as_str()), false),
            SecretNamespace::Instance => (None, false),
            SecretNamespace::System => (None, true),
        };
        (given, system, self.name.as_str(), self.key.as_ref().map_or(KUBECONFIG_KEY, Template::as_str))
    }
}
