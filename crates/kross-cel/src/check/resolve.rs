//! Resolves names without types, for unchecked expressions: every overload of a name is possible.

use kross_value::Text;

use super::names::{qualified, root};
use crate::ast::{Access, Ast, Comprehension, Expr, ExprId, Name, Node, UnaryOperator};
use crate::checked::{Checked, Overloads, Reference};
use crate::env::{Declared, Env};
use crate::library::OverloadId;
use crate::types::Type;

/// Resolves the names of a tree.
pub(crate) fn resolve(env: &Env, ast: Ast) -> Checked {
    let count = ast.nodes as usize;
    let mut resolver = Resolver { env, references: vec![Reference::None; count], locals: Vec::new() };
    resolver.expr(&ast.root);
    let references = resolver.references;
    let functions = std::sync::Arc::clone(env.functions());
    Checked { ast, types: vec![Type::Dyn; count], references, functions }
}

struct Resolver<'a> {
    env: &'a Env,
    references: Vec<Reference>,
    locals: Vec<Text>,
}

impl Resolver<'_> {
    fn set(&mut self, id: ExprId, reference: Reference) {
        if let Some(place) = self.references.get_mut(id.0 as usize) {
            *place = reference;
        }
    }

    fn with_locals(&mut self, variables: &[&Name], step: impl FnOnce(&mut Self)) {
        let before = self.locals.len();
        self.locals.extend(variables.iter().map(|name| name.text.clone()));
        step(self);
        self.locals.truncate(before);
    }

    fn local(&self, name: &str) -> Option<u32> {
        let number = self.locals.iter().rposition(|local| **local == *name)?;
        u32::try_from(number).ok()
    }

    fn expr(&mut self, expr: &Expr) {
        match &expr.node {
            Node::Literal(_) | Node::Error => {}
            Node::Ident { name, rooted } => self.ident(expr, name, *rooted),
            Node::Select { operand, access, .. } => {
                if *access != Access::Plain || !self.qualified_name(expr) {
                    self.expr(operand);
                }
            }
            Node::Index { operand, index, .. } => {
                self.expr(operand);
                self.expr(index);
            }
            Node::Unary { operator, operand } => {
                self.expr(operand);
                let name = if *operator == UnaryOperator::Not { "!_" } else { "-_" };
                self.function(expr, self.env.functions().find(name), false, false, 1);
            }
            Node::Binary { operator, left, right, .. } => {
                self.expr(left);
                self.expr(right);
                if let Some(ids) = self.env.functions().find(operator.symbol()) {
                    self.function(expr, Some(ids), false, false, 2);
                }
            }
            Node::Conditional { condition, then, otherwise } => {
                self.expr(condition);
                self.expr(then);
                self.expr(otherwise);
            }
            Node::Call { function, receiver, arguments } => {
                self.call(expr, function, receiver.as_deref(), arguments);
            }
            Node::List { items } => items.iter().for_each(|item| self.expr(&item.value)),
            Node::Map { entries } => {
                for entry in entries {
                    self.expr(&entry.key);
                    self.expr(&entry.value);
                }
            }
            Node::Struct { type_name, fields } => {
                fields.iter().for_each(|field| self.expr(&field.value));
                if let Some((full, Declared::Type(_))) = self.env.find(&type_name.text) {
                    self.set(expr.id, Reference::Type(full.clone()));
                }
            }
            Node::Comprehension(inner) => self.comprehension(inner),
            Node::Bind { variable, value, body } => {
                self.expr(value);
                self.with_locals(&[variable], |resolver| resolver.expr(body));
            }
            Node::OptionalMap { operand, variable, body, .. } => {
                self.expr(operand);
                self.with_locals(&[variable], |resolver| resolver.expr(body));
            }
        }
    }

    fn comprehension(&mut self, inner: &Comprehension) {
        self.expr(&inner.range);
        let variables: Vec<&Name> = std::iter::once(&inner.variable).chain(&inner.second).collect();
        self.with_locals(&variables, |resolver| {
            inner.filter.iter().for_each(|filter| resolver.expr(filter));
            resolver.expr(&inner.body);
        });
    }

    fn ident(&mut self, expr: &Expr, name: &Text, rooted: bool) {
        if !rooted && let Some(number) = self.local(name) {
            return self.set(expr.id, Reference::Local(number));
        }
        let looked_up = if rooted { format!(".{name}") } else { name.to_string() };
        if !self.declared(expr, &looked_up) {
            self.set(expr.id, Reference::Variable(name.clone()));
        }
    }

    fn declared(&mut self, expr: &Expr, name: &str) -> bool {
        let reference = match self.env.find(name) {
            Some((full, Declared::Variable(_))) => Reference::Variable(full.clone()),
            Some((full, Declared::Type(_))) => Reference::Type(full.clone()),
            None => return false,
        };
        self.set(expr.id, reference);
        true
    }

    fn qualified_name(&mut self, expr: &Expr) -> bool {
        let Some((first, rooted)) = root(expr) else { return false };
        if !self.env.is_root(first) || !rooted && self.local(first).is_some() {
            return false;
        }
        let mut name = String::new();
        qualified(expr, &mut name) && self.declared(expr, &name)
    }

    fn call(&mut self, expr: &Expr, function: &Name, receiver: Option<&Expr>, arguments: &[Expr]) {
        arguments.iter().for_each(|argument| self.expr(argument));
        let Some(receiver) = receiver else {
            let ids = self.env.find_function(&function.text);
            return self.function(expr, ids, false, false, arguments.len());
        };
        let mut name = String::new();
        if qualified(receiver, &mut name) {
            name.push('.');
            name.push_str(&function.text);
            if let Some(ids) = self.env.find_function(&name) {
                return self.function(expr, Some(ids), false, true, arguments.len());
            }
        }
        self.expr(receiver);
        self.function(expr, self.env.find_function(&function.text), true, false, arguments.len() + 1);
    }

    fn function(
        &mut self,
        expr: &Expr,
        ids: Option<&[OverloadId]>,
        member: bool,
        namespaced: bool,
        arguments: usize,
    ) {
        let possible = |id: &OverloadId| {
            self.env.functions().overload(*id).is_some_and(|overload| {
                overload.signature.member == member && overload.signature.takes(arguments)
            })
        };
        let overloads: Overloads = ids.unwrap_or(&[]).iter().copied().filter(possible).collect();
        self.set(expr.id, Reference::Function { overloads, namespaced });
    }
}
