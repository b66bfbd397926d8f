//! Turns the unquoted keys of `runtime.newCondition({type: …, status: …})` into strings, and checks that they are fields
//! of a condition.

use kross_diagnostics::Code;

use super::parser::Parser;
use crate::Span;
use crate::ast::{Entry, Expr, Literal, Name, Node};
use crate::error::Issue;
use crate::library::kro::runtime::{FIELDS, VARIABLE, is_status};

/// Whether a call creates a condition.
pub(super) fn is_new_condition(receiver: &Expr, function: &Name) -> bool {
    matches!(&receiver.node, Node::Ident { name, rooted: false } if *name == VARIABLE)
        && function.text == "newCondition"
}

impl Parser<'_> {
    /// Replaces the keys in the argument of `newCondition` by strings. Invalid arguments are reported and left as they are.
    pub(super) fn condition_fields(&mut self, function: &Name, arguments: &mut [Expr]) {
        let [Expr { node: Node::Map { entries }, span, .. }] = arguments else {
            let span = match arguments {
                [first, .., last] => first.span.to(last.span),
                [only] => only.span,
                [] => function.span,
            };
            if !arguments.iter().any(|argument| argument.node == Node::Error) {
                let found = match arguments {
                    [] => "no arguments".to_owned(),
                    _ => format!("`{}`", self.lexer.shown(span)),
                };
                self.condition_issue(
                    span,
                    &format!("`newCondition` takes the fields of a condition in braces, found {found}"),
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
                // Already reported; the checker ignores it.
                entry.key.node = Node::Error;
            }
        }
        let is_invalid = entries.iter().any(|entry| entry.key.node == Node::Error);
        for required in ["type", "status"] {
            if !is_invalid && !seen.contains(&required) {
                self.condition_issue(span, &format!("the condition has no `{required}`"));
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
                self.condition_issue(span, &format!("expected an unquoted field name, found `{found}`"));
                return None;
            }
        };
        let Some(field) = FIELDS.into_iter().find(|field| *name == **field) else {
            self.condition_issue(span, &format!("a condition has no field `{name}`"));
            return None;
        };
        if seen.contains(&field) {
            self.condition_issue(span, &format!("the field `{field}` is set twice"));
            return None;
        }
        self.condition_literal(field, &entry.value);
        Some(field)
    }

    /// Checks literal values, which are known before evaluation.
    fn condition_literal(&mut self, field: &str, value: &Expr) {
        let Node::Literal(Literal::String(text)) = &value.node else { return };
        if field == "status" && !is_status(text) {
            let message = format!("the status must be `True`, `False` or `Unknown`, found `{text}`");
            self.condition_issue(value.span, &message);
        }
        if field == "type" && text.is_empty() {
            self.condition_issue(value.span, "the type of the condition is empty");
        }
    }

    fn condition_issue(&mut self, span: Span, message: &str) {
        let usage = "write `runtime.newCondition({type: 'Ready', status: 'True'})`; `reason` and `message` are optional";
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
    fn unquoted_field_names_are_keys() {
        let fields = "{type: 'A', status: cel, reason: 'R', message: 'M'}";
        assert!(messages(&format!("runtime.newCondition({fields})")).is_empty());
    }

    #[test]
    fn every_error_in_the_fields_is_reported() {
        let found =
            messages("runtime.newCondition({'type': 'A', status: 'Yes', status: 'True', colour: 'x'})");
        assert_eq!(
            found,
            [
                "expected an unquoted field name, found `'type'`",
                "the status must be `True`, `False` or `Unknown`, found `Yes`",
                "the field `status` is set twice",
                "a condition has no field `colour`",
            ]
        );
        assert_eq!(messages("runtime.newCondition({status: 'True'})"), ["the condition has no `type`"]);
        assert_eq!(
            messages("runtime.newCondition({type: '', status: 'True'})"),
            ["the type of the condition is empty"]
        );
        assert_eq!(
            messages("runtime.newCondition(x)"),
            ["`newCondition` takes the fields of a condition in braces, found `x`"]
        );
        assert_eq!(
            messages("runtime.newCondition()"),
            ["`newCondition` takes the fields of a condition in braces, found no arguments"]
        );
    }

    #[test]
    fn other_receivers_are_ignored() {
        assert!(messages("other.newCondition({'type': 'A'})").is_empty());
    }
}
