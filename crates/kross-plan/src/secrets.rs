//! Which nodes hold data of a Secret: Secrets themselves, and every node that depends on one, directly or through others.

use std::collections::HashSet;

use kross_graph::{Graph, Node, NodeIndex, Scope};

/// Keeps the keys of Secrets, and of everything that is computed from them, out of the errors of expressions.
pub(crate) fn hide_keys(graph: &Graph, scope: &mut Scope<'_>) {
    let mut secret: HashSet<NodeIndex> = HashSet::new();
    for index in &graph.order {
        let Some(node) = graph.node(*index) else { continue };
        let inherited = node.dependencies.iter().any(|dependency| secret.contains(&dependency.node));
        if inherited || is_secret(node) {
            secret.insert(*index);
            scope.hide_keys(node.id.clone());
        }
    }
}

fn is_secret(node: &Node) -> bool {
    node.kind.group.is_empty() && node.kind.kind == *"Secret"
}
