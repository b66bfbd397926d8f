//! Prune: deletes or releases the objects that a plan does not desire any more, and removes from the inventory what the
//! clusters confirm as deleted.

use std::collections::{BTreeSet, HashMap, HashSet};

use futures::future::FutureExt;
use jiff::Timestamp;
use kross_api::{ClusterId, GroupKind, Inventory, Operation, RecordedCluster};
use kross_graph::Graph;
use kross_plan::{KindKey, OperationFailure, Plan, ReferenceKey, ResourceFailure};

use super::cluster_inventory;
use super::error::{InstanceError, Next, SOON};
use super::member_lists::Proof;
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
            self.report_pruned(&plan, &deleted.objects);
            let released = self.release(&plan.prune.release).await;
            self.report_released(&released, &plan.clusters);
            pruned = true;
            failed = !deleted.all || released.retry;
            plan = self.evaluate(graph)?;
        }
        if failed && self.retry_writes() == Next::Retry {
            self.requeue_after(SOON);
        }
        self.report_orphaned(&plan.prune.orphaned, &plan.clusters);
        self.memory.can_shrink_inventory |= pruned;
        // A kind that cannot be listed is not in the plan's inventory, and may have objects.
        let can_shrink = self.memory.can_shrink_inventory && plan.is_fully_applied();
        if can_shrink && !failed && plan.prune.is_done() {
            let kept = plan.inventory.get(&ClusterId::local()).cloned().unwrap_or_default();
            if self.is_nothing_left_beside(&kept).await {
                self.memory.can_shrink_inventory = false;
                self.inventory.local = kept;
                self.write_inventory().await?;
            }
        }
        Ok(plan)
    }

    /// Removes from the inventory what remote clusters confirm as deleted, and then prunes what was kept to connect to them,
    /// such as the Secrets with their kubeconfigs.
    ///
    /// # Errors
    /// The inventory cannot be written.
    pub(super) async fn prune_inventory(&mut self, graph: &Graph, plan: Plan) -> Result<Plan, InstanceError> {
        let mut plan = plan;
        if plan.is_fully_applied() && plan.prune.unfinished_hooks.is_empty() {
            if self.prune_remote_inventory(&plan).await {
                // The status says which cleanup is pending, and why.
                plan = self.evaluate(graph)?;
            }
            // Every cluster that the plan uses is in the inventory now, and the others are in the status.
            self.inventory.remote.set_incomplete(false);
            self.write_inventory().await?;
        }
        // The status must not list a cluster any more that has just left the inventory: nothing else leads to another pass.
        if !cluster_inventory::remove_unrecorded(&self.inventory.remote, &mut self.observation) {
            return Ok(plan);
        }
        let plan = self.evaluate(graph)?;
        self.prune(graph, plan).await
    }

    /// Removes the clusters and kinds from the inventory that the plan does not need and that have no object of the
    /// instance. Returns whether that could not be proven of one of them.
    async fn prune_remote_inventory(&mut self, plan: &Plan) -> bool {
        let waiting = plan.prune.waiting.iter().map(|(pending, _)| pending);
        let pending = waiting.chain(&plan.prune.delete).chain(&plan.prune.release);
        let pending: HashSet<&ClusterId> = pending.map(|pending| &pending.key.cluster).collect();
        let used = plan.clusters.iter().filter(|used| !used.former);
        // The choice of a selector is kept with its reference.
        let chosen = plan.choices.keys().map(ReferenceKey::as_str);
        let used: HashSet<&str> = used.map(|used| used.key.as_str()).chain(chosen).collect();
        let made = cluster_inventory::PlannedContents::of(plan);
        let (mut changed, mut unproven, mut open) = (HashMap::new(), Vec::new(), Vec::new());
        for cluster in self.inventory.remote.clusters() {
            let id = self.observation.id_of(cluster);
            if pending.contains(&id) {
                continue;
            }
            match self.leaving((cluster, &id), used.contains(cluster.reference.as_str()), &made) {
                Leaving::Nothing => {}
                Leaving::Unused => {
                    changed.insert(identity(cluster), Inventory::default());
                }
                Leaving::Kinds { unused, kept } => {
                    open.push((id, cluster, unused, kept));
                }
            }
        }
        let proofs = open.iter().map(|(id, cluster, unused, kept)| {
            let list = self.list_remote_members(id, &cluster.name, unused, Proof::Absence);
            (id, list.map(move |found| (id, *cluster, unused, kept, found)).boxed())
        });
        for (id, cluster, unused, kept, found) in self.clients.request_all(proofs.collect()).await {
            match found {
                Ok(found) if found.stored.is_empty() => {
                    changed.insert(identity(cluster), kept.clone());
                }
                Ok(_) => {}
                Err(failure) => unproven.push((id.clone(), unused.group_kinds.clone(), failure)),
            }
        }
        self.inventory.remote.retain(|cluster| {
            let Some(kept) = changed.remove(&identity(cluster)) else { return true };
            cluster.contents = kept.into();
            used.contains(cluster.reference.as_str())
        });
        for (cluster, kinds, failure) in &unproven {
            self.observe_unproven(cluster, kinds, failure);
        }
        !unproven.is_empty()
    }

    /// Observes that it cannot be proven whether a cluster has objects of these kinds. The instance is retried.
    fn observe_unproven(
        &mut self,
        cluster: &ClusterId,
        kinds: &BTreeSet<GroupKind>,
        failure: &ResourceFailure,
    ) {
        for kind in kinds {
            let key: KindKey = (cluster.clone(), kind.group.as_str().into(), kind.kind.as_str().into());
            let before = self.memory.unlisted.get(&key).filter(|before| before.reason == failure.reason);
            let failure = OperationFailure {
                node: "".into(),
                operation: Operation::Get,
                reason: failure.reason,
                message: failure.message.clone(),
                since: before.map_or_else(Timestamp::now, |before| before.since),
            };
            self.memory.unlisted.insert(key.clone(), failure.clone());
            self.observation.observed.unlisted.insert(key, Some(failure));
        }
    }

    /// What the inventory has of a cluster that the plan does not need.
    fn leaving(
        &self,
        (cluster, id): (&RecordedCluster, &ClusterId),
        is_used: bool,
        made: &cluster_inventory::PlannedContents<'_>,
    ) -> Leaving {
        if !is_used && cluster.contents.group_kinds.is_empty() {
            return Leaving::Unused;
        }
        let (kept, elsewhere) = made.kept(cluster, id);
        let mut unused = Inventory {
            group_kinds: cluster.contents.group_kinds.difference(&kept.group_kinds).cloned().collect(),
            namespaces: cluster.contents.namespaces.clone(),
        };
        // One that is not connected is reported as such.
        let is_connected = self.clients.client(id).is_ok();
        if !is_connected || (is_used && unused.group_kinds.is_empty()) {
            return Leaving::Nothing;
        }
        // Objects that are applied with another credential are in the inventory under that reference.
        unused.group_kinds.retain(|kind| !elsewhere.contains(kind));
        Leaving::Kinds { unused, kept }
    }

    /// Writes when the deletion of objects with a deadline was first attempted, and which deletion hooks ran, for the next
    /// leader.
    ///
    /// # Errors
    /// The inventory cannot be written.
    pub(super) async fn write_attempts(&mut self, plan: &Plan) -> Result<(), InstanceError> {
        let attempts = plan.prune.persisted.clone();
        if self.inventory.attempts != attempts {
            self.inventory.attempts = attempts;
            self.write_inventory().await?;
        }
        Ok(())
    }
}

/// What the inventory has of a cluster that a plan does not need.
enum Leaving {
    /// Nothing, or it is not known whether objects are left.
    Nothing,
    /// The cluster itself, which never had objects.
    Unused,
    /// Kinds, once the cluster proves that it has no objects of them, beside those that are kept.
    Kinds { unused: Inventory, kept: Inventory },
}

/// What no other cluster of an inventory has: reference and UID.
fn identity(cluster: &RecordedCluster) -> (String, String) {
    (cluster.reference.clone(), cluster.uid.clone())
}
