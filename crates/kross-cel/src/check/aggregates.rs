//! The types of lists, maps and struct literals.

use kross_diagnostics::Code;

use super::Checker;
use crate::ast::{Entry, Expr, FieldInit, Item, Name};
use crate::checked::Reference;
use crate::env::Declared;
use crate::error::Issue;
use crate::types::Type;

/// The largest number of parts in the type of a key.
const MAX_KEY_SIZE: u32 = 16;

impl Checker<'_> {
    pub(super) fn list(&mut self, items: &[Item]) -> Type {
        let mut joined = None;
        for item in items {
            let found = self.value(&item.value, item.optional);
            joined = Some(self.join(joined, found));
        }
        Type::list(joined.unwrap_or_else(|| self.substitution.fresh()))
    }

    pub(super) fn map(&mut self, entries: &[Entry]) -> Type {
        let (mut keys, mut values) = (None, None);
        for entry in entries {
            let key = self.expr(&entry.key);
            // A map as a key would double the type with every enclosing map; such keys are invalid anyway.
            let key = if is_larger_than(&key, &mut { MAX_KEY_SIZE }) { Type::Dyn } else { key };
            keys = Some(self.join(keys, key));
            let value = self.value(&entry.value, entry.optional);
            values = Some(self.join(values, value));
        }
        let key = keys.unwrap_or_else(|| self.substitution.fresh());
        let value = values.unwrap_or_else(|| self.substitution.fresh());
        Type::map(key, value)
    }

    /// The type of an element; with `?`, the type inside the optional.
    fn value(&mut self, value: &Expr, optional: bool) -> Type {
        let found = self.expr(value);
        if !optional {
            return found;
        }
        match self.substitution.resolve(&found) {
            Type::Optional(inner) => (*inner).clone(),
            Type::Dyn => Type::Dyn,
            Type::Error => Type::Error,
            other => self.not_optional(value, &other, "the value after `?`"),
        }
    }

    pub(super) fn structure(&mut self, expr: &Expr, type_name: &Name, fields: &[FieldInit]) -> Type {
        let env = self.env;
        let built = match env.find(&type_name.text) {
            Some((full, Declared::Type(Type::Object(object)))) => {
                self.set_reference(expr.id, Reference::Type(full.clone()));
                Some(object)
            }
            found => {
                let exists = found.is_some();
                self.unknown_type(type_name, exists);
                None
            }
        };
        for field in fields {
            let found = self.value(&field.value, field.optional);
            let Some(object) = built else { continue };
            match object.field(&field.name.text) {
                None => {
                    self.undefined_field(object, &field.name);
                }
                Some(wanted) => {
                    if !self.substitution.assign(&found, &wanted) {
                        let (wanted, found) = (self.show(&wanted), self.show(&found));
                        let name = &field.name.text;
                        let message = format!("the field `{name}` must be {wanted}, found {found}");
                        self.report(Issue::new(Code::WrongFieldType, field.value.span, message));
                    }
                }
            }
        }
        built.map_or(Type::Error, |object| Type::Object(object.clone()))
    }
}

fn is_larger_than(of: &Type, left: &mut u32) -> bool {
    let Some(rest) = left.checked_sub(1) else { return true };
    *left = rest;
    match of {
        Type::List(inner) | Type::Optional(inner) | Type::Type(inner) | Type::Nullable(inner) => {
            is_larger_than(inner, left)
        }
        Type::Map(entry) => is_larger_than(&entry.0, left) || is_larger_than(&entry.1, left),
        _ => false,
    }
}
