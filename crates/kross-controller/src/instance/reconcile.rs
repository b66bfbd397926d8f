//! One pass over an instance: observe, plan, apply in waves, prune, report. Every way out goes through the report.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kross_api::{ClusterId, ConditionType, annotations};
use kross_cluster::{Lookup, ObjectKey, Outcome, StoredObject};
use kross_graph::Graph;
use kross_plan::{ApplyAction, Plan, failed_status, plan, suspended_status};
use kross_value::Text;

use super::error::{InstanceError, Next, outcome};
use super::memory::Memory;
use super::observe::{Sight, children};
use super::reach::Reach;
use super::{apply, clusters, deletion, external, manage, report};
use crate::graphs::Served;
use crate::hub::Hub;

/// Looks at an instance.
#[tracing::instrument(level = "debug", skip_all, fields(instance = %key))]
pub(crate) async fn reconcile(hub: &Hub, key: &ObjectKey) -> Outcome {
    let Some(served) = hub.graphs.serving(&key.group, &key.kind) else { return Outcome::Done };
    let instance = match served.instances.get(key.namespace.as_deref(), &key.name) {
        Lookup::Found(instance) => instance,
        Lookup::Absent if served.external => match let_go(hub, &served, key).await {
            Ok(Some(instance)) => instance,
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
    let chosen = matches!(served.instances.get(key.namespace.as_deref(), &key.name), Lookup::Found(_));
    let deleting = instance.deletion_timestamp().is_some() || !chosen;
    let ended = if deleting {
        deletion::proceed(hub, &served, instance, &mut memory).await
    } else {
        live(hub, &served, key, instance, &mut memory).await
    };
    hub.instances.keep(key, memory);
    hub.metrics.instances.inc();
    hub.metrics.instance_seconds.observe(started.elapsed().as_secs_f64());
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
    instance: Arc<StoredObject>,
    memory: &mut Memory,
) -> Result<Next, InstanceError> {
    // Nothing new is made for a definition that is being deleted.
    let Some(revision) = &served.revision else { return Ok(Next::Done) };
    let mut pass = Pass { hub, served, graph: &revision.graph, key, instance, memory };
    let ended = pass.run().await;
    if let Some(kind) = ended.as_ref().err().and_then(InstanceError::condition) {
        let message = ended.as_ref().err().map(ToString::to_string).unwrap_or_default();
        let status = failed_status(Some(pass.graph), pass.instance.value(), kind, &message, Timestamp::now());
        report::write(hub, served, pass.instance, status).await?;
    }
    ended
}

/// A pass over a living instance.
struct Pass<'a> {
    hub: &'a Hub,
    served: &'a Served,
    graph: &'a Graph,
    key: &'a ObjectKey,
    instance: Arc<StoredObject>,
    memory: &'a mut Memory,
}

impl Pass<'_> {
    async fn run(&mut self) -> Result<Next, InstanceError> {
        if is_suspended(&self.instance) {
            self.manage(&kross_api::Inventory::default()).await?;
            let status = suspended_status(self.graph, self.instance.value(), Timestamp::now());
            self.report(status).await?;
            return Ok(Next::Done);
        }
        let reach = Reach::local(self.hub, self.served);
        let Some(mut sight) = children(&reach, self.instance.uid(), self.memory) else {
            return self.blind().await;
        };
        self.see_leftovers(&mut sight).await?;
        let plan = self.waves(&reach, &mut sight).await?;
        let plan = self.prune(plan, &reach, &mut sight).await?;
        external::retain(self.hub, self.key, &plan, self.memory);
        self.forget_failures(&plan);
        self.memory.attempts.clone_from(&plan.prune.attempts);
        let next = self.next(&plan);
        self.report(plan.status).await?;
        Ok(next)
    }

    /// Kinds that the inventory has and the graph has no more are not watched: the cluster is asked for them.
    async fn see_leftovers(&self, sight: &mut Sight) -> Result<(), InstanceError> {
        let applyset = manage::applyset(self.served, &self.instance);
        let Some(mut inventory) = manage::inventory(&self.instance, &applyset)? else { return Ok(()) };
        inventory.group_kinds.retain(|kind| {
            let watched = |watch: &kross_cluster::Watch| {
                watch.key().group == *kind.group.as_str() && watch.key().kind == *kind.kind.as_str()
            };
            !self.served.children.iter().any(watched)
        });
        if inventory.group_kinds.is_empty() {
            return Ok(());
        }
        let left =
            deletion::members(&self.hub.connection, &self.instance, &applyset, &inventory, self.memory)
                .await?;
        sight.observed.objects.extend(left.observed.objects);
        sight.stored.extend(left.stored);
        Ok(())
    }

    /// What failed once and is desired no more is forgotten.
    fn forget_failures(&mut self, plan: &Plan) {
        let planned: HashSet<&ObjectKey> =
            plan.nodes.iter().flat_map(|node| &node.objects).map(|object| &object.key).collect();
        let doomed: HashSet<&ObjectKey> = plan
            .prune
            .delete
            .iter()
            .chain(plan.prune.waiting.iter().map(|(doom, _)| doom))
            .map(|doom| &doom.key)
            .collect();
        self.memory.failures.retain(|key, _| planned.contains(key) || doomed.contains(key));
    }

    /// Plans and writes until nothing is left to write.
    async fn waves(&mut self, reach: &Reach<'_>, sight: &mut Sight) -> Result<Plan, InstanceError> {
        let mut tried: HashSet<ObjectKey> = HashSet::new();
        // Each round writes a layer, reads a reference, or is the last one.
        let limit = 4 * self.graph.nodes.len() + 8;
        let mut plan = self.plan(sight);
        for _ in 0..limit {
            let news = external::answer(self.hub, reach, self.key, &plan, sight, self.memory).await?;
            let others = sight.meet_others(&plan, reach, self.memory);
            let clusters = clusters::note_unreached(&plan, sight, &self.instance);
            if news | others | clusters | sight.compare(&plan, self.memory) {
                plan = self.plan(sight);
                continue;
            }
            let actions: Vec<&ApplyAction> = plan
                .apply
                .iter()
                .filter(|action| plan.object(action).is_some_and(|object| !tried.contains(&object.key)))
                .collect();
            let inventory = plan.inventory.get(&ClusterId::local()).cloned().unwrap_or_default();
            self.manage(&inventory).await?;
            if actions.is_empty() {
                break;
            }
            tried.extend(
                actions.iter().filter_map(|action| plan.object(action)).map(|object| object.key.clone()),
            );
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
        let mut pruned = false;
        while !plan.prune.delete.is_empty() || !plan.prune.release.is_empty() {
            let (delete, release) = (plan.prune.delete.clone(), plan.prune.release.clone());
            let deleted = apply::delete(reach, &delete, sight, self.memory).await;
            let released = apply::release(reach, &release, sight, self.memory).await;
            pruned = true;
            plan = self.plan(sight);
            if !deleted || !released {
                break;
            }
        }
        if pruned && plan.prune.is_done() {
            let left = plan.inventory.get(&ClusterId::local()).cloned().unwrap_or_default();
            let instance = Arc::clone(&self.instance);
            self.instance = manage::shrink(self.hub, self.served, instance, &left).await?;
        }
        Ok(plan)
    }

    fn plan(&self, sight: &Sight) -> Plan {
        plan(self.graph, self.instance.value(), &sight.observed, &self.hub.planning, Timestamp::now())
    }

    async fn manage(&mut self, inventory: &kross_api::Inventory) -> Result<(), InstanceError> {
        let instance = Arc::clone(&self.instance);
        self.instance = manage::ensure(self.hub, self.served, instance, inventory).await?;
        Ok(())
    }

    async fn report(&mut self, status: kross_value::Value) -> Result<(), InstanceError> {
        let instance = Arc::clone(&self.instance);
        self.instance = report::write(self.hub, self.served, instance, status).await?;
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
        Ok(Next::After(Duration::from_secs(1)))
    }

    /// When to look again without an event.
    fn next(&self, plan: &Plan) -> Next {
        if !self.memory.failures.is_empty() {
            return Next::Retry;
        }
        match plan.recheck_at {
            Some(at) => {
                let wait = at.duration_since(Timestamp::now());
                Next::After(Duration::try_from(wait).unwrap_or_default().max(Duration::from_millis(50)))
            }
            None => Next::Done,
        }
    }
}

fn is_suspended(instance: &StoredObject) -> bool {
    let said = instance.annotation(annotations::RECONCILE).map(str::to_ascii_lowercase);
    said.is_some_and(|said| annotations::RECONCILE_PAUSED.contains(&said.as_str()))
}

/// The instance that an object says it belongs to.
pub(crate) fn instance_of(object: &StoredObject, cluster: &ClusterId) -> Option<ObjectKey> {
    use kross_api::labels;
    let text = |label| object.label(label).map(Text::from);
    Some(ObjectKey {
        cluster: cluster.clone(),
        group: text(labels::INSTANCE_GROUP)?,
        kind: text(labels::INSTANCE_KIND)?,
        namespace: text(labels::INSTANCE_NAMESPACE),
        name: text(labels::INSTANCE_NAME)?,
    })
}
