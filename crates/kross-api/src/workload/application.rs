//! The `KubernetesApplication` wire type: templates that are scheduled together to one target.

use std::collections::BTreeMap;

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::{KubernetesApplicationResourceSpec, LocalReference};
use crate::openapi::rule;
use crate::{Condition, LabelSelector, List};

/// The templates of the application, and the targets that it may be scheduled to.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "workload.crossplane.io",
    version = "v1alpha2",
    kind = "KubernetesApplication",
    plural = "kubernetesapplications",
    namespaced,
    status = "KubernetesApplicationStatus",
    category = "crossplane",
    doc = "A set of Kubernetes objects that are scheduled to a KubernetesTarget of the same namespace.",
    derive = "PartialEq",
    schema = "disabled",
    crates(kube_core = "::kube_core"),
    printcolumn = r#"{"name": "CLUSTER", "type": "string", "jsonPath": ".spec.targetRef.name"}"#,
    printcolumn = r#"{"name": "STATUS", "type": "string", "jsonPath": ".status.state"}"#,
    printcolumn = r#"{"name": "DESIRED", "type": "integer", "jsonPath": ".status.desiredResources"}"#,
    printcolumn = r#"{"name": "SUBMITTED", "type": "integer", "jsonPath": ".status.submittedResources"}"#,
    printcolumn = r#"{"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct KubernetesApplicationSpec {
    /// Labels of the application's KubernetesApplicationResources; informational.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_selector: Option<LabelSelector>,
    /// Selects the targets that the application may be scheduled to. By default, any target of the namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_selector: Option<LabelSelector>,
    /// Preferred targets among the selected ones.
    #[serde(default, skip_serializing_if = "List::is_absent")]
    #[schemars(length(max = 32))]
    pub target_preferences: List<TargetPreference>,
    /// The target that the application is scheduled to. The scheduler sets it, unless the author does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<LocalReference>,
    /// The objects of the application. Each becomes a KubernetesApplicationResource.
    #[serde(default)]
    #[schemars(length(max = 500))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub resource_templates: List<ApplicationTemplate>,
}

/// A preference for some targets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetPreference {
    /// How much a matching target is preferred. The weights of all matching preferences are added up.
    #[schemars(range(min = 1, max = 100))]
    pub weight: i64,
    /// Labels of the preferred targets.
    pub label_selector: LabelSelector,
}

/// One object of an application.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationTemplate {
    /// Name, labels and annotations of the KubernetesApplicationResource.
    pub metadata: TemplateMetadata,
    /// Spec of the KubernetesApplicationResource. Its target is always that of the application.
    pub spec: KubernetesApplicationResourceSpec,
}

/// Metadata of an object that the controller creates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateMetadata {
    /// Name of the object.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Labels of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
}

/// State of the application, and of its resources in sum.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubernetesApplicationStatus {
    /// `Pending`, `Scheduled`, `PartiallySubmitted`, `Submitted`, `Failed` or `Deleting`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Number of resources in the spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired_resources: Option<i64>,
    /// Number of resources that are applied in the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submitted_resources: Option<i64>,
    /// `Synced` and `Ready`.
    #[serde(default, skip_serializing_if = "List::is_absent")]
    pub conditions: List<Condition>,
}

/// The spec's schema in `v1alpha1`: it also has `clusterSelector`, which is refused. Without it the API server would drop the
/// field silently, and the application would be scheduled to any target.
pub(crate) fn first_version(mut spec: Json) -> Json {
    let refusal = rule(
        "!has(self.clusterSelector)",
        "`clusterSelector` was renamed: use `targetSelector`, which selects KubernetesTargets",
    );
    let field = json!({
        "type": "object",
        "description": "Not allowed: use `targetSelector`.",
        "x-kubernetes-preserve-unknown-fields": true,
    });
    if let Some(properties) = spec.get_mut("properties").and_then(Json::as_object_mut) {
        properties.insert("clusterSelector".to_owned(), field);
    }
    if let Some(spec) = spec.as_object_mut() {
        spec.insert("x-kubernetes-validations".to_owned(), json!([refusal]));
    }
    spec
}
