//! Turns a graph, an instance and the observed state into a plan: what to apply, read, prune and report.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kross_api::{DeletePolicy, LifecyclePhase, ManagedResource, ObjectKey, Operation};
use kross_cel::Budget;
use kross_cel::value::Value as CelValue;
use kross_graph::{Graph, NodeIndex, Scope};
use kross_value::{Text, Value};

use crate::contest;
use crate::defaults::defaulted;
use crate::deletion::{
    Deletion, DeletionPlan, Hook, HookRecord, Hooks, OwnedObject, pending_deletion, plan_deletion,
    reported_orphans, with_replacements,
};
use crate::instance::Instance;
use crate::inventory::inventory;
use crate::lifecycle::{self, EvaluatedLifecycle};
use crate::observed::{AccessObjects, Observed, ObservedObject};
use crate::order;
use crate::plan::{ApplyAction, Plan};
use crate::progress::{Progress, ResourceFailure};
use crate::prune::{Leftovers, is_settled, leftovers};
use crate::recheck::recheck_at;
use crate::report::{Report, report};
use crate::settings::Settings;
use crate::tracked::{self, TrackedSet};
use crate::walk::{Input, Walk};

/// Plans the next step of an instance that is not being deleted.
///
/// # Guarantees
///
/// - The same input gives the same plan, and no plan applies an object that is already as desired.
/// - Everything in [`Plan::apply`] has its dependencies met. With the results of those writes in `observed`, the next plan
///   continues, so that a chain of any depth takes one reconcile.
/// - An object is pruned once nothing desired may still need it or turn out to be it; a desired object is never pruned.
#[must_use]
pub fn plan(
    graph: &Graph,
    instance: &Value,
    observed: &Observed,
    settings: &Settings,
    now: Timestamp,
) -> Plan {
    planned(graph, instance, observed, settings, (now, LifecyclePhase::Active))
}

/// Plans the deletion hooks of an instance, such as a backup. The other nodes are read as they are.
#[must_use]
pub fn plan_for_deletion(
    graph: &Graph,
    instance: &Value,
    observed: &Observed,
    settings: &Settings,
    now: Timestamp,
) -> Plan {
    planned(graph, instance, observed, settings, (now, LifecyclePhase::Deletion))
}

/// How often a graph is walked again because its expressions read the outcome (`resources`). A graph that contradicts itself ends
/// after this many rounds, always with the same plan.
const MAX_ROUNDS: usize = 4;

fn planned(
    graph: &Graph,
    instance: &Value,
    observed: &Observed,
    settings: &Settings,
    (now, phase): (Timestamp, LifecyclePhase),
) -> Plan {
    let defaulted = defaulted(graph, instance);
    let instance = Instance::new(graph, defaulted.as_ref().unwrap_or(instance));
    let from_status: Vec<ManagedResource>;
    let previous = if observed.previous.is_empty() {
        from_status = instance.resources();
        &from_status
    } else {
        &observed.previous
    };
    let none = BTreeSet::new();
    let hook_record = HookRecord::parse(instance.annotation(kross_api::annotations::DELETE_ATTEMPTS));
    let input = Input {
        graph,
        instance,
        observed,
        settings,
        now,
        phase,
        due_hooks: &none,
        hook_record: &hook_record,
        previous,
    };
    let budget = RefCell::new(settings.budget(1));
    let (walk, scope, tracked) = walk_until_stable(input, &budget);
    let due_hooks = due_hooks(&walk, &scope);
    if due_hooks.is_empty() {
        return finish(walk, &scope, &tracked);
    }
    // Objects to prune wait for deletion hooks: plan those as well.
    let (walk, scope, tracked) = walk_until_stable(Input { due_hooks: &due_hooks, ..input }, &budget);
    finish(walk, &scope, &tracked)
}

/// Walks the graph until the tracked status that expressions read is the one that results.
fn walk_until_stable<'a>(input: Input<'a>, budget: &'a RefCell<Budget>) -> (Walk<'a>, Scope<'a>, TrackedSet) {
    let Input { graph, instance, .. } = input;
    let mut tracked = {
        let mut scope = Scope::new(budget);
        let schema = instance.schema(graph.instance.external);
        scope.set("schema", CelValue::from_data(&schema, Some(&graph.schema_type)));
        TrackedSet::from_facts(&input, &scope)
    };
    let (mut walk, mut scope) = Walk::run(input, tracked.clone(), budget);
    // Expressions see the tracked status of this plan, not of the previous one.
    for _ in 0..if tracked::is_read(graph) { MAX_ROUNDS } else { 0 } {
        let found = TrackedSet::from_walk(&walk, &scope);
        if found == tracked {
            break;
        }
        tracked = found;
        (walk, scope) = Walk::run(input, tracked.clone(), budget);
    }
    order::mark_conflicts(&mut walk);
    order::hold_back(&mut walk);
    contest::mark(&mut walk);
    (walk, scope, tracked)
}

fn finish(walk: Walk<'_>, scope: &Scope<'_>, tracked: &TrackedSet) -> Plan {
    let lifecycles = lifecycles(&walk, scope);
    let hooks = walk.hooks(scope);
    let prune = prune(&walk, scope, &lifecycles, &hooks);
    let inventory = inventory(&walk);
    let apply = apply(&walk);
    let Report { state, conditions, message, resources, status } = report(&walk, &prune, scope);
    let recheck = recheck_at(walk.input.graph, tracked, walk.input.now);
    let recheck_at = [recheck, prune.recheck_at].into_iter().flatten().min();
    let applysets = inventory.keys().map(|id| (id.clone(), walk.ownership.applyset(id).clone())).collect();
    let Walk { nodes, clusters, choices, mut reads, unscoped, access_paths, missing_hooks, .. } = walk;
    reads.sort();
    reads.dedup();
    let mut unscoped = unscoped.into_inner();
    unscoped.sort();
    unscoped.dedup();
    Plan {
        nodes,
        apply,
        prune,
        reads,
        unscoped,
        clusters,
        choices,
        inventory,
        access_paths,
        applysets,
        state,
        conditions,
        message,
        resources,
        status,
        lifecycles,
        hooks,
        missing_hooks,
        recheck_at,
    }
}

/// The lifecycle of each node.
fn lifecycles(walk: &Walk<'_>, scope: &Scope<'_>) -> BTreeMap<Text, EvaluatedLifecycle> {
    let managed = walk.input.graph.nodes.iter().filter(|node| !node.is_external());
    managed.map(|node| (node.id.clone(), walk.lifecycle(node, scope))).collect()
}

/// What to apply, in topological order.
fn apply(walk: &Walk<'_>) -> Vec<ApplyAction> {
    let mut actions = Vec::new();
    for index in &walk.input.graph.order {
        let Some(node) = walk.nodes.get(index.0) else { continue };
        for (at, object) in node.objects.iter().enumerate() {
            let retry = match &object.progress {
                Progress::Applying => false,
                // Only a failed write is repaired by another write.
                Progress::Failed(ResourceFailure { operation: Some(operation), .. }) if object.differs => {
                    if !matches!(operation, Operation::Create | Operation::Update | Operation::Delete) {
                        continue;
                    }
                    true
                }
                _ => continue,
            };
            let create = object.uid.is_none();
            actions.push(ApplyAction { node: NodeIndex(index.0), object: at, create, retry });
        }
    }
    actions
}

/// What to prune: objects of the instance that are not desired, as far as each of them may be pruned now.
fn prune(
    walk: &Walk<'_>,
    scope: &Scope<'_>,
    lifecycles: &BTreeMap<Text, EvaluatedLifecycle>,
    hooks: &[Hook],
) -> DeletionPlan {
    let mut found = leftovers(walk, scope, lifecycles);
    let persisted = walk.input.instance.annotation(kross_api::annotations::DELETE_ATTEMPTS);
    let reported_orphans = remaining_orphans(walk, &found, persisted);
    let hook_record = match walk.input.phase {
        LifecyclePhase::Deletion => walk.hook_record_of_deletion(),
        LifecyclePhase::Active => walk.hook_record_of_prune(&found.decided(), is_settled(walk)),
    };
    let planned = |objects: &[OwnedObject]| {
        if objects.is_empty() && reported_orphans.is_empty() {
            return DeletionPlan::with_record(hook_record.clone());
        }
        let attempts = crate::report::attempts(walk.input.previous, objects, walk);
        plan_deletion(Deletion {
            objects,
            hooks: Hooks::Planned(hooks),
            hook_record: &hook_record,
            attempts: &attempts,
            persisted,
            reported_orphans: &reported_orphans,
            reports_orphans: true,
            now: walk.input.now,
        })
    };
    let mut plan = planned(&found.free);
    // Nothing waits for an object that is orphaned.
    if found.ignore_orphans(walk, &plan.orphaned) {
        plan = planned(&found.free);
    }
    plan.persisted = with_replacements(plan.persisted, &found.replacements);
    plan.waiting.extend(found.held.iter().map(|(object, hold)| (pending_deletion(object), hold.wait())));
    plan
}

/// The objects that were reported as orphaned, may still exist and are not desired again.
fn remaining_orphans(walk: &Walk<'_>, found: &Leftovers, persisted: Option<&str>) -> BTreeSet<Text> {
    let mut reported_orphans = reported_orphans(persisted);
    if !reported_orphans.is_empty() {
        // After a restart, objects in a cluster that is not connected are not in any cache.
        let unseen = walk.clusters.iter().any(|used| used.unavailable().is_some());
        let known: BTreeSet<&str> = walk.own_objects().map(|(_, object)| object.uid()).collect();
        reported_orphans.retain(|uid| {
            found.all().any(|object| object.uid == *uid) || (unseen && !known.contains(uid.as_str()))
        });
    }
    reported_orphans
}

/// The deletion hooks that objects to prune wait for, and that have not run for them yet.
fn due_hooks(walk: &Walk<'_>, scope: &Scope<'_>) -> BTreeSet<Text> {
    let graph = walk.input.graph;
    if !graph.nodes.iter().any(lifecycle::is_hook) {
        return BTreeSet::new();
    }
    let found = leftovers(walk, scope, &lifecycles(walk, scope));
    let deleted =
        found.decided().into_iter().filter(|object| object.lifecycle.policy == DeletePolicy::Delete);
    let record = walk.input.hook_record;
    let awaited = deleted.flat_map(|object| {
        let is_open = move |id: &&String| !record.is_completed_for(id, &object.uid);
        object.lifecycle.awaits.iter().filter(is_open)
    });
    awaited
        .filter(|id| graph.find(id).is_some_and(|(_, node)| lifecycle::is_hook(node)))
        .map(|id| Text::from(id.as_str()))
        .collect()
}

pub(crate) fn owned_object(
    walk: &Walk<'_>,
    key: &ObjectKey,
    object: &ObservedObject,
    lifecycles: &BTreeMap<Text, EvaluatedLifecycle>,
    secrets: &AccessObjects<'_>,
) -> OwnedObject {
    let mut owned = OwnedObject::new(key.clone(), object);
    if let Some(lifecycle) = lifecycles.get(&owned.node) {
        owned = owned.with_lifecycle(lifecycle.clone());
    }
    owned = owned.with_credentials_for(secrets);
    // Even if nothing is left there: until the cluster itself says so, its kubeconfig is needed to ask.
    let opened = secrets.opened_by(key).find(|recorded| recorded.holds_objects);
    owned.held = opened.map(|recorded| {
        let cluster = &recorded.display;
        format!("holds the credentials for cluster `{cluster}`; deleted once nothing is left there").into()
    });
    owned.unavailable = walk.unavailable(&key.cluster);
    owned.failure = walk.input.observed.failures.get(key).cloned();
    // Objects of nodes that were removed from the graph are deleted first, in their own order: no node depends on them.
    if walk.input.graph.find(&owned.node).is_none() && owned.lifecycle.order.is_none() {
        owned.order = owned.order.saturating_add(1 << 32);
    }
    owned
}
