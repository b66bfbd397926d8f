//! The spellings of a cluster reference on the wire: `cluster` (short, long, long by string) and `target`. The
//! `placement` module turns each of them into a [`ClusterReference`](crate::ClusterReference).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::LabelSelector;
use crate::openapi::{DURATION_PATTERN, rule};

/// A cluster, referenced by the Secret that contains its kubeconfig. Every string may contain `${}` expressions, except
/// in `pollConfig`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = cluster_rules()))]
pub struct Cluster {
    /// Name of the Secret. If `kubeconfigSecret` or `kubeconfigSecretRef` is set, the display name of the cluster.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Namespace of the Secret. Defaults to the namespace of the instance, or to `kro-system` for a cluster-scoped instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Key in the Secret. Defaults to `kubeconfig`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The Secret; `name` is then the display name of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig_secret: Option<KubeconfigSecret>,
    /// The Secret as `name` or `namespace/name`; `name` is then the display name of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub kubeconfig_secret_ref: Option<String>,
    /// Poll the cluster instead of watching it.
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
    /// Key in the Secret. Defaults to `kubeconfig`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// How often to poll a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PollConfig {
    /// Time between two polls, such as `30s` or `1m30s`.
    #[schemars(regex(pattern = DURATION_PATTERN))]
    pub interval: String,
    /// Maximum random delay that is added to each interval, to spread the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = DURATION_PATTERN))]
    pub jitter: Option<String>,
}

/// The cluster of the objects, referenced through exactly one protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = target_rules()))]
pub struct Target {
    /// A cluster, referenced by the Secret that contains its kubeconfig.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterTarget>,
    /// A cluster, referenced by its `KubernetesTarget` object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes_target: Option<KubernetesTargetReference>,
}

fn target_rules() -> Json {
    json!([rule(
        "has(self.cluster) != has(self.kubernetesTarget)",
        "`target` requires exactly one protocol: set `cluster` or `kubernetesTarget`"
    )])
}

/// A cluster, referenced by the Secret that contains its kubeconfig.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterTarget {
    /// Name of the Secret.
    #[schemars(length(min = 1))]
    pub kubeconfig_secret_name: String,
    /// Namespace of the Secret. Defaults to `kro-system`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig_secret_namespace: Option<String>,
    /// Poll the cluster instead of watching it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll_config: Option<PollConfig>,
}

/// A `KubernetesTarget` in the namespace of the instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = kubernetes_target_rules()))]
pub struct KubernetesTargetReference {
    /// Name of the `KubernetesTarget`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub name: Option<String>,
    /// Selects a `KubernetesTarget` by its labels. The choice is kept until the selector changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Namespace of the `KubernetesTarget`. Required for a cluster-scoped instance, not allowed for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Poll the cluster instead of watching it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll_config: Option<PollConfig>,
}

fn kubernetes_target_rules() -> Json {
    json!([rule(
        "has(self.name) != has(self.selector)",
        "`kubernetesTarget` requires exactly one of `name` and `selector`"
    )])
}
