//! States of instances, of nodes inside a reconcile, and of single resources in status.

use super::words;

words! {
    /// `status.state` of an instance.
    InstanceState {
        /// Every node is synced or skipped.
        Active = "ACTIVE",
        /// Something is pending, unready, terminating or absent.
        InProgress = "IN_PROGRESS",
        /// A node failed to evaluate or to apply.
        Error = "ERROR",
        /// The instance is being deleted.
        Deleting = "DELETING",
        /// Known from older versions of kro, never written.
        Failed = "FAILED",
    }
}

words! {
    /// State of a node inside one reconcile; not on the wire.
    NodeState {
        /// Not done yet.
        InProgress = "IN_PROGRESS",
        /// Being deleted.
        Deleting = "DELETING",
        /// Left out by its conditions.
        Skipped = "SKIPPED",
        /// Failed.
        Error = "ERROR",
        /// As desired.
        Synced = "SYNCED",
        /// Gone.
        Deleted = "DELETED",
        /// As desired, but not ready.
        WaitingForReadiness = "WAITING_FOR_READINESS",
    }
}

words! {
    /// State of one resource in `status.managedResources`.
    ResourceState {
        /// As desired and ready.
        Ready = "Ready",
        /// As desired, not ready yet.
        Pending = "Pending",
        /// Waits for another resource.
        Blocked = "Blocked",
        /// Being written.
        Applying = "Applying",
        /// Left out by its conditions.
        Skipped = "Skipped",
        /// Being deleted.
        Deleting = "Deleting",
        /// Left behind on purpose.
        Retained = "Retained",
        /// Failed.
        Error = "Error",
    }
}

words! {
    /// How changes in a cluster are noticed.
    SyncMode {
        /// By watches.
        Watch = "Watch",
        /// By lists, each interval.
        Poll = "Poll",
    }
}
