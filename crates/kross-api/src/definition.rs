//! The `ResourceGraphDefinition` wire type: kro's fields, and the ones that kross adds.

mod resource;
mod schema;
mod status;

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

pub use resource::{ForEach, Resource};
pub use schema::{CrdMetadata, DEFAULT_GROUP, PrinterColumn, Schema, Scope};
pub use status::{DefinitionState, Dependency, ResourceGraphDefinitionStatus, ResourceInformation};

use crate::openapi::rule;
use crate::{Access, Cluster, Lifecycle, List, Target};

/// The API that the definition serves, and the graph of resources behind it.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kro.run",
    version = "v1alpha1",
    kind = "ResourceGraphDefinition",
    plural = "resourcegraphdefinitions",
    shortname = "rgd",
    status = "ResourceGraphDefinitionStatus",
    doc = "A graph of objects over any number of clusters, and the API whose instances create it.",
    derive = "PartialEq",
    schema = "disabled",
    crates(kube_core = "::kube_core"),
    printcolumn = r#"{"name": "APIVERSION", "type": "string", "jsonPath": ".spec.schema.apiVersion"}"#,
    printcolumn = r#"{"name": "KIND", "type": "string", "jsonPath": ".spec.schema.kind"}"#,
    printcolumn = r#"{"name": "STATE", "type": "string", "jsonPath": ".status.state"}"#,
    printcolumn = r#"{"name": "READY", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name": "TOPOLOGICALORDER", "type": "string", "jsonPath": ".status.topologicalOrder", "priority": 1}"#,
    printcolumn = r#"{"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [one_reference()]))]
pub struct ResourceGraphDefinitionSpec {
    /// The API that the definition serves.
    pub schema: Schema,
    /// The resources of the graph. Each instance creates or reads them.
    #[serde(default, skip_serializing_if = "List::is_absent")]
    pub resources: List<Resource>,
    /// The cluster of resources that have no reference of their own. Defaults to the local cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Cluster>,
    /// The cluster of resources that have no reference of their own, as an alternative to `cluster`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// Default lifecycle of every resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifecycle: Option<Lifecycle>,
    /// The ServiceAccount that acts for the instances in the local cluster. Defaults to the controller's own permissions, or
    /// to `--default-service-account`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<Access>,
}

/// The validation rule of every level that can reference a cluster.
pub(crate) fn one_reference() -> Json {
    rule(
        "!(has(self.cluster) && has(self.target))",
        "`cluster` and `target` are two spellings of one reference: keep one of them",
    )
}

/// The validation rules of one resource.
pub(crate) fn resource_rules() -> Json {
    json!([
        rule(
            "has(self.template) != has(self.externalRef)",
            "exactly one of template or externalRef must be provided"
        ),
        one_reference(),
        rule(
            "!((has(self.cluster) || has(self.target)) && has(self.externalRef) && (has(self.externalRef.cluster) || has(self.externalRef.target)))",
            "the cluster is set twice: set it either on the resource or on its `externalRef`"
        ),
    ])
}
