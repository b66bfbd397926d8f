//! The status of a definition.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Condition, List};

/// The state of the definition, the order of its graph and its conditions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceGraphDefinitionStatus {
    /// `Active` if the definition serves its API, otherwise `Inactive`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub state: Option<DefinitionState>,
    /// Ids of the resources, in the order of creation.
    #[serde(default, skip_serializing_if = "List::is_absent")]
    pub topological_order: List<String>,
    /// The resources that depend on others.
    #[serde(default, skip_serializing_if = "List::is_absent")]
    pub resources: List<ResourceInformation>,
    /// The highest revision number that was ever assigned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_issued_revision: Option<i64>,
    /// Conditions of the definition.
    #[serde(default, skip_serializing_if = "List::is_absent")]
    pub conditions: List<Condition>,
}

/// Whether a definition serves its API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DefinitionState {
    /// The graph is accepted, the API is served and instances are reconciled.
    Active,
    /// At least one of these is not the case.
    Inactive,
}

/// A resource and its dependencies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceInformation {
    /// The resource's id.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// The resources that must be ready before this one.
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
