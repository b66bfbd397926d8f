//! Label selectors as Kubernetes writes them, whose strings may be expressions here.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::List;

/// Chooses objects by their labels; every requirement must hold, and no requirement chooses all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct LabelSelector {
    /// Labels and the values they must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub match_labels: Option<BTreeMap<String, String>>,
    /// Requirements beyond equality.
    #[serde(default, skip_serializing_if = "List::is_absent")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub match_expressions: List<SelectorRequirement>,
}

/// One requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SelectorRequirement {
    /// The label's key.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    /// The values for `In` and `NotIn`.
    #[serde(default, skip_serializing_if = "List::is_absent")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub values: List<String>,
}
