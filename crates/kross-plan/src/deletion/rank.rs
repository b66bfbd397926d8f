//! The order in which objects go: the graph's reverse order or the author's numbers, bent so that whatever waits for
//! another object comes after it. One number per object leaves no room for circles.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::OwnedObject;

/// The higher goes first: what exists for the deletion last, then the order, then the longer way to what it waits for.
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
    /// Objects on the way to the one at hand. Kept answers are not checked for circles, so one is simply cut.
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
        let mut rank = (!object.answers.deletion, object.order, Reverse(0));
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

    /// What must be gone before the object goes.
    fn before(&self, at: usize, object: &OwnedObject) -> Vec<usize> {
        let waits_for =
            object.answers.after.iter().filter_map(|id| self.by_node.get(id.as_str())).flatten().copied();
        // What exists for the deletion is waited for until it is ready, not until it is gone.
        let gone = |other: &usize| self.objects.get(*other).is_some_and(|other| !other.answers.deletion);
        let mut before: Vec<usize> = waits_for.filter(gone).collect();
        if is_container(object) {
            let others = self.objects.iter().enumerate().filter(|(other, _)| *other != at);
            before.extend(others.filter(|(_, other)| contains(object, other)).map(|(other, _)| other));
        }
        if !object.opens.is_empty() {
            let behind = |other: &OwnedObject| object.opens.contains(&other.key.cluster);
            let others = self.objects.iter().enumerate().filter(|(_, other)| behind(other));
            before.extend(others.map(|(other, _)| other));
        }
        before
    }
}

/// Whether an object is a namespace or the definition of a kind.
pub(super) fn is_container(object: &OwnedObject) -> bool {
    (object.key.group.is_empty() && object.key.kind == *"Namespace") || object.defines.is_some()
}

/// Whether an object is in the namespace, or of the kind, that another one is.
pub(super) fn contains(outer: &OwnedObject, inner: &OwnedObject) -> bool {
    if outer.key.cluster != inner.key.cluster {
        return false;
    }
    match &outer.defines {
        Some((group, kind)) => inner.key.group == *group && inner.key.kind == *kind,
        None => inner.key.namespace.as_ref() == Some(&outer.key.name),
    }
}
