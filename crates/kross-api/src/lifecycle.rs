//! The `lifecycle` of a definition and of each resource: when it is created and how it is deleted.

use kross_value::Value;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::List;
use crate::openapi::{DURATION_PATTERN, ID_PATTERN, int_or_string};

/// Controls when a resource is created and how it is deleted. On the definition, it sets the defaults for all resources.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Lifecycle {
    /// The phase of the instance in which the resource exists. Defaults to `Active`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<LifecyclePhase>,
    /// Whether to adopt an existing object of the same name that has no owner, such as one that an earlier instance
    /// retained. Defaults to `Always`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopt: Option<AdoptPolicy>,
    /// How the resource is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete: Option<DeleteLifecycle>,
}

/// The phase of an instance in which a resource exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum LifecyclePhase {
    /// As long as the instance includes it.
    #[default]
    Active,
    /// Only while the instance is being deleted, such as a backup Job.
    Deletion,
}

/// Whether existing objects are adopted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum AdoptPolicy {
    /// Adopt them, unless they belong to another instance.
    #[default]
    Always,
    /// Do not adopt them: the resource fails with the reason `Conflict` until the object is deleted.
    Never,
}

/// How a resource is deleted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeleteLifecycle {
    /// `Delete`, `Retain`, or an expression that returns one of them. Defaults to `Delete`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^(Delete|Retain|\$\{[\s\S]*\})$"))]
    pub policy: Option<String>,
    /// How long to wait for the deletion of the object before it is abandoned. By default, there is no timeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = DURATION_PATTERN))]
    pub force_after: Option<String>,
    /// Expressions that must all be true before the object is abandoned.
    #[serde(default, skip_serializing_if = "List::is_absent")]
    pub force_when: List<String>,
    /// Ids of resources that must be deleted (or ready, if they exist only during deletion) before this one is deleted.
    #[serde(default, skip_serializing_if = "List::is_absent")]
    #[schemars(inner(regex(pattern = ID_PATTERN)))]
    pub after: List<String>,
    /// An integer, or an expression that returns one. Higher values are deleted first, instead of in reverse graph order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "int_or_string")]
    pub order: Option<Value>,
}

/// The evaluated `policy`: what happens to an object when its instance is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DeletePolicy {
    /// The object is deleted.
    #[default]
    Delete,
    /// The object is retained and its ownership labels are removed.
    Retain,
}

impl DeletePolicy {
    /// Parses the value of a definition or expression.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "Delete" => Some(Self::Delete),
            "Retain" => Some(Self::Retain),
            _ => None,
        }
    }

    /// The value on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Delete => "Delete",
            Self::Retain => "Retain",
        }
    }
}
