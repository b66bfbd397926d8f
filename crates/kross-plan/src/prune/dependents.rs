//! Reverse order over objects that cannot be pruned now: an object is held while another one exists that may depend on it, also one
//! that is not observed because its cluster is not connected.

use std::collections::{BTreeMap, BTreeSet};

use kross_api::{DeletePolicy, ManagedResource};
use kross_graph::Node;

use super::{Hold, Leftovers, depends};
use crate::deletion::{OwnedObject, PendingDeletion, contains, is_container};
use crate::observed::{InventoryCluster, KindKey};
use crate::walk::Walk;

/// Holds the free objects that an object may depend on that is not deleted now, unless it is orphaned.
pub(super) fn hold_back(walk: &Walk<'_>, found: &mut Leftovers, orphaned: &[PendingDeletion]) {
    let (graph, unseen) = (walk.input.graph, Unseen::of(walk));
    let is_stuck = |object: &OwnedObject| is_stuck(object) && !orphaned.iter().any(|it| it.key == object.key);
    for object in &mut found.free {
        // Those that it may depend on are held here.
        object.blocks = !is_stuck(object);
    }
    loop {
        // An object of a single node stays: a dependent that fails is no reason to wait.
        let is_item =
            |object: &&OwnedObject| graph.find(&object.node).is_some_and(|(_, node)| node.is_list());
        let held = found.held.iter().map(|(object, _)| object);
        let remaining = held
            .chain(found.undecided.iter().filter(is_item))
            .chain(found.free.iter().filter(|object| is_stuck(object)));
        let mut dependents = Dependents::of(walk, remaining);
        // A hook that has to run for another object gets a new object first.
        let awaited =
            found.all().flat_map(|object| object.lifecycle.awaits.iter().map(move |id| (id, &object.uid)));
        for (id, _) in awaited.filter(|(id, uid)| !walk.input.hook_record.is_completed_for(id, uid)) {
            dependents.hooks.remove(id.as_str());
        }
        let is_needed = |object: &OwnedObject| {
            let others = found.held.iter().map(|(other, _)| other).chain(&found.undecided);
            let mut others = others.chain(found.free.iter().filter(|other| is_stuck(other)));
            // A retained object stays: nothing loses it.
            let is_awaited = || unseen.may_depend_on(walk, object) || dependents.may_depend_on(walk, object);
            (!is_retained(object) && is_awaited())
                || (is_container(object) && others.any(|other| contains(object, other)))
        };
        let needed: Vec<bool> = found.free.iter().map(is_needed).collect();
        if !needed.contains(&true) {
            return;
        }
        let (held, free): (Vec<_>, Vec<_>) =
            std::mem::take(&mut found.free).into_iter().zip(needed).partition(|(_, needed)| *needed);
        found.free = free.into_iter().map(|(object, _)| object).collect();
        found.held.extend(held.into_iter().map(|(object, _)| (object, Hold::Dependents)));
    }
}

/// Whether an object cannot be deleted now. One that is retained only loses its labels.
fn is_stuck(object: &OwnedObject) -> bool {
    let is_held = object.held.is_some() || object.failure.is_some();
    !is_retained(object) && (is_held || object.unavailable.is_some() || object.terminating)
}

fn is_retained(object: &OwnedObject) -> bool {
    object.lifecycle.policy == DeletePolicy::Retain && !object.terminating
}

/// The nodes of objects that are not deleted now.
struct Dependents<'a> {
    nodes: BTreeMap<&'a str, Dependent<'a>>,
    /// The deletion hooks that ran for them. Their objects are deleted last.
    hooks: BTreeSet<&'a str>,
}

#[derive(Default)]
struct Dependent<'a> {
    /// The node, if the graph still has it.
    node: Option<&'a Node>,
    /// The highest of its objects.
    apply_order: i64,
    /// The same in the order of deletion, if the author gives one.
    order: Option<i64>,
}

impl<'a> Dependents<'a> {
    fn of(walk: &Walk<'a>, objects: impl Iterator<Item = &'a OwnedObject>) -> Self {
        let mut nodes: BTreeMap<&str, Dependent<'_>> = BTreeMap::new();
        let mut hooks = BTreeSet::new();
        for object in objects {
            // Nothing waits until a hook is deleted, or a retained object.
            if object.lifecycle.deletion || is_retained(object) {
                continue;
            }
            hooks.extend(object.lifecycle.awaits.iter().map(String::as_str));
            let dependent = nodes.entry(&object.node).or_default();
            dependent.node = walk.input.graph.find(&object.node).map(|(_, node)| node);
            dependent.apply_order = dependent.apply_order.max(object.apply_order);
            let order = object.lifecycle.order.map(|_| object.order);
            dependent.order = dependent.order.max(order);
        }
        Self { nodes, hooks }
    }

    /// Whether one of them must be deleted before an object.
    fn may_depend_on(&self, walk: &Walk<'_>, object: &OwnedObject) -> bool {
        let index = walk.input.graph.find(&object.node).map(|(index, _)| index);
        let is_explicit = object.lifecycle.order.is_some();
        let is_before = |(id, dependent): (&&str, &Dependent<'_>)| {
            if object.lifecycle.after.iter().any(|after| after == id) {
                return true;
            }
            if is_explicit || dependent.order.is_some() {
                return dependent.order.unwrap_or(dependent.apply_order) > object.order;
            }
            match (dependent.node, index) {
                (Some(node), Some(needed)) => depends(walk, node, needed),
                // What an object of a removed node depends on was created before it.
                _ => dependent.apply_order > object.apply_order,
            }
        };
        if object.lifecycle.deletion {
            return self.hooks.contains(object.node.as_str());
        }
        self.nodes.iter().any(is_before)
    }
}

/// The nodes that may have objects which are not observed: their cluster is not connected, or their kind is not listed.
struct Unseen<'a> {
    nodes: Vec<&'a Node>,
    /// The kinds that are not listed.
    kinds: Vec<&'a KindKey>,
    /// Whether there may be objects of which not even the node is known.
    unknown: bool,
}

impl<'a> Unseen<'a> {
    fn of(walk: &Walk<'a>) -> Self {
        let (graph, observed) = (walk.input.graph, walk.input.observed);
        let kinds = observed.unlisted.keys().collect();
        let mut unseen = Self { nodes: Vec::new(), kinds, unknown: false };
        for recorded in observed.recorded.iter().filter(|recorded| is_hidden(walk, recorded)) {
            unseen.add_reported(walk, recorded);
        }
        for (_, group, kind) in observed.unlisted.keys() {
            let of_kind =
                graph.nodes.iter().filter(|node| node.kind.group == *group && node.kind.kind == *kind);
            let before = unseen.nodes.len();
            unseen.nodes.extend(of_kind);
            unseen.unknown |= unseen.nodes.len() == before;
        }
        unseen
    }

    /// Adds what the last status reported in a cluster.
    fn add_reported(&mut self, walk: &Walk<'a>, recorded: &InventoryCluster) {
        let graph = walk.input.graph;
        let is_there = |entry: &&ManagedResource| {
            let is_summary =
                || graph.find(&entry.id).is_some_and(|(_, node)| node.is_list()) && entry.name.is_none();
            entry.cluster.as_deref() == Some(&*recorded.display) || is_summary()
        };
        let mut is_reported = false;
        for entry in walk.input.previous.iter().filter(is_there) {
            is_reported = true;
            match graph.find(&entry.id) {
                Some((_, node)) => self.nodes.push(node),
                None => self.unknown = true,
            }
        }
        self.unknown |= !is_reported;
    }

    fn may_depend_on(&self, walk: &Walk<'_>, object: &OwnedObject) -> bool {
        if self.unknown {
            return true;
        }
        let is_defined = |(cluster, group, kind): &&KindKey| {
            let defines =
                object.defines.as_ref().is_some_and(|defines| (&defines.0, &defines.1) == (group, kind));
            defines && *cluster == object.key.cluster
        };
        if self.kinds.iter().any(is_defined) {
            return true;
        }
        let order = |node: &Node| i64::try_from(node.apply_order).unwrap_or(i64::MAX);
        self.nodes.iter().any(|node| match walk.input.graph.find(&object.node) {
            Some((needed, _)) => depends(walk, node, needed),
            None => order(node) > object.apply_order,
        })
    }
}

/// Whether a cluster may have objects of the instance that were never observed.
pub(super) fn is_hidden(walk: &Walk<'_>, recorded: &InventoryCluster) -> bool {
    recorded.holds_objects && !recorded.listed && walk.unavailable(&recorded.id).is_some()
}
