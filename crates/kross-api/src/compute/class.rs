//! The `KubernetesClusterClass` wire type: the template of managed resources that claims provision.

use std::collections::BTreeMap;

use kross_value::Value;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::openapi::raw_object;

/// The template, and what happens to a managed resource when its claim is deleted.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "compute.crossplane.io",
    version = "v1alpha1",
    kind = "KubernetesClusterClass",
    plural = "kubernetesclusterclasses",
    category = "crossplane",
    category = "class",
    doc = "A template of managed resources that KubernetesCluster claims provision.",
    derive = "PartialEq",
    schema = "disabled",
    crates(kube_core = "::kube_core"),
    printcolumn = r#"{"name": "RESOURCE-KIND", "type": "string", "jsonPath": ".spec.template.kind"}"#,
    printcolumn = r#"{"name": "RECLAIM-POLICY", "type": "string", "jsonPath": ".spec.reclaimPolicy"}"#,
    printcolumn = r#"{"name": "DEFAULT-CLASS", "type": "string", "jsonPath": ".metadata.annotations.resourceclass\\.crossplane\\.io/is-default-class"}"#,
    printcolumn = r#"{"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct KubernetesClusterClassSpec {
    /// What happens to a managed resource when its claim is deleted. Defaults to `Delete`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reclaim_policy: Option<ReclaimPolicy>,
    /// The managed resource.
    pub template: ClassTemplate,
}

/// What happens to a managed resource when its claim is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ReclaimPolicy {
    /// It is deleted.
    #[default]
    Delete,
    /// It is released and stays.
    Retain,
}

impl ReclaimPolicy {
    /// The value on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Delete => "Delete",
            Self::Retain => "Retain",
        }
    }

    /// Parses a value from the wire.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Delete, Self::Retain].into_iter().find(|policy| policy.as_str() == text)
    }
}

/// The template of a managed resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClassTemplate {
    /// API version of the managed resource.
    #[schemars(length(min = 1))]
    pub api_version: String,
    /// Kind of the managed resource. It must be cluster-scoped and served by a CustomResourceDefinition.
    #[schemars(length(min = 1))]
    pub kind: String,
    /// Labels and annotations of the managed resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<ClassTemplateMetadata>,
    /// Spec of the managed resource.
    #[schemars(schema_with = "raw_object")]
    pub spec: Value,
}

/// Metadata of the managed resources of a class. Their names derive from their claims.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClassTemplateMetadata {
    /// Labels of the managed resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations of the managed resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
}
