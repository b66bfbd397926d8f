//! Decides for each node which of the instance's objects may be pruned. A node that fails holds back only what it may still need:
//! its own objects, those that it reads, and those that it may still turn out to desire.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use kross_api::{ClusterId, LifecyclePhase, ObjectKey};
use kross_graph::{Node, NodeIndex, Scope};
use kross_value::Text;

use crate::deletion::{OwnedObject, PendingDeletion, Wait};
use crate::lifecycle::{self, EvaluatedLifecycle};
use crate::observed::{AccessObjects, ObservedObject};
use crate::plan::NodePlan;
use crate::planner::owned_object;
use crate::progress::{Progress, quoted};
use crate::walk::Walk;

use candidates::Unresolved;

mod candidates;
mod dependents;
mod renames;
mod successors;

/// The objects of the instance that are not desired.
#[derive(Default)]
pub(crate) struct Leftovers {
    /// May be pruned, in reverse order.
    pub(crate) free: Vec<OwnedObject>,
    /// Not desired any more, and why they must not be pruned yet.
    pub(crate) held: Vec<(OwnedObject, Hold)>,
    /// Of nodes whose desired objects are not known: they may be desired.
    pub(crate) undecided: Vec<OwnedObject>,
    /// The nodes that may replace objects of others, as `<id>/<id of the replacement>`. To be persisted.
    pub(crate) replacements: BTreeSet<(Text, Text)>,
}

/// Why an object that is not desired is not pruned yet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Hold {
    /// Until something else is applied or known.
    Until(Text),
    /// Until the objects that depend on it are deleted.
    Dependents,
}

impl Hold {
    /// What status says about it.
    pub(crate) fn wait(&self) -> Wait {
        match self {
            Self::Until(what) => Wait::Until(what.clone()),
            Self::Dependents => Wait::Dependents,
        }
    }
}

impl Leftovers {
    /// Those that are pruned now, or after others that are.
    pub(crate) fn decided(&self) -> Vec<&OwnedObject> {
        let later = self.held.iter().filter(|(_, hold)| *hold == Hold::Dependents);
        self.free.iter().chain(later.map(|(object, _)| object)).collect()
    }

    /// Decides anew without waiting for objects that are orphaned. Returns whether that may change anything.
    pub(crate) fn ignore_orphans(&mut self, walk: &Walk<'_>, orphaned: &[PendingDeletion]) -> bool {
        if orphaned.is_empty() {
            return false;
        }
        let (later, held): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.held).into_iter().partition(|(_, hold)| *hold == Hold::Dependents);
        let changes = !later.is_empty();
        self.held = held;
        self.free.extend(later.into_iter().map(|(object, _)| object));
        self.free.sort_by(|a, b| a.key.cmp(&b.key));
        dependents::hold_back(walk, self, orphaned);
        changes
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &OwnedObject> {
        self.free.iter().chain(self.held.iter().map(|(object, _)| object)).chain(&self.undecided)
    }
}

/// Finds the objects that are not desired, and decides which of them may be pruned.
///
/// # Guarantees
///
/// - An item that left a collection is free once the items of the collection are computed from live inputs.
/// - An object that was renamed, moved or excluded, or whose node was removed, is held until its successor, the nodes that read it
///   and the nodes in its cluster that are new are applied.
/// - An object is held while an unresolved node or item may turn out to be it, and while an object that may depend on it exists.
pub(crate) fn leftovers(
    walk: &Walk<'_>,
    scope: &Scope<'_>,
    lifecycles: &BTreeMap<Text, EvaluatedLifecycle>,
) -> Leftovers {
    let mut found = Leftovers::default();
    if walk.input.phase != LifecyclePhase::Active {
        return found;
    }
    let unwanted = unwanted(walk);
    if unwanted.is_empty() {
        return found;
    }
    let is_settled = is_settled(walk);
    found.replacements = successors::replacements(walk, &unwanted);
    let (replacements, unidentified) = (&found.replacements, candidates::unidentified(walk));
    let unresolved = candidates::unresolved(walk, scope);
    let secrets = AccessObjects::of(&walk.input.observed.recorded);
    let (mut free, mut held, mut undecided) = (Vec::new(), Vec::new(), Vec::new());
    for (key, object) in &unwanted {
        let owned = owned_object(walk, key, object, lifecycles, &secrets);
        let decision = Decision {
            walk,
            key,
            object,
            owned: &owned,
            unwanted: &unwanted,
            is_settled,
            replacements,
            unidentified: &unidentified,
            unresolved: &unresolved,
        };
        let verdict = decision.make();
        match verdict {
            Verdict::Free => free.push(owned),
            Verdict::Held(why) => held.push((owned, Hold::Until(why))),
            Verdict::Undecided => undecided.push(owned),
        }
    }
    free.sort_by(|a: &OwnedObject, b| a.key.cmp(&b.key));
    held.sort_by(|(a, _): &(OwnedObject, Hold), (b, _)| a.key.cmp(&b.key));
    found = Leftovers { free, held, undecided, ..found };
    dependents::hold_back(walk, &mut found, &[]);
    found
}

/// The objects of the instance that the plan does not have, by key and by UID.
fn unwanted<'a>(walk: &Walk<'a>) -> Vec<(&'a ObjectKey, &'a ObservedObject)> {
    let planned = || walk.nodes.iter().flat_map(|node| &node.objects);
    let desired: HashSet<&ObjectKey> = planned().map(|object| &object.key).collect();
    let kept: HashSet<&str> = planned().filter_map(|object| object.uid.as_deref()).collect();
    let unwanted = walk.own_objects().filter(|(key, object)| {
        !desired.contains(key) && (object.uid().is_empty() || !kept.contains(object.uid()))
    });
    unwanted.collect()
}

/// Whether all desired objects are known and applied. A failed deletion hook does not count: the objects that wait for it say for how
/// long.
pub(crate) fn is_settled(walk: &Walk<'_>) -> bool {
    let is_applied = |(node, plan): (&Node, &NodePlan)| {
        plan.progress.is_applied() || (lifecycle::is_hook(node) && plan.progress != Progress::Applying)
    };
    let active = walk.input.phase == LifecyclePhase::Active;
    active && walk.input.graph.nodes.iter().zip(&walk.nodes).all(is_applied)
}

/// Whether the desired objects of a node are known: then all others of it left it.
fn is_computed(node: &Node, plan: &NodePlan) -> bool {
    match plan.progress {
        Progress::Skipped(_) => true,
        // A collection without items.
        Progress::Ready if node.is_list() => true,
        _ => !plan.objects.is_empty(),
    }
}

/// Whether a node applies objects while the instance is active.
fn is_managed(node: &Node) -> bool {
    !node.is_external() && !lifecycle::is_hook(node)
}

/// What to do with an object that is not desired.
enum Verdict {
    Free,
    Held(Text),
    Undecided,
}

/// One object that is not desired, and what its fate depends on.
struct Decision<'d, 'a> {
    walk: &'d Walk<'a>,
    unresolved: &'d [Unresolved<'a>],
    key: &'d ObjectKey,
    object: &'d ObservedObject,
    owned: &'d OwnedObject,
    unwanted: &'d [(&'a ObjectKey, &'a ObservedObject)],
    is_settled: bool,
    replacements: &'d BTreeSet<(Text, Text)>,
    unidentified: &'d HashSet<&'d ClusterId>,
}

impl<'a> Decision<'_, 'a> {
    fn make(&self) -> Verdict {
        let own = self.node();
        if let Some((_, node, _)) = own.filter(|(_, node, _)| lifecycle::is_hook(node)) {
            return self.hook(node);
        }
        if own.is_some_and(|(_, node, plan)| !is_computed(node, plan)) {
            return Verdict::Undecided;
        }
        let held = match own {
            Some((_, node, plan)) if !plan.live => {
                Some(format!("the external references that `{}` reads are in sync", node.id).into())
            }
            _ => self.candidate().or_else(|| self.successor()),
        };
        held.map_or(Verdict::Free, Verdict::Held)
    }

    /// The object's node, if the graph still has it.
    fn node(&self) -> Option<(NodeIndex, &'a Node, &NodePlan)> {
        let (index, node) = self.walk.input.graph.find(&self.owned.node)?;
        Some((index, node, self.walk.nodes.get(index.0)?))
    }

    /// An object of a deletion hook is needed for as long as objects may wait for the hook.
    fn hook(&self, node: &Node) -> Verdict {
        let has_completed = self.walk.input.hook_record.is_completed_for(&node.id, self.object.uid());
        if self.is_settled || has_completed { Verdict::Free } else { Verdict::Undecided }
    }

    /// The nodes that apply objects while the instance is active, with their plans.
    fn managed(&self) -> impl Iterator<Item = (NodeIndex, &'a Node, &NodePlan)> {
        let nodes = self.walk.input.graph.nodes.iter().zip(&self.walk.nodes).enumerate();
        let managed = nodes.filter(|(_, (node, _))| is_managed(node));
        managed.map(|(at, (node, plan))| (NodeIndex(at), node, plan))
    }
}

/// Whether a node depends on another one, directly or through others.
fn depends(walk: &Walk<'_>, node: &Node, other: NodeIndex) -> bool {
    let mut open: Vec<NodeIndex> = node.dependencies.iter().map(|dependency| dependency.node).collect();
    let mut seen: BTreeSet<NodeIndex> = BTreeSet::new();
    while let Some(index) = open.pop() {
        if index == other {
            return true;
        }
        if let (true, Some(needed)) = (seen.insert(index), walk.input.graph.node(index)) {
            open.extend(needed.dependencies.iter().map(|dependency| dependency.node));
        }
    }
    false
}

/// `` `a` and `b` are applied ``.
fn applied(ids: &[&Text]) -> Text {
    let verb = if ids.len() == 1 { "is" } else { "are" };
    format!("{} {verb} applied", quoted(ids.iter().copied())).into()
}
