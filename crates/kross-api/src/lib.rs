//! The API: every wire type, label, annotation, reason and CRD, and the YAML parser that keeps source positions.
//!
//! The types deserialize what users and kro write, and serialize it without adding or losing a field.
//! [`lower_placement`] turns every spelling of a cluster reference into a [`ClusterReference`].
//!
//! ```
//! use kross_api::{Place, PlacementOptions, ResourceGraphDefinition, Scope, lower_placement};
//! use kross_diagnostics::Diagnostics;
//!
//! let definition: ResourceGraphDefinition = serde_json::from_str(r#"{
//!     "apiVersion": "kro.run/v1alpha1",
//!     "kind": "ResourceGraphDefinition",
//!     "metadata": {"name": "web"},
//!     "spec": {
//!         "schema": {"apiVersion": "v1", "kind": "Web"},
//!         "target": {"cluster": {"kubeconfigSecretName": "eu-kubeconfig"}},
//!         "resources": [{"id": "web", "template": {"apiVersion": "v1", "kind": "ConfigMap"}}]
//!     }
//! }"#).unwrap();
//!
//! let mut diagnostics = Diagnostics::new();
//! let placement = lower_placement(&definition.spec, PlacementOptions::default(), &mut diagnostics);
//! assert!(diagnostics.is_empty());
//! let Place::Inherited(reference) = placement.place(0) else { panic!("`web` has no reference of its own") };
//! assert_eq!(reference.static_cluster(Scope::Namespaced).unwrap().display, "kro-system/eu-kubeconfig");
//! ```

mod access;
mod cluster;
mod cluster_connection;
mod compute;
mod condition;
mod connection_failure;
mod crds;
mod definition;
mod events;
mod external;
mod failures;
mod identity;
mod lifecycle;
mod list;
mod openapi;
mod placement;
mod plural;
mod revision;
mod selector;
mod shorten;
mod status;
mod vocabulary;
mod workload;
pub mod yaml;

pub use access::Access;
pub use cluster::{Cluster, ClusterTarget, KubeconfigSecret, KubernetesTargetReference, PollConfig, Target};
pub use cluster_connection::{
    ClusterConnection, ClusterConnectionSpec, ClusterConnectionStatus, ConnectionCredential,
    ConnectionSecretReference, cluster_connection_name,
};
pub use compute::{
    COMPUTE_GROUP, ClassReference, ClassTemplate, ClassTemplateMetadata, KubernetesCluster,
    KubernetesClusterClass, KubernetesClusterClassSpec, KubernetesClusterSpec, KubernetesClusterStatus,
    ReclaimPolicy,
};
pub use condition::{Condition, ConditionSet, ConditionStatus, ObjectFacts};
pub use connection_failure::{ConnectStep, ConnectionAdvice, ConnectionFailure};
pub use crds::{
    api_markdown, connection_crd, crd_yaml, crds, crds_yaml, generated_files, graph_crds, target_crds,
    to_yaml,
};
pub use definition::{
    CrdMetadata, DEFAULT_GROUP, DefinitionState, Dependency, ForEach, PrinterColumn, Resource,
    ResourceGraphDefinition, ResourceGraphDefinitionSpec, ResourceGraphDefinitionStatus, ResourceInformation,
    Schema, Scope,
};
pub use events::events_markdown;
pub use external::{ExternalRef, ExternalRefMetadata, InstanceRef};
pub use failures::{RetryClass, failures_markdown};
pub use identity::{
    ClusterId, ClusterInventory, DEFAULT_KRO_VERSION, GroupKind, Inventory, InventoryError, ObjectKey,
    RecordedCluster, ServiceAccount, applyset_id, label_version, pack_uid, remote_applyset_id, revision_name,
    spec_hash, tooling, unpack_uid, unpack_uids,
};
pub use lifecycle::{AdoptPolicy, DeleteLifecycle, DeletePolicy, Lifecycle, LifecyclePhase};
pub use list::List;
pub use placement::{
    Authority, ClusterReference, Credentials, InstanceIdentity, Place, Placement, PlacementOptions, Poll,
    Published, ResolveError, ResolvedCluster, ResolvedCredentials, SecretAddress, SecretNamespace,
    SecretTemplate, SelectorTemplate, Spelling, TargetChoice, Template, lower_placement, parse_duration,
};
pub use plural::{crd_name, plural};
pub use revision::{GraphRevision, GraphRevisionSpec, GraphRevisionStatus, Snapshot};
pub use selector::{LabelSelector, SelectorRequirement};
pub use shorten::{cut_middle, truncate};
pub use status::{ClusterStatus, MORE_CLUSTERS, ManagedResource, instance_status_schemas, whole_seconds};
pub use vocabulary::{
    APPLYSET_KEY_PREFIX, ApplicationState, BindingPhase, ClusterState, ConditionType, EventReason, FINALIZER,
    FailureReason, INTERNAL_KEY_PREFIX, InstanceState, KEY_PREFIX, KUBECONFIG_KEY, KUBECONFIG_NAME_SUFFIX,
    NodeState, Operation, PROTECTION_FINALIZER, Reason, ResourceState, SYSTEM_NAMESPACE, SyncMode,
    annotations, connection_keys, labels, managers,
};
pub use workload::{
    ApplicationTemplate, KubernetesApplication, KubernetesApplicationResource,
    KubernetesApplicationResourceSpec, KubernetesApplicationResourceStatus, KubernetesApplicationSpec,
    KubernetesApplicationStatus, KubernetesTarget, KubernetesTargetSpec, KubernetesTargetStatus,
    LocalReference, ManagedClusterReference, TargetCluster, TargetPreference, TemplateMetadata,
    WORKLOAD_GROUP,
};
