//! Compiles a checked expression to a program once, and evaluates it with the values of its variables many times.
//!
//! A program refers to variables by position, to functions by pointer and to fields by path, so that an evaluation looks up
//! nothing by name and clones nothing that it only reads. Every evaluation is limited by a [`Budget`].

mod budget;
mod lower;
mod machine;
mod node;
mod shape;

pub use budget::{Budget, Cancellation};

use kross_value::Text;

use crate::checked::Checked;
use crate::error::{EvalError, Fault};
use crate::types::Type;
use crate::value::Value;
use machine::Machine;
use node::Node;

/// A compiled expression.
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
    /// If the expression, or a value that it builds, is nested too deeply for the stack.
    pub fn new(checked: &Checked) -> Result<Self, EvalError> {
        lower::lower(checked)
    }

    /// Makes `has(x.y)`, `x.?y` and a field of an optional an error if `x` exists but has no fields, for example if it is
    /// null. The conformance tests require it; kro's cel-go options turn it off.
    #[must_use]
    pub fn strict_presence(mut self) -> Self {
        self.strict = true;
        self
    }

    /// The variables it reads, in the order of the values that [`Program::evaluate`] takes.
    #[must_use]
    pub fn variables(&self) -> &[Text] {
        &self.variables
    }

    /// The type of the result.
    #[must_use]
    pub fn result(&self) -> &Type {
        &self.result
    }

    /// Evaluates with one value for each of [`Program::variables`]. A variable without a value is not observed yet.
    ///
    /// # Errors
    /// The cause and its position; [`Fault::is_pending`] tells whether data is only missing so far.
    pub fn evaluate(&self, slots: &[Option<Value>], budget: &mut Budget) -> Result<Value, EvalError> {
        Machine::new(slots, self.locals, &self.variables, budget)
            .strict(self.strict)
            .run(&self.root)
            .map_err(|error| *error)
    }

    /// Evaluates with the values that `lookup` returns.
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

/// Whether an error ends the whole evaluation; `&&`, `||` and macros absorb all other errors.
fn is_fatal(fault: &Fault) -> bool {
    matches!(fault, Fault::BudgetExceeded | Fault::OutOfMemory | Fault::Cancelled)
}
