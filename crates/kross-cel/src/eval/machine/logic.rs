//! `&&`, `||` and `?:`, which short-circuit. An error on one side of `&&` and `||` is ignored if the other side determines
//! the result.

use super::super::is_fatal;
use super::super::node::{Conditional, Terms};
use super::{Machine, Outcome, at};
use crate::error::Fault;
use crate::value::Value;

impl<'run> Machine<'run> {
    pub(super) fn and(&mut self, terms: &'run Terms) -> Outcome {
        self.decide(terms, "&&", false)
    }

    pub(super) fn or(&mut self, terms: &'run Terms) -> Outcome {
        self.decide(terms, "||", true)
    }

    /// `decisive` if any term has that value; else the first error, else the opposite.
    fn decide(&mut self, terms: &'run Terms, operator: &str, decisive: bool) -> Outcome {
        let mut first_error = None;
        for term in &terms.terms {
            self.spend(1, terms.span)?;
            match self.eval(term) {
                Ok(Value::Bool(value)) if value == decisive => return Ok(Value::Bool(decisive)),
                Ok(Value::Bool(_)) => {}
                Ok(other) => {
                    first_error.get_or_insert_with(|| {
                        at(terms.span)(Fault::no_such_overload(operator, std::slice::from_ref(&other)))
                    });
                }
                Err(error) if is_fatal(&error.fault) => return Err(error),
                Err(error) => {
                    first_error.get_or_insert(error);
                }
            }
        }
        first_error.map_or(Ok(Value::Bool(!decisive)), Err)
    }

    pub(super) fn conditional(&mut self, conditional: &'run Conditional) -> Outcome {
        self.spend(1, conditional.span)?;
        match self.eval(&conditional.condition)? {
            Value::Bool(true) => self.eval(&conditional.then),
            Value::Bool(false) => self.eval(&conditional.otherwise),
            other => Err(at(conditional.span)(Fault::no_such_overload("?:", &[other]))),
        }
    }
}
