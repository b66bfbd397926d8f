//! Limits how deeply nested the values are that an expression can build. With `cel.bind` a short expression can nest a
//! value many times, and values are compared, serialized and dropped recursively.

use super::super::node::{Node, Root};
use crate::Span;
use crate::error::{EvalError, Fault};
use crate::value::{List, Map, Value};

/// The largest number of levels that an expression may add to its inputs.
const MAX_LEVELS: usize = 400;

/// Rejects an expression that could nest its values too deeply.
pub(super) fn check(root: &Node, span: Span) -> Result<(), EvalError> {
    let mut locals = Vec::new();
    if levels(root, &mut locals) <= MAX_LEVELS {
        return Ok(());
    }
    let fault = Fault::invalid(format!("the expression nests values more than {MAX_LEVELS} levels deep"));
    Err(EvalError { fault, span })
}

/// An upper bound of the levels that a node adds to the values of its variables.
fn levels(node: &Node, locals: &mut Vec<usize>) -> usize {
    match node {
        Node::Constant(value) => value_levels(value),
        Node::Variable(..) | Node::Fail(_) => 0,
        Node::Local(number) | Node::Bound(number) => local(*number, locals),
        Node::Path(path) => match path.root {
            Root::Local(number) | Root::Bound(number) => local(number, locals),
            Root::Variable(..) => 0,
        },
        Node::Select(select) => 1 + levels(&select.operand, locals),
        Node::Index(index) => {
            // The index is no part of the value, but variables bound inside it may be used elsewhere.
            levels(&index.index, locals);
            1 + levels(&index.operand, locals)
        }
        Node::Not(unary) | Node::Negate(unary) => levels(&unary.operand, locals),
        Node::And(terms) | Node::Or(terms) | Node::Concat(terms) => max_levels(&terms.terms, locals),
        Node::Binary(binary) => levels(&binary.left, locals).max(levels(&binary.right, locals)),
        Node::Conditional(conditional) => levels(&conditional.condition, locals)
            .max(levels(&conditional.then, locals))
            .max(levels(&conditional.otherwise, locals)),
        Node::Call(call) => 1 + max_levels(&call.arguments, locals),
        Node::OrElse(or_else) => levels(&or_else.operand, locals).max(levels(&or_else.other, locals)),
        Node::List(list) => 1 + max_levels(list.items.iter().map(|(item, _)| item), locals),
        Node::Map(map) => 1 + max_levels(map.entries.iter().map(|entry| &entry.value), locals),
        Node::Loop(inner) => {
            let range = levels(&inner.range, locals);
            set(inner.variable, range, locals);
            inner.second.into_iter().for_each(|second| set(second, range, locals));
            let body = levels(&inner.body, locals);
            let filter = inner.filter.as_ref().map_or(0, |filter| levels(filter, locals));
            1 + range.max(body).max(filter)
        }
        Node::Bind(bind) => {
            let value = levels(&bind.value, locals);
            set(bind.variable, value, locals);
            levels(&bind.body, locals).max(value)
        }
        Node::OptionalMap(map) => {
            let operand = levels(&map.operand, locals);
            set(map.variable, operand, locals);
            1 + levels(&map.body, locals).max(operand)
        }
    }
}

/// The levels of a folded constant, which are at most those of the original expression.
fn value_levels(value: &Value) -> usize {
    match value {
        Value::List(List::Built(items)) => 1 + items.iter().map(value_levels).max().unwrap_or(0),
        Value::Map(Map::Built(map)) => {
            1 + map.entries().iter().map(|(_, value)| value_levels(value)).max().unwrap_or(0)
        }
        Value::Optional(Some(inner)) => 1 + value_levels(inner),
        _ => 0,
    }
}

fn local(number: u32, locals: &[usize]) -> usize {
    locals.get(number as usize).copied().unwrap_or(0)
}

fn set(number: u32, levels: usize, locals: &mut Vec<usize>) {
    let at = number as usize;
    if locals.len() <= at {
        locals.resize(at + 1, 0);
    }
    if let Some(known) = locals.get_mut(at) {
        *known = levels;
    }
}

fn max_levels<'a>(nodes: impl IntoIterator<Item = &'a Node>, locals: &mut Vec<usize>) -> usize {
    nodes.into_iter().map(|node| levels(node, locals)).max().unwrap_or(0)
}
