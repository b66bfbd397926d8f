//! Explains each Event: which type it has, when it is emitted, and what it says. `docs/events.md` is generated from it.

use crate::vocabulary::{ConditionType, EventReason, Reason};

impl Reason {
    /// Whether a condition that is not true says that something is under way, and not that something failed.
    #[must_use]
    pub const fn is_progress(self) -> bool {
        matches!(
            self,
            Self::AwaitingReconciliation
                | Self::WaitingForGraphRevisionSettlement
                | Self::WaitingForGraphRevisionWarmup
                | Self::WaitingForGraphRevisionCompilation
                | Self::NotReady
                | Self::NotReached
                | Self::ResourceDeleting
                | Self::ReconciliationSuspended
                | Self::UnderDeletion
                | Self::Deleting
                | Self::Deferred
                | Self::InUse
                | Self::ManagedResourceNotReady
                | Self::TargetNotReady
                | Self::Scheduled
                | Self::PartiallySubmitted
                | Self::Provisioning
                | Self::NotRequested
        )
    }
}

impl EventReason {
    /// Whether the Event needs attention: then its type is `Warning`, otherwise `Normal`.
    #[must_use]
    pub const fn is_warning(self) -> bool {
        !matches!(
            self,
            Self::Repaired | Self::Pruned | Self::Moved | Self::Retained | Self::TokenRenewed | Self::Adopted
        )
    }

    /// When it is emitted.
    const fn meaning(self) -> &'static str {
        match self {
            Self::Failed => {
                "An instance that was not ready before has failed: its state is `ERROR` now. The message is that of `Ready`"
            }
            Self::Repaired => {
                "An object of an instance was changed or deleted by somebody else, and was applied again"
            }
            Self::RepairsBackOff => {
                "Somebody else changes an object again after every repair; repairs are delayed more and more"
            }
            Self::Pruned => "Objects that the graph does not desire any more were deleted",
            Self::Moved => "Objects were deleted in a cluster, since the graph has them in another one now",
            Self::Retained => "Objects were not deleted, since `lifecycle.delete.policy` is `Retain`",
            Self::LeftBehind => {
                "Objects were not deleted, since `forceAfter` or `forceWhen` ended the wait for them"
            }
            Self::ClusterGivenUp => {
                "The objects in a cluster are given up, as an annotation of the instance requests"
            }
            Self::HookDeleted => "The object of a deletion hook was deleted before it was ready",
            Self::HookSkipped => "The object of a deletion hook cannot be created",
            Self::ForceDeleted => "A target was deleted although it is used, as its annotation requests",
            Self::ProtectionFailed => "The controller may not change the finalizer of a protected Secret",
            Self::TokenRenewed => {
                "The token in the Secret of a registered cluster was renewed before it expires"
            }
            Self::TokenRenewalFailed => {
                "The token in the Secret of a registered cluster cannot be renewed; renewals are tried until it expires, and after that"
            }
            Self::Adopted => "`kross adopt` gave objects of a hub that was lost to an instance of this hub",
            Self::Unreadable => {
                "A definition or an instance cannot be read, such as one that is nested too deeply"
            }
        }
    }

    /// What it says, for example.
    const fn example(self) -> &'static str {
        match self {
            Self::Failed => {
                "resource error: `web`: cannot apply Deployment shop/web in cluster `eu`: deployments.apps is forbidden: …"
            }
            Self::Repaired => {
                "Deployment shop/web in cluster `eu` was changed (`spec.replicas`) and applied again"
            }
            Self::RepairsBackOff => {
                "Deployment shop/web in cluster `eu`: `kubectl-scale` changes `spec.replicas` again after every repair …"
            }
            Self::Pruned => {
                "ConfigMap shop/web in cluster `eu` was deleted: the graph does not desire it any more"
            }
            Self::Moved => "Deployment shop/web was deleted in cluster `eu`: it is in cluster `us` now",
            Self::Retained => {
                "ConfigMap shop/web in cluster `eu` is retained; its ownership labels were removed"
            }
            Self::LeftBehind => {
                "ConfigMap shop/web in cluster `eu` is orphaned with its ownership labels, because its cluster is unreachable"
            }
            Self::ClusterGivenUp => {
                "objects in cluster `eu` (6a1c…) are orphaned, as an annotation requests: Deployment.apps"
            }
            Self::HookDeleted => {
                "Job shop/backup of `backup` was deleted before the deletion hook was ready; it is not created again"
            }
            Self::HookSkipped => {
                "Job shop/backup of `backup` is not created, because its namespace is being deleted"
            }
            Self::ForceDeleted => {
                "the target is deleted while it is used by Shop shop/web, as an annotation requests"
            }
            Self::ProtectionFailed => {
                "cannot add finalizer `kro.run/protect`: …; allow the controller to patch Secrets in this namespace"
            }
            Self::TokenRenewed => {
                "renewed the token of ServiceAccount `kross/hub`; it expires at 2026-02-01T00:00:00Z"
            }
            Self::TokenRenewalFailed => {
                "cannot renew the token of ServiceAccount `kross/hub`: …; it expires at 2026-02-01T00:00:00Z; …"
            }
            Self::Adopted => "12 objects in eu of a former hub adopted by `kross adopt`",
            Self::Unreadable => {
                "Shop is not reconciled: …; its objects are not changed; nest its fields less deeply or delete it"
            }
        }
    }
}

/// The generated page about Events: one row for each reason.
#[must_use]
pub fn events_markdown() -> String {
    let types = [
        (
            "definition",
            [ConditionType::DEFINITION, ConditionType::DEFINITION_CLUSTERS].concat(),
            "True -> False: InvalidResourceGraph: spec.resources[0].template.data.text: …",
        ),
        (
            "instance",
            [ConditionType::INSTANCE, ConditionType::INSTANCE_CLUSTERS].concat(),
            "True -> False: NotReady: resource error: `web`: …",
        ),
        ("target", ConditionType::TARGET.to_vec(), "True -> False: Unreachable: …"),
        ("application", ConditionType::APPLICATION.to_vec(), "none -> False: NoTarget: …"),
        ("claim", ConditionType::CLAIM.to_vec(), "none -> False: NoClass: …"),
    ];
    let mut page = String::from(
        "# Events\n\n\
         The controller emits an Event for each change that matters, with its cause. A change of conditions is *one* Event: about\n\
         `Ready` if that changed, otherwise about each condition that became false. Events that repeat are counted in one Event, and\n\
         an object has at most 25 at once and one more each minute. `kross events KIND/NAME` lists those of an instance in all\n\
         clusters, in order. `--feature-gates=InstanceConditionEvents=false` turns all Events off.\n\n\
         ## Conditions\n\n\
         The reason is the type of the condition, as in kro; the message begins as kro's, `OLD -> NEW: REASON`, and goes on with the\n\
         cause. The type is `Normal` for `True`, and while something is under way, such as the first objects of an instance;\n\
         `Warning` for failures.\n\n\
         | about | reason | example of a message |\n\
         |---|---|---|\n",
    );
    for (kind, conditions, example) in types {
        let conditions: Vec<String> = std::iter::once(&ConditionType::Ready)
            .chain(&conditions)
            .map(|condition| format!("`{condition}`"))
            .collect();
        page.push_str(&format!("| {kind} | {} | {example} |\n", conditions.join(", ")));
    }
    let progress: Vec<String> =
        Reason::ALL.iter().filter(|it| it.is_progress()).map(|reason| format!("`{reason}`")).collect();
    page.push_str(&format!(
        "\nUnder way, unless the state of the instance is `ERROR`: {}.\n\n\
         ## Other Events\n\n| reason | type | when | example of a message |\n|---|---|---|---|\n",
        progress.join(", ")
    ));
    for reason in EventReason::ALL {
        let kind = if reason.is_warning() { "Warning" } else { "Normal" };
        page.push_str(&format!("| `{reason}` | {kind} | {} | {} |\n", reason.meaning(), reason.example()));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_well_formed_table_row() {
        let page = events_markdown();
        for reason in EventReason::ALL {
            let row = page.lines().find(|line| line.starts_with(&format!("| `{reason}` |"))).unwrap();
            assert_eq!(row.matches(" | ").count(), 3, "{row}");
        }
    }
}
