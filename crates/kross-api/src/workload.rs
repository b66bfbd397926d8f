//! The `workload.crossplane.io` wire types: published clusters, and the applications that are scheduled to them.

mod application;
mod application_resource;
mod target;

pub use application::{
    ApplicationTemplate, KubernetesApplication, KubernetesApplicationSpec, KubernetesApplicationStatus,
    TargetPreference, TemplateMetadata,
};
pub use application_resource::{
    KubernetesApplicationResource, KubernetesApplicationResourceSpec, KubernetesApplicationResourceStatus,
};
pub use target::{
    KubernetesTarget, KubernetesTargetSpec, KubernetesTargetStatus, ManagedClusterReference, TargetCluster,
};

pub(crate) use application::first_version;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::openapi::rule;

/// The API group of targets and applications.
pub const WORKLOAD_GROUP: &str = "workload.crossplane.io";

/// An object in the namespace of the object that refers to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = local_rules()))]
pub struct LocalReference {
    /// Name of the object.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Not allowed: the object is always in the same namespace.
    // It is in the schema so that the API server refuses it; otherwise it would be dropped silently.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

impl LocalReference {
    /// A reference to the object of this name.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), namespace: None }
    }
}

/// The rule of references that have no namespace.
pub(crate) fn local_rules() -> Json {
    json!([rule(
        "!has(self.__namespace__)",
        "`namespace` is not allowed: the reference is to an object of the same namespace, or of no namespace; remove it"
    )])
}
