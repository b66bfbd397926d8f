//! The `KubernetesCluster` wire type: a claim of a cluster, which exists already or is provisioned from a class.

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::openapi::rule;
use crate::{Condition, LabelSelector, List, LocalReference, ManagedClusterReference};

/// The cluster that is claimed.
#[derive(Clone, Debug, Default, PartialEq, Eq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "compute.crossplane.io",
    version = "v1alpha1",
    kind = "KubernetesCluster",
    plural = "kubernetesclusters",
    namespaced,
    status = "KubernetesClusterStatus",
    category = "crossplane",
    category = "claim",
    doc = "A claim of a Kubernetes cluster. Once it is bound, the cluster is published into its namespace.",
    derive = "PartialEq",
    schema = "disabled",
    crates(kube_core = "::kube_core"),
    printcolumn = r#"{"name": "STATUS", "type": "string", "jsonPath": ".status.bindingPhase"}"#,
    printcolumn = r#"{"name": "CLASS-KIND", "type": "string", "jsonPath": ".spec.classRef.kind"}"#,
    printcolumn = r#"{"name": "CLASS-NAME", "type": "string", "jsonPath": ".spec.classRef.name"}"#,
    printcolumn = r#"{"name": "RESOURCE-KIND", "type": "string", "jsonPath": ".spec.resourceRef.kind"}"#,
    printcolumn = r#"{"name": "RESOURCE-NAME", "type": "string", "jsonPath": ".spec.resourceRef.name"}"#,
    printcolumn = r#"{"name": "READY", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = claim_rules()))]
pub struct KubernetesClusterSpec {
    /// The Secret of this namespace that gets the credentials of the cluster. Without it, the cluster is not published.
    /// Immutable once it is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_connection_secret_to_ref: Option<LocalReference>,
    /// Selects the class that the cluster is provisioned from. One of the matching classes is chosen, and set as `classRef`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class_selector: Option<LabelSelector>,
    /// The class that the cluster is provisioned from. Without class and `resourceRef`, it is the default class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class_ref: Option<ClassReference>,
    /// The managed resource. A resource that exists must name this claim in its `claimRef`. The controller sets it if it
    /// provisions one. Immutable once it is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_ref: Option<ManagedClusterReference>,
    /// Kubernetes version that the cluster should have; informational.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_version: Option<String>,
}

// Otherwise a claim would lose its cluster, or leave its copies of credentials behind.
fn claim_rules() -> Json {
    json!([
        rule(
            "!has(oldSelf.resourceRef) || (has(self.resourceRef) && self.resourceRef == oldSelf.resourceRef)",
            "`resourceRef` is immutable once it is set: create another KubernetesCluster"
        ),
        rule(
            "!has(oldSelf.writeConnectionSecretToRef) || (has(self.writeConnectionSecretToRef) && self.writeConnectionSecretToRef == oldSelf.writeConnectionSecretToRef)",
            "`writeConnectionSecretToRef` is immutable once it is set: create another KubernetesCluster"
        ),
        rule(
            "!has(self.writeConnectionSecretToRef) || !self.writeConnectionSecretToRef.name.endsWith('-kubeconfig')",
            "the name in `writeConnectionSecretToRef` must not end with `-kubeconfig`: graphs could use the Secret without a KubernetesTarget"
        ),
    ])
}

/// A KubernetesClusterClass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = class_rules()))]
pub struct ClassReference {
    /// API version of the class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// Kind of the class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Name of the class.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Not allowed: classes are cluster-scoped.
    // It is in the schema so that the API server refuses it; otherwise it would be dropped silently.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

fn class_rules() -> Json {
    json!([
        rule(
            "!has(self.kind) || self.kind == 'KubernetesClusterClass'",
            "`kind` must be `KubernetesClusterClass`: write a class with the template of the provider's kind"
        ),
        rule(
            "!has(self.apiVersion) || self.apiVersion == 'compute.crossplane.io/v1alpha1'",
            "`apiVersion` must be `compute.crossplane.io/v1alpha1`"
        ),
        rule("!has(self.__namespace__)", "`namespace` is not allowed: classes are cluster-scoped; remove it"),
    ])
}

/// How far the claim is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubernetesClusterStatus {
    /// `Unbindable`, `Unbound`, `Bound` or `Released`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding_phase: Option<String>,
    /// `Synced`, `ConnectionSecretPropagated`, `TargetPublished` and `Ready`.
    #[serde(default, skip_serializing_if = "List::is_absent")]
    pub conditions: List<Condition>,
}
