//! The types of fields and indexes of objects, maps and lists, also through optionals.

use super::Checker;
use super::names::{qualified, root};
use crate::ast::{Access, Expr, Name};
use crate::library::kro::runtime::field_type;
use crate::types::Type;

impl Checker<'_> {
    pub(super) fn select(&mut self, expr: &Expr, operand: &Expr, field: &Name, access: Access) -> Type {
        if access == Access::Plain
            && let Some(found) = self.qualified_name(expr)
        {
            return found;
        }
        let operand_type = self.expr(operand);
        let operand_type = self.substitution.resolve(&operand_type);
        let (target, was_optional) = match &operand_type {
            Type::Optional(inner) => (&**inner, true),
            other => (other, false),
        };
        let found = self.field(expr, target, field);
        match access {
            Access::Test if found == Type::Error => Type::Error,
            Access::Test => Type::Bool,
            Access::Optional => Type::optional(found),
            Access::Plain if was_optional => Type::optional(found),
            Access::Plain => found,
        }
    }

    /// `a.b.c` as the qualified name of a variable or a type, unless `a` is the variable of a macro.
    fn qualified_name(&mut self, expr: &Expr) -> Option<Type> {
        let (first, rooted) = root(expr)?;
        if !self.env.is_root(first) || !rooted && self.is_local(first) {
            return None;
        }
        let mut name = String::new();
        if qualified(expr, &mut name) { self.declared(expr, &name) } else { None }
    }

    fn field(&mut self, expr: &Expr, target: &Type, field: &Name) -> Type {
        match target {
            Type::Map(entry) => entry.1.clone(),
            Type::Object(object) => match object.field(&field.text) {
                Some(found) => found,
                None => self.undefined_field(object, field),
            },
            Type::Opaque(opaque) => match field_type(&opaque.name, &field.text) {
                Some(found) => found,
                None => self.not_selectable(expr, target, field),
            },
            Type::Nullable(inner) => self.field(expr, inner, field),
            Type::Variable(_) => {
                self.substitution.assign(&Type::Dyn, target);
                Type::Dyn
            }
            Type::Dyn => Type::Dyn,
            Type::Error => Type::Error,
            other => self.not_selectable(expr, other, field),
        }
    }

    pub(super) fn index(&mut self, operand: &Expr, index: &Expr, optional: bool) -> Type {
        let operand_type = self.expr(operand);
        let index_type = self.expr(index);
        let (target, was_optional) = match self.substitution.resolve(&operand_type) {
            Type::Optional(inner) => ((*inner).clone(), true),
            // Null is treated as an empty optional.
            Type::Null => (Type::Dyn, true),
            other => (other, false),
        };
        if target == Type::Dyn {
            // If both a list and a map are possible, cel-go does not infer that the result is an optional.
            let keyed = !self.substitution.assign(&index_type, &Type::Int);
            return if keyed && was_optional { Type::optional(Type::Dyn) } else { Type::Dyn };
        }
        let found = self.element(operand, index, &target, &index_type);
        if optional || was_optional { Type::optional(found) } else { found }
    }

    fn element(&mut self, operand: &Expr, index: &Expr, target: &Type, index_type: &Type) -> Type {
        match target {
            Type::List(item) => {
                if self.substitution.assign(index_type, &Type::Int) {
                    return (**item).clone();
                }
                self.wrong_index(index, target, &Type::Int, index_type)
            }
            Type::Map(entry) => {
                if self.substitution.assign(index_type, &entry.0) {
                    return self.substitution.resolve(&entry.1);
                }
                self.wrong_index(index, target, &entry.0, index_type)
            }
            Type::Nullable(inner) => self.element(operand, index, inner, index_type),
            Type::Variable(_) => self.unknown_element(operand, index, target, index_type),
            Type::Dyn => Type::Dyn,
            Type::Error => Type::Error,
            other => self.not_indexable(operand, other, index),
        }
    }

    /// As the overloads of the operator would: an element of a list if the index allows it, else of a map.
    fn unknown_element(&mut self, operand: &Expr, index: &Expr, target: &Type, index_type: &Type) -> Type {
        let (first, second) = (self.substitution.fresh(), self.substitution.fresh());
        let mark = self.substitution.mark();
        if self.substitution.fits(target, &Type::list(first.clone()))
            && self.substitution.fits(index_type, &Type::Int)
        {
            return self.substitution.resolve(&first);
        }
        self.substitution.roll_back(mark);
        let map = Type::map(first.clone(), second.clone());
        if self.substitution.fits(target, &map) && self.substitution.fits(index_type, &first) {
            return self.substitution.resolve(&second);
        }
        self.substitution.roll_back(mark);
        let found = self.substitution.finish(target);
        self.not_indexable(operand, &found, index)
    }
}
