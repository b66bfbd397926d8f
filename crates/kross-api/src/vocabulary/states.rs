//! States of instances, of nodes during a reconcile, and of resources in the status.

use super::wire_enum;

wire_enum! {
    /// `status.state` of an instance.
    InstanceState {
        /// Every node is synced or skipped.
        Active = "ACTIVE",
        /// A node is pending, not ready, terminating or absent.
        InProgress = "IN_PROGRESS",
        /// The evaluation or the apply of a node failed.
        Error = "ERROR",
        /// The instance is being deleted.
        Deleting = "DELETING",
        /// Used by older versions of kro, never written.
        Failed = "FAILED",
    }
}

wire_enum! {
    /// State of a node during one reconcile; not on the wire.
    NodeState {
        /// Not finished yet.
        InProgress = "IN_PROGRESS",
        /// Being deleted.
        Deleting = "DELETING",
        /// Excluded by `includeWhen`.
        Skipped = "SKIPPED",
        /// Failed.
        Error = "ERROR",
        /// As desired.
        Synced = "SYNCED",
        /// Deleted.
        Deleted = "DELETED",
        /// As desired, but not ready.
        WaitingForReadiness = "WAITING_FOR_READINESS",
    }
}

wire_enum! {
    /// State of one resource in `status.managedResources`.
    ResourceState {
        /// As desired and ready.
        Ready = "Ready",
        /// As desired, not ready yet.
        Pending = "Pending",
        /// Waiting for another resource.
        Blocked = "Blocked",
        /// Being applied.
        Applying = "Applying",
        /// Excluded by `includeWhen`.
        Skipped = "Skipped",
        /// Being deleted.
        Deleting = "Deleting",
        /// Retained because of its deletion policy.
        Retained = "Retained",
        /// Failed.
        Error = "Error",
    }
}

wire_enum! {
    /// How changes in a cluster are detected.
    SyncMode {
        /// By watching.
        Watch = "Watch",
        /// By listing at an interval.
        Poll = "Poll",
    }
}

wire_enum! {
    /// Whether a remote cluster is connected.
    ClusterState {
        /// The first attempt to connect is running.
        Connecting = "Connecting",
        /// It is connected.
        Connected = "Connected",
        /// It is not connected.
        NotConnected = "NotConnected",
    }
}

#[expect(clippy::derivable_impls, reason = "the macro declares the variants without attributes")]
impl Default for ClusterState {
    fn default() -> Self {
        Self::Connecting
    }
}

wire_enum! {
    /// `status.state` of an application and of its resources.
    ApplicationState {
        /// No target is chosen, or it cannot be used yet.
        Pending = "Pending",
        /// A target is chosen; nothing is applied there yet.
        Scheduled = "Scheduled",
        /// Application: some of its resources are applied.
        PartiallySubmitted = "PartiallySubmitted",
        /// Everything is applied in the cluster of the target.
        Submitted = "Submitted",
        /// The resource, or every resource of the application, failed.
        Failed = "Failed",
        /// It is being deleted.
        Deleting = "Deleting",
    }
}

wire_enum! {
    /// `status.bindingPhase` of a claim and of a managed resource.
    BindingPhase {
        /// The managed resource does not exist, or is not ready.
        Unbindable = "Unbindable",
        /// The managed resource is ready to be bound.
        Unbound = "Unbound",
        /// Claim and managed resource are bound to each other.
        Bound = "Bound",
        /// The claim of the managed resource was deleted.
        Released = "Released",
    }
}
