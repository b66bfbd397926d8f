//! References to existing objects that the graph reads but never writes: one by name, or many by a selector.

use kross_value::Value;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::definition::one_reference;
use crate::openapi::{raw_value, rule};
use crate::{Cluster, LabelSelector, Target};

/// An existing object, or all objects that match a selector.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = external_rules()))]
pub struct ExternalRef {
    /// API version of the object, such as `v1` or `apps/v1`.
    pub api_version: String,
    /// Kind of the object, such as `ConfigMap`. With `selector` it may also be the list kind, such as `ConfigMapList`.
    pub kind: String,
    /// Name or selector, and namespace of the object. Optional if `selector` is set; may then contain only the namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("anyOf" = [{"required": ["name"]}, {"required": ["selector"]}, {"required": ["namespace"]}]))]
    pub metadata: Option<ExternalRefMetadata>,
    /// Selects objects by their labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Selects the namespaces of the objects by their labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// The cluster to read from. Defaults to the local cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Cluster>,
    /// The cluster to read from, as an alternative to `cluster`. Defaults to the local cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
}

// The rules about `selector` are in JSON Schema, because CEL rules cannot access untyped fields.
/// Identifies the object of an external reference.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("not" = {"required": ["name", "selector"]}))]
pub struct ExternalRefMetadata {
    /// Name of the object. Mutually exclusive with `selector`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub name: Option<String>,
    /// Namespace of the object. With a name, defaults to the namespace of the instance; with a selector, to all namespaces,
    /// except for KubernetesTargets: an instance can use those of its own namespace only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// A label selector, or an expression that returns one. Mutually exclusive with `name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "raw_value")]
    pub selector: Option<Value>,
}

fn external_rules() -> Json {
    json!([
        one_reference(),
        rule(
            "has(self.metadata) || has(self.selector)",
            "externalRef requires `metadata` with `name` or `selector`, or a `selector` of its own"
        ),
        rule(
            "!(has(self.selector) && has(self.metadata) && has(self.metadata.name))",
            "`metadata.name` and `selector` are mutually exclusive: remove one of them"
        ),
        rule(
            "!has(self.namespaceSelector) || !has(self.metadata) || (!has(self.metadata.name) && !has(self.metadata.__namespace__))",
            "`namespaceSelector` requires a selector: remove `metadata.name` and `metadata.namespace`"
        ),
    ])
}

/// An existing type whose objects are the instances, instead of a generated type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstanceRef {
    /// API version of the type, such as `apps/v1`.
    #[schemars(extend("x-kubernetes-validations" = crate::openapi::immutable("externalRef.apiVersion")))]
    pub api_version: String,
    /// Kind of the type, such as `Deployment`.
    #[schemars(extend("x-kubernetes-validations" = crate::openapi::immutable("externalRef.kind")))]
    pub kind: String,
    /// Identifies the objects of the type: one by name, or all that match a selector.
    #[schemars(extend("anyOf" = [{"required": ["name"]}, {"required": ["selector"]}]))]
    pub metadata: ExternalRefMetadata,
}
