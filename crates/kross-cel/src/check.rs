//! The type checker: determines the type of every node and what every name refers to, as cel-go does, and reports
//! mismatches. A node with an error has [`Type::Error`], which is assignable to everything, so that an error is reported
//! once.

mod aggregates;
mod calls;
mod comprehensions;
mod formats;
mod messages;
mod names;
mod overloads;
mod resolve;
mod selections;
mod substitution;

use std::borrow::Cow;

use kross_diagnostics::Code;
use kross_value::Text;

use crate::ast::{Ast, BinaryOperator, Expr, ExprId, Literal, Node, UnaryOperator};
use crate::checked::{Checked, Reference};
use crate::env::Env;
use crate::error::{Issue, excerpt};
use crate::types::Type;
use substitution::{Substitution, is_at_least_as_general};

pub(crate) use resolve::resolve;

/// Checks a tree.
pub(crate) fn check(env: &Env, ast: Ast) -> (Checked, Vec<Issue>) {
    let count = ast.nodes as usize;
    let mut checker = Checker {
        env,
        source: &ast.source,
        substitution: Substitution::new(),
        types: vec![Type::Dyn; count],
        references: vec![Reference::None; count],
        locals: Vec::new(),
        issues: Vec::new(),
        relaxed: false,
        formats: false,
    };
    checker.expr(&ast.root);
    let Checker { mut substitution, mut types, references, mut issues, formats, .. } = checker;
    if !substitution.is_empty() {
        for found in &mut types {
            *found = substitution.finish(found);
        }
    }
    if formats {
        issues.extend(formats::check(&ast, &types));
    }
    if substitution.is_exhausted() {
        let message = "the types in this expression are too large to check";
        issues = vec![
            Issue::new(Code::ExpressionTooLarge, ast.root.span, message)
                .help("split the expression into simpler ones"),
        ];
    }
    let functions = std::sync::Arc::clone(env.functions());
    (Checked { ast, types, references, functions }, issues)
}

/// The state of one check.
struct Checker<'a> {
    env: &'a Env,
    source: &'a str,
    substitution: Substitution,
    types: Vec<Type>,
    references: Vec<Reference>,
    /// The variables of the enclosing macros, outermost first.
    locals: Vec<(Text, Type)>,
    issues: Vec<Issue>,
    /// Whether a macro with a variable was seen. From then on cel-go compares numbers of different types.
    relaxed: bool,
    /// Whether there are literal format strings, which are checked when all types are known.
    formats: bool,
}

impl<'a> Checker<'a> {
    /// Checks a node, records its type and returns it.
    fn expr(&mut self, expr: &Expr) -> Type {
        let found = self.node(expr);
        self.set_type(expr.id, &found);
        found
    }

    fn node(&mut self, expr: &Expr) -> Type {
        match &expr.node {
            Node::Literal(literal) => literal_type(literal),
            Node::Ident { name, rooted } => self.ident(expr, name, *rooted),
            Node::Select { operand, field, access } => self.select(expr, operand, field, *access),
            Node::Index { operand, index, optional } => self.index(operand, index, *optional),
            Node::Unary { operator, operand } => self.unary(expr, *operator, operand),
            Node::Binary {
                operator: operator @ (BinaryOperator::And | BinaryOperator::Or),
                left,
                right,
                ..
            } => {
                self.condition(left, &format!("the left side of `{}`", operator.symbol()));
                self.condition(right, &format!("the right side of `{}`", operator.symbol()));
                Type::Bool
            }
            Node::Binary { operator, left, right, .. } => {
                let arguments = [self.expr(left), self.expr(right)];
                self.operator(expr, *operator, left, right, &arguments)
            }
            Node::Conditional { condition, then, otherwise } => self.conditional(condition, then, otherwise),
            Node::Call { function, receiver, arguments } => {
                self.formats |= formats::is_literal_format(function, receiver.as_deref());
                self.call(expr, function, receiver.as_deref(), arguments)
            }
            Node::List { items } => self.list(items),
            Node::Map { entries } => self.map(entries),
            Node::Struct { type_name, fields } => self.structure(expr, type_name, fields),
            Node::Comprehension(comprehension) => self.comprehension(comprehension),
            Node::Bind { variable, value, body } => {
                let bound = self.expr(value);
                self.with_locals(&[(variable, bound)], |checker| checker.expr(body))
            }
            Node::OptionalMap { operand, variable, body, flat } => {
                self.optional_map(operand, variable, body, *flat)
            }
            Node::Error => Type::Error,
        }
    }

    fn set_type(&mut self, id: ExprId, found: &Type) {
        if let Some(place) = self.types.get_mut(id.0 as usize) {
            place.clone_from(found);
        }
    }

    fn set_reference(&mut self, id: ExprId, reference: Reference) {
        if let Some(place) = self.references.get_mut(id.0 as usize) {
            *place = reference;
        }
    }

    fn report(&mut self, issue: Issue) {
        self.issues.push(issue);
    }

    /// The text of a node.
    fn source_of(&self, expr: &Expr) -> &'a str {
        self.source.get(expr.span.range()).unwrap_or("")
    }

    /// The text of a node, shortened for a message.
    fn text(&self, expr: &Expr) -> Cow<'a, str> {
        excerpt(self.source_of(expr))
    }

    /// The name of a type, shortened for a message.
    fn show(&mut self, of: &Type) -> String {
        excerpt(&self.substitution.finish(of).to_string()).into_owned()
    }

    /// Checks an expression that must be a bool.
    fn condition(&mut self, expr: &Expr, what: &str) {
        let found = self.expr(expr);
        self.must_be_boolean(expr, what, &found);
    }

    fn must_be_boolean(&mut self, expr: &Expr, what: &str, found: &Type) {
        if !self.substitution.assign(found, &Type::Bool) {
            let found = self.substitution.finish(found);
            self.not_boolean(expr, what, &found);
        }
    }

    fn unary(&mut self, expr: &Expr, operator: UnaryOperator, operand: &Expr) -> Type {
        let name = match operator {
            UnaryOperator::Negate => "-_",
            UnaryOperator::Not => "!_",
        };
        let arguments = [self.expr(operand)];
        if operator == UnaryOperator::Not && !self.substitution.assign(&arguments[0], &Type::Bool) {
            let found = self.substitution.finish(&arguments[0]);
            self.not_boolean(operand, "the operand of `!`", &found);
            return Type::Error;
        }
        match self.resolve_name(expr, name, false, &arguments) {
            Some(result) => result,
            None => self.no_overload(expr, name, &[operand], &arguments),
        }
    }

    fn operator(
        &mut self,
        expr: &Expr,
        operator: BinaryOperator,
        left: &Expr,
        right: &Expr,
        arguments: &[Type; 2],
    ) -> Type {
        match self.resolve_name(expr, operator.symbol(), false, arguments) {
            Some(result) => result,
            None if self.relaxed && is_order(operator) && arguments.iter().all(is_number) => {
                self.every_overload(expr, operator.symbol());
                Type::Bool
            }
            None if matches!(operator, BinaryOperator::Equal | BinaryOperator::NotEqual) => {
                self.incomparable(expr, operator, left, right, arguments)
            }
            None => self.no_overload(expr, operator.symbol(), &[left, right], arguments),
        }
    }

    fn conditional(&mut self, condition: &Expr, then: &Expr, otherwise: &Expr) -> Type {
        self.condition(condition, "the condition before `?`");
        let branches = [self.expr(then), self.expr(otherwise)];
        match self.unify(&branches[0], &branches[1]) {
            Some(result) => result,
            None => self.incompatible_branches(then, otherwise, &branches),
        }
    }

    /// The common type of two branches, as for a function `(A, A) -> A`.
    fn unify(&mut self, first: &Type, second: &Type) -> Option<Type> {
        let mark = self.substitution.mark();
        let result = self.substitution.fresh();
        if self.substitution.fits(first, &result) && self.substitution.fits(second, &result) {
            return Some(self.substitution.resolve(&result));
        }
        self.substitution.roll_back(mark);
        None
    }

    /// The common type of two elements; `dyn` if they differ, as in cel-go by default.
    fn join(&mut self, previous: Option<Type>, current: Type) -> Type {
        let Some(previous) = previous else { return current };
        if !self.substitution.assign(&previous, &current) {
            return Type::Dyn;
        }
        if is_at_least_as_general(&previous, &current) { previous } else { current }
    }
}

fn is_order(operator: BinaryOperator) -> bool {
    use BinaryOperator::{Greater, GreaterOrEqual, Less, LessOrEqual};
    matches!(operator, Less | LessOrEqual | Greater | GreaterOrEqual)
}

fn is_number(of: &Type) -> bool {
    match of {
        Type::Int | Type::UInt | Type::Double => true,
        Type::Nullable(inner) => is_number(inner),
        _ => false,
    }
}

fn literal_type(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::UInt(_) => Type::UInt,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}
