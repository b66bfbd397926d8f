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
