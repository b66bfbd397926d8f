//! The bindings of type variables in one check, and assignability of types. Implements cel-go's rules; a failed trial is
//! rolled back.

use std::sync::Arc;

use crate::types::{OpaqueType, Type};

/// The largest number of type comparisons in one check. Ordinary expressions need hundreds; only types that double with
/// every use of a variable come close.
const FUEL: u32 = 1_000_000;

/// The bindings of type variables.
#[derive(Debug)]
pub(crate) struct Substitution {
    bindings: Vec<Option<Type>>,
    /// The previous value of each changed binding, to roll back a trial.
    trail: Vec<(u32, Option<Type>)>,
    fuel: u32,
}

impl Substitution {
    pub(crate) fn new() -> Self {
        Self { bindings: Vec::new(), trail: Vec::new(), fuel: FUEL }
    }

    /// A new type variable.
    pub(crate) fn fresh(&mut self) -> Type {
        self.bindings.push(None);
        Type::Variable(u32::try_from(self.bindings.len() - 1).unwrap_or(u32::MAX))
    }

    /// Whether no type variable was created, so that there is nothing to substitute.
    pub(crate) fn is_empty(&self) -> bool {
        self.bindings.is_empty()
    }

    /// Whether the types were too large to compare; all results since then are meaningless.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.fuel == 0
    }

    fn burn(&mut self) -> bool {
        self.fuel = self.fuel.saturating_sub(1);
        self.fuel == 0
    }

    /// The start of a trial.
    pub(crate) fn mark(&self) -> usize {
        self.trail.len()
    }

    /// Rolls back everything since the mark.
    pub(crate) fn roll_back(&mut self, mark: usize) {
        while self.trail.len() > mark
            && let Some((number, before)) = self.trail.pop()
        {
            if let Some(place) = self.bindings.get_mut(number as usize) {
                *place = before;
            }
        }
    }

    fn bind(&mut self, number: u32, to: Type) {
        if let Some(place) = self.bindings.get_mut(number as usize) {
            self.trail.push((number, place.replace(to)));
        }
    }

    fn binding(&self, number: u32) -> Option<Type> {
        self.bindings.get(number as usize).cloned().flatten()
    }

    /// Whether `from` is assignable to `to`. Keeps the bindings that make it so; rolls them back if it is not.
    pub(crate) fn assign(&mut self, from: &Type, to: &Type) -> bool {
        let mark = self.mark();
        let assigned = self.fits(from, to);
        if !assigned {
            self.roll_back(mark);
        }
        assigned
    }

    /// As [`Self::assign`], without rolling back.
    pub(crate) fn fits(&mut self, from: &Type, to: &Type) -> bool {
        if self.burn() {
            return true;
        }
        if let Type::Variable(number) = to {
            let (valid, bound) = self.bind_to(*number, from);
            if valid || bound {
                return valid;
            }
        }
        if let Type::Variable(number) = from {
            return self.bind_to(*number, to).0;
        }
        match (from, to) {
            (Type::Dyn | Type::Error, _) | (_, Type::Dyn | Type::Error) => true,
            (Type::Null, other) | (other, Type::Null) => takes_null(other),
            (Type::Nullable(from), to) => self.fits(from, to),
            (from, Type::Nullable(to)) => self.fits(from, to),
            (Type::Type(_), Type::Type(_)) => true,
            (Type::List(from), Type::List(to)) | (Type::Optional(from), Type::Optional(to)) => {
                self.fits(from, to)
            }
            (Type::Map(from), Type::Map(to)) => self.fits(&from.0, &to.0) && self.fits(&from.1, &to.1),
            (Type::Opaque(from), Type::Opaque(to)) => {
                from.name == to.name
                    && from.parameters.len() == to.parameters.len()
                    && from.parameters.iter().zip(&to.parameters).all(|(from, to)| self.fits(from, to))
            }
            (from, to) => from == to,
        }
    }

    /// Binds a variable to a type: whether that is possible, and whether it was bound already.
    fn bind_to(&mut self, number: u32, other: &Type) -> (bool, bool) {
        if *other == Type::Variable(number) {
            return (true, true);
        }
        if let Some(current) = self.binding(number) {
            if current == *other {
                return (true, true);
            }
            if !self.fits(other, &current) {
                return (false, true);
            }
            let general = if is_at_least_as_general(other, &current) { other.clone() } else { current };
            if !self.occurs(number, &general) {
                self.bind(number, general);
            }
            return (true, true);
        }
        if self.occurs(number, other) {
            return (false, false);
        }
        self.bind(number, other.clone());
        (true, false)
    }

    fn occurs(&mut self, number: u32, within: &Type) -> bool {
        if self.burn() {
            return false;
        }
        match within {
            Type::Variable(other) => {
                *other == number || self.binding(*other).is_some_and(|bound| self.occurs(number, &bound))
            }
            Type::List(inner) | Type::Optional(inner) | Type::Type(inner) | Type::Nullable(inner) => {
                self.occurs(number, inner)
            }
            Type::Map(entry) => self.occurs(number, &entry.0) || self.occurs(number, &entry.1),
            Type::Opaque(opaque) => opaque.parameters.iter().any(|inner| self.occurs(number, inner)),
            _ => false,
        }
    }

    /// The type with bound variables replaced; unbound variables stay.
    pub(crate) fn resolve(&mut self, of: &Type) -> Type {
        self.replace(of, false)
    }

    /// The type with bound variables replaced; unbound variables become `dyn`.
    pub(crate) fn finish(&mut self, of: &Type) -> Type {
        self.replace(of, true)
    }

    fn replace(&mut self, of: &Type, last: bool) -> Type {
        if self.burn() {
            return Type::Dyn;
        }
        if !has_variables(of) {
            return of.clone();
        }
        match of {
            Type::Variable(number) => match self.binding(*number) {
                Some(bound) => self.replace(&bound, last),
                None if last => Type::Dyn,
                None => of.clone(),
            },
            Type::List(inner) => Type::list(self.replace(inner, last)),
            Type::Optional(inner) => Type::optional(self.replace(inner, last)),
            Type::Type(inner) => Type::Type(Arc::new(self.replace(inner, last))),
            Type::Nullable(inner) => Type::nullable(self.replace(inner, last)),
            Type::Map(entry) => Type::map(self.replace(&entry.0, last), self.replace(&entry.1, last)),
            Type::Opaque(opaque) => {
                let parameters = opaque.parameters.iter().map(|inner| self.replace(inner, last)).collect();
                Type::Opaque(Arc::new(OpaqueType { name: opaque.name.clone(), parameters }))
            }
            _ => of.clone(),
        }
    }
}

fn has_variables(of: &Type) -> bool {
    match of {
        Type::Variable(_) => true,
        Type::List(inner) | Type::Optional(inner) | Type::Type(inner) | Type::Nullable(inner) => {
            has_variables(inner)
        }
        Type::Map(entry) => has_variables(&entry.0) || has_variables(&entry.1),
        Type::Opaque(opaque) => opaque.parameters.iter().any(has_variables),
        _ => false,
    }
}

/// Whether null is assignable to this type: cel-go's rule for messages, wrappers and opaque types.
fn takes_null(other: &Type) -> bool {
    matches!(
        other,
        Type::Null
            | Type::Nullable(_)
            | Type::Object(_)
            | Type::Opaque(_)
            | Type::Optional(_)
            | Type::Timestamp
            | Type::Duration
    )
}

/// Of two types that are assignable to each other: whether the first is equal or less specific.
pub(crate) fn is_at_least_as_general(first: &Type, second: &Type) -> bool {
    match (first, second) {
        (Type::Dyn | Type::Variable(_), _) => true,
        (_, Type::Dyn | Type::Variable(_)) => false,
        // A nullable type is more general than null, and than the type itself.
        (Type::Null, Type::Null) | (_, Type::Null) => true,
        (Type::Null, _) => false,
        (Type::Nullable(first), Type::Nullable(second)) => is_at_least_as_general(first, second),
        (Type::Nullable(_), _) => true,
        (_, Type::Nullable(_)) => false,
        (Type::Type(_), Type::Type(_)) => true,
        (Type::List(first), Type::List(second)) | (Type::Optional(first), Type::Optional(second)) => {
            is_at_least_as_general(first, second)
        }
        (Type::Map(first), Type::Map(second)) => {
            is_at_least_as_general(&first.0, &second.0) && is_at_least_as_general(&first.1, &second.1)
        }
        (Type::Opaque(first), Type::Opaque(second)) => {
            first.name == second.name
                && first.parameters.len() == second.parameters.len()
                && first
                    .parameters
                    .iter()
                    .zip(&second.parameters)
                    .all(|(first, second)| is_at_least_as_general(first, second))
        }
        (first, second) => first == second,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_assignable(from: &Type, to: &Type) -> bool {
        Substitution::new().assign(from, to)
    }

    #[test]
    fn assignability_is_that_of_cel_go() {
        assert!(is_assignable(&Type::Dyn, &Type::Int));
        assert!(is_assignable(&Type::Int, &Type::Dyn));
        assert!(is_assignable(&Type::Null, &Type::Timestamp));
        assert!(!is_assignable(&Type::Null, &Type::Int));
        assert!(is_assignable(&Type::Null, &Type::nullable(Type::Int)));
        assert!(is_assignable(&Type::nullable(Type::Int), &Type::Int));
        assert!(!is_assignable(&Type::nullable(Type::Int), &Type::String));
        assert!(is_assignable(&Type::map(Type::String, Type::Dyn), &Type::map(Type::String, Type::Int)));
        assert!(!is_assignable(&Type::Int, &Type::UInt));
        assert!(!is_assignable(&Type::optional(Type::Int), &Type::Int));
        assert!(is_assignable(&Type::list(Type::Int), &Type::list(Type::Dyn)));
    }
}
