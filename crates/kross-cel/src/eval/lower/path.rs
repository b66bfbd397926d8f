//! Merges chains of fields and constant indexes into paths, which are walked without cloning intermediate values.

use super::super::node::{self, Node, Path, PathStep, StepKey};
use super::{Lowering, root_of};
use crate::ast::{Access, Expr};
use crate::types::Type;
use crate::value::Value;

impl Lowering<'_> {
    /// Appends a step to `node`. `operand` and `expr` are the parsed nodes before and after the step.
    pub(super) fn extend(&self, node: Node, operand: &Expr, expr: &Expr, key: StepKey) -> Node {
        let step = PathStep { key, span: expr.span };
        let leaf_type = convertible(self.checked.type_of(expr.id));
        if let Some(root) = root_of(&node) {
            let root_type = convertible(self.checked.type_of(operand.id));
            return Node::Path(Box::new(Path { root, steps: vec![step], root_type, leaf_type }));
        }
        match node {
            Node::Path(mut path) => {
                path.steps.push(step);
                path.leaf_type = leaf_type;
                Node::Path(path)
            }
            operand => single(operand, step),
        }
    }
}

/// A step from a node that is not a variable.
fn single(operand: Node, step: PathStep) -> Node {
    let PathStep { key, span } = step;
    let index = match key {
        StepKey::Field(field) => {
            return Node::Select(Box::new(node::Select { operand, field, access: Access::Plain, span }));
        }
        StepKey::Key(key) => Value::String(key.text().clone()),
        StepKey::Position(position) => Value::Int(position),
    };
    Node::Index(Box::new(node::Index { operand, index: Node::Constant(index), optional: false, span }))
}

/// The type, if raw JSON has to be converted to it.
fn convertible(found: &Type) -> Option<Type> {
    found.needs_conversion().then(|| found.clone())
}
