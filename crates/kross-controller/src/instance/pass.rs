//! One pass over an instance: observe, plan, apply in waves, prune, report. Every way out goes through the report.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kross_api::{ClusterId, ConditionType, FailureReason, LifecyclePhase, annotations};
use kross_cluster::{ObjectKey, StoredObject};
use kross_graph::Graph;
use kross_plan::{
    KindKey, NodePlan, OperationFailure, Plan, PlannedObject, Progress, Skip, failed_status, plan,
    plan_for_deletion, suspended_status,
};
use kross_value::{Text, Value};

use super::error::{InstanceError, Next, SOON, until};
use super::manage::Record;
use super::memory::Memory;
use super::observe::{Observation, own};
use super::reach::Reach;
use super::{cluster_resolver, external, inventory_scan, manage, report};
use crate::context::Context;
use crate::graphs::Served;
use crate::key::InstanceKey;
use crate::permits::Permit;

mod prune;
mod waves;

/// A pass over an instance.
pub(super) struct Pass<'a> {
    pub(super) context: &'a Context,
    pub(super) served: &'a Served,
    pub(super) graph: &'a Graph,
    pub(super) key: &'a ObjectKey,
    pub(super) permit: &'a Permit,
    /// Whether the instance lives, or is being deleted and only what exists for that is planned.
    pub(super) phase: LifecyclePhase,
    pub(super) instance: Arc<StoredObject>,
    /// What the instance says it owns.
    pub(super) record: Record,
    pub(super) memory: &'a mut Memory,
}

impl Pass<'_> {
    pub(super) async fn run(&mut self) -> Result<Next, InstanceError> {
        let applyset = manage::applyset(self.served, &self.instance);
        if is_suspended(&self.instance) {
            let held = manage::is_held(&self.instance);
            let read = if held { manage::whole_record } else { manage::record };
            // An inventory that cannot be trusted is left as it is: nothing is read from it now.
            match read(&self.instance, &applyset) {
                Ok(record) => {
                    self.record = record;
                    self.keep_record().await?;
                }
                Err(_) if held => {}
                Err(error) => return Err(error),
            }
            let status = suspended_status(self.graph, self.instance.value(), Timestamp::now());
            self.report(status).await?;
            return Ok(Next::Done);
        }
        self.record = manage::record(&self.instance, &applyset)?;
        self.try_again_what_was_left_out();
        let mut reach = Reach::local(self.context, self.served, self.permit);
        let Some(mut observation) = own(&reach, self.instance.uid(), self.memory) else {
            // The end of a list wakes us.
            return Ok(Next::After(SOON));
        };
        self.see_leftovers(&mut observation).await?;
        let plan = self.waves(&mut reach, &mut observation).await?;
        if observation.connecting {
            // A cluster where the instance has been, just after a start: what is true is known in a moment.
            return Ok(Next::After(SOON));
        }
        if let Some(why) = self.hidden(&plan, &observation) {
            let (kind, now) = (ConditionType::GraphResolved, Timestamp::now());
            let status = failed_status(Some(self.graph), self.instance.value(), kind, &why, now);
            self.report(status).await?;
            return Ok(Next::Retry);
        }
        let plan = self.prune(plan, &reach, &mut observation).await?;
        let plan = self.settle(plan, &reach, &mut observation).await?;
        external::retain(self.context, self.key, &plan, self.memory);
        cluster_resolver::release_unused(self.context, self.key, &plan, &self.record.remote, self.memory);
        self.forget_failures(&plan, &observation);
        self.forget_partings(&plan);
        self.context.instances.want(self.key, foreign(&plan));
        self.memory.attempts.clone_from(&plan.prune.attempts);
        self.keep_attempts(&plan).await?;
        let next = match self.next(&plan, &reach) {
            // What was written is out of date already, such as where it says which version the instance has, and our own
            // writes tell us nothing.
            Next::Done if plan.nodes.iter().any(|node| node.progress == Progress::Applying) => Next::Retry,
            next => next,
        };
        if observation.listing && self.instance.value().get("status").is_some() {
            // The end of a list wakes us; until then nothing is known that is worth a write.
            return Ok(Next::After(SOON));
        }
        match report::wait(&self.instance, &plan.status, self.memory) {
            None => self.report(plan.status).await?,
            Some(wait) => self.look_again(wait),
        }
        Ok(next)
    }

    /// Has the instance looked at again, at the latest after this time.
    fn look_again(&self, wait: Duration) {
        self.context.instance_queue.add_after(&InstanceKey(self.key.clone()), wait);
    }

    /// What is left out because it failed stays so: else it would come, fail and go for ever. When somebody changes the
    /// instance, that is a reason to try.
    fn try_again_what_was_left_out(&mut self) {
        let (generation, nodes) = &mut self.memory.left_out;
        if *generation != self.instance.generation() {
            let nodes = std::mem::take(nodes);
            *generation = self.instance.generation();
            self.memory.failures.retain(|_, failure| !nodes.contains(&failure.node));
        }
    }

    /// Keeps when objects that are pruned were first attempted, for whoever goes on after us.
    async fn keep_attempts(&mut self, plan: &Plan) -> Result<(), InstanceError> {
        let waits = !plan.prune.waiting.is_empty() || !plan.prune.reported_orphans.is_empty();
        let kept = plan.prune.persisted.clone().filter(|_| waits);
        if self.record.attempts != kept {
            self.record.attempts = kept;
            self.keep_record().await?;
        }
        Ok(())
    }

    /// Kinds that the inventory has and the graph has no more are not watched: the cluster is asked for them.
    async fn see_leftovers(&self, observation: &mut Observation) -> Result<(), InstanceError> {
        let applyset = manage::applyset(self.served, &self.instance);
        let mut inventory = self.record.local.clone();
        inventory.group_kinds.retain(|kind| {
            let watched = |watch: &kross_cluster::Cache| {
                watch.key().group == *kind.group.as_str() && watch.key().kind == *kind.kind.as_str()
            };
            !self.served.children.iter().any(watched)
        });
        if inventory.group_kinds.is_empty() {
            return Ok(());
        }
        let kinds = inventory.group_kinds.iter().map(|kind| (kind, &self.context.client)).collect();
        let left = inventory_scan::members(kinds, &self.instance, &applyset, &inventory, self.memory).await?;
        observation.extend(left);
        Ok(())
    }

    /// What failed once and is desired no more is forgotten.
    fn forget_failures(&mut self, plan: &Plan, observation: &Observation) {
        let planned: HashSet<&ObjectKey> =
            plan.nodes.iter().flat_map(|node| &node.objects).map(|object| &object.key).collect();
        let pending: HashSet<&ObjectKey> = plan
            .prune
            .delete
            .iter()
            .chain(plan.prune.waiting.iter().map(|(pending, _)| pending))
            .map(|pending| &pending.key)
            .collect();
        let is_left_out = |node: &NodePlan| matches!(node.progress, Progress::Skipped(Skip::Condition(_)));
        let failed = |node: &NodePlan| self.memory.failures.values().any(|failure| failure.node == node.id);
        let left_out: HashSet<Text> = plan
            .nodes
            .iter()
            .filter(|node| is_left_out(node) && failed(node))
            .map(|node| node.id.clone())
            .collect();
        self.memory.failures.retain(|key, failure| {
            planned.contains(key) || pending.contains(key) || left_out.contains(&failure.node)
        });
        self.memory.contested.retain(|key| planned.contains(key));
        self.memory.left_out.1 = left_out;
        self.memory.unlisted.retain(|kind, _| observation.observed.unlisted.contains_key(kind));
    }

    /// An object that was let go and is desired again may be let go once more, and people are told once more.
    fn forget_partings(&mut self, plan: &Plan) {
        if !self.memory.told.is_empty() {
            let objects = plan.nodes.iter().flat_map(|node| &node.objects);
            let desired: HashSet<&Text> = objects.filter_map(|object| object.uid.as_ref()).collect();
            self.memory.told.retain(|uid| !desired.contains(uid));
        }
    }

    fn plan(&self, observation: &Observation) -> Plan {
        let plan = if self.phase == LifecyclePhase::Active { plan } else { plan_for_deletion };
        plan(
            self.graph,
            self.instance.value(),
            &observation.observed,
            &self.context.planning,
            Timestamp::now(),
        )
    }

    /// Makes sure that the instance says what it owns.
    async fn keep_record(&mut self) -> Result<(), InstanceError> {
        let instance = Arc::clone(&self.instance);
        self.instance = manage::write(self.context, self.served, instance, &self.record).await?;
        Ok(())
    }

    async fn report(&mut self, status: Value) -> Result<(), InstanceError> {
        let instance = Arc::clone(&self.instance);
        self.instance = report::write(self.context, self.served, instance, status.clone()).await?;
        if let Some(wait) = report::dropped(&self.instance, &status, self.served, self.memory) {
            self.look_again(wait);
        }
        Ok(())
    }

    /// Why it cannot be told whether something is left over: the instance once had objects of a kind that cannot be read now,
    /// and wants none of them any more. Nothing is pruned or forgotten until that is known.
    fn hidden(&self, plan: &Plan, observation: &Observation) -> Option<String> {
        let recorded = |(_, group, kind): &KindKey| {
            let mut kinds = self.record.local.group_kinds.iter();
            kinds.any(|known| known.group == group.as_str() && known.kind == kind.as_str())
        };
        observation.observed.unlisted.iter().find_map(|(kind, failure)| {
            let failure = failure.as_ref().filter(|_| kind.0.is_local() && recorded(kind))?;
            let message = || {
                format!(
                    "cannot look for objects of kind `{}` that are left over: {}",
                    kind.2, failure.message
                )
            };
            (!uses(plan, kind)).then(message)
        })
    }

    /// When to look again without an event.
    fn next(&self, plan: &Plan, reach: &Reach<'_>) -> Next {
        // What failed in a cluster that does not answer is tried again when it does, which wakes us.
        let open = |cluster: &ClusterId| reach.client(cluster).is_ok();
        let (_, left_out) = &self.memory.left_out;
        let tried = |(_, failure): &(&ObjectKey, &OperationFailure)| !left_out.contains(&failure.node);
        let recheck = plan.recheck_at.map(until);
        if let Some(wait) = recheck {
            self.look_again(wait);
        }
        // An object that belongs to nobody may go without a word to us.
        let in_the_way = |object: &PlannedObject| {
            let failure = object.progress.failure();
            object.exclusive && failure.is_some_and(|failure| failure.reason == FailureReason::Conflict)
        };
        if self.memory.failures.iter().filter(tried).any(|(key, _)| open(&key.cluster))
            || plan.nodes.iter().flat_map(|node| &node.objects).any(in_the_way)
            || self
                .memory
                .unlisted
                .keys()
                .any(|kind| open(&kind.0) && (!kind.0.is_local() || uses(plan, kind)))
            || self.memory.unreadable.keys().any(|read| open(read.cluster()))
        {
            return Next::Retry;
        }
        recheck.map_or(Next::Done, Next::After)
    }
}

/// Whether a plan has objects of a kind.
fn uses(plan: &Plan, (cluster, group, kind): &KindKey) -> bool {
    let of_kind = |key: &ObjectKey| key.cluster == *cluster && key.group == *group && key.kind == *kind;
    plan.nodes.iter().flat_map(|node| &node.objects).any(|object| of_kind(&object.key))
}

/// The objects that another instance has.
fn foreign(plan: &Plan) -> HashSet<ObjectKey> {
    let taken = |progress: &Progress| matches!(progress, Progress::Failed(failure) if failure.reason == FailureReason::Conflict);
    let objects = plan.nodes.iter().flat_map(|node| &node.objects);
    objects.filter(|object| taken(&object.progress)).map(|object| object.key.clone()).collect()
}

fn is_suspended(instance: &StoredObject) -> bool {
    let said = instance.annotation(annotations::RECONCILE).map(str::to_ascii_lowercase);
    said.is_some_and(|said| annotations::RECONCILE_PAUSED.contains(&said.as_str()))
}
