//! One reconcile of a living instance, from top to bottom: observe, plan and apply until nothing is left to apply, prune,
//! report. Every end of it, but for one that waits for a cache or a connection, writes the status.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kross_api::{ClusterId, ConditionType, FailureReason, LifecyclePhase, annotations};
use kross_cluster::{ObjectKey, StoredObject};
use kross_graph::Graph;
use kross_plan::{
    KindKey, NodePlan, OperationFailure, Plan, PlannedObject, Progress, Settings, Skip, failed_status, plan,
    plan_for_deletion, suspended_status,
};
use kross_value::Text;
use tokio::time::Instant;

use super::clients::InstanceClients;
use super::cluster_inventory;
use super::cluster_resolver;
use super::error::{InstanceError, Next, SOON, until};
use super::inventory::InstanceInventory;
use super::memory::Memory;
use super::observation::Observation;
use crate::context::Context;
use crate::finalizer;
use crate::graphs::Served;
use crate::key::InstanceKey;
use crate::permits::Permit;

/// One reconcile of an instance: what it works on, and what it has learned so far. The steps are methods, each in the file
/// that is named after what it does.
pub(super) struct Pass<'a> {
    pub(super) context: &'a Context,
    /// The definition that serves the instance.
    pub(super) served: &'a Served,
    pub(super) key: &'a ObjectKey,
    /// Whether the instance lives, or is being deleted: then only the nodes that exist for the deletion are applied.
    pub(super) phase: LifecyclePhase,
    /// The instance as it was read or written last.
    pub(super) instance: Arc<StoredObject>,
    /// What the instance owns.
    pub(super) inventory: InstanceInventory,
    /// The clients of the clusters that are connected.
    pub(super) clients: InstanceClients<'a>,
    /// What is known of the instance's objects.
    pub(super) observation: Observation,
    /// What earlier passes learned.
    pub(super) memory: &'a mut Memory,
}

impl<'a> Pass<'a> {
    pub(super) fn new(
        context: &'a Context,
        served: &'a Served,
        key: &'a ObjectKey,
        phase: LifecyclePhase,
        instance: Arc<StoredObject>,
        permit: &'a Permit,
        memory: &'a mut Memory,
    ) -> Self {
        Self {
            context,
            served,
            key,
            phase,
            instance,
            inventory: InstanceInventory::default(),
            clients: InstanceClients::local(context, served, permit),
            observation: Observation::default(),
            memory,
        }
    }

    /// Reconciles a living instance by a graph.
    ///
    /// # Errors
    /// A request to the hub fails, or the inventory cannot be trusted. The caller writes that into the status.
    pub(super) async fn run(&mut self, graph: &Graph) -> Result<Next, InstanceError> {
        if is_suspended(&self.instance) {
            return self.report_suspended(graph).await;
        }
        self.resolve_account()?;
        self.inventory = InstanceInventory::read(&self.instance, &self.applyset_id(), Some(graph))?;
        self.retry_skipped_nodes();

        // Observe.
        if !self.observe().await? {
            // The first list of the cache requeues the instance.
            return Ok(Next::After(SOON));
        }

        // Plan and apply.
        let plan = self.converge(graph).await?;
        if self.observation.connecting {
            // The controller has just started. Whether the cluster is reachable is known in a moment.
            return Ok(Next::After(SOON));
        }
        let remote = &mut self.inventory.remote;
        if cluster_inventory::remove_given_up(
            self.context,
            &self.instance,
            remote,
            Some((&plan, &self.observation)),
        ) {
            self.write_inventory().await?;
            // What the plan still has of these clusters is not observed any more.
            return Ok(Next::After(Duration::ZERO));
        }
        if let Some(message) = self.unlisted_leftovers(&plan) {
            let (kind, now) = (ConditionType::GraphResolved, Timestamp::now());
            let status = failed_status(Some(graph), self.instance.value(), kind, &message, now);
            self.report(status).await?;
            return Ok(Next::Retry);
        }

        // Prune.
        let plan = self.prune(graph, plan).await?;
        let plan = self.prune_inventory(graph, plan).await?;
        self.forget_unused(&plan);
        self.write_attempts(&plan).await?;

        // Report.
        self.report_plan(plan).await
    }

    /// Evaluates the graph with what is observed.
    ///
    /// # Errors
    /// It takes too long.
    #[tracing::instrument(name = "plan", level = "debug", skip_all)]
    pub(super) fn evaluate(&self, graph: &Graph) -> Result<Plan, InstanceError> {
        let plan = if self.phase == LifecyclePhase::Active { plan } else { plan_for_deletion };
        let (instance, observed) = (self.instance.value(), &self.observation.observed);
        let make = |settings: &Settings| plan(graph, instance, observed, settings, Timestamp::now());
        Ok(self.context.planner.make(&self.memory.plan_length, make)?)
    }

    /// Requeues the instance, so that it is reconciled at the latest after this time.
    pub(super) fn requeue_after(&self, wait: Duration) {
        self.context.instance_queue.add_after(&InstanceKey(self.key.clone()), wait);
    }

    /// A suspended instance keeps its finalizer, its inventory and its objects, and is not reconciled.
    async fn report_suspended(&mut self, graph: &Graph) -> Result<Next, InstanceError> {
        let (applyset, has_finalizer) = (self.applyset_id(), finalizer::is_set(&self.instance));
        let inventory = if has_finalizer {
            InstanceInventory::read_complete(&self.instance, &applyset, Some(graph))
        } else {
            InstanceInventory::read(&self.instance, &applyset, Some(graph))
        };
        match inventory {
            Ok(inventory) => {
                self.inventory = inventory;
                self.write_inventory().await?;
            }
            // An inventory that cannot be trusted stays as it is: nothing is read from it now.
            Err(_) if has_finalizer => {}
            Err(error) => return Err(error),
        }
        let status = suspended_status(graph, self.instance.value(), Timestamp::now());
        self.report(status).await?;
        self.requeue_for_repairs();
        Ok(Next::Done)
    }

    /// Forgets the failures of skipped nodes once somebody has changed the instance.
    fn retry_skipped_nodes(&mut self) {
        let skipped = &mut self.memory.skipped;
        if skipped.generation != self.instance.generation() {
            skipped.generation = self.instance.generation();
            let nodes = std::mem::take(&mut skipped.nodes);
            self.memory.failures.retain(|_, failure| !nodes.contains(&failure.node));
        }
    }

    /// Why it is unknown whether something is left to prune: a kind of the inventory cannot be listed, and the plan has no
    /// object of it. Nothing is pruned, and no kind leaves the inventory, until it can.
    fn unlisted_leftovers(&self, plan: &Plan) -> Option<String> {
        let in_inventory = |(_, group, kind): &KindKey| {
            let mut kinds = self.inventory.local.group_kinds.iter();
            kinds.any(|known| known.group == group.as_str() && known.kind == kind.as_str())
        };
        self.observation.observed.unlisted.iter().find_map(|(kind, failure)| {
            let failure = failure.as_ref().filter(|_| kind.0.is_local() && in_inventory(kind))?;
            let message =
                || format!("cannot list objects of kind `{}` to prune: {}", kind.2, failure.message);
            (!has_objects(plan, kind)).then(message)
        })
    }

    /// Forgets what this plan does not need: caches, cluster handles, failures and contended objects.
    fn forget_unused(&mut self, plan: &Plan) {
        self.drop_external_caches(plan);
        let (remote, observation) = (&self.inventory.remote, &self.observation);
        cluster_resolver::release_unused(self.context, self.key, plan, (remote, observation), self.memory);
        self.forget_failures(plan);
        self.forget_releases(plan);
        self.context.instances.contend(self.key, taken_objects(plan));
        self.memory.attempts.clone_from(&plan.prune.attempts);
    }

    /// Forgets the failures of objects that are neither desired nor pending deletion.
    fn forget_failures(&mut self, plan: &Plan) {
        let objects = plan.nodes.iter().flat_map(|node| &node.objects);
        let planned: HashSet<&ObjectKey> = objects.map(|object| &object.key).collect();
        let waiting = plan.prune.waiting.iter().map(|(pending, _)| pending);
        let pending: HashSet<&ObjectKey> =
            plan.prune.delete.iter().chain(waiting).map(|pending| &pending.key).collect();
        let is_skipped = |node: &NodePlan| matches!(node.progress, Progress::Skipped(Skip::Condition(_)));
        let has_failed =
            |node: &NodePlan| self.memory.failures.values().any(|failure| failure.node == node.id);
        let skipped = plan.nodes.iter().filter(|node| is_skipped(node) && has_failed(node));
        let skipped: HashSet<Text> = skipped.map(|node| node.id.clone()).collect();
        self.memory.failures.retain(|key, failure| {
            planned.contains(key) || pending.contains(key) || skipped.contains(&failure.node)
        });
        self.memory.denied.retain(|key, _| planned.contains(key));
        self.memory.contested.retain(|key| planned.contains(key));
        self.memory.repairs.retain(|key| planned.contains(key));
        self.memory.hook_creations.retain(|key, _| planned.contains(key));
        self.memory.throttle.retain(|key| planned.contains(key) || pending.contains(key));
        self.memory.skipped.nodes = skipped;
        let unlisted = &self.observation.observed.unlisted;
        self.memory.unlisted.retain(|kind, _| unlisted.contains_key(kind));
    }

    /// Forgets the release of objects that are desired again: the next release of them is reported again.
    fn forget_releases(&mut self, plan: &Plan) {
        if !self.memory.reported_releases.is_empty() {
            let objects = plan.nodes.iter().flat_map(|node| &node.objects);
            let desired: HashSet<&Text> = objects.filter_map(|object| object.uid.as_ref()).collect();
            self.memory.reported_releases.retain(|uid| !desired.contains(uid));
        }
    }

    /// Writes the status of a plan, and decides when the instance is reconciled next.
    async fn report_plan(&mut self, plan: Plan) -> Result<Next, InstanceError> {
        let next = self.next(&plan);
        if self.observation.listing && self.instance.value().get("status").is_some() {
            // The first list of the cache requeues the instance. Until then the status would only lose what it has.
            return Ok(Next::After(SOON));
        }
        match self.detail_delay(&plan.status) {
            None => self.report(plan.status).await?,
            Some(wait) => self.requeue_after(wait),
        }
        Ok(next)
    }

    /// When the instance is reconciled next without an event.
    fn next(&self, plan: &Plan) -> Next {
        let recheck = plan.recheck_at.map(until);
        self.requeue_for_repairs();
        self.requeue_for_deletions();
        for wait in recheck.into_iter().chain(self.memory.throttle.wait(Instant::now())) {
            self.requeue_after(wait);
        }
        let applying = plan.nodes.iter().any(|node| node.progress == Progress::Applying);
        match recheck {
            _ if self.has_retryable_failure(plan)
                || self.observation.unconfirmed_hooks
                || self.observation.too_many_clusters =>
            {
                Next::Retry
            }
            Some(wait) => Next::After(wait),
            // An object that was applied depends on a version of the instance that this pass itself has changed, and our
            // own writes cause no event.
            None if applying => Next::Retry,
            None => Next::Done,
        }
    }

    /// When to try writes again of which some failed: later, where API servers asked for that for all of them.
    pub(super) fn retry_writes(&self) -> Next {
        let (throttle, now) = (&self.memory.throttle, Instant::now());
        match throttle.wait(now) {
            Some(wait) if self.memory.failures.keys().all(|key| throttle.holds(key, now)) => {
                Next::After(wait)
            }
            _ => Next::Retry,
        }
    }

    /// Whether something failed that no event will end. A failure in a cluster that is not connected is retried when it is,
    /// which requeues the instance.
    fn has_retryable_failure(&self, plan: &Plan) -> bool {
        let is_connected = |cluster: &ClusterId| self.clients.client(cluster).is_ok();
        let skipped = &self.memory.skipped.nodes;
        let (throttle, now) = (&self.memory.throttle, Instant::now());
        let is_retried = |(key, failure): &(&ObjectKey, &OperationFailure)| {
            !skipped.contains(&failure.node) && !throttle.holds(key, now)
        };
        // An object without an owner may be deleted without an event in our caches.
        let is_blocked = |object: &PlannedObject| {
            let failure = object.progress.failure();
            object.exclusive && failure.is_some_and(|failure| failure.reason == FailureReason::Conflict)
        };
        let is_unlisted =
            |kind: &KindKey| is_connected(&kind.0) && (!kind.0.is_local() || has_objects(plan, kind));
        self.memory.failures.iter().filter(is_retried).any(|(key, _)| is_connected(&key.cluster))
            || plan.nodes.iter().flat_map(|node| &node.objects).any(is_blocked)
            || self.memory.unlisted.keys().any(is_unlisted)
            // Roles are not watched.
            || !self.memory.denied.is_empty()
            || self.memory.unreadable.keys().any(|read| is_connected(read.cluster()))
    }
}

/// Whether a plan has objects of a kind.
fn has_objects(plan: &Plan, (cluster, group, kind): &KindKey) -> bool {
    let of_kind = |key: &ObjectKey| key.cluster == *cluster && key.group == *group && key.kind == *kind;
    plan.nodes.iter().flat_map(|node| &node.objects).any(|object| of_kind(&object.key))
}

/// The objects of a plan that another instance owns.
fn taken_objects(plan: &Plan) -> HashSet<ObjectKey> {
    let is_taken = |progress: &Progress| matches!(progress, Progress::Failed(failure) if failure.reason == FailureReason::Conflict);
    let objects = plan.nodes.iter().flat_map(|node| &node.objects);
    objects.filter(|object| is_taken(&object.progress)).map(|object| object.key.clone()).collect()
}

/// Whether an annotation suspends an instance.
pub(crate) fn is_suspended(instance: &StoredObject) -> bool {
    let value = instance.annotation(annotations::RECONCILE).map(str::to_ascii_lowercase);
    value.is_some_and(|value| annotations::RECONCILE_PAUSED.contains(&value.as_str()))
}
