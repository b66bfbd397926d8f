//! `plan`: the graph, an instance and what was observed in; what to write, read, remove and report out.

use std::cell::RefCell;
use std::collections::BTreeMap;

use jiff::Timestamp;
use kross_api::{LifecyclePhase, ManagedResource, ObjectKey, Operation};
use kross_cel::Budget;
use kross_cel::value::Value as CelValue;
use kross_graph::{Graph, NodeIndex, Scope};
use kross_value::{Text, Value};

use crate::deletion::{Deletion, DeletionPlan, DoomedObject, plan_deletion};
use crate::instance::Instance;
use crate::inventory::inventory;
use crate::lifecycle::Answers;
use crate::observed::{Observed, ObservedObject};
use crate::order;
use crate::plan::{ApplyAction, Plan};
use crate::progress::{Progress, Trouble};
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
    let input = Input { graph, instance, observed, settings, now, phase, previous };
    let budget = RefCell::new(Budget::new(settings.budget));
    let mut tracked = {
        let mut scope = Scope::new(&budget);
        let schema = instance.schema(graph.instance.external);
        scope.set("schema", CelValue::from_data(&schema, Some(&graph.schema_type)));
        TrackedSet::from_facts(&input, &scope)
    };
    let (mut walk, mut scope) = Walk::run(input, tracked.clone(), &budget);
    // Whoever reads the tracked status sees what this plan makes of it, not what the one before did.
    for _ in 0..if tracked::is_read(graph) { ROUNDS } else { 0 } {
        let found = TrackedSet::from_walk(&walk);
        if found == tracked {
            break;
        }
        tracked = found;
        (walk, scope) = Walk::run(input, tracked.clone(), &budget);
    }
    order::mark_conflicts(&mut walk);
    order::hold(&mut walk);
    finish(walk, &scope, &tracked)
}

fn finish(walk: Walk<'_>, scope: &Scope<'_>, tracked: &TrackedSet) -> Plan {
    let answers = answers(&walk, scope);
    let prune = prune(&walk, &answers);
    let inventory = inventory(&walk);
    let apply = apply(&walk);
    let Report { state, conditions, message, resources, status } = report(&walk, &prune, scope);
    let recheck = recheck_at(walk.input.graph, tracked, walk.input.now);
    let recheck_at = [recheck, prune.recheck_at].into_iter().flatten().min();
    let applysets = inventory.keys().map(|id| (id.clone(), walk.ownership.applyset(id).clone())).collect();
    let Walk { nodes, clusters, mut reads, .. } = walk;
    reads.sort();
    reads.dedup();
    Plan {
        nodes,
        apply,
        prune,
        reads,
        clusters,
        inventory,
        applysets,
        state,
        conditions,
        message,
        resources,
        status,
        answers,
        recheck_at,
    }
}

/// How the objects of each node go, as far as there are any.
fn answers(walk: &Walk<'_>, scope: &Scope<'_>) -> BTreeMap<Text, Answers> {
    let there = walk.input.graph.nodes.iter().filter(|node| !walk.objects_of(&node.id).is_empty());
    there.map(|node| (node.id.clone(), walk.answers(node, scope))).collect()
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
                Progress::Failed(Trouble { operation: Some(operation), .. }) if object.differs => {
                    if *operation == Operation::Connect {
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
fn prune(walk: &Walk<'_>, answers: &BTreeMap<Text, Answers>) -> DeletionPlan {
    // Nor before everything is written: what replaces an object comes before the object goes.
    let stands = |progress: &Progress| {
        matches!(progress, Progress::Ready | Progress::Skipped(_) | Progress::Waiting(_))
    };
    let lives = walk.input.phase == LifecyclePhase::Active;
    if !lives || !walk.nodes.iter().all(|node| stands(&node.progress)) {
        return DeletionPlan::default();
    }
    let planned = || walk.nodes.iter().flat_map(|node| &node.objects);
    let desired: std::collections::HashSet<&ObjectKey> = planned().map(|object| &object.key).collect();
    let kept: std::collections::HashSet<&Text> = planned().filter_map(|object| object.uid.as_ref()).collect();
    let unwanted = walk.own_objects().filter(|(key, object)| {
        !desired.contains(key) && (object.uid().is_empty() || !kept.contains(&Text::from(object.uid())))
    });
    let mut doomed: Vec<DoomedObject> =
        unwanted.map(|(key, object)| doomed(walk, key, object, answers)).collect();
    doomed.sort_by(|a, b| a.key.cmp(&b.key));
    let attempts = crate::report::attempts(walk.input.previous, &doomed, walk);
    plan_deletion(Deletion {
        objects: &doomed,
        unready: &BTreeMap::new(),
        attempts: &attempts,
        now: walk.input.now,
    })
}

fn doomed(
    walk: &Walk<'_>,
    key: &ObjectKey,
    object: &ObservedObject,
    answers: &BTreeMap<Text, Answers>,
) -> DoomedObject {
    let mut doomed = DoomedObject::new(key.clone(), object);
    if let Some(answers) = answers.get(&doomed.node) {
        doomed = doomed.with_answers(answers.clone());
    }
    let used = walk.clusters.iter().find(|used| used.id == key.cluster);
    let closed = used.and_then(crate::UsedCluster::closed);
    doomed.closed = closed.as_ref().and_then(Progress::trouble).cloned();
    doomed.failure = walk.input.observed.failures.get(key).cloned();
    // Nodes that left the graph go first, in their own order: nobody in the graph can need them.
    if walk.input.graph.find(&doomed.node).is_none() && doomed.answers.order.is_none() {
        doomed.order = doomed.order.saturating_add(1 << 32);
    }
    doomed
}
