//! Sorts nodes by their dependencies: a stable topological order, layers, or the path of a cycle.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

/// The dependencies of each node, by index.
pub(crate) type Edges = Vec<BTreeSet<usize>>;

/// A topological order: every node comes after its dependencies. Among nodes that are ready the one listed first comes
/// first, so the author's order is kept if it is a valid one.
///
/// # Errors
/// The nodes of a cycle, each depending on the next, beginning with the one listed first.
pub(crate) fn topological(edges: &Edges) -> Result<Vec<usize>, Vec<usize>> {
    let mut missing: Vec<usize> = edges.iter().map(BTreeSet::len).collect();
    let mut needed_by: Vec<Vec<usize>> = vec![Vec::new(); edges.len()];
    for (node, needs) in edges.iter().enumerate() {
        for need in needs {
            if let Some(list) = needed_by.get_mut(*need) {
                list.push(node);
            }
        }
    }
    let free = missing.iter().enumerate().filter(|(_, count)| **count == 0).map(|(node, _)| Reverse(node));
    let mut free: BinaryHeap<Reverse<usize>> = free.collect();
    let mut order = Vec::with_capacity(edges.len());
    while let Some(Reverse(node)) = free.pop() {
        order.push(node);
        for dependent in needed_by.get(node).into_iter().flatten() {
            if let Some(count) = missing.get_mut(*dependent) {
                *count -= 1;
                if *count == 0 {
                    free.push(Reverse(*dependent));
                }
            }
        }
    }
    if order.len() == edges.len() { Ok(order) } else { Err(cycle(edges, &order)) }
}

/// A cycle among the nodes that could not be ordered.
fn cycle(edges: &Edges, ordered: &[usize]) -> Vec<usize> {
    let ordered: BTreeSet<usize> = ordered.iter().copied().collect();
    let is_unordered = |node: &usize| !ordered.contains(node);
    // Every unordered node depends on another unordered node, so following them ends in a cycle.
    let mut path: Vec<usize> = Vec::new();
    let mut next = (0..edges.len()).find(|node| is_unordered(node));
    while let Some(node) = next {
        if let Some(start) = path.iter().position(|seen| *seen == node) {
            let mut cycle = path.split_off(start);
            let first = cycle.iter().enumerate().min_by_key(|(_, node)| **node).map_or(0, |(at, _)| at);
            cycle.rotate_left(first);
            return cycle;
        }
        path.push(node);
        next = edges.get(node).and_then(|needs| needs.iter().copied().find(|need| is_unordered(need)));
    }
    path
}

/// The layer of each node counted from the leaves (nodes without dependents): 0 for a leaf, one more than the highest
/// of its dependents otherwise. kro's `apply-order` is the number of layers less this.
pub(crate) fn layers_from_leaves(edges: &Edges, order: &[usize]) -> Vec<usize> {
    let mut layer = vec![0; edges.len()];
    for node in order.iter().rev() {
        let above = layer.get(*node).copied().unwrap_or(0) + 1;
        for need in edges.get(*node).into_iter().flatten() {
            if let Some(below) = layer.get_mut(*need) {
                *below = above.max(*below);
            }
        }
    }
    layer
}

/// The layer of each node counted from the roots: 0 for a node without dependencies. Nodes of a layer can be
/// applied concurrently.
pub(crate) fn layers_from_roots(edges: &Edges, order: &[usize]) -> Vec<usize> {
    let mut layer = vec![0; edges.len()];
    for node in order {
        let above = edges.get(*node).into_iter().flatten().filter_map(|need| layer.get(*need)).max();
        let here = above.map_or(0, |above| above + 1);
        if let Some(slot) = layer.get_mut(*node) {
            *slot = here;
        }
    }
    layer
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn edges(list: &[&[usize]]) -> Edges {
        list.iter().map(|needs| needs.iter().copied().collect()).collect()
    }

    #[test]
    fn a_valid_order_of_the_author_is_kept() {
        assert_eq!(topological(&edges(&[&[], &[0], &[], &[2]])), Ok(vec![0, 1, 2, 3]));
    }

    #[test]
    fn a_node_comes_after_a_dependency_that_is_listed_later() {
        assert_eq!(topological(&edges(&[&[2], &[], &[]])), Ok(vec![1, 2, 0]));
    }

    #[test]
    fn a_cycle_is_reported_as_a_path_from_its_first_node() {
        assert_eq!(topological(&edges(&[&[], &[3, 0], &[1], &[2], &[1]])), Err(vec![1, 3, 2]));
    }

    #[test]
    fn layers_count_from_both_ends() {
        let chain = edges(&[&[], &[0], &[1], &[]]);
        let order = topological(&chain).unwrap();
        assert_eq!(layers_from_leaves(&chain, &order), [2, 1, 0, 0]);
        assert_eq!(layers_from_roots(&chain, &order), [0, 1, 2, 0]);
    }

    proptest! {
        #[test]
        fn every_order_respects_every_edge(needs in proptest::collection::vec(proptest::collection::btree_set(0_usize..12, 0..4), 12)) {
            // Only edges to earlier nodes: always acyclic.
            let edges: Edges = needs.into_iter().enumerate().map(|(node, needs)| needs.into_iter().filter(|need| *need < node).collect()).collect();
            let order = topological(&edges).unwrap();
            let place = |node: usize| order.iter().position(|other| *other == node).unwrap();
            for (node, needs) in edges.iter().enumerate() {
                for need in needs {
                    prop_assert!(place(*need) < place(node));
                }
            }
        }

        #[test]
        fn nodes_that_cannot_be_ordered_have_a_cycle(needs in proptest::collection::vec(proptest::collection::btree_set(0_usize..8, 0..4), 8)) {
            let edges: Edges = needs;
            if let Err(cycle) = topological(&edges) {
                prop_assert!(!cycle.is_empty());
                for (at, node) in cycle.iter().enumerate() {
                    let next = cycle[(at + 1) % cycle.len()];
                    prop_assert!(edges[*node].contains(&next));
                }
            }
        }
    }
}
