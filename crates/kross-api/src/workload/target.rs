//! The `KubernetesTarget` wire type: a cluster that is published into a namespace.

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::{LocalReference, local_rules};
use crate::openapi::rule;
use crate::{Condition, List};

/// The cluster: a managed resource, or a connection Secret of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "workload.crossplane.io",
    version = "v1alpha1",
    kind = "KubernetesTarget",
    plural = "kubernetestargets",
    namespaced,
    status = "KubernetesTargetStatus",
    category = "crossplane",
    doc = "A Kubernetes cluster that is published into a namespace, where applications and graphs can use it.",
    derive = "PartialEq",
    schema = "disabled",
    crates(kube_core = "::kube_core"),
    printcolumn = r#"{"name": "CLUSTER", "type": "string", "jsonPath": ".spec.clusterRef.name"}"#,
    printcolumn = r#"{"name": "SECRET", "type": "string", "jsonPath": ".spec.connectionSecretRef.name"}"#,
    printcolumn = r#"{"name": "READY", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name": "REASON", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].reason"}"#,
    printcolumn = r#"{"name": "VERSION", "type": "string", "jsonPath": ".status.cluster.version"}"#,
    printcolumn = r#"{"name": "ROUND-TRIP", "type": "string", "jsonPath": ".status.cluster.roundTripTime", "priority": 1}"#,
    printcolumn = r#"{"name": "UID", "type": "string", "jsonPath": ".status.cluster.uid", "priority": 1}"#,
    printcolumn = r#"{"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = target_rules()))]
pub struct KubernetesTargetSpec {
    /// The managed resource of the cluster. Its connection Secret is copied into this namespace. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_ref: Option<ManagedClusterReference>,
    /// The connection Secret, in this namespace. If it is not set, the controller sets it to its copy of the Secret of
    /// `clusterRef`. If both are set, the Secret takes precedence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_secret_ref: Option<LocalReference>,
}

fn target_rules() -> Json {
    json!([
        rule(
            "has(self.clusterRef) || has(self.connectionSecretRef)",
            "set `clusterRef` to a managed resource, or `connectionSecretRef` to a Secret of this namespace"
        ),
        rule(
            "has(self.clusterRef) == has(oldSelf.clusterRef) && (!has(self.clusterRef) || self.clusterRef == oldSelf.clusterRef)",
            "`clusterRef` is immutable: create another KubernetesTarget"
        ),
    ])
}

/// A cluster-scoped managed resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = local_rules()))]
pub struct ManagedClusterReference {
    /// API version of the managed resource.
    #[schemars(length(min = 1))]
    pub api_version: String,
    /// Kind of the managed resource. It must be cluster-scoped.
    #[schemars(length(min = 1))]
    pub kind: String,
    /// Name of the managed resource.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Not allowed: managed resources are cluster-scoped.
    // It is in the schema so that the API server refuses it; otherwise it would be dropped silently.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// Whether the target can be used, and what is known of its cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubernetesTargetStatus {
    /// `ConnectionSecretPropagated`, `Reachable` and `Ready`.
    #[serde(default, skip_serializing_if = "List::is_absent")]
    pub conditions: List<Condition>,
    /// The cluster, as of the last connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<TargetCluster>,
}

/// What is known of the cluster of a target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetCluster {
    /// UID of the cluster's `kube-system` namespace, or the server URL if that namespace cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Whether `uid` is only the server URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unverified: Option<bool>,
    /// Kubernetes version of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Duration of a request to the cluster. It is updated only when it doubles or halves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_time: Option<String>,
}
