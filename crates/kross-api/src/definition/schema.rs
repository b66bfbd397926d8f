//! `spec.schema`: the API that a definition serves, in SimpleSchema, or the existing type it serves instead.

use std::collections::BTreeMap;

use kross_value::Value;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::openapi::{immutable, name_set, raw_object, rule};
use crate::{InstanceRef, List};

/// The group of an API whose definition names none.
pub const DEFAULT_GROUP: &str = "kro.run";

/// The API that the definition serves. Everything here but `spec`, `types`, `status` and the printer columns is
/// fixed once the definition exists.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema_rules()))]
pub struct Schema {
    /// Kind of the API, such as `WebApplication`. May be left out beside `externalRef`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(regex(pattern = "^[A-Z][a-zA-Z0-9]{0,62}$"))]
    #[schemars(extend("x-kubernetes-validations" = immutable("kind")))]
    pub kind: String,
    /// Version of the API, such as `v1alpha1`. May be left out beside `externalRef`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(regex(pattern = "^v[0-9]+(alpha[0-9]+|beta[0-9]+)?$"))]
    #[schemars(extend("x-kubernetes-validations" = immutable("apiVersion")))]
    pub api_version: String,
    /// Group of the API. Left out: `kro.run`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = DEFAULT_GROUP, "x-kubernetes-validations" = immutable("group")))]
    pub group: Option<String>,
    /// Whether instances live in a namespace. Left out: `Namespaced`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Namespaced", "x-kubernetes-validations" = immutable("scope")))]
    pub scope: Option<Scope>,
    /// Fields of an instance's spec, in SimpleSchema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "raw_object")]
    pub spec: Option<Value>,
    /// Types that `spec` may use by name, in SimpleSchema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "raw_object")]
    pub types: Option<Value>,
    /// Fields of an instance's status, each an expression over the resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "raw_object")]
    pub status: Option<Value>,
    /// Columns that `kubectl get` shows in place of State, Ready and Age.
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
    /// Labels and annotations for the generated CustomResourceDefinition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<CrdMetadata>,
    /// An existing type whose objects are the instances, in place of `spec`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_ref: Option<InstanceRef>,
}

impl Schema {
    /// The group of the API.
    #[must_use]
    pub fn group(&self) -> &str {
        self.group.as_deref().unwrap_or(DEFAULT_GROUP)
    }

    /// Whether instances live in a namespace.
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
            "`spec` and `externalRef` exclude each other: keep `spec` to make a type, `externalRef` to use an existing one"
        ),
        rule("has(self.externalRef) == has(oldSelf.externalRef)", "externalRef cannot be added or removed"),
    ])
}

/// Where instances live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Scope {
    /// In a namespace.
    #[default]
    Namespaced,
    /// Beside the namespaces.
    Cluster,
}

impl Scope {
    /// The word on the wire.
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
    /// Where the value is in an instance.
    pub json_path: String,
    /// OpenAPI format of the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// What the column shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Columns above 0 are shown with `-o wide` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
}

/// Labels and annotations for the generated CustomResourceDefinition.
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
