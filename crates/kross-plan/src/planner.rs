//! `plan`: the graph, an instance and what was observed in; what to write, read, remove and report out.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kross_api::{DeletePolicy, LifecyclePhase, ManagedResource, ObjectKey, Operation};
use kross_cel::Budget;
use kross_cel::value::Value as CelValue;
use kross_graph::{Graph, Node, NodeIndex, Scope};
use kross_value::{Text, Value};

use crate::deletion::{Deletion, DeletionPlan, Hook, Hooks, OwnedObject, plan_deletion, promised};
use crate::instance::Instance;
use crate::inventory::inventory;
use crate::lifecycle::{self, Answers};
use crate::observed::{Observed, ObservedObject};
use crate::order;
use crate::plan::{ApplyAction, NodePlan, Plan};
use crate::progress::{Progress, ResourceFailure};
use crate::recheck::recheck_at;
use crate::report::{Report, report};
use crate::settings::Settings;
use crate::tracked::{self, TrackedSet};
use crate::walk::{Input, Walk};

/// Plans the next step for a living instance.
///
/// # Guarantees
///
/// - The same input gives the same plan, and no plan writes what is already as desired.
/// - Everything in [`Plan::apply`] has all that it needs; with the answers of those writes put into `observed`, the next
///   plan goes one step further, so that a chain of any depth takes one pass.
/// - Nothing is removed while anything is unresolved, failed or still to be written, and nothing that is desired is
///   removed ever.
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

/// Plans the nodes that exist for the deletion of an instance, such as a backup. Nodes of its life are as they are.
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

/// How often a plan is made again because its own outcome is read in it. A graph that contradicts itself ends here, each
/// time at the same place.
const ROUNDS: usize = 4;

fn planned(
    graph: &Graph,
    instance: &Value,
    observed: &Observed,
    settings: &Settings,
    (now, phase): (Timestamp, LifecyclePhase),
) -> Plan {
    let instance = Instance::new(graph, instance);
    let from_status: Vec<ManagedResource>;
    let previous = if observed.previous.is_empty() {
        from_status = instance.resources();
        &from_status
    } else {
        &observed.previous
    };
    let nobody = BTreeSet::new();
    let input = Input { graph, instance, observed, settings, now, phase, awaited: &nobody, previous };
    let budget = RefCell::new(Budget::new(settings.budget));
    let (walk, scope, tracked) = settled(input, &budget);
    let awaited = awaited(&walk, &scope);
    if awaited.is_empty() {
        return finish(walk, &scope, &tracked);
    }
    // What is to go waits for nodes that exist for such a deletion.
    let (walk, scope, tracked) = settled(Input { awaited: &awaited, ..input }, &budget);
    finish(walk, &scope, &tracked)
}

/// Walks until what is read of the outcome is the outcome.
fn settled<'a>(input: Input<'a>, budget: &'a RefCell<Budget>) -> (Walk<'a>, Scope<'a>, TrackedSet) {
    let Input { graph, instance, .. } = input;
    let mut tracked = {
        let mut scope = Scope::new(budget);
        let schema = instance.schema(graph.instance.external);
        scope.set("schema", CelValue::from_data(&schema, Some(&graph.schema_type)));
        TrackedSet::from_facts(&input, &scope)
    };
    let (mut walk, mut scope) = Walk::run(input, tracked.clone(), budget);
    // Whoever reads the tracked status sees what this plan makes of it, not what the one before did.
    for _ in 0..if tracked::is_read(graph) { ROUNDS } else { 0 } {
        let found = TrackedSet::from_walk(&walk, &scope);
        if found == tracked {
            break;
        }
        tracked = found;
        (walk, scope) = Walk::run(input, tracked.clone(), budget);
    }
    order::mark_conflicts(&mut walk);
    order::hold(&mut walk);
    (walk, scope, tracked)
}

fn finish(walk: Walk<'_>, scope: &Scope<'_>, tracked: &TrackedSet) -> Plan {
    let answers = answers(&walk, scope);
    let hooks = walk.hooks(scope);
    let prune = prune(&walk, &answers, &hooks);
    let inventory = inventory(&walk);
    let apply = apply(&walk);
    let Report { state, conditions, message, resources, status } = report(&walk, &prune, scope);
    let recheck = recheck_at(walk.input.graph, tracked, walk.input.now);
    let recheck_at = [recheck, prune.recheck_at].into_iter().flatten().min();
    let applysets = inventory.keys().map(|id| (id.clone(), walk.ownership.applyset(id).clone())).collect();
    let Walk { nodes, clusters, mut reads, unscoped, access_paths, .. } = walk;
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
        inventory,
        access_paths,
        applysets,
        state,
        conditions,
        message,
        resources,
        status,
        answers,
        hooks,
        recheck_at,
    }
}

/// How the objects of each node go.
fn answers(walk: &Walk<'_>, scope: &Scope<'_>) -> BTreeMap<Text, Answers> {
    let made = walk.input.graph.nodes.iter().filter(|node| !node.is_external());
    made.map(|node| (node.id.clone(), walk.answers(node, scope))).collect()
}

/// What to write, in topological order.
fn apply(walk: &Walk<'_>) -> Vec<ApplyAction> {
    let mut actions = Vec::new();
    for index in &walk.input.graph.order {
        let Some(node) = walk.nodes.get(index.0) else { continue };
        for (at, object) in node.objects.iter().enumerate() {
            let retry = match &object.progress {
                Progress::Applying => false,
                // Only what a write ran into goes away by writing again.
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

/// What to remove: objects of ours that nobody desires, once it is certain what is desired.
fn prune(walk: &Walk<'_>, answers: &BTreeMap<Text, Answers>, hooks: &[Hook]) -> DeletionPlan {
    let mut owned: Vec<OwnedObject> =
        unwanted(walk).into_iter().map(|(key, object)| owned_object(walk, key, object, answers)).collect();
    let kept = walk.input.instance.annotation(kross_api::annotations::DELETE_ATTEMPTS);
    let promised = promises(walk, &owned, kept);
    if owned.is_empty() && promised.is_empty() {
        return DeletionPlan::default();
    }
    owned.sort_by(|a, b| a.key.cmp(&b.key));
    let attempts = crate::report::attempts(walk.input.previous, &owned, walk);
    plan_deletion(Deletion {
        objects: &owned,
        hooks: Hooks::Planned(hooks),
        attempts: &attempts,
        kept,
        promised: &promised,
        told: true,
        now: walk.input.now,
    })
}

/// Which objects people were told are left behind, of those that may still be there and that nobody desires again.
fn promises(walk: &Walk<'_>, owned: &[OwnedObject], kept: Option<&str>) -> BTreeSet<Text> {
    let mut promised = promised(kept);
    if !promised.is_empty() {
        // What is in a cluster that does not answer may be known to nobody, as after a restart.
        let unseen = walk.clusters.iter().any(|used| used.closed().is_some());
        let known: BTreeSet<&str> = walk.own_objects().map(|(_, object)| object.uid()).collect();
        promised.retain(|uid| {
            owned.iter().any(|object| object.uid == *uid) || (unseen && !known.contains(uid.as_str()))
        });
    }
    promised
}

/// Objects of ours that nobody desires. None before it is certain what is desired, nor before everything is written: what
/// replaces an object comes before the object goes.
fn unwanted<'a>(walk: &Walk<'a>) -> Vec<(&'a ObjectKey, &'a ObservedObject)> {
    // What exists for the deletion may fail as it likes: how long it is waited for, the objects say.
    let is_applied = |(node, plan): (&Node, &NodePlan)| {
        plan.progress.is_applied() || (lifecycle::is_hook(node) && plan.progress != Progress::Applying)
    };
    let lives = walk.input.phase == LifecyclePhase::Active;
    if !lives || !walk.input.graph.nodes.iter().zip(&walk.nodes).all(is_applied) {
        return Vec::new();
    }
    let planned = || walk.nodes.iter().flat_map(|node| &node.objects);
    let desired: std::collections::HashSet<&ObjectKey> = planned().map(|object| &object.key).collect();
    let kept: std::collections::HashSet<&Text> = planned().filter_map(|object| object.uid.as_ref()).collect();
    let unwanted = walk.own_objects().filter(|(key, object)| {
        !desired.contains(key) && (object.uid().is_empty() || !kept.contains(&Text::from(object.uid())))
    });
    unwanted.collect()
}

/// Nodes that exist for the deletion, and that an object waits for that nobody desires.
fn awaited(walk: &Walk<'_>, scope: &Scope<'_>) -> BTreeSet<Text> {
    let graph = walk.input.graph;
    if !graph.nodes.iter().any(lifecycle::is_hook) {
        return BTreeSet::new();
    }
    let unwanted = unwanted(walk);
    if unwanted.is_empty() {
        return BTreeSet::new();
    }
    let answers = answers(walk, scope);
    let owned = unwanted.into_iter().map(|(key, object)| owned_object(walk, key, object, &answers));
    let leaving = owned.filter(|object| object.answers.policy == DeletePolicy::Delete);
    let awaited = leaving.flat_map(|object| object.answers.awaits);
    awaited
        .filter(|id| graph.find(id).is_some_and(|(_, node)| lifecycle::is_hook(node)))
        .map(Text::from)
        .collect()
}

fn owned_object(
    walk: &Walk<'_>,
    key: &ObjectKey,
    object: &ObservedObject,
    answers: &BTreeMap<Text, Answers>,
) -> OwnedObject {
    let mut owned = OwnedObject::new(key.clone(), object);
    if let Some(answers) = answers.get(&owned.node) {
        owned = owned.with_answers(answers.clone());
    }
    let recorded = &walk.input.observed.recorded;
    owned = owned.with_credentials_for(recorded);
    // Also where nothing is left over there: only the cluster itself can say so, and until then it must be asked.
    owned.held = recorded.iter().find(|recorded| owned.opens.contains(&recorded.id)).map(|recorded| {
        format!("is the way to cluster `{}`, and goes when nothing is left there", recorded.display).into()
    });
    owned.closed = walk.closed(&key.cluster);
    owned.failure = walk.input.observed.failures.get(key).cloned();
    // Nodes that left the graph go first, in their own order: nobody in the graph can need them.
    if walk.input.graph.find(&owned.node).is_none() && owned.answers.order.is_none() {
        owned.order = owned.order.saturating_add(1 << 32);
    }
    owned
}
