//! One pass over an instance: observe, plan, apply in waves, prune, report. Every way out goes through the report.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kross_api::{
    ClusterId, ConditionType, FailureReason, Inventory, LifecyclePhase, RecordedCluster, annotations,
};
use kross_cluster::{Lookup, ObjectKey, Outcome, StoredObject};
use kross_graph::Graph;
use kross_plan::{
    ApplyAction, Failure, NodePlan, Plan, PlannedObject, Progress, Skip, failed_status, plan,
    plan_for_deletion, suspended_status,
};
use kross_value::{Text, Value};

use super::admit::Visitor;
use super::clusters::Asker;
use super::error::{InstanceError, Next, SOON, outcome, until};
use super::manage::Record;
use super::memory::Memory;
use super::observe::{Sight, own};
use super::parting::Parting;
use super::reach::Reach;
use super::{apply, children, clusters, deletion, external, manage, remains, report};
use crate::graphs::{Halt, Served};
use crate::hub::Hub;
use crate::key::InstanceKey;
use crate::metrics::UnresolvedReason;
use crate::turns::Turn;

/// Looks at an instance.
#[tracing::instrument(level = "debug", skip_all, fields(instance = %key))]
pub(crate) async fn reconcile(hub: &Hub, key: &ObjectKey, turn: &Turn) -> Outcome {
    let Some(served) = hub.graphs.serving(&key.group, &key.kind) else {
        hub.metrics.no_graph(UnresolvedReason::not_available);
        return Outcome::Done;
    };
    let (instance, chosen) = match served.instances.get(key.namespace.as_deref(), &key.name) {
        Lookup::Found(instance) => (instance, true),
        Lookup::Absent if served.external => match let_go(hub, &served, key).await {
            Ok(Some(instance)) => (instance, false),
            Ok(None) => return Outcome::Done,
            Err(_) => return Outcome::Retry,
        },
        Lookup::Absent => {
            hub.instances.forget(key);
            return Outcome::Done;
        }
        Lookup::Unknown => return Outcome::Retry,
    };
    let started = std::time::Instant::now();
    let mut memory = hub.instances.take(key);
    let deleting = instance.deletion_timestamp().is_some() || !chosen;
    let ended = if deleting {
        deletion::proceed(hub, &served, turn, instance, &mut memory).await
    } else {
        live(hub, &served, key, turn, instance, &mut memory).await
    };
    hub.instances.keep(key, memory);
    hub.metrics.passed(started.elapsed());
    if let Err(error) = &ended {
        hub.metrics.instance_errors.inc();
        tracing::warn!(instance = %key, reason = error.reason(), %error, "cannot reconcile an instance");
    }
    outcome(&ended)
}

/// An existing object that is an instance no more, since nothing chooses it: if it is still held by us, it is to be let go
/// as if it were deleted, but stays.
async fn let_go(
    hub: &Hub,
    served: &Served,
    key: &ObjectKey,
) -> Result<Option<Arc<StoredObject>>, kross_cluster::ApiError> {
    let found = match hub.connection.get(&served.kind, key.namespace.as_deref(), &key.name).await {
        Ok(found) => Some(found),
        Err(error) if error.missing().is_some() => None,
        Err(error) => return Err(error),
    };
    let held = found.filter(manage::is_held);
    if held.is_none() {
        hub.instances.forget(key);
    }
    Ok(held.map(Arc::new))
}

async fn live(
    hub: &Hub,
    served: &Served,
    key: &ObjectKey,
    turn: &Turn,
    instance: Arc<StoredObject>,
    memory: &mut Memory,
) -> Result<Next, InstanceError> {
    let Some(revision) = &served.revision else {
        return halted(hub, served, instance).await;
    };
    hub.metrics.graphs_found.inc();
    let record = Record::default();
    let (graph, phase) = (&*revision.graph, LifecyclePhase::Active);
    let mut pass = Pass { hub, served, graph, key, turn, phase, instance, record, memory };
    let ended = pass.run().await;
    if let Some(kind) = ended.as_ref().err().and_then(InstanceError::condition) {
        let message = ended.as_ref().err().map(ToString::to_string).unwrap_or_default();
        let status = failed_status(Some(pass.graph), pass.instance.value(), kind, &message, Timestamp::now());
        report::write(hub, served, pass.instance, status).await?;
    }
    ended
}

/// A living instance for which nothing new is made.
async fn halted(hub: &Hub, served: &Served, instance: Arc<StoredObject>) -> Result<Next, InstanceError> {
    let why = match &served.halt {
        Some(Halt::Broken(why)) => {
            hub.metrics.no_graph(UnresolvedReason::failed);
            Some(why)
        }
        Some(Halt::Ended(why)) => {
            hub.metrics.graphs_pending.inc();
            Some(why).filter(|_| !is_reported(&instance))
        }
        None => {
            hub.metrics.graphs_pending.inc();
            None
        }
    };
    if let Some(why) = why {
        let (kind, now) = (ConditionType::GraphResolved, Timestamp::now());
        let status = failed_status(None, instance.value(), kind, why, now);
        report::write(hub, served, instance, status).await?;
    }
    Ok(Next::Done)
}

/// Whether the status of an instance is about its spec as it is.
fn is_reported(instance: &StoredObject) -> bool {
    let conditions = instance.value().at(&["status", "conditions"]).and_then(Value::as_list);
    let generation = |condition: &Value| condition.get("observedGeneration").and_then(Value::as_int);
    conditions.is_some_and(|conditions| {
        conditions.iter().all(|condition| generation(condition) == instance.generation())
    })
}

/// A pass over an instance.
pub(super) struct Pass<'a> {
    pub(super) hub: &'a Hub,
    pub(super) served: &'a Served,
    pub(super) graph: &'a Graph,
    pub(super) key: &'a ObjectKey,
    pub(super) turn: &'a Turn,
    /// Whether the instance lives, or is being deleted and only what exists for that is planned.
    pub(super) phase: LifecyclePhase,
    pub(super) instance: Arc<StoredObject>,
    /// What the instance says it owns.
    pub(super) record: Record,
    pub(super) memory: &'a mut Memory,
}

impl Pass<'_> {
    async fn run(&mut self) -> Result<Next, InstanceError> {
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
        let mut reach = Reach::local(self.hub, self.served, self.turn);
        let Some(mut sight) = own(&reach, self.instance.uid(), self.memory) else {
            return self.blind().await;
        };
        self.see_leftovers(&mut sight).await?;
        let plan = self.waves(&mut reach, &mut sight).await?;
        if sight.connecting {
            // A cluster where the instance has been, just after a start: what is true is known in a moment.
            return Ok(Next::After(SOON));
        }
        let plan = self.prune(plan, &reach, &mut sight).await?;
        self.shrink(&plan, &reach).await?;
        external::retain(self.hub, self.key, &plan, self.memory);
        clusters::retain(self.hub, self.key, &plan, &self.record.remote, self.memory);
        self.forget_failures(&plan, &sight);
        self.forget_partings(&plan);
        self.hub.instances.want(self.key, foreign(&plan));
        self.memory.attempts.clone_from(&plan.prune.attempts);
        self.keep_attempts(&plan).await?;
        let next = match self.next(&plan, &reach) {
            // What was written is out of date already, such as where it says which version the instance has, and our own
            // writes tell us nothing.
            Next::Done if plan.nodes.iter().any(|node| node.progress == Progress::Applying) => Next::Retry,
            next => next,
        };
        if sight.listing && self.instance.value().get("status").is_some() {
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
        self.hub.instance_queue.add_after(&InstanceKey(self.key.clone()), wait);
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
        let waits = !plan.prune.waiting.is_empty() || !plan.prune.promised.is_empty();
        let kept = plan.prune.kept.clone().filter(|_| waits);
        if self.record.attempts != kept {
            self.record.attempts = kept;
            self.keep_record().await?;
        }
        Ok(())
    }

    /// Kinds that the inventory has and the graph has no more are not watched: the cluster is asked for them.
    async fn see_leftovers(&self, sight: &mut Sight) -> Result<(), InstanceError> {
        let applyset = manage::applyset(self.served, &self.instance);
        let mut inventory = self.record.local.clone();
        inventory.group_kinds.retain(|kind| {
            let watched = |watch: &kross_cluster::Watch| {
                watch.key().group == *kind.group.as_str() && watch.key().kind == *kind.kind.as_str()
            };
            !self.served.children.iter().any(watched)
        });
        if inventory.group_kinds.is_empty() {
            return Ok(());
        }
        let kinds = inventory.group_kinds.iter().map(|kind| (kind, &self.hub.connection)).collect();
        let left = remains::members(kinds, &self.instance, &applyset, &inventory, self.memory).await?;
        sight.extend(left);
        Ok(())
    }

    /// What failed once and is desired no more is forgotten.
    fn forget_failures(&mut self, plan: &Plan, sight: &Sight) {
        let planned: HashSet<&ObjectKey> =
            plan.nodes.iter().flat_map(|node| &node.objects).map(|object| &object.key).collect();
        let doomed: HashSet<&ObjectKey> = plan
            .prune
            .delete
            .iter()
            .chain(plan.prune.waiting.iter().map(|(doom, _)| doom))
            .map(|doom| &doom.key)
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
            planned.contains(key) || doomed.contains(key) || left_out.contains(&failure.node)
        });
        self.memory.left_out.1 = left_out;
        self.memory.blind.retain(|kind, _| sight.observed.blind.contains_key(kind));
    }

    /// An object that was let go and is desired again may be let go once more, and people are told once more.
    fn forget_partings(&mut self, plan: &Plan) {
        if !self.memory.told.is_empty() {
            let objects = plan.nodes.iter().flat_map(|node| &node.objects);
            let desired: HashSet<&Text> = objects.filter_map(|object| object.uid.as_ref()).collect();
            self.memory.told.retain(|uid| !desired.contains(uid));
        }
    }

    /// Plans and writes until nothing is left to write.
    ///
    /// # Errors
    /// The cluster of the instance refuses or does not answer.
    pub(super) async fn waves(
        &mut self,
        reach: &mut Reach<'_>,
        sight: &mut Sight,
    ) -> Result<Plan, InstanceError> {
        let mut tried: HashSet<ObjectKey> = HashSet::new();
        let (instance, recorded) = (Arc::clone(&self.instance), self.record.remote.clone());
        let asker = Asker { hub: self.hub, key: self.key, instance: &instance, recorded: &recorded };
        if self.phase == LifecyclePhase::Active {
            asker.recall(reach, sight, self.memory);
        }
        clusters::rename(&mut self.record.remote, sight);
        let owned = children::recorded(&clusters::contents(&self.record.remote), Some(self.graph));
        for (kind, _) in &owned {
            if reach.connection(&kind.0).is_err() {
                children::remember(instance.uid(), &kind.0, sight, self.memory);
            }
        }
        // Each round writes a layer, meets a cluster, reads a reference, or is the last one.
        let limit = 8 * self.graph.nodes.len() + 16;
        let mut plan = self.plan(sight);
        for _ in 0..limit {
            let mut news = asker.meet_all(&plan, reach, sight, self.memory);
            news |= children::find_scopes(&plan, reach, sight, self.memory).await;
            let wanted = owned.iter().cloned().chain(children::planned(&plan)).collect();
            let known = (self.key, instance.uid().as_str());
            news |= children::see(self.hub, known, wanted, reach, sight, self.memory).await;
            let visitor = Visitor { hub: self.hub, served: self.served, instance: self.key };
            news |= external::answer(&visitor, reach, &plan, sight, self.memory).await?;
            news |= sight.meet_others(&plan, reach, self.memory);
            if news | sight.compare(&plan, self.memory) {
                plan = self.plan(sight);
                continue;
            }
            if sight.connecting {
                break;
            }
            let actions: Vec<&ApplyAction> = plan
                .apply
                .iter()
                .filter(|action| plan.object(action).is_some_and(|object| !tried.contains(&object.key)))
                .collect();
            if actions.is_empty() && self.phase == LifecyclePhase::Deletion {
                break;
            }
            self.expand(&plan, sight);
            self.keep_record().await?;
            if actions.is_empty() {
                break;
            }
            tried.extend(
                actions.iter().filter_map(|action| plan.object(action)).map(|object| object.key.clone()),
            );
            let actions = visitor.admitted(&plan, actions, reach, sight, self.memory);
            apply::wave(self.hub, reach, &plan, &actions, sight, self.memory).await;
            plan = self.plan(sight);
        }
        Ok(plan)
    }

    /// Removes what nobody desires any more, and shrinks the inventory once it is gone.
    async fn prune(
        &mut self,
        mut plan: Plan,
        reach: &Reach<'_>,
        sight: &mut Sight,
    ) -> Result<Plan, InstanceError> {
        let (mut pruned, mut stalled) = (false, false);
        while !plan.prune.delete.is_empty() || !plan.prune.release.is_empty() {
            let (delete, release) = (plan.prune.delete.clone(), plan.prune.release.clone());
            let deleted = apply::delete(reach, &delete, sight, self.memory).await;
            let released = apply::release(reach, &release, sight, self.memory).await;
            let parting = Parting { hub: self.hub, instance: &self.instance, clusters: &plan.clusters };
            parting.released(&released, self.memory);
            pruned = true;
            plan = self.plan(sight);
            stalled = !deleted || released.again;
            if stalled {
                self.look_again(SOON);
                break;
            }
        }
        let parting = Parting { hub: self.hub, instance: &self.instance, clusters: &plan.clusters };
        parting.left_behind(&plan.prune.left_behind, self.memory);
        if pruned && !stalled && plan.prune.is_done() {
            self.record.local = plan.inventory.get(&ClusterId::local()).cloned().unwrap_or_default();
            self.keep_record().await?;
        }
        Ok(plan)
    }

    /// Adds what a plan is about to make to what the instance says it owns.
    fn expand(&mut self, plan: &Plan, sight: &mut Sight) {
        self.record.local.extend(plan.inventory.get(&ClusterId::local()).unwrap_or(&Inventory::default()));
        clusters::give_up(self.hub, &self.instance, &mut self.record.remote, sight);
        for cluster in clusters::needed(plan) {
            self.record.remote.add(cluster);
        }
    }

    /// Forgets what the instance has in remote clusters no more, once they themselves say so.
    async fn shrink(&mut self, plan: &Plan, reach: &Reach<'_>) -> Result<(), InstanceError> {
        if !plan.is_certain() || !plan.prune.is_done() {
            return Ok(());
        }
        let applyset = manage::remote_applyset(self.hub, self.served, &self.instance);
        let mut record = self.record.remote.clone();
        for cluster in self.record.remote.clusters() {
            let id = ClusterId::new(&cluster.uid);
            let used =
                plan.clusters.iter().any(|used| !used.former && used.key.as_str() == cluster.reference);
            if !used && cluster.contents.group_kinds.is_empty() {
                record.retain(|other| other.reference != cluster.reference || other.uid != cluster.uid);
                continue;
            }
            let (left, elsewhere) = clusters::kept(plan, cluster);
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
            let found = remains::members(kinds, &self.instance, &applyset, &gone, self.memory);
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

    fn plan(&self, sight: &Sight) -> Plan {
        let plan = if self.phase == LifecyclePhase::Active { plan } else { plan_for_deletion };
        plan(self.graph, self.instance.value(), &sight.observed, &self.hub.planning, Timestamp::now())
    }

    /// Makes sure that the instance says what it owns.
    async fn keep_record(&mut self) -> Result<(), InstanceError> {
        let instance = Arc::clone(&self.instance);
        self.instance = manage::write(self.hub, self.served, instance, &self.record).await?;
        Ok(())
    }

    async fn report(&mut self, status: Value) -> Result<(), InstanceError> {
        let instance = Arc::clone(&self.instance);
        self.instance = report::write(self.hub, self.served, instance, status.clone()).await?;
        if let Some(wait) = report::dropped(&self.instance, &status, self.served, self.memory) {
            self.look_again(wait);
        }
        Ok(())
    }

    /// A copy of a kind that the graph uses cannot tell: say so if it failed; if it is being filled, its end wakes us.
    async fn blind(&mut self) -> Result<Next, InstanceError> {
        let failing = self.hub.watches.states().into_iter().find_map(|state| {
            let used = self.served.children.iter().any(|watch| *watch.key() == state.key);
            state.failure.filter(|_| used)
        });
        if let Some(error) = failing {
            let (kind, now) = (ConditionType::GraphResolved, Timestamp::now());
            let status =
                failed_status(Some(self.graph), self.instance.value(), kind, &error.to_string(), now);
            self.report(status).await?;
            return Ok(Next::Retry);
        }
        Ok(Next::After(SOON))
    }

    /// When to look again without an event.
    fn next(&self, plan: &Plan, reach: &Reach<'_>) -> Next {
        // What failed in a cluster that does not answer is tried again when it does, which wakes us.
        let open = |cluster: &ClusterId| reach.connection(cluster).is_ok();
        let (_, left_out) = &self.memory.left_out;
        let tried = |(_, failure): &(&ObjectKey, &Failure)| !left_out.contains(&failure.node);
        let recheck = plan.recheck_at.map(until);
        if let Some(wait) = recheck {
            self.look_again(wait);
        }
        // An object that belongs to nobody may go without a word to us.
        let in_the_way = |object: &PlannedObject| {
            let trouble = object.progress.trouble();
            object.exclusive && trouble.is_some_and(|trouble| trouble.reason == FailureReason::Conflict)
        };
        if self.memory.failures.iter().filter(tried).any(|(key, _)| open(&key.cluster))
            || plan.nodes.iter().flat_map(|node| &node.objects).any(in_the_way)
            || self.memory.blind.keys().any(|(cluster, ..)| open(cluster))
            || self.memory.unreadable.keys().any(|read| open(read.cluster()))
        {
            return Next::Retry;
        }
        recheck.map_or(Next::Done, Next::After)
    }
}

/// The objects that another instance has.
fn foreign(plan: &Plan) -> HashSet<ObjectKey> {
    let taken = |progress: &Progress| matches!(progress, Progress::Failed(trouble) if trouble.reason == FailureReason::Conflict);
    let objects = plan.nodes.iter().flat_map(|node| &node.objects);
    objects.filter(|object| taken(&object.progress)).map(|object| object.key.clone()).collect()
}

fn is_suspended(instance: &StoredObject) -> bool {
    let said = instance.annotation(annotations::RECONCILE).map(str::to_ascii_lowercase);
    said.is_some_and(|said| annotations::RECONCILE_PAUSED.contains(&said.as_str()))
}

/// The instance that an object says it belongs to, wherever the object is.
pub(crate) fn instance_of(object: &StoredObject) -> Option<ObjectKey> {
    use kross_api::labels;
    let text = |label| object.label(label).map(Text::from);
    Some(ObjectKey {
        cluster: ClusterId::local(),
        group: text(labels::INSTANCE_GROUP)?,
        kind: text(labels::INSTANCE_KIND)?,
        namespace: text(labels::INSTANCE_NAMESPACE),
        name: text(labels::INSTANCE_NAME)?,
    })
}
