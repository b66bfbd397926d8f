//! Chooses among the overloads of a function: each is tried with fresh type parameters, and those that fit stay.

use std::sync::Arc;

use super::Checker;
use crate::ast::Expr;
use crate::checked::{Overloads, Reference};
use crate::library::{OverloadId, Signature};
use crate::types::{OpaqueType, Type};

impl Checker<'_> {
    /// Resolves a function by name, if it exists and takes these types: remembers the overloads and gives the result.
    pub(super) fn resolve_name(
        &mut self,
        expr: &Expr,
        name: &str,
        member: bool,
        arguments: &[Type],
    ) -> Option<Type> {
        let env = self.env;
        let ids = env.functions().find(name)?;
        self.resolve_overloads(expr, ids, member, false, arguments)
    }

    /// Tries each overload. The result is that of all which fit if they agree, and `dyn` otherwise.
    pub(super) fn resolve_overloads(
        &mut self,
        expr: &Expr,
        ids: &[OverloadId],
        member: bool,
        namespaced: bool,
        arguments: &[Type],
    ) -> Option<Type> {
        let env = self.env;
        let mut result: Option<Type> = None;
        let mut first = None;
        let mut more: Vec<OverloadId> = Vec::new();
        for id in ids {
            let Some(overload) = env.functions().overload(*id) else { continue };
            let signature = &overload.signature;
            if signature.member != member || !signature.takes(arguments.len()) {
                continue;
            }
            let Some(found) = self.try_signature(signature, arguments) else { continue };
            result = Some(match result {
                Some(before) if before != Type::Dyn && before != found => Type::Dyn,
                Some(before) => before,
                None => found,
            });
            match first {
                None => first = Some(*id),
                Some(_) => more.push(*id),
            }
        }
        let overloads = match first {
            Some(id) if more.is_empty() => Overloads::One(id),
            Some(id) => std::iter::once(id).chain(more).collect(),
            None => return None,
        };
        self.set_reference(expr.id, Reference::Function { overloads, namespaced });
        result
    }

    fn try_signature(&mut self, signature: &Signature, arguments: &[Type]) -> Option<Type> {
        let mark = self.substitution.mark();
        let parameters: Vec<(char, Type)> =
            signature.type_parameters.iter().map(|letter| (*letter, self.substitution.fresh())).collect();
        for (position, argument) in arguments.iter().enumerate() {
            let wanted = signature.parameter(position)?;
            let fits = if parameters.is_empty() {
                self.substitution.fits(argument, wanted)
            } else {
                self.substitution.fits(argument, &instantiate(wanted, &parameters))
            };
            if !fits {
                self.substitution.roll_back(mark);
                return None;
            }
        }
        if parameters.is_empty() {
            return Some(signature.result.clone());
        }
        let result = instantiate(&signature.result, &parameters);
        Some(self.substitution.resolve(&result))
    }
}

/// A declared type with its type parameters replaced.
pub(super) fn instantiate(declared: &Type, parameters: &[(char, Type)]) -> Type {
    match declared {
        Type::Parameter(letter) => parameters
            .iter()
            .find(|(known, _)| known == letter)
            .map_or(Type::Dyn, |(_, variable)| variable.clone()),
        Type::List(inner) => Type::list(instantiate(inner, parameters)),
        Type::Optional(inner) => Type::optional(instantiate(inner, parameters)),
        Type::Type(inner) => Type::Type(Arc::new(instantiate(inner, parameters))),
        Type::Nullable(inner) => Type::nullable(instantiate(inner, parameters)),
        Type::Map(entry) => Type::map(instantiate(&entry.0, parameters), instantiate(&entry.1, parameters)),
        Type::Opaque(opaque) if !opaque.parameters.is_empty() => Type::Opaque(Arc::new(OpaqueType {
            name: opaque.name.clone(),
            parameters: opaque.parameters.iter().map(|inner| instantiate(inner, parameters)).collect(),
        })),
        other => other.clone(),
    }
}
