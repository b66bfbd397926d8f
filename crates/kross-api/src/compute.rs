//! The `compute.crossplane.io` wire types: claims of clusters, and the classes that they are provisioned from.

mod claim;
mod class;

pub use claim::{ClassReference, KubernetesCluster, KubernetesClusterSpec, KubernetesClusterStatus};
pub use class::{
    ClassTemplate, ClassTemplateMetadata, KubernetesClusterClass, KubernetesClusterClassSpec, ReclaimPolicy,
};

/// The API group of claims and classes.
pub const COMPUTE_GROUP: &str = "compute.crossplane.io";
