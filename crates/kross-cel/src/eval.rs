//! Turns a checked expression into a program, once, and runs it on the values of its variables, often.
//!
//! A program knows its variables by position, its functions by their code and its fields by path, so that running it
//! looks nothing up by name and copies nothing that it only reads. Every run draws on a [`Budget`].

mod budget;
mod lower;
mod machine;
mod node;
mod shape;

pub use budget::Budget;

use kross_value::Text;

use crate::checked::Checked;
use crate::error::{EvalError, Fault};
use crate::types::Type;
use crate::value::Value;
use machine::Machine;
use node::Node;

/// An expression ready to run.
#[derive(Debug)]
pub struct Program {
    root: Node,
    variables: Vec<Text>,
    locals: usize,
    result: Type,
    strict: bool,
}

impl Program {
    /// Lowers a checked expression, or an unchecked one.
    ///
    /// # Errors
    /// When the expression is nested beyond what a run's stack holds, or builds values that are.
    pub fn new(checked: &Checked) -> Result<Self, EvalError> {
        lower::lower(checked)
    }

    /// Makes `has(x.y)`, `x.?y` and a field of an optional an error where `x` is there but has no fields, null for
    /// one. The language's conformance cases want it; kro's settings, and Kubernetes' objects, do not.
    #[must_use]
    pub fn strict_presence(mut self) -> Self {
        self.strict = true;
        self
    }

    /// The variables it reads, in the order in which [`Program::evaluate`] takes their values.
    #[must_use]
    pub fn variables(&self) -> &[Text] {
        &self.variables
    }

    /// The type of what it gives.
    #[must_use]
    pub fn result(&self) -> &Type {
        &self.result
    }

    /// Runs with one value for each of [`Program::variables`]. A variable without a value is not observed yet.
    ///
    /// # Errors
    /// Whatever the expression runs into, with its place; [`Fault::is_pending`] tells what is not there yet.
    pub fn evaluate(&self, slots: &[Option<Value>], budget: &mut Budget) -> Result<Value, EvalError> {
        Machine::new(slots, self.locals, &self.variables, budget)
            .strict(self.strict)
            .run(&self.root)
            .map_err(|error| *error)
    }

    /// Runs with a value for each variable that `lookup` knows.
    ///
    /// # Errors
    /// As [`Program::evaluate`].
    pub fn evaluate_with(
        &self,
        lookup: impl FnMut(&Text) -> Option<Value>,
        budget: &mut Budget,
    ) -> Result<Value, EvalError> {
        let slots: Vec<Option<Value>> = self.variables.iter().map(lookup).collect();
        self.evaluate(&slots, budget)
    }
}

/// Whether an error ends the whole run, whatever surrounds it: `&&`, `||` and macros absorb every other.
fn is_fatal(fault: &Fault) -> bool {
    matches!(fault, Fault::BudgetExceeded | Fault::Cancelled)
}
