//! Prune: deletes or releases the objects that a plan does not desire any more, and removes from the inventory what the
//! clusters confirm as deleted.

use std::collections::BTreeSet;

use kross_api::{ClusterId, Inventory, RecordedCluster};
use kross_graph::Graph;
use kross_plan::Plan;

use super::cluster_inventory;
use super::error::{InstanceError, Next, SOON};
use super::pass::Pass;

impl Pass<'_> {
    /// Deletes or releases what the plan does not desire, wave by wave, and removes from the inventory of the hub what was
    /// deleted.
    ///
    /// # Errors
    /// The instance has changed, or the inventory cannot be written.
    pub(super) async fn prune(&mut self, graph: &Graph, mut plan: Plan) -> Result<Plan, InstanceError> {
        let has_wave = |plan: &Plan| !plan.prune.delete.is_empty() || !plan.prune.release.is_empty();
        let (mut pruned, mut failed) = (false, false);
        if has_wave(&plan) {
            self.check_freshness().await?;
        }
        while !failed && has_wave(&plan) {
            self.write_hook_record(&plan.prune).await?;
            let deleted = self.delete(&plan.prune.delete).await;
            let released = self.release(&plan.prune.release).await;
            self.report_released(&released, &plan.clusters);
            pruned = true;
            failed = !deleted || released.retry;
            plan = self.evaluate(graph);
        }
        if failed && self.retry_writes() == Next::Retry {
            self.requeue_after(SOON);
        }
        self.report_orphaned(&plan.prune.orphaned, &plan.clusters);
        if pruned && !failed && plan.prune.is_done() {
            self.inventory.local = plan.inventory.get(&ClusterId::local()).cloned().unwrap_or_default();
            self.write_inventory().await?;
        }
        Ok(plan)
    }

    /// Removes from the inventory what remote clusters confirm as deleted, and then prunes what was kept to connect to them,
    /// such as the Secrets with their kubeconfigs.
    ///
    /// # Errors
    /// The inventory cannot be written.
    pub(super) async fn prune_inventory(&mut self, graph: &Graph, plan: Plan) -> Result<Plan, InstanceError> {
        if plan.is_fully_applied() && plan.prune.unfinished_hooks.is_empty() {
            self.prune_remote_inventory(&plan).await;
            // Every cluster that the plan uses is in the inventory now, and the others are in the status.
            self.inventory.remote.set_incomplete(false);
            self.write_inventory().await?;
        }
        if plan.prune.is_done()
            || !cluster_inventory::remove_unrecorded(&self.inventory.remote, &mut self.observation)
        {
            return Ok(plan);
        }
        let plan = self.evaluate(graph);
        self.prune(graph, plan).await
    }

    /// Removes the clusters and kinds from the inventory that the plan does not need and that have no object of the
    /// instance.
    async fn prune_remote_inventory(&mut self, plan: &Plan) {
        let waiting = plan.prune.waiting.iter().map(|(pending, _)| pending);
        let pending = waiting.chain(&plan.prune.delete).chain(&plan.prune.release);
        let pending: BTreeSet<&ClusterId> = pending.map(|pending| &pending.key.cluster).collect();
        let made = cluster_inventory::PlannedContents::of(plan);
        let mut remote = self.inventory.remote.clone();
        for cluster in self.inventory.remote.clusters() {
            if pending.contains(&ClusterId::new(&cluster.uid)) {
                continue;
            }
            let is_used =
                plan.clusters.iter().any(|used| !used.former && used.key.as_str() == cluster.reference);
            let Some(kept) = self.confirmed_contents(cluster, is_used, &made).await else { continue };
            let is_same =
                |other: &RecordedCluster| other.reference == cluster.reference && other.uid == cluster.uid;
            remote.retain(|other| {
                if is_same(other) {
                    other.contents = kept.clone();
                }
                is_used || !is_same(other)
            });
        }
        self.inventory.remote = remote;
    }

    /// What the inventory has to keep of a cluster, once the cluster confirms that it has nothing else; none if nothing
    /// changes, or if the cluster does not confirm it.
    async fn confirmed_contents(
        &self,
        cluster: &RecordedCluster,
        is_used: bool,
        made: &cluster_inventory::PlannedContents<'_>,
    ) -> Option<Inventory> {
        if !is_used && cluster.contents.group_kinds.is_empty() {
            return Some(Inventory::default());
        }
        let (kept, elsewhere) = made.kept(cluster);
        let mut unused = Inventory {
            group_kinds: cluster.contents.group_kinds.difference(&kept.group_kinds).cloned().collect(),
            namespaces: cluster.contents.namespaces.clone(),
        };
        if is_used && unused.group_kinds.is_empty() {
            return None;
        }
        // Objects that are applied with another credential are in the inventory under that reference.
        unused.group_kinds.retain(|kind| !elsewhere.contains(kind));
        let id = ClusterId::new(&cluster.uid);
        let kinds = self.clients.clients_for(&id, &unused).ok()?;
        let applyset = self.remote_applyset_id();
        let found = self.clients.request([&id], self.list_members(kinds, &applyset, &unused)).await;
        found.is_ok_and(|found| found.stored.is_empty()).then_some(kept)
    }

    /// Whether a cluster confirms that it has nothing of what the inventory has there.
    pub(super) async fn is_confirmed_empty(&self, cluster: &RecordedCluster) -> bool {
        let id = ClusterId::new(&cluster.uid);
        let contents = &cluster.contents;
        let Ok(kinds) = self.clients.clients_for(&id, contents) else { return false };
        let applyset = self.remote_applyset_id();
        let found = self.clients.request([&id], self.list_members(kinds, &applyset, contents)).await;
        found.is_ok_and(|found| found.stored.is_empty())
    }

    /// Writes when the deletion of objects with a deadline was first attempted, and which deletion hooks ran, for the next
    /// leader.
    ///
    /// # Errors
    /// The inventory cannot be written.
    pub(super) async fn write_attempts(&mut self, plan: &Plan) -> Result<(), InstanceError> {
        let is_pending = !plan.prune.waiting.is_empty()
            || !plan.prune.reported_orphans.is_empty()
            || !plan.prune.hook_record.is_empty();
        let attempts = plan.prune.persisted.clone().filter(|_| is_pending);
        if self.inventory.attempts != attempts {
            self.inventory.attempts = attempts;
            self.write_inventory().await?;
        }
        Ok(())
    }
}
