//! Concatenates strings: appends the parts to a buffer and creates one value.

use std::cell::Cell;

use kross_value::Value as Data;

use super::super::node::{Node, Terms};
use super::walk::Walked;
use super::{Machine, Outcome, at};
use crate::Span;
use crate::error::Fault;
use crate::library::operators;
use crate::value::Value;

/// Longer buffers are not reused.
const MAX_REUSED: usize = 4 << 10;

thread_local! {
    /// Strings are concatenated here before they become values, so that each needs one allocation.
    static BUFFER: Cell<String> = const { Cell::new(String::new()) };
}

impl<'run> Machine<'run> {
    pub(super) fn concat(&mut self, terms: &'run Terms) -> Outcome {
        let mut out = BUFFER.take();
        out.clear();
        for term in &terms.terms {
            self.write(term, terms.span, &mut out)?;
            operators::check_length(out.len()).map_err(at(terms.span))?;
        }
        self.spend(1 + out.len() as u64 / 10, terms.span)?;
        self.allocate(out.len(), terms.span)?;
        let value = Value::string(out.as_str());
        if out.capacity() <= MAX_REUSED {
            BUFFER.set(out);
        }
        Ok(value)
    }

    fn write(&mut self, term: &'run Node, span: Span, out: &mut String) -> Outcome<()> {
        match term {
            Node::Constant(Value::String(text)) => {
                out.push_str(text);
                return Ok(());
            }
            Node::Path(path) => {
                self.enter(path)?;
                match self.walk(path)? {
                    Walked::Data(Data::String(text), None) | Walked::Borrowed(Value::String(text)) => {
                        out.push_str(text);
                        return Ok(());
                    }
                    other => return append(&other.into_value(), span, out),
                }
            }
            Node::Call(call) if call.function == "string" && !call.overloads.is_empty() => {
                if let [argument] = call.arguments.as_slice() {
                    self.spend(1, call.span)?;
                    let value = self.eval(argument)?;
                    if matches!(value, Value::Int(_) | Value::UInt(_) | Value::Bool(_) | Value::Double(_)) {
                        operators::write_text(&value, out);
                        return Ok(());
                    }
                    let text = self.dispatch(call, &[value])?;
                    return append(&text, span, out);
                }
            }
            _ => {}
        }
        let value = self.eval(term)?;
        append(&value, span, out)
    }
}

fn append(value: &Value, span: Span, out: &mut String) -> Outcome<()> {
    match value {
        Value::String(text) => {
            out.push_str(text);
            Ok(())
        }
        other => Err(at(span)(Fault::no_such_overload("+", &[Value::string(""), other.clone()]))),
    }
}
