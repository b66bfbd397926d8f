//! The spellings of a reference to a cluster as they are written: `cluster` (short, long, long by string) and
//! `target`. `placement` turns every one of them into the same [`ClusterReference`](crate::ClusterReference).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::LabelSelector;
use crate::openapi::{DURATION_PATTERN, rule};

/// A cluster named by the Secret that holds its kubeconfig. Every string may be a `${}` expression, except those of
/// `pollConfig`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = cluster_rules()))]
pub struct Cluster {
    /// Name of the Secret; or, beside `kubeconfigSecret` or `kubeconfigSecretRef`, the name that messages show.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Namespace of the Secret. Left out: the instance's namespace, or `kro-system` for a cluster-scoped instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Key in the Secret. Left out: `kubeconfig`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The Secret, when `name` is only a name to show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig_secret: Option<KubeconfigSecret>,
    /// The Secret as `name` or `namespace/name`, when `name` is only a name to show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub kubeconfig_secret_ref: Option<String>,
    /// Polls the cluster instead of watching it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll_config: Option<PollConfig>,
}

fn cluster_rules() -> Json {
    json!([
        rule(
            "!(has(self.kubeconfigSecret) && has(self.kubeconfigSecretRef))",
            "`kubeconfigSecret` and `kubeconfigSecretRef` both name the Secret: keep one of them"
        ),
        rule(
            "!(has(self.__namespace__) && (has(self.kubeconfigSecret) || has(self.kubeconfigSecretRef)))",
            "`namespace` belongs to the short spelling: write `kubeconfigSecret: {name: ..., namespace: ...}` instead"
        ),
        rule(
            "!(has(self.key) && (has(self.kubeconfigSecret) || has(self.kubeconfigSecretRef)))",
            "`key` belongs to the short spelling: write `kubeconfigSecret: {name: ..., namespace: ..., key: ...}` instead"
        ),
    ])
}

/// The Secret of the long spelling.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubeconfigSecret {
    /// Name of the Secret.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Namespace of the Secret.
    #[schemars(length(min = 1))]
    pub namespace: String,
    /// Key in the Secret. Left out: `kubeconfig`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// How often a cluster is polled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PollConfig {
    /// Time between two polls, such as `30s` or `1m30s`.
    #[schemars(regex(pattern = DURATION_PATTERN))]
    pub interval: String,
    /// The most that is added to an interval at random, so that polls do not bunch up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = DURATION_PATTERN))]
    pub jitter: Option<String>,
}

/// Where objects live, by one protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = target_rules()))]
pub struct Target {
    /// A cluster named by the Secret that holds its kubeconfig.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterTarget>,
    /// A cluster that was published as a `KubernetesTarget`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes_target: Option<KubernetesTargetReference>,
}

fn target_rules() -> Json {
    json!([rule(
        "has(self.cluster) != has(self.kubernetesTarget)",
        "`target` takes exactly one protocol: write `cluster` or `kubernetesTarget`"
    )])
}

/// A cluster named by its Secret, in the words of `target`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterTarget {
    /// Name of the Secret.
    #[schemars(length(min = 1))]
    pub kubeconfig_secret_name: String,
    /// Namespace of the Secret. Left out: `kro-system`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig_secret_namespace: Option<String>,
    /// Polls the cluster instead of watching it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll_config: Option<PollConfig>,
}

/// A published cluster in the instance's namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = kubernetes_target_rules()))]
pub struct KubernetesTargetReference {
    /// Name of the `KubernetesTarget`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub name: Option<String>,
    /// Chooses a `KubernetesTarget` by its labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

fn kubernetes_target_rules() -> Json {
    json!([rule(
        "has(self.name) != has(self.selector)",
        "`kubernetesTarget` takes exactly one of `name` and `selector`"
    )])
}
