//! Condition types and reasons, and the classes of failure that status and expressions speak of.

use super::words;

words! {
    /// What a condition is about.
    ConditionType {
        /// The root of every set.
        Ready = "Ready",
        /// Definition: the latest revision is known and compiled.
        GraphRevisionsResolved = "GraphRevisionsResolved",
        /// Definition: the graph is valid.
        GraphAccepted = "GraphAccepted",
        /// Definition: the API is served.
        KindReady = "KindReady",
        /// Definition: instances are reconciled.
        ControllerReady = "ControllerReady",
        /// Definition: the older name of `GraphAccepted`, removed on sight.
        ResourceGraphAccepted = "ResourceGraphAccepted",
        /// Definition with a cluster reference: the cluster answers.
        ClusterAccessible = "ClusterAccessible",
        /// Definition with a cluster reference: Secret, key, kubeconfig and credentials are good.
        ClusterValidated = "ClusterValidated",
        /// Definition with a cluster reference: the graph fits the cluster's schemas and permissions.
        StaticAnalysisComplete = "StaticAnalysisComplete",
        /// Revision: the graph compiles.
        GraphVerified = "GraphVerified",
        /// Instance: finalizer and labels are there.
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
    /// What a definition without a cluster reference carries besides `Ready`, in order.
    pub const DEFINITION: &'static [Self] =
        &[Self::GraphAccepted, Self::GraphRevisionsResolved, Self::KindReady, Self::ControllerReady];
    /// What a definition with a cluster reference carries as well, in order.
    pub const DEFINITION_CLUSTERS: &'static [Self] =
        &[Self::ClusterValidated, Self::ClusterAccessible, Self::StaticAnalysisComplete];
    /// What a revision carries besides `Ready`.
    pub const REVISION: &'static [Self] = &[Self::GraphVerified];
    /// What an instance carries besides `Ready`, in order.
    pub const INSTANCE: &'static [Self] = &[Self::InstanceManaged, Self::GraphResolved, Self::ResourcesReady];
    /// What an instance with remote resources carries as well, in order.
    pub const INSTANCE_CLUSTERS: &'static [Self] =
        &[Self::ClusterResolved, Self::RemoteClusterConnected, Self::RemoteResourcesReady];
}

words! {
    /// Why a condition is as it is.
    Reason {
        /// Nothing was looked at yet.
        AwaitingReconciliation = "AwaitingReconciliation",
        /// The root: everything is well.
        Ready = "Ready",
        /// `GraphRevisionsResolved`, `GraphResolved`, `ClusterResolved`: done.
        Resolved = "Resolved",
        /// `GraphRevisionsResolved`: revisions are still being deleted.
        WaitingForGraphRevisionSettlement = "WaitingForGraphRevisionSettlement",
        /// `GraphRevisionsResolved`: the latest revision is not in the cache yet.
        WaitingForGraphRevisionWarmup = "WaitingForGraphRevisionWarmup",
        /// `GraphRevisionsResolved`: the latest revision is being compiled.
        WaitingForGraphRevisionCompilation = "WaitingForGraphRevisionCompilation",
        /// `GraphRevisionsResolved`, `KindReady`: did not work.
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
        /// `InstanceManaged`: finalizer and labels are there.
        Managed = "Managed",
        /// `InstanceManaged`: finalizer and labels could not be written.
        ManagementFailed = "ManagementFailed",
        /// `GraphResolved`, `ClusterResolved`: did not work.
        ResolutionFailed = "ResolutionFailed",
        /// `ResourcesReady`, `RemoteResourcesReady`: all are ready.
        AllResourcesReady = "AllResourcesReady",
        /// `ResourcesReady`, `RemoteResourcesReady`: some are not.
        NotReady = "NotReady",
        /// `ResourcesReady`: a resource is being deleted by somebody.
        ResourceDeleting = "ResourceDeleting",
        /// `ResourcesReady`: the instance is suspended.
        ReconciliationSuspended = "ReconciliationSuspended",
        /// `ResourcesReady`: the instance is being deleted.
        UnderDeletion = "UnderDeletion",
        /// Cluster conditions of a definition: every reference depends on an instance.
        Deferred = "Deferred",
        /// Cluster conditions: an earlier step did not succeed.
        NotReached = "NotReached",
        /// `ClusterValidated`: kubeconfig and credentials are good.
        Validated = "Validated",
        /// `ClusterValidated`: the Secret is missing, not labelled, or not allowed here.
        SecretNotAvailable = "SecretNotAvailable",
        /// `ClusterValidated`: the Secret lacks the key.
        SecretKeyMissing = "SecretKeyMissing",
        /// `ClusterValidated`: the kubeconfig is refused.
        KubeconfigInvalid = "KubeconfigInvalid",
        /// `ClusterValidated`: the cluster refuses the credentials.
        AuthenticationFailed = "AuthenticationFailed",
        /// `ClusterAccessible`: the cluster answers.
        Accessible = "Accessible",
        /// `ClusterAccessible`: the cluster does not answer.
        Unreachable = "Unreachable",
        /// `ClusterAccessible`, `RemoteClusterConnected`: the Secret leads to another cluster than before.
        IdentityChanged = "IdentityChanged",
        /// `StaticAnalysisComplete`: the graph fits.
        Analyzed = "Analyzed",
        /// `StaticAnalysisComplete`: the graph does not fit the cluster's schemas.
        SchemaMismatch = "SchemaMismatch",
        /// `StaticAnalysisComplete`: permissions are missing.
        PermissionsMissing = "PermissionsMissing",
        /// `RemoteClusterConnected`: every cluster is connected.
        Connected = "Connected",
        /// `RemoteClusterConnected`: some cluster is not.
        NotConnected = "NotConnected",
    }
}

words! {
    /// The class of a failure, on a resource's status and in expressions.
    FailureReason {
        /// The cluster does not answer.
        Unreachable = "Unreachable",
        /// The Secret or its kubeconfig cannot be used.
        Credentials = "Credentials",
        /// The cluster does not accept the credentials.
        Unauthorized = "Unauthorized",
        /// The credentials do not permit the operation.
        Forbidden = "Forbidden",
        /// The object, its namespace or its kind is not there.
        NotFound = "NotFound",
        /// The object is refused by schema or admission.
        Invalid = "Invalid",
        /// Somebody else owns the object or a field of it.
        Conflict = "Conflict",
        /// The cluster asks for fewer requests.
        Throttled = "Throttled",
        /// No answer came in time.
        Timeout = "Timeout",
        /// The cluster failed on its side.
        ServerError = "ServerError",
        /// An expression failed.
        Expression = "Expression",
    }
}

words! {
    /// What was being done when something went wrong.
    Operation {
        /// Opening the connection.
        Connect = "connect",
        /// Reading an object.
        Get = "get",
        /// Creating an object.
        Create = "create",
        /// Changing an object.
        Update = "update",
        /// Deleting an object.
        Delete = "delete",
        /// Following a kind's objects.
        Watch = "watch",
    }
}
