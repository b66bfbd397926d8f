//! Keys and values of annotations.

/// `"true"` on a definition allows breaking changes of its schema.
pub const ALLOW_BREAKING_CHANGES: &str = "kro.run/allow-breaking-changes";
/// `"true"` on a definition that is being deleted deletes its instances first.
pub const DELETE_INSTANCES: &str = "kro.run/delete-instances";
/// On an instance: a value of [`RECONCILE_PAUSED`], ignoring case, suspends its reconciliation.
pub const RECONCILE: &str = "kro.run/reconcile";
/// The values of [`RECONCILE`] that suspend an instance.
pub const RECONCILE_PAUSED: [&str; 2] = ["suspended", "disabled"];
/// On an instance or a definition: a new value requests a reconcile now. `kross reconcile` sets it to the time.
pub const RECONCILE_REQUESTED: &str = "kro.run/reconcile-requested-at";
/// The tool that an apply set belongs to: `kro/<version>`.
pub const APPLYSET_TOOLING: &str = "applyset.kubernetes.io/tooling";
/// Kinds in the apply set.
pub const APPLYSET_GROUP_KINDS: &str = "applyset.kubernetes.io/contains-group-kinds";
/// Namespaces of the apply set in addition to the parent's.
pub const APPLYSET_NAMESPACES: &str = "applyset.kubernetes.io/additional-namespaces";
/// Hash of the apply set's id, kinds and namespaces.
pub const INVENTORY_HASH: &str = "internal.kro.run/applyset-inventory-hash";
/// On an instance: kinds and namespaces in each remote cluster, with the cluster's reference and UID.
pub const CLUSTER_INVENTORY: &str = "internal.kro.run/cluster-inventory";
/// On the CRD of a definition: its `spec.access` as JSON, for instances that outlive the definition; empty if it has none.
pub const ACCESS: &str = "internal.kro.run/access";
/// On a child: its layer in the creation order.
pub const APPLY_ORDER: &str = "internal.kro.run/apply-order";
/// On a child: the name of its instance, if it is too long for a label.
pub const INSTANCE_NAME: &str = "internal.kro.run/instance-name";
/// On a child: hash of the last applied state.
pub const DESIRED_HASH: &str = "internal.kro.run/desired-hash";
/// On a child: the last known results of its lifecycle expressions.
pub const LIFECYCLE: &str = "internal.kro.run/lifecycle";
/// On an instance: when the deletion of objects with a timeout was first attempted.
pub const DELETE_ATTEMPTS: &str = "internal.kro.run/delete-attempts";
/// On an object of an existing type that is an instance: its state.
pub const STATE: &str = "kro.run/state";
/// On an object of an existing type that is an instance: the message for its state.
pub const MESSAGE: &str = "kro.run/message";
/// On an instance: the UID of the cluster that a Secret now points to, if it previously pointed to another one. Setting it
/// confirms that the instance's objects in the previous cluster are abandoned.
pub const CONFIRM_CLUSTER: &str = "kro.run/confirm-cluster";
/// On an instance: the UIDs of clusters, separated by commas, whose objects of the instance are given up. Only clusters that the
/// instance does not use any more, or all if it is being deleted; then `*` stands for all.
pub const ABANDON_CLUSTER: &str = "kro.run/abandon-cluster";
/// On a kubeconfig Secret: the namespaces whose instances may use it, separated by commas.
pub const ALLOWED_NAMESPACES: &str = "kro.run/allowed-namespaces";
/// On a kubeconfig Secret: the ServiceAccount in its cluster whose token it has, as `namespace/name`. The controller renews the
/// token before it expires.
pub const TOKEN_SERVICE_ACCOUNT: &str = "kro.run/token-service-account";
/// On a kubeconfig Secret whose token is renewed: how long each token lives, such as `720h`.
pub const TOKEN_DURATION: &str = "kro.run/token-duration";
/// On a kubeconfig Secret whose token is renewed: when the token expires, for people. The token itself decides.
pub const TOKEN_EXPIRES_AT: &str = "kro.run/token-expires-at";
/// On a kubeconfig Secret: the UID of the cluster that it was registered for.
pub const CLUSTER_UID: &str = "kro.run/cluster-uid";
/// On the ServiceAccount of a registration: the hub's UID, and namespace and name of the Secret there that has its token.
pub const REGISTERED_FOR: &str = "kro.run/registered-for";
/// On a managed resource whose kind has no `spec.claimRef`: the claim that it is bound to, or offered to, as
/// `namespace/name/uid`. An offer may leave out the UID.
pub const CLAIM: &str = "kro.run/claim";
/// On a managed resource whose kind has no `status.bindingPhase`: its binding phase.
pub const BINDING_PHASE: &str = "kro.run/binding-phase";
/// On a managed resource: what happens to it when its claim is deleted, `Delete` or `Retain`.
pub const RECLAIM_POLICY: &str = "kro.run/reclaim-policy";
/// `"true"` on a KubernetesTarget that is being deleted: it does not wait for its users.
pub const FORCE_DELETE: &str = "kro.run/force-delete";
/// On an application or an instance: a new value asks the scheduler to choose a target again.
pub const RESCHEDULE: &str = "kro.run/reschedule";
/// On an application or an instance: the value of [`RESCHEDULE`] that was served last.
pub const RESCHEDULED: &str = "internal.kro.run/rescheduled";
/// On an application: the target that the scheduler chose and a hash of the selector that it chose by, as `target/hash`. A
/// `spec.targetRef` that names another target is the author's.
pub const SCHEDULED: &str = "internal.kro.run/scheduled";
/// `"true"` on the class of claims that name none.
pub const DEFAULT_CLASS: &str = "resourceclass.crossplane.io/is-default-class";
/// On a copy of a connection Secret: the Secret that it was copied from, as `namespace/name`.
pub const COPY_OF: &str = "internal.kro.run/copy-of";
/// On the target of a claim: the keys of the labels that were copied from the claim, separated by commas.
pub const CLAIM_LABELS: &str = "internal.kro.run/claim-labels";
