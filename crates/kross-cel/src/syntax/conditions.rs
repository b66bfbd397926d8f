//! Turns the bare keys of `runtime.newCondition({type: …, status: …})` into strings, and holds them to what a
//! condition has.

use kross_diagnostics::Code;

use super::parser::Parser;
use crate::Span;
use crate::ast::{Entry, Expr, Literal, Name, Node};
use crate::error::Issue;
use crate::library::kro::runtime::{FIELDS, VARIABLE, is_status};

/// Whether a call makes a condition.
pub(super) fn is_new_condition(receiver: &Expr, function: &Name) -> bool {
    matches!(&receiver.node, Node::Ident { name, rooted: false } if *name == VARIABLE)
        && function.text == "newCondition"
}

impl Parser<'_> {
    /// The arguments of `newCondition` with strings for keys. They stay as they are where something is wrong.
    pub(super) fn condition_fields(&mut self, function: &Name, arguments: &mut [Expr]) {
        let [Expr { node: Node::Map { entries }, span, .. }] = arguments else {
            let span = match arguments {
                [first, .., last] => first.span.to(last.span),
                [only] => only.span,
                [] => function.span,
            };
            if !arguments.iter().any(|argument| argument.node == Node::Error) {
                let found = self.lexer.shown(span);
                self.condition_issue(
                    span,
                    &format!("expected the fields of a condition in braces, found `{found}`"),
                );
            }
            return;
        };
        let span = *span;
        let mut seen: Vec<&'static str> = Vec::new();
        for entry in entries.iter_mut() {
            if let Some(field) = self.condition_field(entry, &seen) {
                seen.push(field);
                entry.key.node = Node::Literal(Literal::String(field.into()));
            } else {
                // Reported already: the checker has nothing to add.
                entry.key.node = Node::Error;
            }
        }
        let broken = entries.iter().any(|entry| entry.key.node == Node::Error);
        for required in ["type", "status"] {
            if !broken && !seen.contains(&required) {
                self.condition_issue(
                    span,
                    &format!("expected the field `{required}`, found a condition without it"),
                );
            }
        }
    }

    fn condition_field(&mut self, entry: &Entry, seen: &[&'static str]) -> Option<&'static str> {
        let span = entry.key.span;
        let name = match &entry.key.node {
            Node::Ident { name, rooted: false } if !entry.optional => name,
            Node::Error => return None,
            _ => {
                let found = self.lexer.shown(span);
                self.condition_issue(span, &format!("expected the bare name of a field, found `{found}`"));
                return None;
            }
        };
        let Some(field) = FIELDS.into_iter().find(|field| *name == **field) else {
            self.condition_issue(span, &format!("expected a field of a condition, found `{name}`"));
            return None;
        };
        if seen.contains(&field) {
            self.condition_issue(span, &format!("expected each field once, found `{field}` again"));
            return None;
        }
        self.condition_literal(field, &entry.value);
        Some(field)
    }

    /// What is written out can be looked at before anything runs.
    fn condition_literal(&mut self, field: &str, value: &Expr) {
        let Node::Literal(Literal::String(text)) = &value.node else { return };
        if field == "status" && !is_status(text) {
            let message = format!("expected the status `True`, `False` or `Unknown`, found `{text}`");
            self.condition_issue(value.span, &message);
        }
        if field == "type" && text.is_empty() {
            self.condition_issue(value.span, "expected the type of the condition, found an empty string");
        }
    }

    fn condition_issue(&mut self, span: Span, message: &str) {
        let usage = "write `runtime.newCondition({type: 'Ready', status: 'True'})`, and `reason` and `message` as you like";
        self.lexer.issues.push(Issue::new(Code::InvalidCondition, span, message).help(usage));
    }
}

#[cfg(test)]
mod tests {
    use crate::syntax::{Limits, parse};

    fn messages(text: &str) -> Vec<String> {
        parse(text, &Limits::default()).issues.into_iter().map(|issue| issue.message).collect()
    }

    #[test]
    fn bare_names_of_fields_are_keys() {
        let fields = "{type: 'A', status: cel, reason: 'R', message: 'M'}";
        assert!(messages(&format!("runtime.newCondition({fields})")).is_empty());
    }

    #[test]
    fn every_mistake_in_the_fields_is_named() {
        let found =
            messages("runtime.newCondition({'type': 'A', status: 'Yes', status: 'True', colour: 'x'})");
        assert_eq!(
            found,
            [
                "expected the bare name of a field, found `'type'`",
                "expected the status `True`, `False` or `Unknown`, found `Yes`",
                "expected each field once, found `status` again",
                "expected a field of a condition, found `colour`",
            ]
        );
        assert_eq!(
            messages("runtime.newCondition({status: 'True'})"),
            ["expected the field `type`, found a condition without it"]
        );
        assert_eq!(
            messages("runtime.newCondition({type: '', status: 'True'})"),
            ["expected the type of the condition, found an empty string"]
        );
        assert_eq!(
            messages("runtime.newCondition(x)"),
            ["expected the fields of a condition in braces, found `x`"]
        );
        assert_eq!(
            messages("runtime.newCondition()"),
            ["expected the fields of a condition in braces, found `newCondition`"]
        );
    }

    #[test]
    fn other_receivers_are_left_alone() {
        assert!(messages("other.newCondition({'type': 'A'})").is_empty());
    }
}
