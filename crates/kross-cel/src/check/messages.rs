//! The messages of the checker: what is wrong, and what to write instead.

mod functions;
mod operators;

pub(super) use functions::is_macro;

use kross_diagnostics::{Code, suggest};

use super::Checker;
use crate::ast::{Expr, Name};
use crate::error::Issue;
use crate::types::{ObjectType, Type};

/// The largest number of fields or overloads in a message.
const LISTED: usize = 8;

impl Checker<'_> {
    pub(in crate::check) fn undeclared(&mut self, expr: &Expr, name: &str) -> Type {
        let mut known: Vec<&str> = self.locals.iter().rev().map(|(local, _)| local.as_str()).collect();
        let mut declared: Vec<&str> = self.env.variables().map(|(name, _)| name.as_str()).collect();
        declared.sort_unstable();
        known.extend(declared);
        let message = format!("unknown variable `{name}`");
        let issue = Issue::new(Code::UndeclaredReference, expr.span, message);
        let issue = match suggest(name, known.iter().copied()) {
            Some(meant) => issue.help(format!("did you mean `{meant}`?")).replace(meant),
            None if self.env.functions().find(name).is_some() => {
                issue.help(format!("`{name}` is a function; call it with parentheses"))
            }
            None if known.is_empty() => issue.help("to write a string, put it in quotes"),
            None => issue.help(format!("available: {}", listed(&known))),
        };
        self.report(issue);
        Type::Error
    }

    pub(in crate::check) fn undefined_field(&mut self, object: &ObjectType, field: &Name) -> Type {
        let names = object.field_names();
        let known: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
        let message = format!("`{}` has no field `{}`", object.name(), field.text);
        let issue = Issue::new(Code::UndefinedField, field.span, message);
        self.report(match suggest(&field.text, known.iter().copied()) {
            Some(meant) => issue.help(format!("did you mean `{meant}`?")).replace(meant),
            None if known.is_empty() => issue.help("it has no fields"),
            None => issue.help(format!("available: {}", listed(&known))),
        });
        Type::Error
    }

    pub(in crate::check) fn not_selectable(&mut self, expr: &Expr, found: &Type, field: &Name) -> Type {
        let shown = self.show(found);
        let name = &field.text;
        let message = format!("cannot select field `{name}` of type {shown}");
        let issue = Issue::new(Code::NotSelectable, field.span, message);
        let issue = if matches!(&**name, "length" | "len" | "count") {
            issue.help("use `size()`").replace("size()")
        } else if self.is_member_function(name) {
            issue.help(format!("`{name}` is a function; call it: `{}()`", self.text(expr)))
        } else if matches!(found, Type::List(_)) {
            issue.help(format!(
                "select one item with `[0]`, or the field of every item with `map(item, item.{name})`"
            ))
        } else {
            issue
        };
        self.report(issue);
        Type::Error
    }

    pub(in crate::check) fn is_member_function(&self, name: &str) -> bool {
        let functions = self.env.functions();
        let ids = functions.find(name).unwrap_or(&[]);
        ids.iter().filter_map(|id| functions.overload(*id)).any(|overload| overload.signature.member)
    }

    pub(in crate::check) fn wrong_index(
        &mut self,
        index: &Expr,
        target: &Type,
        wanted: &Type,
        found: &Type,
    ) -> Type {
        let (target, wanted, found) = (self.show(target), self.show(wanted), self.show(found));
        let message = format!("the index of {target} must be {wanted}, found {found}");
        self.report(Issue::new(Code::InvalidIndex, index.span, message));
        Type::Error
    }

    pub(in crate::check) fn not_indexable(&mut self, operand: &Expr, found: &Type, index: &Expr) -> Type {
        let shown = self.show(found);
        let message = format!("cannot index type {shown}; only lists and maps have elements");
        let issue = Issue::new(Code::InvalidIndex, operand.span, message);
        let (text, key) = (self.text(operand), self.text(index));
        let issue = match found {
            Type::String => issue.help(format!("for a character of a string, write `{text}.charAt({key})`")),
            Type::Object(_) => issue
                .help(format!("for a field of an object, write `{text}.{}`", key.trim_matches(['\'', '"']))),
            _ => issue,
        };
        self.report(issue);
        Type::Error
    }

    pub(in crate::check) fn not_boolean(&mut self, expr: &Expr, what: &str, found: &Type) {
        let message = format!("{what} must be a bool, found {found}");
        let issue = Issue::new(Code::NotBoolean, expr.span, message);
        let text = self.text(expr);
        let issue = match found {
            Type::Int => issue.help(format!("compare it: `{text} != 0`")),
            Type::String => issue.help(format!("compare it: `{text} != ''`")),
            Type::List(_) | Type::Map(_) => issue.help(format!("compare its size: `size({text}) > 0`")),
            Type::Optional(_) => issue.help(format!("check whether it has a value: `{text}.hasValue()`")),
            _ => issue,
        };
        self.report(issue);
    }

    pub(in crate::check) fn not_optional(&mut self, expr: &Expr, found: &Type, what: &str) -> Type {
        let shown = self.show(found);
        let message = format!("{what} must be an optional, found {shown}");
        let issue = Issue::new(Code::NotOptional, expr.span, message);
        let help = format!("write `optional.of({})`, or select the field with `.?`", self.text(expr));
        self.report(issue.help(help));
        Type::Error
    }

    pub(in crate::check) fn unknown_type(&mut self, type_name: &Name, exists: bool) {
        let name = &type_name.text;
        let (message, help) = if exists {
            (
                format!("the type `{name}` has no fields to construct it from"),
                "call the function that returns such a value",
            )
        } else {
            (format!("unknown type `{name}`"), "write objects as maps: `{'field': value}`")
        };
        self.report(Issue::new(Code::UnknownType, type_name.span, message).help(help));
    }
}

/// The first few words, and the number of the remaining ones.
fn listed(words: &[&str]) -> String {
    let shown = words.iter().take(LISTED).map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    match words.len().checked_sub(LISTED) {
        Some(more) if more > 0 => format!("{shown} and {more} more"),
        _ => shown,
    }
}
