//! Keys and values of labels.

/// `"true"` on every object that the controller owns.
pub const OWNED: &str = "kro.run/owned";
/// The value of [`OWNED`].
pub const OWNED_TRUE: &str = "true";
/// The kro version that the controller implements.
pub const KRO_VERSION: &str = "kro.run/kro-version";
/// UID of the definition.
pub const DEFINITION_ID: &str = "kro.run/resource-graph-definition-id";
/// Name of the definition.
pub const DEFINITION_NAME: &str = "kro.run/resource-graph-definition-name";
/// Hash of a revision's spec; informational.
pub const REVISION_HASH: &str = "kro.run/graph-revision-hash";
/// UID of the instance.
pub const INSTANCE_ID: &str = "kro.run/instance-id";
/// Name of the instance; of one that is too long for a label, see [`annotations::INSTANCE_NAME`](super::annotations::INSTANCE_NAME).
pub const INSTANCE_NAME: &str = "kro.run/instance-name";
/// Namespace of the instance; absent for cluster-scoped instances.
pub const INSTANCE_NAMESPACE: &str = "kro.run/instance-namespace";
/// API group of the instance.
pub const INSTANCE_GROUP: &str = "kro.run/instance-group";
/// API version of the instance.
pub const INSTANCE_VERSION: &str = "kro.run/instance-version";
/// Kind of the instance.
pub const INSTANCE_KIND: &str = "kro.run/instance-kind";
/// Id of the resource in the definition.
pub const NODE_ID: &str = "kro.run/node-id";
/// Position of an item in its collection.
pub const COLLECTION_INDEX: &str = "kro.run/collection-index";
/// Number of items in the collection.
pub const COLLECTION_SIZE: &str = "kro.run/collection-size";
/// Who manages the object, as Kubernetes recommends.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The value of [`MANAGED_BY`].
pub const MANAGED_BY_KRO: &str = "kro";
/// Id of the apply set that an instance is the parent of.
pub const APPLYSET_ID: &str = "applyset.kubernetes.io/id";
/// Id of the apply set that an object is part of.
pub const APPLYSET_PART_OF: &str = "applyset.kubernetes.io/part-of";
/// `"true"` on Secrets that cluster references may use.
pub const CLUSTER_CREDENTIALS: &str = "kro.run/cluster-credentials";
/// The value of [`CLUSTER_CREDENTIALS`].
pub const CLUSTER_CREDENTIALS_TRUE: &str = "true";
/// In a remote cluster, on the ServiceAccount of a registration and on its roles and bindings: the name of the ServiceAccount.
pub const REGISTRATION: &str = "kro.run/registration";
/// As [`REGISTRATION`]: the namespace of the ServiceAccount.
pub const REGISTRATION_NAMESPACE: &str = "kro.run/registration-namespace";
/// `"true"` on a kubeconfig Secret that must not be deleted before the objects in its cluster: it has our finalizer as long as
/// the inventory of an instance names it.
pub const PROTECT: &str = "kro.run/protect";
/// `"true"` on a kubeconfig Secret with our finalizer, so that another process finds it.
pub const PROTECTED: &str = "internal.kro.run/protected";
/// The value of [`PROTECT`] and [`PROTECTED`].
pub const PROTECT_TRUE: &str = "true";
/// On a copy of a connection Secret: the UID of the target or the claim that it was made for.
pub const CONNECTION_COPY: &str = "internal.kro.run/connection-copy";
