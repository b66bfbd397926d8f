//! Removes what nobody desires any more, and lets the inventory forget what is gone.

use std::collections::BTreeSet;

use kross_api::{ClusterId, Inventory, RecordedCluster};
use kross_plan::Plan;

use super::Pass;
use crate::instance::error::{InstanceError, SOON};
use crate::instance::observe::Observation;
use crate::instance::reach::Reach;
use crate::instance::release_report::ReleaseReport;
use crate::instance::{apply, cluster_inventory, inventory_scan, manage};

impl Pass<'_> {
    /// Removes what nobody desires any more, and shrinks the inventory once it is gone.
    pub(super) async fn prune(
        &mut self,
        mut plan: Plan,
        reach: &Reach<'_>,
        observation: &mut Observation,
    ) -> Result<Plan, InstanceError> {
        let (mut pruned, mut stalled) = (false, false);
        while !plan.prune.delete.is_empty() || !plan.prune.release.is_empty() {
            let (delete, release) = (plan.prune.delete.clone(), plan.prune.release.clone());
            let deleted = apply::delete(reach, &delete, observation, self.memory).await;
            let released = apply::release(reach, &release, observation, self.memory).await;
            let release_report =
                ReleaseReport { context: self.context, instance: &self.instance, clusters: &plan.clusters };
            release_report.released(&released, self.memory);
            pruned = true;
            plan = self.plan(observation);
            stalled = !deleted || released.again;
            if stalled {
                self.look_again(SOON);
                break;
            }
        }
        let release_report =
            ReleaseReport { context: self.context, instance: &self.instance, clusters: &plan.clusters };
        release_report.orphaned(&plan.prune.orphaned, self.memory);
        if pruned && !stalled && plan.prune.is_done() {
            self.record.local = plan.inventory.get(&ClusterId::local()).cloned().unwrap_or_default();
            self.keep_record().await?;
        }
        Ok(plan)
    }

    /// Forgets what the instance has in remote clusters no more, once they themselves say so, and removes what was needed to
    /// ask them.
    pub(super) async fn settle(
        &mut self,
        plan: Plan,
        reach: &Reach<'_>,
        observation: &mut Observation,
    ) -> Result<Plan, InstanceError> {
        self.shrink(&plan, reach).await?;
        if plan.prune.is_done() || !cluster_inventory::remove_unrecorded(&self.record.remote, observation) {
            return Ok(plan);
        }
        let plan = self.plan(observation);
        self.prune(plan, reach, observation).await
    }

    async fn shrink(&mut self, plan: &Plan, reach: &Reach<'_>) -> Result<(), InstanceError> {
        if !plan.is_fully_applied() || !plan.prune.unfinished_hooks.is_empty() {
            return Ok(());
        }
        let awaited = plan.prune.waiting.iter().map(|(pending, _)| pending);
        let going = awaited.chain(&plan.prune.delete).chain(&plan.prune.release);
        let busy: BTreeSet<&ClusterId> = going.map(|pending| &pending.key.cluster).collect();
        let applyset = manage::remote_applyset(self.context, self.served, &self.instance);
        let planned = cluster_inventory::PlannedContents::of(plan);
        let mut record = self.record.remote.clone();
        for cluster in self.record.remote.clusters() {
            let id = ClusterId::new(&cluster.uid);
            if busy.contains(&id) {
                continue;
            }
            let used =
                plan.clusters.iter().any(|used| !used.former && used.key.as_str() == cluster.reference);
            if !used && cluster.contents.group_kinds.is_empty() {
                record.retain(|other| other.reference != cluster.reference || other.uid != cluster.uid);
                continue;
            }
            let (left, elsewhere) = planned.kept(cluster);
            let mut gone = Inventory {
                group_kinds: cluster.contents.group_kinds.difference(&left.group_kinds).cloned().collect(),
                namespaces: cluster.contents.namespaces.clone(),
            };
            if used && gone.group_kinds.is_empty() {
                continue;
            }
            // What is there by another way is written down with that one.
            gone.group_kinds.retain(|kind| !elsewhere.contains(kind));
            let Ok(kinds) = reach.connections(&id, &gone) else { continue };
            let found = inventory_scan::members(kinds, &self.instance, &applyset, &gone, self.memory);
            let found = reach.wait([&id], found).await;
            if !found.is_ok_and(|found| found.stored.is_empty()) {
                continue;
            }
            let same =
                |other: &RecordedCluster| other.reference == cluster.reference && other.uid == cluster.uid;
            record.retain(|other| {
                if same(other) {
                    other.contents = left.clone();
                }
                used || !same(other)
            });
        }
        self.record.remote = record;
        self.keep_record().await
    }
}
