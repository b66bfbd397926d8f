//! References to objects that the graph reads and never writes, as written: one by name, or many by selector.

use kross_value::Value;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::definition::one_reference;
use crate::openapi::{raw_value, rule};
use crate::{Cluster, LabelSelector, Target};

/// An existing object, or every existing object that a selector chooses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = external_rules()))]
pub struct ExternalRef {
    /// API version of the object, such as `v1` or `apps/v1`.
    pub api_version: String,
    /// Kind of the object, such as `ConfigMap`; with `selector` it may be written as a list, such as `ConfigMapList`.
    pub kind: String,
    /// Name or selector, and namespace. May be left out beside `selector`, or hold the namespace alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("anyOf" = [{"required": ["name"]}, {"required": ["selector"]}, {"required": ["namespace"]}]))]
    pub metadata: Option<ExternalRefMetadata>,
    /// Chooses objects by their labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Chooses the namespaces to look in by their labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// The cluster to read from. Left out: the local one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Cluster>,
    /// The cluster to read from, in the words of `target`. Left out: the local one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
}

/// Which object an external reference is about. Rules about `selector` are in JSON Schema: CEL does not see untyped fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("not" = {"required": ["name", "selector"]}))]
pub struct ExternalRefMetadata {
    /// Name of the object; not beside `selector`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub name: Option<String>,
    /// Namespace of the object. Left out: the instance's for a name, all of them for a selector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// A label selector, or an expression that gives one; not beside `name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "raw_value")]
    pub selector: Option<Value>,
}

fn external_rules() -> Json {
    json!([
        one_reference(),
        rule(
            "has(self.metadata) || has(self.selector)",
            "externalRef needs `metadata` with `name` or `selector`, or a `selector` of its own"
        ),
        rule(
            "!(has(self.selector) && has(self.metadata) && has(self.metadata.name))",
            "`metadata.name` and `selector` exclude each other: keep one of them"
        ),
        rule(
            "!has(self.namespaceSelector) || !has(self.metadata) || (!has(self.metadata.name) && !has(self.metadata.__namespace__))",
            "`namespaceSelector` goes with a selector: remove `metadata.name` and `metadata.namespace`"
        ),
    ])
}

/// An existing type whose objects are the instances, in place of a type that is made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstanceRef {
    /// API version of the type, such as `apps/v1`.
    #[schemars(extend("x-kubernetes-validations" = crate::openapi::immutable("externalRef.apiVersion")))]
    pub api_version: String,
    /// Kind of the type, such as `Deployment`.
    #[schemars(extend("x-kubernetes-validations" = crate::openapi::immutable("externalRef.kind")))]
    pub kind: String,
    /// Which objects of the type: one by name, or those that a selector chooses.
    #[schemars(extend("anyOf" = [{"required": ["name"]}, {"required": ["selector"]}]))]
    pub metadata: ExternalRefMetadata,
}
