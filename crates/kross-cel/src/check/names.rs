//! Resolves names: variables of macros, variables of the environment, types, qualified functions.

use std::sync::Arc;

use super::Checker;
use crate::ast::{Access, Expr, Name, Node};
use crate::checked::Reference;
use crate::env::Declared;
use crate::types::Type;

impl Checker<'_> {
    pub(super) fn ident(&mut self, expr: &Expr, name: &str, rooted: bool) -> Type {
        if !rooted && let Some((number, found)) = self.find_local(name) {
            self.set_reference(expr.id, Reference::Local(number));
            return found;
        }
        let found = if rooted { self.declared(expr, &format!(".{name}")) } else { self.declared(expr, name) };
        found.unwrap_or_else(|| self.undeclared(expr, name))
    }

    /// The type of a variable or a type name of the environment; records what the node refers to.
    pub(super) fn declared(&mut self, expr: &Expr, name: &str) -> Option<Type> {
        let env = self.env;
        let (full, declared) = env.find(name)?;
        let (reference, found) = match declared {
            Declared::Variable(found) => (Reference::Variable(full.clone()), found.clone()),
            Declared::Type(named) => (Reference::Type(full.clone()), Type::Type(Arc::new(named.clone()))),
        };
        self.set_reference(expr.id, reference);
        Some(found)
    }

    fn find_local(&self, name: &str) -> Option<(u32, Type)> {
        let number = self.locals.iter().rposition(|(local, _)| **local == *name)?;
        let (_, found) = self.locals.get(number)?;
        Some((u32::try_from(number).unwrap_or(u32::MAX), found.clone()))
    }

    pub(super) fn is_local(&self, name: &str) -> bool {
        self.locals.iter().any(|(local, _)| **local == *name)
    }

    /// Runs `step` with the variables of a macro in scope.
    pub(super) fn with_locals<T>(
        &mut self,
        variables: &[(&Name, Type)],
        step: impl FnOnce(&mut Self) -> T,
    ) -> T {
        self.relaxed = true;
        let before = self.locals.len();
        self.locals.extend(variables.iter().map(|(name, found)| (name.text.clone(), found.clone())));
        let result = step(self);
        self.locals.truncate(before);
        result
    }
}

/// The first name of `a.b.c`, and whether it has a leading dot; none for anything but plain selections.
pub(super) fn root(expr: &Expr) -> Option<(&str, bool)> {
    match &expr.node {
        Node::Ident { name, rooted } => Some((name, *rooted)),
        Node::Select { operand, access: Access::Plain, .. } => root(operand),
        _ => None,
    }
}

/// `a.b.c` as text, with its leading dot.
pub(super) fn qualified(expr: &Expr, into: &mut String) -> bool {
    match &expr.node {
        Node::Ident { name, rooted } => {
            if *rooted {
                into.push('.');
            }
            into.push_str(name);
            true
        }
        Node::Select { operand, field, access: Access::Plain } => {
            let found = qualified(operand, into);
            into.push('.');
            into.push_str(&field.text);
            found
        }
        _ => false,
    }
}
