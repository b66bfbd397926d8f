//! Lowers the checked tree to the evaluated one: names become positions, chains of fields become paths, chains of `&&`
//! and of string concatenations become one node, and constants are folded.

mod call;
mod depth;
mod fold;
mod path;

use kross_value::{Key, Text};

use super::Program;
use super::node::{self, Node, Root};
use crate::Span;
use crate::ast::{Access, BinaryOperator, Comprehension, Expr, Literal, Name, Node as Parsed, UnaryOperator};
use crate::checked::{Checked, Reference};
use crate::error::{EvalError, Fault};
use crate::types::Type;
use crate::value::Value;

/// Parsed trees are at most 250 levels deep; this leaves room for trees from elsewhere.
const MAX_DEPTH: usize = 500;

/// Lowers an expression.
pub(super) fn lower(checked: &Checked) -> Result<Program, EvalError> {
    let mut lowering = Lowering { checked, variables: Vec::new(), scope: Vec::new(), locals: 0, depth: 0 };
    let root = lowering.lower(&checked.ast.root)?;
    depth::check(&root, checked.ast.root.span)?;
    Ok(Program {
        root,
        variables: lowering.variables,
        locals: lowering.locals as usize,
        result: checked.result().clone(),
        strict: false,
    })
}

struct Lowering<'a> {
    checked: &'a Checked,
    variables: Vec<Text>,
    /// The variables of the enclosing macros, outermost first.
    scope: Vec<Local>,
    /// The number of macro variables. Each has its own slot, because `cel.bind` evaluates its value lazily.
    locals: u32,
    depth: usize,
}

/// The slot of a macro variable.
#[derive(Clone, Copy)]
enum Local {
    /// Set before it is read.
    Plain(u32),
    /// Evaluated when it is first read.
    Bound(u32),
}

type Lowered = Result<Node, EvalError>;

impl Lowering<'_> {
    fn lower(&mut self, expr: &Expr) -> Lowered {
        if self.depth >= MAX_DEPTH {
            let fault = Fault::invalid(format!("the expression is nested more than {MAX_DEPTH} levels deep"));
            return Err(EvalError { fault, span: expr.span });
        }
        self.depth += 1;
        let lowered = self.lower_node(expr);
        self.depth -= 1;
        lowered.map(fold::fold)
    }

    fn lower_node(&mut self, expr: &Expr) -> Lowered {
        match self.checked.reference(expr.id) {
            Reference::Variable(name) => return Ok(self.variable(name, expr.span)),
            Reference::Local(number) => {
                return Ok(match self.scope.get(*number as usize) {
                    Some(Local::Plain(slot)) => Node::Local(*slot),
                    Some(Local::Bound(slot)) => Node::Bound(*slot),
                    None => fail("this variable is not in scope", expr.span),
                });
            }
            Reference::Type(name) if !matches!(expr.node, Parsed::Struct { .. }) => {
                return Ok(Node::Constant(Value::Type(name.clone())));
            }
            _ => {}
        }
        let span = expr.span;
        match &expr.node {
            Parsed::Literal(literal) => Ok(Node::Constant(constant(literal))),
            Parsed::Ident { name, .. } => Ok(self.variable(name, span)),
            Parsed::Select { operand, field, access } => self.select(expr, operand, field, *access),
            Parsed::Index { operand, index, optional } => self.index(expr, operand, index, *optional),
            Parsed::Unary { operator, operand } => {
                let unary = Box::new(node::Unary { operand: self.lower(operand)?, span });
                Ok(match operator {
                    UnaryOperator::Not => Node::Not(unary),
                    UnaryOperator::Negate => Node::Negate(unary),
                })
            }
            Parsed::Binary { operator, left, right, .. } => self.binary(expr, *operator, left, right),
            Parsed::Conditional { condition, then, otherwise } => {
                Ok(Node::Conditional(Box::new(node::Conditional {
                    condition: self.lower(condition)?,
                    then: self.lower(then)?,
                    otherwise: self.lower(otherwise)?,
                    span: condition.span,
                })))
            }
            Parsed::Call { function, receiver, arguments } => {
                self.call(expr, function, receiver.as_deref(), arguments)
            }
            Parsed::List { .. } | Parsed::Map { .. } | Parsed::Struct { .. } => self.collection(expr),
            Parsed::Comprehension(comprehension) => self.comprehension(comprehension, span),
            Parsed::Bind { value, body, .. } => {
                let value = self.lower(value)?;
                let (variable, body) = self.within(1, Local::Bound, |lowering| lowering.lower(body))?;
                Ok(Node::Bind(Box::new(node::Bind { variable, value, body })))
            }
            Parsed::OptionalMap { operand, body, flat, .. } => {
                let operand = self.lower(operand)?;
                let (variable, body) = self.within(1, Local::Plain, |lowering| lowering.lower(body))?;
                let map = node::OptionalMap { operand, variable, body, flat: *flat, span };
                Ok(Node::OptionalMap(Box::new(map)))
            }
            Parsed::Error => Ok(fail("this part of the expression is invalid", span)),
        }
    }

    /// Lowers code in the scope of additional variables; also returns the slot of the first one.
    fn within<T>(
        &mut self,
        variables: u32,
        kind: fn(u32) -> Local,
        lower: impl FnOnce(&mut Self) -> Result<T, EvalError>,
    ) -> Result<(u32, T), EvalError> {
        let (first, before) = (self.locals, self.scope.len());
        self.locals += variables;
        self.scope.extend((first..self.locals).map(kind));
        let lowered = lower(self);
        self.scope.truncate(before);
        Ok((first, lowered?))
    }

    fn variable(&mut self, name: &Text, span: Span) -> Node {
        let slot = self.variables.iter().position(|known| known == name).unwrap_or_else(|| {
            self.variables.push(name.clone());
            self.variables.len() - 1
        });
        Node::Variable(u32::try_from(slot).unwrap_or(u32::MAX), span)
    }

    fn binary(&mut self, expr: &Expr, operator: BinaryOperator, left: &Expr, right: &Expr) -> Lowered {
        let is_text = operator == BinaryOperator::Add && *self.checked.type_of(expr.id) == Type::String;
        let (left, right) = (self.lower(left)?, self.lower(right)?);
        let span = expr.span;
        Ok(match operator {
            BinaryOperator::And => Node::And(chain(left, right, span, |node| match node {
                Node::And(terms) => Ok(terms),
                other => Err(other),
            })),
            BinaryOperator::Or => Node::Or(chain(left, right, span, |node| match node {
                Node::Or(terms) => Ok(terms),
                other => Err(other),
            })),
            BinaryOperator::Add if is_text => Node::Concat(chain(left, right, span, |node| match node {
                Node::Concat(terms) => Ok(terms),
                other => Err(other),
            })),
            _ => Node::Binary(Box::new(node::Binary { operator, left, right, span })),
        })
    }

    fn collection(&mut self, expr: &Expr) -> Lowered {
        match &expr.node {
            Parsed::List { items } => {
                let items = items
                    .iter()
                    .map(|item| Ok((self.lower(&item.value)?, item.optional)))
                    .collect::<Result<_, EvalError>>()?;
                Ok(Node::List(Box::new(node::List { items, span: expr.span })))
            }
            Parsed::Map { entries } => {
                let entries = entries
                    .iter()
                    .map(|entry| {
                        let (key, value) = (self.lower(&entry.key)?, self.lower(&entry.value)?);
                        Ok(node::Entry { key, value, optional: entry.optional, span: entry.value.span })
                    })
                    .collect::<Result<_, EvalError>>()?;
                Ok(Node::Map(Box::new(node::Map { entries, span: expr.span })))
            }
            Parsed::Struct { fields, .. } => {
                let entries = fields
                    .iter()
                    .map(|field| {
                        let key = Node::Constant(Value::String(field.name.text.clone()));
                        let value = self.lower(&field.value)?;
                        Ok(node::Entry { key, value, optional: field.optional, span: field.value.span })
                    })
                    .collect::<Result<_, EvalError>>()?;
                Ok(Node::Map(Box::new(node::Map { entries, span: expr.span })))
            }
            _ => Ok(fail("not a list or a map", expr.span)),
        }
    }

    fn comprehension(&mut self, comprehension: &Comprehension, span: Span) -> Lowered {
        let Comprehension { kind, range, second, filter, body, .. } = comprehension;
        let range = self.lower(range)?;
        let count = 1 + u32::from(second.is_some());
        let (variable, (filter_node, body_node)) = self.within(count, Local::Plain, |lowering| {
            let filter = filter.as_ref().map(|filter| lowering.lower(filter)).transpose()?;
            Ok((filter, lowering.lower(body)?))
        })?;
        Ok(Node::Loop(Box::new(node::Loop {
            kind: *kind,
            range,
            variable,
            second: second.as_ref().map(|_| variable + 1),
            filter: filter_node,
            body: body_node,
            span,
            filter_span: filter.as_ref().map_or(span, |filter| filter.span),
            body_span: body.span,
        })))
    }

    fn select(&mut self, expr: &Expr, operand: &Expr, field: &Name, access: Access) -> Lowered {
        let lowered = self.lower(operand)?;
        let key = Key::new(&field.text);
        if access == Access::Plain {
            return Ok(self.extend(lowered, operand, expr, node::StepKey::Field(key)));
        }
        Ok(Node::Select(Box::new(node::Select { operand: lowered, field: key, access, span: expr.span })))
    }

    fn index(&mut self, expr: &Expr, operand: &Expr, index: &Expr, optional: bool) -> Lowered {
        let (lowered, index) = (self.lower(operand)?, self.lower(index)?);
        let key = match &index {
            Node::Constant(Value::String(text)) if !optional => Some(node::StepKey::Key(Key::new(text))),
            Node::Constant(Value::Int(position)) if !optional => Some(node::StepKey::Position(*position)),
            _ => None,
        };
        match (key, &lowered) {
            (Some(key), Node::Variable(..) | Node::Local(_) | Node::Bound(_) | Node::Path(_)) => {
                Ok(self.extend(lowered, operand, expr, key))
            }
            _ => {
                Ok(Node::Index(Box::new(node::Index { operand: lowered, index, optional, span: expr.span })))
            }
        }
    }
}

/// Joins both sides to one chain of terms; a side that is such a chain itself is flattened.
fn chain(
    left: Node,
    right: Node,
    span: Span,
    open: impl Fn(Node) -> Result<Box<node::Terms>, Node>,
) -> Box<node::Terms> {
    let mut terms = match open(left) {
        Ok(inner) => inner.terms,
        Err(node) => vec![node],
    };
    match open(right) {
        Ok(inner) => terms.extend(inner.terms),
        Err(node) => terms.push(node),
    }
    Box::new(node::Terms { terms, span })
}

fn fail(reason: &str, span: Span) -> Node {
    Node::Fail(Box::new(EvalError { fault: Fault::invalid(reason), span }))
}

fn constant(literal: &Literal) -> Value {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Int(value) => Value::Int(*value),
        Literal::UInt(value) => Value::UInt(*value),
        Literal::Double(value) => Value::Double(*value),
        Literal::String(text) => Value::String(text.clone()),
        Literal::Bytes(bytes) => Value::Bytes(bytes.clone()),
    }
}

/// The root of a path, if a node can be one.
fn root_of(node: &Node) -> Option<Root> {
    match node {
        Node::Variable(slot, span) => Some(Root::Variable(*slot, *span)),
        Node::Local(number) => Some(Root::Local(*number)),
        Node::Bound(number) => Some(Root::Bound(*number)),
        _ => None,
    }
}
