//! The one internal form of a cluster reference, with its strings as templates and the place of each in the document.

use std::time::Duration;

use kross_value::Text;

use crate::vocabulary::KUBECONFIG_KEY;

/// A string that may contain `${}` expressions, and where it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    text: Text,
    path: Text,
}

impl Template {
    /// A string at a path of the document, such as `spec.cluster.name`.
    #[must_use]
    pub fn new(text: impl Into<Text>, path: impl Into<Text>) -> Self {
        Self { text: text.into(), path: path.into() }
    }

    /// The string as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Where it is written.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The string, if there is no expression in it.
    #[must_use]
    pub fn literal(&self) -> Option<&str> {
        (!self.text.contains("${")).then_some(&*self.text)
    }
}

/// How a reference was written. The spelling decides on defaults, on the name to show and on dependencies.
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
    /// Whether templates that inherit a definition's reference in this spelling must do without dependencies.
    #[must_use]
    pub fn is_long(self) -> bool {
        matches!(self, Self::Long | Self::LongByString)
    }
}

/// A cluster, named in whatever spelling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterReference {
    /// Where the reference is written, such as `spec.resources[2].cluster`.
    pub path: Text,
    /// How it was written.
    pub spelling: Spelling,
    /// The name to show, of the long spellings.
    pub name: Option<Template>,
    /// Where the credentials are.
    pub credentials: Credentials,
    /// Polls the cluster instead of watching it.
    pub poll: Option<Poll>,
}

/// Where a cluster's credentials are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// In a Secret whose parts are known one by one.
    Secret(SecretTemplate),
    /// In a Secret that an expression gives as `name` or `namespace/name`.
    SecretByText(Template),
    /// In the connection Secret of a `KubernetesTarget` of the instance's namespace.
    Published(Published),
}

/// A Secret, by parts.
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
    /// As written.
    Given(Template),
    /// The instance's, or `kro-system` for a cluster-scoped instance.
    Instance,
    /// `kro-system`.
    System,
}

/// A published cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Published {
    /// By the name of its `KubernetesTarget`.
    Name(Template),
    /// By the labels of its `KubernetesTarget`.
    Selector(SelectorTemplate),
}

/// A label selector whose values may be expressions.
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
    /// The most that is added to an interval at random.
    pub jitter: Duration,
}

impl ClusterReference {
    /// Every string of the reference, for finding its expressions.
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
            Credentials::Published(Published::Name(name)) => all.push(name),
            Credentials::Published(Published::Selector(selector)) => {
                all.extend(selector.labels.iter().map(|(_, value)| value));
                all.extend(selector.requirements.iter().flat_map(|(_, _, values)| values));
            }
        }
        all
    }

    /// Whether another reference leads to the same credentials for every instance, wherever and however it is written.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        match (&self.credentials, &other.credentials) {
            (Credentials::Secret(ours), Credentials::Secret(theirs)) => ours.parts() == theirs.parts(),
            (Credentials::SecretByText(ours), Credentials::SecretByText(theirs))
            | (
                Credentials::Published(Published::Name(ours)),
                Credentials::Published(Published::Name(theirs)),
            ) => ours.text == theirs.text,
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
