//! The table of functions: each declared once, with its signature, for the checker, the evaluator and the docs.
//!
//! A signature is written as people read it: `size(string) -> int` is global, `(string).charAt(int) -> string` is a
//! member of what stands in the first parentheses, `math.greatest(A...) -> A` takes one or more. Single capital
//! letters are type parameters; `list(A)`, `map(K, V)`, `optional(A)`, `type(A)` take arguments; any other name with a
//! dot is an opaque type, such as `kubernetes.Quantity`.

pub mod encoders;
pub mod extract;
pub mod format;
pub mod kro;
pub mod kubernetes;
pub mod lists;
pub mod math;
pub mod pattern;
pub mod sets;
pub mod strings;

mod arguments;
mod reference;
mod signature;
mod standard;
mod table;

pub use reference::reference_markdown;
pub use signature::{Signature, SignatureError};
pub use standard::STANDARD;
pub(crate) use standard::operators;
pub use table::{DeclaredOverload, FunctionTable, OverloadId};

use crate::error::Fault;
use crate::value::Value;

/// The libraries beyond the language itself that are always on.
pub static EXTENSIONS: &[&Library] = &[
    &strings::LIBRARY,
    &lists::LIBRARY,
    &math::LIBRARY,
    &sets::LIBRARY,
    &encoders::LIBRARY,
    &extract::LIBRARY,
    &kubernetes::lists::LIBRARY,
    &kubernetes::find::LIBRARY,
    &kubernetes::url::LIBRARY,
    &kubernetes::ip::LIBRARY,
    &kubernetes::cidr::LIBRARY,
    &kubernetes::quantity::LIBRARY,
    &kubernetes::semver::LIBRARY,
    &kubernetes::formats::LIBRARY,
    &kro::random::LIBRARY,
    &kro::json::LIBRARY,
    &kro::maps::LIBRARY,
    &kro::hash::LIBRARY,
    &kro::lists::LIBRARY,
];

/// The libraries that only some contexts have: `omit()` behind its gate, `runtime` in conditions.
pub static GATED: &[&Library] = &[&kro::omit::LIBRARY, &kro::runtime::LIBRARY];

/// Every library that is always on.
pub fn standard() -> impl Iterator<Item = &'static Library> {
    STANDARD.iter().chain(EXTENSIONS.iter().copied())
}

/// What an implementation may ask of its caller.
pub struct Call<'a> {
    budget: &'a mut u64,
}

impl<'a> Call<'a> {
    /// A call that draws on `budget`.
    pub fn new(budget: &'a mut u64) -> Self {
        Self { budget }
    }

    /// Pays for work that grows with the input: one unit for each element, or for about ten bytes.
    ///
    /// # Errors
    /// When the budget is used up.
    pub fn charge(&mut self, units: usize) -> Result<(), Fault> {
        match self.budget.checked_sub(units as u64) {
            Some(left) => {
                *self.budget = left;
                Ok(())
            }
            None => Err(Fault::BudgetExceeded),
        }
    }
}

/// Runs a function on values that fit its signature's outer shapes (a `list(A)` is some list). The receiver of
/// a member function is the first argument.
pub type Implementation = fn(&mut Call<'_>, &[Value]) -> Result<Value, Fault>;

/// One signature of a function and the code behind it.
#[derive(Clone, Copy, Debug)]
pub struct Overload {
    /// The signature.
    pub signature: &'static str,
    /// The code.
    pub implementation: Implementation,
}

/// A function with all its overloads.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// What it is called by, with its namespace: `charAt`, `math.greatest`, `==`.
    pub name: &'static str,
    /// One or two sentences for the docs.
    pub doc: &'static str,
    /// The signatures.
    pub overloads: &'static [Overload],
}

/// Functions that belong together and are switched on together.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    /// What the docs call it.
    pub name: &'static str,
    /// Its functions.
    pub functions: &'static [Function],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signature_is_one_and_every_function_is_explained() {
        let table = FunctionTable::new(standard().chain(GATED.iter().copied()));
        assert!(table.is_ok(), "{:?}", table.err());
        for function in standard().chain(GATED.iter().copied()).flat_map(|library| library.functions) {
            assert!(function.doc.ends_with('.') && !function.overloads.is_empty(), "{}", function.name);
        }
    }
}
