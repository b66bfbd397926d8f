//! Resolves the overloads of a function: tries each with fresh type parameters and keeps those that match.

use super::Checker;
use crate::ast::Expr;
use crate::checked::{Overloads, Reference};
use crate::library::{OverloadId, Signature};
use crate::types::Type;

impl Checker<'_> {
    /// Resolves a function by name: records the matching overloads and returns the result type.
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

    /// Tries each overload. The result type is that of the matching overloads if they agree, else `dyn`.
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

    /// Records all overloads of an operator; the values decide at run time.
    pub(super) fn every_overload(&mut self, expr: &Expr, name: &str) {
        let ids = self.env.functions().find(name).unwrap_or(&[]);
        let overloads = ids.iter().copied().collect();
        self.set_reference(expr.id, Reference::Function { overloads, namespaced: false });
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
                self.substitution.fits(argument, &wanted.instantiate(&parameters))
            };
            if !fits {
                self.substitution.roll_back(mark);
                return None;
            }
        }
        if parameters.is_empty() {
            return Some(signature.result.clone());
        }
        let result = signature.result.instantiate(&parameters);
        Some(self.substitution.resolve(&result))
    }
}
