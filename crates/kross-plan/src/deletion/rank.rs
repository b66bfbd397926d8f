//! The order of deletion: the reverse order of the graph or the author's numbers, adjusted so that an object comes after those it
//! waits for. Since each object gets one rank, cycles cannot deadlock.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::OwnedObject;

/// The highest is deleted first: hooks last, then by order, then by the number of objects that it waits for in a chain.
pub(super) type Rank = (bool, i64, Reverse<usize>);

/// The rank of each object.
pub(super) fn ranks(objects: &[OwnedObject]) -> Vec<Rank> {
    let mut by_node: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, object) in objects.iter().enumerate().filter(|(_, object)| !object.node.is_empty()) {
        by_node.entry(&object.node).or_default().push(at);
    }
    let mut ranking =
        Ranking { objects, by_node, known: vec![None; objects.len()], open: vec![false; objects.len()] };
    (0..objects.len()).map(|at| ranking.of(at)).collect()
}

struct Ranking<'a> {
    objects: &'a [OwnedObject],
    by_node: HashMap<&'a str, Vec<usize>>,
    known: Vec<Option<Rank>>,
    /// The objects whose rank is being computed. Lifecycles in annotations may form a cycle, which is cut here.
    open: Vec<bool>,
}

impl Ranking<'_> {
    fn of(&mut self, at: usize) -> Rank {
        if let Some(Some(rank)) = self.known.get(at) {
            return *rank;
        }
        let Some(object) = self.objects.get(at) else {
            return Rank::default();
        };
        let mut rank = (!object.lifecycle.deletion, object.order, Reverse(0));
        if let Some(open) = self.open.get_mut(at) {
            *open = true;
        }
        for other in self.before(at, object) {
            if self.open.get(other).copied().unwrap_or(true) {
                continue;
            }
            let (active, order, Reverse(steps)) = self.of(other);
            rank = rank.min((active && rank.0, order, Reverse(steps + 1)));
        }
        if let Some(open) = self.open.get_mut(at) {
            *open = false;
        }
        if let Some(known) = self.known.get_mut(at) {
            *known = Some(rank);
        }
        rank
    }

    /// The objects that must be deleted before this one.
    fn before(&self, at: usize, object: &OwnedObject) -> Vec<usize> {
        let waits_for =
            object.lifecycle.after.iter().filter_map(|id| self.by_node.get(id.as_str())).flatten().copied();
        // A hook must be ready before, not deleted.
        let is_no_hook =
            |other: &usize| self.objects.get(*other).is_some_and(|other| !other.lifecycle.deletion);
        let mut before: Vec<usize> = waits_for.filter(is_no_hook).collect();
        if is_container(object) {
            let others = self.objects.iter().enumerate().filter(|(other, _)| *other != at);
            before.extend(others.filter(|(_, other)| contains(object, other)).map(|(other, _)| other));
        }
        if !object.credentials_for.is_empty() {
            let depends = |other: &OwnedObject| object.credentials_for.contains(&other.key.cluster);
            let others = self.objects.iter().enumerate().filter(|(_, other)| depends(other));
            before.extend(others.map(|(other, _)| other));
        }
        before
    }
}

/// Whether an object is a namespace or a CustomResourceDefinition.
pub(crate) fn is_container(object: &OwnedObject) -> bool {
    (object.key.group.is_empty() && object.key.kind == *"Namespace") || object.defines.is_some()
}

/// Whether `outer` is the namespace of `inner`, or defines its kind.
pub(crate) fn contains(outer: &OwnedObject, inner: &OwnedObject) -> bool {
    if outer.key.cluster != inner.key.cluster {
        return false;
    }
    match &outer.defines {
        Some((group, kind)) => inner.key.group == *group && inner.key.kind == *kind,
        None => inner.key.namespace.as_ref() == Some(&outer.key.name),
    }
}
