//! When a resource exists and how it goes: the `lifecycle` of a definition and of each resource, as written.

use kross_value::Value;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::List;
use crate::openapi::{DURATION_PATTERN, ID_PATTERN, int_or_string};

/// Controls over a resource's life. On the definition it gives the defaults for every resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Lifecycle {
    /// When the resource exists. Left out: `Active`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<LifecyclePhase>,
    /// What happens to an object of the same name that is there already and belongs to nobody, such as one that an earlier
    /// instance left behind. Left out: `Always`, it is taken over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopt: Option<AdoptPolicy>,
    /// How the resource is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete: Option<DeleteLifecycle>,
}

/// The part of an instance's life in which a resource exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum LifecyclePhase {
    /// As long as the instance wants it.
    #[default]
    Active,
    /// Only while the instance is being deleted, such as a backup job.
    Deletion,
}

/// Whether objects that are there already are taken over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum AdoptPolicy {
    /// They are, unless they belong to another instance.
    #[default]
    Always,
    /// They are not: the resource fails with the reason `Conflict` until the object is gone.
    Never,
}

/// How a resource is deleted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeleteLifecycle {
    /// `Delete`, `Retain`, or an expression that gives one of them. Left out: `Delete`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^(Delete|Retain|\$\{[\s\S]*\})$"))]
    pub policy: Option<String>,
    /// How long to wait for the object to go before it is left behind. Left out: for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = DURATION_PATTERN))]
    pub force_after: Option<String>,
    /// Expressions that must all hold before the object is left behind.
    #[serde(default, skip_serializing_if = "List::is_absent")]
    pub force_when: List<String>,
    /// Ids that must be gone (or, for a resource of the `Deletion` phase, ready) before this one is deleted.
    #[serde(default, skip_serializing_if = "List::is_absent")]
    #[schemars(inner(regex(pattern = ID_PATTERN)))]
    pub after: List<String>,
    /// An integer, or an expression that gives one; higher goes first, in place of the graph's reverse order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "int_or_string")]
    pub order: Option<Value>,
}

/// What happens to an object whose instance is deleted: what `policy` comes out as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DeletePolicy {
    /// The object is deleted.
    #[default]
    Delete,
    /// The object stays and loses its ownership labels.
    Retain,
}

impl DeletePolicy {
    /// Reads the word that a definition or an expression gives.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "Delete" => Some(Self::Delete),
            "Retain" => Some(Self::Retain),
            _ => None,
        }
    }

    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Delete => "Delete",
            Self::Retain => "Retain",
        }
    }
}
