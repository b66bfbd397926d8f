//! Lowers `cluster` and `target` on every level and collects diagnostics. Continues after an error, so that all of
//! them are reported at once.

use std::time::Duration;

use kross_diagnostics::{Code, Diagnostic, Diagnostics, Path};

use super::resolve::split_secret_text;
use super::{
    ClusterReference, Credentials, Placement, Poll, Published, SecretNamespace, SecretTemplate,
    SelectorTemplate, Spelling, TargetChoice, Template, parse_duration,
};
use crate::identity::{is_namespace, is_object_name};
use crate::{
    Cluster, ClusterTarget, KubeconfigSecret, KubernetesTargetReference, LabelSelector, PollConfig, Resource,
    ResourceGraphDefinitionSpec, SelectorRequirement, Target,
};

/// Limits that the controller sets.
#[derive(Clone, Copy, Debug)]
pub struct PlacementOptions {
    /// Minimum interval of a `pollConfig`.
    pub min_poll_interval: Duration,
}

impl Default for PlacementOptions {
    fn default() -> Self {
        Self { min_poll_interval: Duration::from_secs(10) }
    }
}

/// Lowers every cluster reference of a definition. Diagnostics have the path of the invalid field; an invalid reference
/// is lowered as far as possible, or omitted.
#[must_use]
pub fn lower_placement(
    spec: &ResourceGraphDefinitionSpec,
    options: PlacementOptions,
    diagnostics: &mut Diagnostics,
) -> Placement {
    let mut lowering = Lowering { options, diagnostics };
    Placement {
        definition: lowering.level("spec", spec.cluster.as_ref(), spec.target.as_ref()),
        resources: spec
            .resources
            .iter()
            .enumerate()
            .map(|(index, resource)| lowering.resource(&format!("spec.resources[{index}]"), resource))
            .collect(),
        external: spec.resources.iter().map(|resource| resource.external_ref.is_some()).collect(),
    }
}

struct Lowering<'a> {
    options: PlacementOptions,
    diagnostics: &'a mut Diagnostics,
}

impl Lowering<'_> {
    fn resource(&mut self, path: &str, resource: &Resource) -> Option<ClusterReference> {
        let own = self.level(path, resource.cluster.as_ref(), resource.target.as_ref());
        let Some(external) = &resource.external_ref else {
            return own;
        };
        let inner = format!("{path}.externalRef");
        let read_from = self.level(&inner, external.cluster.as_ref(), external.target.as_ref());
        if let (Some(own), Some(inner)) = (&own, &read_from) {
            self.diagnostics.push(
                Diagnostic::new(
                    Code::ClusterNamedTwice,
                    format!(
                        "`{}` sets its cluster both on the resource and on its `externalRef`",
                        resource.id
                    ),
                )
                .path(&*inner.path)
                .help(format!("remove `{}` or `{}`", own.path, inner.path)),
            );
        }
        read_from.or(own)
    }

    /// Lowers one level: `path` is the object that contains `cluster` and `target`.
    fn level(
        &mut self,
        path: &str,
        cluster: Option<&Cluster>,
        target: Option<&Target>,
    ) -> Option<ClusterReference> {
        if cluster.is_some() && target.is_some() {
            self.diagnostics.push(
                Diagnostic::new(
                    Code::TwoClusterReferences,
                    "`cluster` and `target` are two spellings of one reference",
                )
                .path(format!("{path}.target"))
                .help("remove one of them"),
            );
        }
        let cluster = cluster.map(|cluster| self.cluster(&format!("{path}.cluster"), cluster));
        let target = target.and_then(|target| self.target(&format!("{path}.target"), target));
        cluster.or(target)
    }

    fn cluster(&mut self, path: &str, cluster: &Cluster) -> ClusterReference {
        let Cluster { name, namespace, key, kubeconfig_secret, kubeconfig_secret_ref, poll_config } = cluster;
        let at = |field: &str| format!("{path}.{field}");
        let (spelling, credentials) = match (kubeconfig_secret, kubeconfig_secret_ref) {
            (Some(secret), _) => (Spelling::Long, self.secret(&at("kubeconfigSecret"), secret)),
            (None, Some(text)) => {
                (Spelling::LongByString, self.secret_text(&at("kubeconfigSecretRef"), text))
            }
            (None, None) => {
                let namespace = namespace.as_deref().filter(|namespace| !namespace.is_empty());
                let namespace = namespace.map(|namespace| self.namespace(namespace, at("namespace")));
                let credentials = Credentials::Secret(SecretTemplate {
                    name: self.secret_name(name, at("name")),
                    namespace: namespace.map_or(SecretNamespace::Instance, SecretNamespace::Given),
                    key: self.key(key.as_deref(), at("key")),
                });
                (Spelling::Short, credentials)
            }
        };
        if spelling.is_long() {
            self.misplaced(&at("namespace"), "namespace", namespace.as_deref(), spelling);
            self.misplaced(&at("key"), "key", key.as_deref(), spelling);
        }
        if kubeconfig_secret.is_some() && kubeconfig_secret_ref.is_some() {
            self.two_secrets(at("kubeconfigSecretRef"));
        }
        let poll = poll_config.as_ref().and_then(|poll| self.poll(&at("pollConfig"), poll));
        let name = spelling.is_long().then(|| Template::new(name.as_str(), at("name")));
        ClusterReference { path: path.into(), spelling, name, credentials, poll }
    }

    fn two_secrets(&mut self, path: String) {
        let message = "`kubeconfigSecret` and `kubeconfigSecretRef` both name the Secret";
        let help = "keep `kubeconfigSecret` for a separate name and namespace, or `kubeconfigSecretRef` for one string";
        self.diagnostics.push(Diagnostic::new(Code::TwoKubeconfigSecrets, message).path(path).help(help));
    }

    /// Reports a field of the short spelling next to a long one.
    fn misplaced(&mut self, path: &str, field: &str, value: Option<&str>, spelling: Spelling) {
        let Some(value) = value else {
            return;
        };
        let (other, help) = match spelling {
            Spelling::LongByString if field == "namespace" => {
                let help = format!("add it to the reference: `kubeconfigSecretRef: {value}/<name>`");
                ("kubeconfigSecretRef", help)
            }
            Spelling::LongByString => {
                let help = format!(
                    "write `kubeconfigSecret: {{name: ..., namespace: ..., {field}: {value}}}` instead"
                );
                ("kubeconfigSecretRef", help)
            }
            _ => ("kubeconfigSecret", format!("move it to `kubeconfigSecret.{field}`")),
        };
        let message = format!("`{field}` cannot be combined with `{other}`");
        self.diagnostics.push(Diagnostic::new(Code::MisplacedSecretField, message).path(path).help(help));
    }

    fn secret(&mut self, path: &str, secret: &KubeconfigSecret) -> Credentials {
        Credentials::Secret(SecretTemplate {
            name: self.secret_name(&secret.name, format!("{path}.name")),
            namespace: SecretNamespace::Given(self.namespace(&secret.namespace, format!("{path}.namespace"))),
            key: self.key(secret.key.as_deref(), format!("{path}.key")),
        })
    }

    fn secret_text(&mut self, path: &str, text: &str) -> Credentials {
        let template = Template::new(text, path);
        if template.literal().is_none() {
            return Credentials::SecretByText(template);
        }
        let Some((namespace, name)) = split_secret_text(text) else {
            self.diagnostics.push(
                Diagnostic::new(
                    Code::MalformedSecretReference,
                    format!("`{text}` is neither `name` nor `namespace/name` of a Secret"),
                )
                .path(path)
                .help("write the Secret as `name` or as `namespace/name`"),
            );
            return Credentials::SecretByText(template);
        };
        let namespace = namespace.map(|namespace| self.namespace(namespace, path.to_owned()));
        Credentials::Secret(SecretTemplate {
            name: self.secret_name(name, path.to_owned()),
            namespace: namespace.map_or(SecretNamespace::Instance, SecretNamespace::Given),
            key: None,
        })
    }

    fn target(&mut self, path: &str, target: &Target) -> Option<ClusterReference> {
        let wrong = match (&target.cluster, &target.kubernetes_target) {
            (Some(_), Some(_)) => Some("`target` sets two protocols"),
            (None, None) => Some("`target` sets no protocol"),
            _ => None,
        };
        if let Some(message) = wrong {
            let help = "set exactly one of `cluster` and `kubernetesTarget`";
            self.diagnostics.push(Diagnostic::new(Code::TargetProtocol, message).path(path).help(help));
        }
        let cluster =
            target.cluster.as_ref().map(|cluster| self.cluster_target(&format!("{path}.cluster"), cluster));
        let published = target.kubernetes_target.as_ref();
        let published =
            published.and_then(|target| self.published(&format!("{path}.kubernetesTarget"), target));
        cluster.or(published)
    }

    fn cluster_target(&mut self, path: &str, cluster: &ClusterTarget) -> ClusterReference {
        let at = |field: &str| format!("{path}.{field}");
        let namespace =
            cluster.kubeconfig_secret_namespace.as_deref().filter(|namespace| !namespace.is_empty());
        let namespace = namespace.map(|namespace| self.namespace(namespace, at("kubeconfigSecretNamespace")));
        ClusterReference {
            path: path.into(),
            spelling: Spelling::Target,
            name: None,
            credentials: Credentials::Secret(SecretTemplate {
                name: self.secret_name(&cluster.kubeconfig_secret_name, at("kubeconfigSecretName")),
                namespace: namespace.map_or(SecretNamespace::System, SecretNamespace::Given),
                key: None,
            }),
            poll: cluster.poll_config.as_ref().and_then(|poll| self.poll(&at("pollConfig"), poll)),
        }
    }

    fn published(&mut self, path: &str, target: &KubernetesTargetReference) -> Option<ClusterReference> {
        if target.name.is_some() == target.selector.is_some() {
            let message = "`kubernetesTarget` requires exactly one of `name` and `selector`";
            let help = "set `name` to name the target, or `selector` to select it by its labels";
            self.diagnostics
                .push(Diagnostic::new(Code::KubernetesTargetChoice, message).path(path).help(help));
        }
        let at = |field: &str| format!("{path}.{field}");
        let namespace = target.namespace.as_deref().filter(|namespace| !namespace.is_empty());
        let namespace = namespace.map(|namespace| self.namespace(namespace, at("namespace")));
        let poll = target.poll_config.as_ref().and_then(|poll| self.poll(&at("pollConfig"), poll));
        let choice = match (&target.name, &target.selector) {
            (Some(name), _) => TargetChoice::Name(self.target_name(name, at("name"))),
            (None, Some(selector)) => TargetChoice::Selector(lower_selector(&at("selector"), selector)),
            (None, None) => return None,
        };
        Some(ClusterReference {
            path: path.into(),
            spelling: Spelling::Published,
            name: None,
            credentials: Credentials::Published(Published { choice, namespace }),
            poll,
        })
    }

    fn poll(&mut self, path: &str, poll: &PollConfig) -> Option<Poll> {
        let interval = self.duration(format!("{path}.interval"), &poll.interval);
        let jitter = match &poll.jitter {
            Some(jitter) => self.duration(format!("{path}.jitter"), jitter),
            None => Some(Duration::ZERO),
        };
        let minimum = self.options.min_poll_interval;
        if interval.is_some_and(|interval| interval < minimum) {
            let minimum = format!("{}s", minimum.as_secs_f64());
            self.diagnostics.push(
                Diagnostic::new(
                    Code::PollTooOften,
                    format!("the interval `{}` is below the minimum of {minimum}", poll.interval),
                )
                .path(format!("{path}.interval"))
                .help(format!(
                    "use `interval: {minimum}` or more, or remove `pollConfig` to watch the cluster instead"
                )),
            );
        }
        Some(Poll { interval: interval?, jitter: jitter? })
    }

    fn duration(&mut self, path: String, text: &str) -> Option<Duration> {
        let duration = parse_duration(text);
        if duration.is_none() {
            let mut diagnostic =
                Diagnostic::new(Code::InvalidPollConfig, format!("`{text}` is not a duration"))
                    .path(path)
                    .help("use numbers with the unit `s`, `m` or `h`, such as `30s` or `1m30s`");
            if text.contains("${") {
                diagnostic = diagnostic.note("`pollConfig` does not support expressions");
            }
            self.diagnostics.push(diagnostic);
        }
        duration
    }

    fn secret_name(&mut self, name: &str, path: String) -> Template {
        self.name(name, path, "Secret name", is_object_name)
    }

    fn target_name(&mut self, name: &str, path: String) -> Template {
        self.name(name, path, "name of a KubernetesTarget", is_object_name)
    }

    fn namespace(&mut self, name: &str, path: String) -> Template {
        self.name(name, path, "namespace", is_namespace)
    }

    fn key(&mut self, key: Option<&str>, path: String) -> Option<Template> {
        let key = key.filter(|key| !key.is_empty())?;
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        Some(self.name(key, path, "Secret key", |key| key.len() <= 253 && key.bytes().all(allowed)))
    }

    fn name(&mut self, name: &str, path: String, what: &str, valid: impl Fn(&str) -> bool) -> Template {
        let template = Template::new(name, path);
        let help = format!("use the exact {what}, or an expression that returns it");
        if template.literal().is_some_and(|name| !valid(name)) {
            self.diagnostics.push(
                Diagnostic::new(Code::InvalidSecretAddress, format!("`{name}` is not a valid {what}"))
                    .path(template.path())
                    .help(help),
            );
        }
        template
    }
}

fn lower_selector(path: &str, selector: &LabelSelector) -> SelectorTemplate {
    // Label keys contain dots and slashes, which must be quoted in a path.
    let path: Path = path.parse().unwrap_or_default();
    let (labels, expressions) = (path.key("matchLabels"), path.key("matchExpressions"));
    let label = |(key, value): (&String, &String)| {
        (key.clone(), Template::new(value.as_str(), labels.key(key).to_string()))
    };
    let requirement = |(index, requirement): (usize, &SelectorRequirement)| {
        let values_path = expressions.index(index).key("values");
        let values = requirement.values.iter().enumerate();
        let value =
            |(at, value): (usize, &String)| Template::new(value.as_str(), values_path.index(at).to_string());
        (requirement.key.clone(), requirement.operator.clone(), values.map(value).collect())
    };
    SelectorTemplate {
        labels: selector.match_labels.iter().flatten().map(label).collect(),
        requirements: selector.match_expressions.iter().enumerate().map(requirement).collect(),
    }
}
