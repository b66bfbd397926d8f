//! The `GraphRevision` wire type: an immutable snapshot of a definition's spec, and the result of compiling it.

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::openapi::immutable;
use crate::{Condition, List, ResourceGraphDefinitionSpec, ResourceInformation};

/// The revision number and the snapshot of the definition. Immutable.
#[derive(Clone, Debug, Default, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "internal.kro.run",
    version = "v1alpha1",
    kind = "GraphRevision",
    plural = "graphrevisions",
    shortname = "gr",
    status = "GraphRevisionStatus",
    selectable = ".spec.snapshot.name",
    doc = "An immutable snapshot of one revision of a ResourceGraphDefinition.",
    derive = "PartialEq",
    schema = "disabled",
    crates(kube_core = "::kube_core"),
    printcolumn = r#"{"name": "RGD", "type": "string", "jsonPath": ".spec.snapshot.name", "priority": 1}"#,
    printcolumn = r#"{"name": "REVISION", "type": "integer", "jsonPath": ".spec.revision"}"#,
    printcolumn = r#"{"name": "HASH", "type": "string", "jsonPath": ".metadata.labels.kro\\.run/graph-revision-hash", "priority": 1}"#,
    printcolumn = r#"{"name": "READY", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = immutable("spec")))]
pub struct GraphRevisionSpec {
    /// Number of the revision, counting from 1.
    #[schemars(range(min = 1))]
    pub revision: i64,
    /// The definition at the time of this revision.
    pub snapshot: Snapshot,
}

/// A definition at the time its revision was created.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// Name of the definition.
    pub name: String,
    /// Generation of the definition.
    pub generation: i64,
    /// Spec of the definition.
    pub spec: ResourceGraphDefinitionSpec,
}

/// The result of compiling the revision.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GraphRevisionStatus {
    /// Ids of the resources, in the order of creation.
    #[serde(default, skip_serializing_if = "List::is_absent")]
    pub topological_order: List<String>,
    /// The resources that depend on others.
    #[serde(default, skip_serializing_if = "List::is_absent")]
    pub resources: List<ResourceInformation>,
    /// Conditions of the revision.
    #[serde(default, skip_serializing_if = "List::is_absent")]
    pub conditions: List<Condition>,
}
