//! Lowers calls: the possible overloads, and the few functions that are nodes of their own.

use super::super::node::{self, Node};
use super::super::shape::Resolved;
use super::{Lowered, Lowering};
use crate::ast::{Expr, Name};
use crate::checked::Reference;
use crate::error::EvalError;

impl Lowering<'_> {
    pub(super) fn call(
        &mut self,
        expr: &Expr,
        function: &Name,
        receiver: Option<&Expr>,
        arguments: &[Expr],
    ) -> Lowered {
        let (overloads, namespaced) = self.overloads(expr);
        let receiver = receiver.filter(|_| !namespaced);
        let mut lowered = receiver
            .into_iter()
            .chain(arguments)
            .map(|argument| self.lower(argument))
            .collect::<Result<Vec<Node>, EvalError>>()?;
        let span = expr.span;
        match (function.text.as_str(), lowered.len(), receiver) {
            // `dyn` matters only to the checker.
            ("dyn", 1, None) => return Ok(lowered.remove(0)),
            (name @ ("or" | "orValue"), 2, Some(_)) => {
                let (other, operand) = (lowered.remove(1), lowered.remove(0));
                let value = name == "orValue";
                return Ok(Node::OrElse(Box::new(node::OrElse { operand, other, value, span })));
            }
            _ => {}
        }
        let call = node::Call { function: function.text.clone(), overloads, arguments: lowered, span };
        Ok(Node::Call(Box::new(call)))
    }

    /// The overloads that the checker resolved, in its order.
    fn overloads(&self, expr: &Expr) -> (Vec<Resolved>, bool) {
        let Reference::Function { overloads, namespaced } = self.checked.reference(expr.id) else {
            return (Vec::new(), false);
        };
        let functions = &self.checked.functions;
        let resolved =
            overloads.as_slice().iter().filter_map(|id| functions.overload(*id)).map(Resolved::new);
        (resolved.collect(), *namespaced)
    }
}
