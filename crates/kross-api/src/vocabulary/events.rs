//! Reasons of Events that are not about a condition. Events about a condition have its type as their reason, as in kro.

use super::wire_enum;

wire_enum! {
    /// The reason of an Event.
    EventReason {
        /// An instance, target, claim or application that was not ready before has failed.
        Failed = "Failed",
        /// An object that somebody changed or deleted was applied again.
        Repaired = "Repaired",
        /// Repairs of an object that others change again and again are delayed.
        RepairsBackOff = "RepairsBackOff",
        /// Objects that are not desired any more were deleted.
        Pruned = "Pruned",
        /// Objects were deleted in a cluster, since they are in another one now.
        Moved = "Moved",
        /// Objects were not deleted, as their definition says.
        Retained = "Retained",
        /// Objects were not deleted, since that was not possible in time.
        LeftBehind = "LeftBehind",
        /// The objects in a cluster are given up, as an annotation requests.
        ClusterGivenUp = "ClusterGivenUp",
        /// The object of a deletion hook was deleted before it was ready.
        HookDeleted = "HookDeleted",
        /// The object of a deletion hook cannot be created.
        HookSkipped = "HookSkipped",
        /// A target was deleted although it was used, as an annotation requests.
        ForceDeleted = "ForceDeleted",
        /// The finalizer of a protected Secret cannot be changed.
        ProtectionFailed = "ProtectionFailed",
        /// The token of a registered cluster was renewed.
        TokenRenewed = "TokenRenewed",
        /// The token of a registered cluster cannot be renewed.
        TokenRenewalFailed = "TokenRenewalFailed",
        /// Objects of a hub that was lost belong to an instance of this one now.
        Adopted = "Adopted",
        /// An object cannot be read.
        Unreadable = "Unreadable",
    }
}
