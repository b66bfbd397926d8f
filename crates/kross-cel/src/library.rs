//! The function libraries: each function is declared once, with its signature, for the checker, the evaluator and the docs.
//!
//! In a signature, `size(string) -> int` is a global function, `(string).charAt(int) -> string` a member of the type in
//! the first parentheses, and `math.greatest(A...) -> A` takes one or more arguments. Single capital letters are type
//! parameters; `list(A)`, `map(K, V)`, `optional(A)`, `type(A)` have type arguments; any other name with a dot is an opaque
//! type, such as `kubernetes.Quantity`.
//!
//! A library of one's own is declared in the same way:
//!
//! ```
//! use kross_cel::error::Fault;
//! use kross_cel::library::{self, Call, Function, Library, Overload};
//! use kross_cel::value::{Value, to_data};
//! use kross_cel::{Budget, Env, Program};
//!
//! fn shout(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
//!     let Some(Value::String(text)) = arguments.first() else {
//!         let found = arguments.first().map_or("nothing", Value::type_name).to_owned();
//!         return Err(Fault::WrongType { expected: "string".to_owned(), found });
//!     };
//!     // Work that grows with the input is paid for, so that no input exhausts the caller.
//!     call.charge(text.len() / 10)?;
//!     call.allocate(text.len())?;
//!     Ok(Value::string(text.to_uppercase()))
//! }
//!
//! static MINE: Library = Library {
//!     name: "mine",
//!     functions: &[Function {
//!         name: "shout",
//!         doc: "Returns the text in capitals.",
//!         overloads: &[Overload { signature: "(string).shout() -> string", implementation: shout }],
//!     }],
//! };
//!
//! let env = Env::new(library::standard().chain([&MINE])).unwrap();
//! let program = Program::new(&env.compile("'stop'.shout()").unwrap()).unwrap();
//! let value = program.evaluate(&[], &mut Budget::default()).unwrap();
//! assert_eq!(to_data(&value).unwrap(), Some("STOP".into()));
//! assert_eq!(env.compile("(1).shout()").unwrap_err().len(), 1);
//! ```

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

/// The extension libraries that are always enabled.
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

/// The libraries that only some contexts have: `omit()` behind its feature gate, `runtime` in conditions.
pub static GATED: &[&Library] = &[&kro::omit::LIBRARY, &kro::runtime::LIBRARY];

/// All libraries that are always enabled.
pub fn standard() -> impl Iterator<Item = &'static Library> {
    STANDARD.iter().chain(EXTENSIONS.iter().copied())
}

/// The memory that an element of a list takes, in bytes.
pub(crate) const ELEMENT: usize = size_of::<Value>();

/// The context of a function call: its cost budget.
pub struct Call<'a> {
    budget: &'a mut u64,
    memory: Option<&'a mut u64>,
}

impl<'a> Call<'a> {
    /// A call that spends from `budget`.
    pub fn new(budget: &'a mut u64) -> Self {
        Self { budget, memory: None }
    }

    /// A call that spends from `budget`, and may allocate `memory` bytes.
    pub(crate) fn limited(budget: &'a mut u64, memory: &'a mut u64) -> Self {
        Self { budget, memory: Some(memory) }
    }

    /// Counts memory that the result takes, in bytes.
    ///
    /// # Errors
    /// If the memory is exhausted.
    #[inline]
    pub fn allocate(&mut self, bytes: usize) -> Result<(), Fault> {
        let Some(memory) = &mut self.memory else { return Ok(()) };
        **memory = memory.checked_sub(bytes as u64).ok_or(Fault::OutOfMemory)?;
        Ok(())
    }

    /// Charges for work that grows with the input: one unit per element, or per ten bytes.
    ///
    /// # Errors
    /// If the budget is exhausted.
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

/// Implements a function for values whose outermost types match its signature (a `list(A)` is any list). The receiver of
/// a member function is the first argument.
pub type Implementation = fn(&mut Call<'_>, &[Value]) -> Result<Value, Fault>;

/// One signature of a function and its implementation.
#[derive(Clone, Copy, Debug)]
pub struct Overload {
    /// The signature.
    pub signature: &'static str,
    /// The implementation.
    pub implementation: Implementation,
}

/// A function with all its overloads.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// The name with its namespace: `charAt`, `math.greatest`, `==`.
    pub name: &'static str,
    /// One or two sentences for the documentation.
    pub doc: &'static str,
    /// The signatures.
    pub overloads: &'static [Overload],
}

/// A group of functions that are enabled together.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    /// The name of the library.
    pub name: &'static str,
    /// Its functions.
    pub functions: &'static [Function],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signature_is_valid_and_every_function_is_documented() {
        let table = FunctionTable::new(standard().chain(GATED.iter().copied()));
        assert!(table.is_ok(), "{:?}", table.err());
        for function in standard().chain(GATED.iter().copied()).flat_map(|library| library.functions) {
            assert!(function.doc.ends_with('.') && !function.overloads.is_empty(), "{}", function.name);
        }
    }
}
