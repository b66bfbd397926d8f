//! What the controller reports on a definition.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Condition, List};

/// The state of a definition, its graph's order and its conditions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceGraphDefinitionStatus {
    /// Whether the definition serves its API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub state: Option<DefinitionState>,
    /// Ids in the order that resources are created in.
    #[serde(default, skip_serializing_if = "List::is_absent")]
    pub topological_order: List<String>,
    /// The resources that depend on others.
    #[serde(default, skip_serializing_if = "List::is_absent")]
    pub resources: List<ResourceInformation>,
    /// The highest revision number that was ever given out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_issued_revision: Option<i64>,
    /// What is known about the definition.
    #[serde(default, skip_serializing_if = "List::is_absent")]
    pub conditions: List<Condition>,
}

/// Whether a definition serves its API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DefinitionState {
    /// The graph is accepted, and API and controller serve.
    Active,
    /// Something of that is missing.
    Inactive,
}

/// One resource and what it depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceInformation {
    /// The resource's id.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// The resources that must be ready before it.
    #[serde(default, skip_serializing_if = "List::is_absent")]
    pub dependencies: List<Dependency>,
}

/// A resource that another one depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Dependency {
    /// The resource's id.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
}
