//! Folds constants. What fails or costs too much is left to the evaluation, which reports it with its position.

use super::super::Budget;
use super::super::machine::Machine;
use super::super::node::Node;

/// The cost limit of folding one node: enough for usual expressions, too little to make compilation slow.
const UNITS: u64 = 1_000;

/// The value of a constant node, or the node itself.
pub(super) fn fold(node: Node) -> Node {
    if !is_constant(&node) {
        return node;
    }
    // Fold in strict mode: what fails only in strict mode is left to the evaluation, which knows its mode.
    let computed = Machine::new(&[], 0, &[], &mut Budget::new(UNITS)).strict(true).run(&node);
    match computed {
        Ok(value) => Node::Constant(value),
        Err(_) => node,
    }
}

/// Whether all operands are constants; they were folded before.
fn is_constant(node: &Node) -> bool {
    match node {
        Node::Not(unary) | Node::Negate(unary) => known(&unary.operand),
        Node::And(terms) | Node::Or(terms) | Node::Concat(terms) => terms.terms.iter().all(known),
        Node::Binary(binary) => known(&binary.left) && known(&binary.right),
        Node::Conditional(conditional) => {
            known(&conditional.condition) && known(&conditional.then) && known(&conditional.otherwise)
        }
        Node::Select(select) => known(&select.operand),
        Node::Index(index) => known(&index.operand) && known(&index.index),
        Node::Call(call) => call.arguments.iter().all(known),
        Node::OrElse(or_else) => known(&or_else.operand) && known(&or_else.other),
        Node::List(list) => list.items.iter().all(|(item, _)| known(item)),
        Node::Map(map) => map.entries.iter().all(|entry| known(&entry.key) && known(&entry.value)),
        _ => false,
    }
}

fn known(node: &Node) -> bool {
    matches!(node, Node::Constant(_))
}
