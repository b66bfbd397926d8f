//! The `KubernetesApplicationResource` wire type: one object in the cluster of a target.

use kross_value::Value;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::LocalReference;
use crate::openapi::{raw_object, raw_value};
use crate::{ClusterStatus, Condition, List, ManagedResource};

/// The object, and the target that it is applied to.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "workload.crossplane.io",
    version = "v1alpha1",
    kind = "KubernetesApplicationResource",
    plural = "kubernetesapplicationresources",
    namespaced,
    status = "KubernetesApplicationResourceStatus",
    category = "crossplane",
    doc = "An object in the cluster of a KubernetesTarget.",
    derive = "PartialEq",
    schema = "disabled",
    crates(kube_core = "::kube_core"),
    printcolumn = r#"{"name": "TEMPLATE-KIND", "type": "string", "jsonPath": ".spec.template.kind"}"#,
    printcolumn = r#"{"name": "TEMPLATE-NAME", "type": "string", "jsonPath": ".spec.template.metadata.name"}"#,
    printcolumn = r#"{"name": "CLUSTER", "type": "string", "jsonPath": ".spec.targetRef.name"}"#,
    printcolumn = r#"{"name": "STATUS", "type": "string", "jsonPath": ".status.state"}"#,
    printcolumn = r#"{"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct KubernetesApplicationResourceSpec {
    /// The object. It is applied as it is, without expressions. Without a namespace it is in the namespace of the
    /// application.
    #[schemars(schema_with = "raw_object")]
    pub template: Value,
    /// The target whose cluster has the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<LocalReference>,
    /// Secrets of this namespace that are copied to the namespace of the object, as `<name of this resource>-<name of the
    /// Secret>`.
    #[serde(default, skip_serializing_if = "List::is_absent")]
    #[schemars(length(max = 32))]
    pub secrets: List<LocalReference>,
}

/// State of the object in the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubernetesApplicationResourceStatus {
    /// `Pending`, `Scheduled`, `Submitted`, `Failed` or `Deleting`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Conditions of the resource.
    #[serde(default, skip_serializing_if = "List::is_absent")]
    pub conditions: List<Condition>,
    /// The status of the object in the cluster, as it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "raw_value")]
    pub remote: Option<Value>,
    /// The objects in the cluster: the template and the Secrets.
    #[serde(default, skip_serializing_if = "List::is_absent")]
    pub managed_resources: List<ManagedResource>,
    /// The cluster.
    #[serde(default, skip_serializing_if = "List::is_absent")]
    pub clusters: List<ClusterStatus>,
}
