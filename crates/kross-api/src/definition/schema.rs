//! `spec.schema`: the API that a definition serves, in SimpleSchema, or the existing type that it uses instead.

use std::collections::BTreeMap;

use kross_value::Value;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::openapi::{immutable, name_set, raw_object, rule};
use crate::{InstanceRef, List};

/// The default API group.
pub const DEFAULT_GROUP: &str = "kro.run";

/// The API that the definition serves. All fields except `spec`, `types`, `status` and the printer columns are
/// immutable.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema_rules()))]
pub struct Schema {
    /// Kind of the API, such as `WebApplication`. Optional if `externalRef` is set.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(regex(pattern = "^[A-Z][a-zA-Z0-9]{0,62}$"))]
    #[schemars(extend("x-kubernetes-validations" = immutable("kind")))]
    pub kind: String,
    /// Version of the API, such as `v1alpha1`. Optional if `externalRef` is set.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(regex(pattern = "^v[0-9]+(alpha[0-9]+|beta[0-9]+)?$"))]
    #[schemars(extend("x-kubernetes-validations" = immutable("apiVersion")))]
    pub api_version: String,
    /// Group of the API. Defaults to `kro.run`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = DEFAULT_GROUP, "x-kubernetes-validations" = immutable("group")))]
    pub group: Option<String>,
    /// Whether instances are namespaced. Defaults to `Namespaced`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Namespaced", "x-kubernetes-validations" = immutable("scope")))]
    pub scope: Option<Scope>,
    /// Fields of the instances' spec, in SimpleSchema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "raw_object")]
    pub spec: Option<Value>,
    /// Custom types for `spec`, in SimpleSchema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "raw_object")]
    pub types: Option<Value>,
    /// Fields of the instances' status, each an expression over the resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "raw_object")]
    pub status: Option<Value>,
    /// Columns of `kubectl get`, instead of State, Ready and Age.
    #[serde(default, skip_serializing_if = "List::is_absent")]
    pub additional_printer_columns: List<PrinterColumn>,
    /// Short names for `kubectl`.
    #[serde(default, skip_serializing_if = "List::is_absent")]
    #[schemars(schema_with = "name_set")]
    pub short_names: List<String>,
    /// Categories for `kubectl get`, such as `all`.
    #[serde(default, skip_serializing_if = "List::is_absent")]
    #[schemars(schema_with = "name_set")]
    pub categories: List<String>,
    /// Labels and annotations of the generated CustomResourceDefinition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<CrdMetadata>,
    /// An existing type whose objects are the instances, instead of `spec`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_ref: Option<InstanceRef>,
}

impl Schema {
    /// The group of the API.
    #[must_use]
    pub fn group(&self) -> &str {
        self.group.as_deref().unwrap_or(DEFAULT_GROUP)
    }

    /// Whether instances are namespaced.
    #[must_use]
    pub fn scope(&self) -> Scope {
        self.scope.unwrap_or_default()
    }
}

fn required(field: &str) -> Json {
    json!({
        "rule": format!("has(self.externalRef) || has(self.{field})"),
        "message": format!("{field} is required unless externalRef names an existing type"),
        "reason": "FieldValueRequired",
        "fieldPath": format!(".{field}"),
    })
}

fn schema_rules() -> Json {
    json!([
        required("kind"),
        required("apiVersion"),
        rule("has(self.kind) || !has(oldSelf.kind)", "kind is immutable"),
        rule("has(self.apiVersion) || !has(oldSelf.apiVersion)", "apiVersion is immutable"),
        rule(
            "!(has(self.spec) && has(self.externalRef))",
            "`spec` and `externalRef` are mutually exclusive: set `spec` to define a new type, or `externalRef` to use an existing one"
        ),
        rule("has(self.externalRef) == has(oldSelf.externalRef)", "externalRef cannot be added or removed"),
    ])
}

/// The scope of instances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Scope {
    /// Instances are namespaced.
    #[default]
    Namespaced,
    /// Instances are cluster-scoped.
    Cluster,
}

impl Scope {
    /// The value on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Namespaced => "Namespaced",
            Self::Cluster => "Cluster",
        }
    }
}

/// One column of `kubectl get`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PrinterColumn {
    /// Heading of the column.
    pub name: String,
    /// OpenAPI type of the value, such as `string` or `date`.
    #[serde(rename = "type")]
    pub type_: String,
    /// JSON path of the value in an instance.
    pub json_path: String,
    /// OpenAPI format of the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// What the column shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Columns with a priority above 0 are shown only with `-o wide`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
}

/// Labels and annotations of the generated CustomResourceDefinition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CrdMetadata {
    /// Labels to add.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations to add.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
}
