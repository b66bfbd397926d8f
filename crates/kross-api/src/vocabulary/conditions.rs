//! Condition types and reasons, and the failure reasons and operations in status and expressions.

use super::wire_enum;

wire_enum! {
    /// The type of a condition.
    ConditionType {
        /// The summary of every condition set.
        Ready = "Ready",
        /// Definition: the latest revision is known and compiled.
        GraphRevisionsResolved = "GraphRevisionsResolved",
        /// Definition: the graph is valid.
        GraphAccepted = "GraphAccepted",
        /// Definition: the API is served.
        KindReady = "KindReady",
        /// Definition: instances are reconciled.
        ControllerReady = "ControllerReady",
        /// Definition: the old name of `GraphAccepted`; removed wherever it is found.
        ResourceGraphAccepted = "ResourceGraphAccepted",
        /// Definition with a cluster reference: the cluster is reachable.
        ClusterAccessible = "ClusterAccessible",
        /// Definition with a cluster reference: Secret, key, kubeconfig and credentials are valid.
        ClusterValidated = "ClusterValidated",
        /// Definition with a cluster reference: the graph is valid for the cluster's schemas and permissions.
        StaticAnalysisComplete = "StaticAnalysisComplete",
        /// Revision: the graph compiles.
        GraphVerified = "GraphVerified",
        /// Instance: finalizer and labels are set.
        InstanceManaged = "InstanceManaged",
        /// Instance: the graph is resolved.
        GraphResolved = "GraphResolved",
        /// Instance: every resource is ready.
        ResourcesReady = "ResourcesReady",
        /// Instance with remote resources: every cluster reference has a value.
        ClusterResolved = "ClusterResolved",
        /// Instance with remote resources: every cluster is connected.
        RemoteClusterConnected = "RemoteClusterConnected",
        /// Instance with remote resources: every remote resource is ready.
        RemoteResourcesReady = "RemoteResourcesReady",
        /// Target, claim: the connection Secret is in the namespace.
        ConnectionSecretPropagated = "ConnectionSecretPropagated",
        /// Target: the cluster is reachable.
        Reachable = "Reachable",
        /// Claim, application: the spec is applied.
        Synced = "Synced",
        /// Claim: its target exists.
        TargetPublished = "TargetPublished",
    }
}

impl ConditionType {
    /// Conditions of a definition in addition to `Ready`, in order.
    pub const DEFINITION: &'static [Self] =
        &[Self::GraphAccepted, Self::GraphRevisionsResolved, Self::KindReady, Self::ControllerReady];
    /// Further conditions of a definition with a cluster reference, in order.
    pub const DEFINITION_CLUSTERS: &'static [Self] =
        &[Self::ClusterValidated, Self::ClusterAccessible, Self::StaticAnalysisComplete];
    /// Conditions of a revision in addition to `Ready`.
    pub const REVISION: &'static [Self] = &[Self::GraphVerified];
    /// Conditions of an instance in addition to `Ready`, in order.
    pub const INSTANCE: &'static [Self] = &[Self::InstanceManaged, Self::GraphResolved, Self::ResourcesReady];
    /// Further conditions of an instance with remote resources, in order.
    pub const INSTANCE_CLUSTERS: &'static [Self] =
        &[Self::ClusterResolved, Self::RemoteClusterConnected, Self::RemoteResourcesReady];
    /// Conditions of a target in addition to `Ready`, in order.
    pub const TARGET: &'static [Self] = &[Self::ConnectionSecretPropagated, Self::Reachable];
    /// Conditions of an application in addition to `Ready`.
    pub const APPLICATION: &'static [Self] = &[Self::Synced];
    /// Conditions of a claim in addition to `Ready`, in order.
    pub const CLAIM: &'static [Self] =
        &[Self::Synced, Self::ConnectionSecretPropagated, Self::TargetPublished];

    /// Whether definitions, revisions and instances never have this condition, so that it belongs to somebody else there.
    #[must_use]
    pub fn is_of_targets(self) -> bool {
        Self::TARGET.contains(&self) || Self::APPLICATION.contains(&self) || Self::CLAIM.contains(&self)
    }
}

wire_enum! {
    /// The reason of a condition.
    Reason {
        /// The object has not been reconciled yet.
        AwaitingReconciliation = "AwaitingReconciliation",
        /// `Ready`: every other condition is true.
        Ready = "Ready",
        /// `GraphRevisionsResolved`, `GraphResolved`, `ClusterResolved`: resolved.
        Resolved = "Resolved",
        /// `GraphRevisionsResolved`: revisions are still being deleted.
        WaitingForGraphRevisionSettlement = "WaitingForGraphRevisionSettlement",
        /// `GraphRevisionsResolved`: the latest revision is not in the cache yet.
        WaitingForGraphRevisionWarmup = "WaitingForGraphRevisionWarmup",
        /// `GraphRevisionsResolved`: the latest revision is being compiled.
        WaitingForGraphRevisionCompilation = "WaitingForGraphRevisionCompilation",
        /// `GraphRevisionsResolved`, `KindReady`: failed.
        Failed = "Failed",
        /// `GraphAccepted`: the graph is valid.
        Valid = "Valid",
        /// `GraphAccepted`: the graph is not valid.
        InvalidResourceGraph = "InvalidResourceGraph",
        /// `ControllerReady`: instances are reconciled.
        Running = "Running",
        /// `ControllerReady`: the reconciler did not start.
        FailedToStart = "FailedToStart",
        /// `ControllerReady`: labels could not be determined.
        FailedLabelerSetup = "FailedLabelerSetup",
        /// `GraphVerified`: the revision compiles.
        Verified = "Verified",
        /// `GraphVerified`: the revision does not compile.
        InvalidGraph = "InvalidGraph",
        /// `InstanceManaged`: finalizer and labels are set.
        Managed = "Managed",
        /// `InstanceManaged`: finalizer and labels could not be written.
        ManagementFailed = "ManagementFailed",
        /// `GraphResolved`, `ClusterResolved`: failed.
        ResolutionFailed = "ResolutionFailed",
        /// `ResourcesReady`, `RemoteResourcesReady`: all are ready.
        AllResourcesReady = "AllResourcesReady",
        /// `ResourcesReady`, `RemoteResourcesReady`: some are not ready.
        NotReady = "NotReady",
        /// `ResourcesReady`: somebody else is deleting a resource.
        ResourceDeleting = "ResourceDeleting",
        /// `ResourcesReady`: the instance is suspended.
        ReconciliationSuspended = "ReconciliationSuspended",
        /// `ResourcesReady`: the instance is being deleted.
        UnderDeletion = "UnderDeletion",
        /// Cluster conditions of a definition: every reference depends on an instance.
        Deferred = "Deferred",
        /// Cluster conditions: an earlier check did not succeed.
        NotReached = "NotReached",
        /// `ClusterValidated`: kubeconfig and credentials are valid.
        Validated = "Validated",
        /// `ClusterValidated`: the Secret is missing, not labelled, or not allowed for this namespace.
        SecretNotAvailable = "SecretNotAvailable",
        /// `ClusterValidated`: the Secret does not have the key.
        SecretKeyMissing = "SecretKeyMissing",
        /// `ClusterValidated`: the kubeconfig is rejected.
        KubeconfigInvalid = "KubeconfigInvalid",
        /// `ClusterValidated`: the cluster rejects the credentials.
        AuthenticationFailed = "AuthenticationFailed",
        /// `ClusterAccessible`: the cluster is reachable.
        Accessible = "Accessible",
        /// `ClusterAccessible`: the cluster is not reachable.
        Unreachable = "Unreachable",
        /// `ClusterAccessible`, `RemoteClusterConnected`: the Secret now points to another cluster.
        IdentityChanged = "IdentityChanged",
        /// `StaticAnalysisComplete`: the graph is valid for the cluster.
        Analyzed = "Analyzed",
        /// `StaticAnalysisComplete`: the graph does not match the cluster's schemas.
        SchemaMismatch = "SchemaMismatch",
        /// `StaticAnalysisComplete`: permissions are missing.
        PermissionsMissing = "PermissionsMissing",
        /// `RemoteClusterConnected`: every cluster is connected.
        Connected = "Connected",
        /// `RemoteClusterConnected`: a cluster is not connected.
        NotConnected = "NotConnected",
        /// `ConnectionSecretPropagated`: the Secret was copied.
        Propagated = "Propagated",
        /// `ConnectionSecretPropagated`: the Secret is the user's own.
        LocalSecret = "LocalSecret",
        /// The kind of the managed resource is not served.
        ManagedKindNotServed = "ManagedKindNotServed",
        /// The kind of the managed resource is namespaced, or not served by a CRD.
        ManagedKindRefused = "ManagedKindRefused",
        /// The managed resource does not exist.
        ManagedResourceNotFound = "ManagedResourceNotFound",
        /// The managed resource cannot be read.
        ManagedResourceUnreadable = "ManagedResourceUnreadable",
        /// The managed resource is not bound to a claim.
        ManagedResourceNotBound = "ManagedResourceNotBound",
        /// The managed resource is not ready yet.
        ManagedResourceNotReady = "ManagedResourceNotReady",
        /// The managed resource names no connection Secret.
        NoConnectionSecret = "NoConnectionSecret",
        /// The managed resource does not control its connection Secret.
        SecretNotControlled = "SecretNotControlled",
        /// The type of the connection Secret is refused.
        SecretTypeRefused = "SecretTypeRefused",
        /// A Secret of the name of the copy exists and belongs to somebody else.
        SecretConflict = "SecretConflict",
        /// The managed resource or its Secret does not allow this namespace.
        NamespaceNotAllowed = "NamespaceNotAllowed",
        /// The claim of the managed resource was deleted.
        Released = "Released",
        /// The object is being deleted, and others still use it.
        InUse = "InUse",
        /// The object is being deleted.
        Deleting = "Deleting",
        /// Application: no target can be used.
        NoTarget = "NoTarget",
        /// Application: the target does not exist, or is not ready.
        TargetNotReady = "TargetNotReady",
        /// Application: a target is chosen.
        Scheduled = "Scheduled",
        /// Application: some resources are applied.
        PartiallySubmitted = "PartiallySubmitted",
        /// Application: all resources are applied.
        Submitted = "Submitted",
        /// Application, claim: an object of the same name exists and belongs to somebody else.
        NameTaken = "NameTaken",
        /// Application resource: one of its Secrets is the credential of a cluster.
        SecretRefused = "SecretRefused",
        /// Claim: no class matches, and there is no default class.
        NoClass = "NoClass",
        /// Claim: the managed resource is offered to another claim, or to none.
        NotOffered = "NotOffered",
        /// Claim: the managed resource is being created.
        Provisioning = "Provisioning",
        /// Claim: claim and managed resource are bound.
        Bound = "Bound",
        /// Claim: the spec does not ask for it.
        NotRequested = "NotRequested",
        /// Claim: the target exists.
        Published = "Published",
        /// A request to the hub failed.
        RequestFailed = "RequestFailed",
    }
}

wire_enum! {
    /// The reason of a failure in the status of a resource and in expressions.
    FailureReason {
        /// The cluster is not reachable.
        Unreachable = "Unreachable",
        /// The Secret or its kubeconfig cannot be used.
        Credentials = "Credentials",
        /// The cluster does not accept the credentials.
        Unauthorized = "Unauthorized",
        /// The credentials do not permit the operation.
        Forbidden = "Forbidden",
        /// The object, its namespace or its kind does not exist.
        NotFound = "NotFound",
        /// The object is rejected by its schema or by admission.
        Invalid = "Invalid",
        /// Somebody else owns the object or a field of it.
        Conflict = "Conflict",
        /// The cluster throttles requests.
        Throttled = "Throttled",
        /// The cluster did not respond in time.
        Timeout = "Timeout",
        /// The cluster responded with a server error.
        ServerError = "ServerError",
        /// An expression failed.
        Expression = "Expression",
    }
}

wire_enum! {
    /// The operation that failed.
    Operation {
        /// Opening the connection.
        Connect = "connect",
        /// Reading an object.
        Get = "get",
        /// Creating an object.
        Create = "create",
        /// Updating an object.
        Update = "update",
        /// Deleting an object.
        Delete = "delete",
        /// Watching the objects of a kind.
        Watch = "watch",
    }
}
