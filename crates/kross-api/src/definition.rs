//! `ResourceGraphDefinition`, as it is on the wire: kro's fields, and ours beside them.

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
use crate::{Cluster, Lifecycle, List, Target};

/// What a definition asks for: the API that it serves and the graph behind it.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kro.run",
    version = "v1alpha1",
    kind = "ResourceGraphDefinition",
    plural = "resourcegraphdefinitions",
    shortname = "rgd",
    status = "ResourceGraphDefinitionStatus",
    doc = "A graph of objects over any number of clusters, and the API whose instances bring it to life.",
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
    /// The objects that every instance stands for.
    #[serde(default, skip_serializing_if = "List::is_absent")]
    pub resources: List<Resource>,
    /// The cluster that resources without a reference of their own live in. Left out: the local one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Cluster>,
    /// The cluster that resources without a reference of their own live in, in the words of `target`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// Defaults for the lifecycle of every resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifecycle: Option<Lifecycle>,
}

/// The rule of every level that a cluster can be named on.
pub(crate) fn one_reference() -> Json {
    rule(
        "!(has(self.cluster) && has(self.target))",
        "`cluster` and `target` are two spellings of one reference: keep one of them",
    )
}

/// The rules of one resource.
pub(crate) fn resource_rules() -> Json {
    json!([
        rule(
            "has(self.template) != has(self.externalRef)",
            "exactly one of template or externalRef must be provided"
        ),
        one_reference(),
        rule(
            "!((has(self.cluster) || has(self.target)) && has(self.externalRef) && (has(self.externalRef.cluster) || has(self.externalRef.target)))",
            "the cluster is named twice: keep it on the resource or on its `externalRef`"
        ),
    ])
}
