//! The end of an instance: its objects go in reverse waves, by what is kept on them. A graph, where there is one, makes what
//! exists for the deletion and knows better how objects go; it is not needed. "Gone" is what the cluster says, not a copy.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kross_api::{FINALIZER, LifecyclePhase, Operation, managers};
use kross_cluster::{ObjectKey, Selection, StoredObject};
use kross_graph::{Graph, Order, Policy};
use kross_plan::{
    Deletion, DeletionPlan, DeletionProgress, Hooks, OwnedObject, PendingDeletion, Plan, Wait,
    blocked_deletion_status, deletion_status, plan_deletion, reported_orphans,
};
use kross_value::Value;

use super::cluster_inventory;
use super::cluster_resolver::ClusterResolver;
use super::error::{InstanceError, Next, SOON, until};
use super::inventory_scan::{InventoryScan, gather};
use super::manage::Record;
use super::memory::Memory;
use super::pass::Pass;
use super::reach::Reach;
use super::release_report::ReleaseReport;
use super::{apply, manage, report};
use crate::context::Context;
use crate::graphs::Served;
use crate::permits::Permit;

/// Goes on with a deletion.
///
/// # Errors
/// The cluster refuses or does not answer, or what the instance says it owns cannot be trusted.
pub(super) async fn proceed(
    context: &Context,
    served: &Served,
    permit: &Permit,
    instance: Arc<StoredObject>,
    memory: &mut Memory,
) -> Result<Next, InstanceError> {
    let released = memory.released.as_ref() == Some(instance.uid());
    if released || !manage::is_held(&instance) {
        return Ok(Next::Done);
    }
    let graph = served.leaving_graph();
    let applyset = manage::applyset(served, &instance);
    let record = match manage::whole_record(&instance, &applyset) {
        Ok(record) => record,
        Err(error) => {
            block(context, served, graph, instance, &error).await?;
            return Err(error);
        }
    };
    let (mut reach, key) = (Reach::local(context, served, permit), instance.key(context.client.cluster()));
    let resolver =
        ClusterResolver { context, key: &key, instance: &Arc::clone(&instance), recorded: &record.remote };
    let mut scan = match gather(&resolver, served, &record, &mut reach, memory).await {
        Ok(scan) => scan,
        Err(error) => {
            block(context, served, graph, instance, &error).await?;
            return Err(error);
        }
    };
    let (mut instance, mut record, key) = (instance, record, &key);
    if !scan.observation.abandoned.is_empty() {
        cluster_inventory::remove_abandoned(context, &instance, &mut record.remote, &mut scan.observation);
        instance = manage::write(context, served, instance, &record).await?;
    }
    let mut pass =
        DeletionPass { context, served, graph, key, permit, instance, record, reach, scan, memory };
    let ended = pass.run().await;
    if let Err(error) = &ended {
        block(context, served, graph, pass.instance, error).await?;
    }
    ended
}

/// Says why an instance cannot go, if it is not only to be looked at again.
async fn block(
    context: &Context,
    served: &Served,
    graph: Option<&Graph>,
    instance: Arc<StoredObject>,
    error: &InstanceError,
) -> Result<(), InstanceError> {
    if error.condition().is_some() {
        let status = blocked_deletion_status(graph, instance.value(), &error.to_string(), Timestamp::now());
        report::write(context, served, instance, status).await?;
    }
    Ok(())
}

/// An instance on its way out.
struct DeletionPass<'a> {
    context: &'a Context,
    served: &'a Served,
    /// The graph by which it goes, where there is one.
    graph: Option<&'a Graph>,
    key: &'a ObjectKey,
    permit: &'a Permit,
    instance: Arc<StoredObject>,
    record: Record,
    reach: Reach<'a>,
    scan: InventoryScan,
    memory: &'a mut Memory,
}

impl DeletionPass<'_> {
    async fn run(&mut self) -> Result<Next, InstanceError> {
        let mut said = false;
        loop {
            if self.scan.observation.connecting {
                // Whether it answers is known in a moment; it says so.
                return Ok(Next::After(SOON));
            }
            let hooks = self.make_hooks().await?;
            let plan = self.step(hooks.as_ref());
            self.memory.attempts.clone_from(&plan.attempts);
            // Before the first delete, and when something is left to wait for; what goes in this pass needs no word each.
            let waits = plan.delete.is_empty() && plan.release.is_empty();
            if !plan.is_done() && (waits || !said) {
                said = true;
                self.report(&plan, hooks.as_ref()).await?;
            }
            if waits {
                return self.finish(&plan, hooks.as_ref()).await;
            }
            let observation = &mut self.scan.observation;
            let deleted = apply::delete(&self.reach, &plan.delete, observation, self.memory).await;
            let released = apply::release(&self.reach, &plan.release, observation, self.memory).await;
            let release_report = ReleaseReport {
                context: self.context,
                instance: &self.instance,
                clusters: &self.scan.clusters,
            };
            release_report.released(&released, self.memory);
            if !deleted || released.again {
                self.keep_attempts(&plan).await?;
                return Ok(Next::Retry);
            }
        }
    }

    /// Makes what exists for the deletion, such as a backup, and finds out how objects are to go, as the graph says now. None
    /// where the graph has nothing to say.
    async fn make_hooks(&mut self) -> Result<Option<Plan>, InstanceError> {
        let says = |graph: &&Graph| self.scan.remembered || has_say(graph);
        let Some(graph) = self.graph.filter(says) else { return Ok(None) };
        self.scan.observation.observed.failures.clone_from(&self.memory.failures);
        let mut pass = Pass {
            context: self.context,
            served: self.served,
            graph,
            key: self.key,
            permit: self.permit,
            phase: LifecyclePhase::Deletion,
            instance: Arc::clone(&self.instance),
            record: std::mem::take(&mut self.record),
            memory: &mut *self.memory,
        };
        let plan = pass.waves(&mut self.reach, &mut self.scan.observation).await;
        self.instance = Arc::clone(&pass.instance);
        self.record = pass.record;
        let plan = plan?;
        for used in &plan.clusters {
            if !self.scan.clusters.iter().any(|known| known.id == used.id) {
                self.scan.clusters.push(used.clone());
            }
        }
        Ok(Some(plan))
    }

    fn step(&self, hooks: Option<&Plan>) -> DeletionPlan {
        let mut objects = self.scan.pending(self.memory);
        if let Some(plan) = hooks {
            let newer = |object: OwnedObject| match plan.lifecycles.get(&object.node) {
                Some(lifecycle) => object.with_lifecycle(lifecycle.clone()),
                None => object,
            };
            objects = objects.into_iter().map(newer).collect();
        }
        let broken = format!("definition `{}` does not compile", self.served.definition);
        plan_deletion(Deletion {
            objects: &objects,
            hooks: match (self.graph, hooks) {
                (Some(_), Some(plan)) => Hooks::Planned(&plan.hooks),
                (Some(_), None) => Hooks::Planned(&[]),
                (None, _) if self.served.orphaned => Hooks::GraphDeleted,
                (None, _) => Hooks::GraphUnavailable(&broken),
            },
            attempts: &self.memory.attempts,
            persisted: self.record.attempts.as_deref(),
            reported_orphans: &reported_orphans(self.record.attempts.as_deref()),
            // Those who are left behind are told at the very end.
            reports_orphans: false,
            now: Timestamp::now(),
        })
    }

    async fn report(&mut self, plan: &DeletionPlan, hooks: Option<&Plan>) -> Result<(), InstanceError> {
        let leaving = DeletionProgress { plan, hooks, clusters: &self.scan.clusters };
        let status = deletion_status(self.graph, self.instance.value(), &leaving, Timestamp::now());
        let instance = Arc::clone(&self.instance);
        self.instance = report::write(self.context, self.served, instance, status).await?;
        Ok(())
    }

    /// Keeps when objects were first attempted, for whoever goes on after us.
    async fn keep_attempts(&mut self, plan: &DeletionPlan) -> Result<(), InstanceError> {
        if plan.persisted.is_some() && self.record.attempts != plan.persisted {
            self.record.attempts.clone_from(&plan.persisted);
            let instance = Arc::clone(&self.instance);
            self.instance = manage::write(self.context, self.served, instance, &self.record).await?;
        }
        Ok(())
    }

    /// Nothing is left to delete: let the instance go, or wait for what is going.
    async fn finish(&mut self, plan: &DeletionPlan, hooks: Option<&Plan>) -> Result<Next, InstanceError> {
        if !plan.is_done() {
            self.keep_attempts(plan).await?;
            let recheck = hooks.and_then(|hooks| hooks.recheck_at);
            return Ok(next(self.context, &self.reach, plan, recheck));
        }
        let (instance, kind) = (Arc::clone(&self.instance), &self.served.kind);
        let mut finalizers = manage::finalizers(&instance);
        finalizers.retain(|name| name != FINALIZER);
        let metadata = Value::object([
            ("resourceVersion", instance.resource_version().clone().into()),
            ("finalizers", Value::list(finalizers.iter().map(|name| Value::from(name.as_str())))),
        ]);
        let patch = Value::object([("metadata", metadata)]);
        let (namespace, manager) = (instance.namespace().map(|namespace| &**namespace), managers::LABELLER);
        let patched =
            self.context.client.merge_patch(kind, namespace, instance.name(), None, manager, &patch);
        match patched.await {
            Ok(_) => {}
            Err(error) if error.is_object_not_found() => {}
            Err(error) => return Err(error.into()),
        }
        // Only now it is certain that nobody comes back to them.
        let release_report =
            ReleaseReport { context: self.context, instance: &instance, clusters: &self.scan.clusters };
        release_report.orphaned(&plan.orphaned, self.memory);
        self.context.instances.release(self.key, self.memory);
        let uid = Some(instance.uid().clone());
        *self.memory = Memory { released: uid.clone(), uid, ..Memory::default() };
        Ok(Next::Done)
    }
}

/// Whether a graph has something to say about how objects go that is not kept on them already.
fn has_say(graph: &Graph) -> bool {
    graph.nodes.iter().any(|node| {
        let lifecycle = &node.lifecycle;
        lifecycle.phase == LifecyclePhase::Deletion
            || !lifecycle.force_when.is_empty()
            || matches!(lifecycle.policy, Policy::Computed(_))
            || matches!(lifecycle.order, Some(Order::Computed(_)))
    })
}

/// When to look again. Events tell when something is gone; a copy that does not follow would not, nor would one of a kind
/// that nobody watches, nor one that never had the object.
fn next(context: &Context, reach: &Reach<'_>, plan: &DeletionPlan, recheck: Option<Timestamp>) -> Next {
    let told = |PendingDeletion { key, uid, .. }: &PendingDeletion| {
        let watch = reach.child(&key.cluster, &key.group, &key.kind);
        watch.is_some_and(|watch| {
            watch.key().selection == Selection::Managed
                && watch.will_report_deletion_of(key.namespace.as_deref(), &key.name, uid)
        })
    };
    let untold = plan.waiting.iter().any(|(pending, wait)| match wait {
        // Whoever goes before it is in this list too.
        Wait::Dependents => false,
        Wait::Deletion(_) => !told(pending),
        // A cluster that is connected wakes those who wait for it.
        Wait::Connection(failure) => failure.operation != Some(Operation::Connect),
        Wait::Hook(_) | Wait::Failed(_) => true,
    });
    let interval = context.settings.instance_interval.unwrap_or(Duration::from_secs(60));
    let untold = untold || !plan.unfinished_hooks.is_empty();
    let due = plan.recheck_at.into_iter().chain(recheck).min().map(until);
    match due.into_iter().chain(untold.then_some(interval)).min() {
        Some(wait) => Next::After(wait),
        None => Next::Done,
    }
}
