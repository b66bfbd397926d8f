//! One reconcile of an instance that is being deleted, from top to bottom: scan the inventory, apply deletion hooks, plan,
//! report, delete wave by wave, remove the finalizer.
//!
//! The order of deletion is kept on the objects themselves, so it needs no graph. A graph, where there is one, has the
//! deletion hooks and the deletion policies that are expressions. An object counts as deleted when its cluster says so, not
//! a cache.

use std::collections::HashSet;

use jiff::Timestamp;
use kross_api::{FailureReason, LifecyclePhase, Operation, annotations, labels, managers};
use kross_cluster::ObjectKey;
use kross_graph::{Graph, Order, Policy};
use kross_plan::{
    Deletion, DeletionPlan, DeletionProgress, HookRecord, Hooks, OwnedObject, Plan, Wait,
    blocked_deletion_status, deletion_status, plan_deletion, reported_orphans,
};
use kross_value::Text;
use tokio::time::Instant;

use super::cluster_inventory;
use super::error::{InstanceError, Next, SOON, until};
use super::inventory::{InstanceInventory, release_patch};
use super::inventory_scan::InventoryScan;
use super::memory::Memory;
use super::observation::Observation;
use super::pass::Pass;
use crate::finalizer;

/// One reconcile of an instance that is being deleted.
pub(super) struct DeletionPass<'a> {
    pass: Pass<'a>,
    /// The graph that the instance is deleted by, where there is one.
    graph: Option<&'a Graph>,
    scan: InventoryScan,
    /// Whether the clusters have proven that nothing else exists, and nothing was deleted since.
    is_proven: bool,
    /// UIDs of the objects that were deleted in this pass.
    deleted: HashSet<Text>,
    /// Whether a proof has found objects that were not known before.
    has_found: bool,
}

impl<'a> DeletionPass<'a> {
    pub(super) fn new(pass: Pass<'a>) -> Self {
        let graph = pass.served.deletion_graph();
        let (scan, deleted) = (InventoryScan::default(), HashSet::new());
        Self { pass, graph, scan, is_proven: false, deleted, has_found: false }
    }

    /// Continues the deletion, and writes into the status why it is blocked, if it is.
    ///
    /// # Errors
    /// A request to the hub fails, or the inventory cannot be trusted.
    pub(super) async fn run(mut self) -> Result<Next, InstanceError> {
        let instance = &self.pass.instance;
        if self.pass.memory.released.as_ref() == Some(instance.uid()) || !finalizer::is_set(instance) {
            return Ok(Next::Done);
        }
        if let Some(wait) = self.pass.memory.recreations.wait(Instant::now()) {
            // Whatever event comes: most of them are about the objects that are created again.
            return Ok(Next::After(wait));
        }
        let ended = self.delete().await;
        if let Err(error) = &ended
            && error.condition().is_some()
        {
            let (instance, now) = (self.pass.instance.value(), Timestamp::now());
            let status = blocked_deletion_status(self.graph, instance, &error.to_string(), now);
            self.pass.write_status(status).await?;
        }
        ended
    }

    async fn delete(&mut self) -> Result<Next, InstanceError> {
        self.pass.resolve_account()?;
        self.scan().await?;
        let (mut reported, mut checked) = (false, false);
        loop {
            if self.pass.observation.connecting {
                // Whether the cluster is reachable is known in a moment, and requeues the instance.
                return Ok(Next::After(SOON));
            }
            let hooks = self.apply_hooks().await?;
            let plan = self.plan(hooks.as_ref());
            self.pass.memory.attempts.clone_from(&plan.attempts);
            self.scan.orphaned.extend(plan.orphaned.iter().map(|pending| pending.uid.clone()));
            // Before the first deletion, and when something is left to wait for, but not after each wave.
            let is_waiting = plan.delete.is_empty() && plan.release.is_empty();
            if !plan.is_done() && (is_waiting || !reported) {
                reported = true;
                self.report(&plan, hooks.as_ref()).await?;
            }
            if plan.is_done() {
                if self.is_proven {
                    return self.finish(&plan).await;
                }
                // What was listed and deleted may not be all that there is.
                let known = self.listed_uids();
                self.pass.prove_absence(self.graph, &mut self.scan).await?;
                self.is_proven = true;
                if self.fail_undeleted() || self.fail_recreated(&known) {
                    return self.retry(hooks.as_ref()).await;
                }
                continue;
            }
            let is_selectable = self.pass.instance.deletion_timestamp().is_none();
            if !is_waiting && !std::mem::replace(&mut checked, true) && is_selectable {
                // A deletion cannot be undone, but an object that was not selected may be selected again.
                self.pass.check_freshness().await?;
            }
            let known = self.listed_uids();
            if !self.pass.release_clusters(&plan, self.graph, &mut self.scan).await? {
                if self.fail_undeleted() || self.fail_recreated(&known) {
                    return self.retry(hooks.as_ref()).await;
                }
                continue;
            }
            if is_waiting {
                self.write_attempts(&plan).await?;
                return Ok(self.next(&plan, hooks.as_ref()));
            }
            self.pass.write_hook_record(&plan).await?;
            self.is_proven &= plan.delete.is_empty();
            self.deleted.extend(plan.delete.iter().map(|pending| pending.uid.clone()));
            let deleted = self.pass.delete(&plan.delete).await;
            let released = self.pass.release(&plan.release).await;
            self.pass.report_released(&released, &self.scan.clusters);
            if !deleted.all || released.retry {
                self.write_attempts(&plan).await?;
                return Ok(self.pass.retry_writes());
            }
        }
    }

    /// Finds everything that the instance owns. Removes the clusters from the inventory whose objects are orphaned, as somebody
    /// has confirmed, and records the UIDs that became known.
    async fn scan(&mut self) -> Result<(), InstanceError> {
        let pass = &mut self.pass;
        pass.inventory = InstanceInventory::read_complete(&pass.instance, &pass.applyset_id(), self.graph)?;
        let InstanceInventory { remote, .. } = &mut pass.inventory;
        let is_given_up = cluster_inventory::remove_given_up(pass.context, &pass.instance, remote, None);
        let is_restored = pass.instance.annotation(annotations::CLUSTER_INVENTORY).is_none();
        if is_given_up || (is_restored && !remote.clusters().is_empty()) {
            pass.write_inventory().await?;
        }
        self.scan = pass.scan_inventory(self.graph).await?;
        let Observation { renamed, abandoned, .. } = &pass.observation;
        if !renamed.is_empty() || !abandoned.is_empty() {
            let remote = &mut pass.inventory.remote;
            // The clients know these clusters by their UIDs.
            cluster_inventory::record_uids(remote, &pass.observation);
            cluster_inventory::remove_abandoned(pass.context, &pass.instance, remote, &mut pass.observation);
            pass.write_inventory().await?;
        }
        Ok(())
    }

    /// Reports what is left, and retries later.
    async fn retry(&mut self, hooks: Option<&Plan>) -> Result<Next, InstanceError> {
        let plan = self.plan(hooks);
        self.report(&plan, hooks).await?;
        let wait = self.pass.memory.recreations.wait(Instant::now());
        Ok(wait.map_or(Next::Retry, Next::After))
    }

    /// The UIDs of the objects that are known from lists.
    fn listed_uids(&self) -> HashSet<Text> {
        self.pass.observation.stored.values().map(|object| object.uid().clone()).collect()
    }

    /// Marks objects as failed that their cluster lists although it confirmed their deletion. Returns whether there are any.
    fn fail_undeleted(&mut self) -> bool {
        let listed = self.pass.observation.observed.objects.iter();
        let listed = listed.filter(|(key, _)| !self.scan.is_blocked(&key.cluster));
        let undeleted: Vec<(ObjectKey, Text)> = listed
            .filter(|(_, object)| self.deleted.contains(object.uid()) && !object.terminating())
            .map(|(key, object)| (key.clone(), object.node().unwrap_or_default().into()))
            .collect();
        let message = "the cluster confirmed the deletion and still lists the object; check the load balancer or proxy \
                       in front of its API server";
        for (key, node) in &undeleted {
            self.pass.fail(key, node, Operation::Delete, FailureReason::ServerError, message);
        }
        !undeleted.is_empty()
    }

    /// Marks objects as failed that a proof has found although an earlier one in this pass had found others, which were deleted:
    /// another client creates them, and could do so for ever. Returns whether there are any.
    fn fail_recreated(&mut self, known: &HashSet<Text>) -> bool {
        let listed = self.pass.observation.stored.iter();
        let listed = listed.filter(|(key, _)| !self.scan.is_blocked(&key.cluster));
        let found: Vec<(ObjectKey, Text)> = listed
            .filter(|(_, object)| !known.contains(object.uid()) && object.deletion_timestamp().is_none())
            .map(|(key, object)| (key.clone(), object.label(labels::NODE_ID).unwrap_or_default().into()))
            .collect();
        if found.is_empty() || !std::mem::replace(&mut self.has_found, true) {
            return false;
        }
        let message = format!(
            "another client creates objects of this instance again when they are deleted; stop that client, or let it create \
             them without the label `{}`",
            labels::APPLYSET_PART_OF
        );
        for (key, node) in &found {
            self.pass.fail(key, node, Operation::Delete, FailureReason::Conflict, &message);
        }
        self.pass.memory.recreations.found(Instant::now());
        true
    }

    /// Applies the nodes that exist for the deletion, such as a backup, and evaluates the deletion policies. None where the
    /// graph has neither.
    async fn apply_hooks(&mut self) -> Result<Option<Plan>, InstanceError> {
        let is_needed = |graph: &&Graph| self.scan.from_status || has_deletion_rules(graph);
        let Some(graph) = self.graph.filter(is_needed) else { return Ok(None) };
        self.pass.observation.observed.failures.clone_from(&self.pass.memory.failures);
        let plan = self.pass.converge(graph).await?;
        for used in &plan.clusters {
            if !self.scan.clusters.iter().any(|known| known.id == used.id) {
                self.scan.clusters.push(used.clone());
            }
        }
        Ok(Some(plan))
    }

    fn plan(&self, hooks: Option<&Plan>) -> DeletionPlan {
        let Pass { served, inventory, observation, memory, .. } = &self.pass;
        let mut objects = self.scan.objects(observation, memory);
        if let Some(plan) = hooks {
            let update = |object: OwnedObject| match plan.lifecycles.get(&object.node) {
                Some(answers) => object.with_lifecycle(answers.clone()),
                None => object,
            };
            objects = objects.into_iter().map(update).collect();
        }
        let broken = format!("definition `{}` does not compile", served.definition);
        let persisted = inventory.attempts.as_deref();
        let hook_record = match hooks {
            Some(plan) => plan.prune.hook_record.clone(),
            None => HookRecord::parse(persisted),
        };
        plan_deletion(Deletion {
            objects: &objects,
            hook_record: &hook_record,
            hooks: match (self.graph, hooks) {
                (Some(_), Some(plan)) => Hooks::Planned(&plan.hooks),
                (Some(_), None) => Hooks::Planned(&[]),
                (None, _) if served.orphaned => Hooks::GraphDeleted,
                (None, _) => Hooks::GraphUnavailable(&broken),
            },
            attempts: &memory.attempts,
            persisted,
            reported_orphans: &reported_orphans(persisted),
            // Orphaned objects are reported when the finalizer is removed.
            reports_orphans: false,
            now: Timestamp::now(),
        })
    }

    async fn report(&mut self, plan: &DeletionPlan, hooks: Option<&Plan>) -> Result<(), InstanceError> {
        let progress = DeletionProgress { plan, hooks, clusters: &self.scan.clusters };
        let instance = self.pass.instance.value();
        let status = deletion_status(self.graph, instance, &progress, Timestamp::now());
        self.pass.write_status(status).await
    }

    /// Writes when the deletion of objects with a deadline was first attempted, and which deletion hooks ran, for the next
    /// leader.
    async fn write_attempts(&mut self, plan: &DeletionPlan) -> Result<(), InstanceError> {
        if plan.persisted.is_some() && self.pass.inventory.attempts != plan.persisted {
            self.pass.inventory.attempts.clone_from(&plan.persisted);
            self.pass.write_inventory().await?;
        }
        Ok(())
    }

    /// Everything is deleted or released: removes the finalizer.
    async fn finish(&mut self, plan: &DeletionPlan) -> Result<Next, InstanceError> {
        let Pass { context, served, instance, key, .. } = &self.pass;
        let namespace = instance.namespace().map(|namespace| &**namespace);
        let (name, patch) = (instance.name(), release_patch(instance));
        let client = &context.client;
        match client.merge_patch(&served.kind, namespace, name, None, managers::LABELLER, &patch).await {
            Ok(_) => {}
            Err(error) if error.is_object_not_found() => {}
            Err(error) => return Err(error.into()),
        }
        let (instances, uid) = (&context.instances, Some(instance.uid().clone()));
        let key = *key;
        // Only now it is certain that no later pass deletes them.
        self.pass.report_orphaned(&plan.orphaned, &self.scan.clusters);
        self.pass.context.forget_inventory(key);
        instances.unsubscribe(key, self.pass.memory);
        *self.pass.memory = Memory { released: uid.clone(), uid, ..Memory::default() };
        Ok(Next::Done)
    }

    /// When the instance is reconciled next without an event.
    fn next(&self, plan: &DeletionPlan, hooks: Option<&Plan>) -> Next {
        let has_no_event = plan.waiting.iter().any(|(pending, wait)| match wait {
            // The objects that it waits for are in this list too.
            Wait::Dependents | Wait::Until(_) => false,
            Wait::Deletion(_) => !self.pass.will_report_deletion(&pending.key, &pending.uid),
            // A cluster that is connected requeues the instances that use it.
            Wait::Connection(_) => false,
            Wait::Hook(_) | Wait::Failed(_) => true,
        });
        let has_no_event = has_no_event || !plan.unfinished_hooks.is_empty();
        let interval = self.pass.interval();
        let recheck = hooks.and_then(|hooks| hooks.recheck_at);
        let due = plan.recheck_at.into_iter().chain(recheck).min().map(until);
        // A cluster that is connected and gives no usable answer: nothing tells when it does again.
        let is_unlisted = |wait: &Wait| matches!(wait, Wait::Connection(failure) if failure.operation != Some(Operation::Connect));
        if plan.waiting.iter().any(|(_, wait)| is_unlisted(wait)) {
            if let Some(wait) = due {
                self.pass.requeue_after(wait);
            }
            return Next::Retry;
        }
        if self.pass.observation.unconfirmed_hooks {
            return Next::Retry;
        }
        match due.into_iter().chain(has_no_event.then_some(interval)).min() {
            Some(wait) => Next::After(wait),
            None => Next::Done,
        }
    }
}

/// Whether a graph has rules for the deletion that are not kept on the objects.
fn has_deletion_rules(graph: &Graph) -> bool {
    graph.nodes.iter().any(|node| {
        let lifecycle = &node.lifecycle;
        lifecycle.phase == LifecyclePhase::Deletion
            || !lifecycle.force_when.is_empty()
            || matches!(lifecycle.policy, Policy::Computed(_))
            || matches!(lifecycle.order, Some(Order::Computed(_)))
    })
}
