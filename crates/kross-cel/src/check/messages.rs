//! What the checker says: what was expected, what was found, and what to type instead.

mod functions;
mod operators;

pub(super) use functions::is_macro;

use kross_diagnostics::{Code, suggest};

use super::Checker;
use crate::ast::{Expr, Name};
use crate::error::Issue;
use crate::types::{ObjectType, Type};

/// How many fields or overloads a message lists at most.
const LISTED: usize = 8;

impl Checker<'_> {
    pub(in crate::check) fn undeclared(&mut self, expr: &Expr, name: &str) -> Type {
        let mut known: Vec<&str> = self.locals.iter().rev().map(|(local, _)| local.as_str()).collect();
        let mut declared: Vec<&str> = self.env.variables().map(|(name, _)| name.as_str()).collect();
        declared.sort_unstable();
        known.extend(declared);
        let message = format!("expected the name of a variable, found `{name}`, which does not exist here");
        let issue = Issue::new(Code::UndeclaredReference, expr.span, message);
        let issue = match suggest(name, known.iter().copied()) {
            Some(meant) => issue.help(format!("did you mean `{meant}`?")).replace(meant),
            None if self.env.functions().find(name).is_some() => {
                issue.help(format!("`{name}` is a function; call it with parentheses"))
            }
            None if known.is_empty() => issue.help("put text in quotes"),
            None => issue.help(format!("there are: {}", listed(&known))),
        };
        self.report(issue);
        Type::Error
    }

    pub(in crate::check) fn undefined_field(&mut self, object: &ObjectType, field: &Name) -> Type {
        let names = object.field_names();
        let known: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
        let message = format!("expected a field of `{}`, found `{}`", object.name(), field.text);
        let issue = Issue::new(Code::UndefinedField, field.span, message);
        self.report(match suggest(&field.text, known.iter().copied()) {
            Some(meant) => issue.help(format!("did you mean `{meant}`?")).replace(meant),
            None if known.is_empty() => issue.help("it has no fields"),
            None => issue.help(format!("there are: {}", listed(&known))),
        });
        Type::Error
    }

    pub(in crate::check) fn not_selectable(&mut self, expr: &Expr, found: &Type, field: &Name) -> Type {
        let shown = self.show(found);
        let name = &field.text;
        let message = format!("expected an object or a map before `.{name}`, found {shown}");
        let issue = Issue::new(Code::NotSelectable, field.span, message);
        let issue = if matches!(&**name, "length" | "len" | "count") {
            issue.help("its size is `size()`").replace("size()")
        } else if self.is_member_function(name) {
            issue.help(format!("`{name}` is a function; call it: `{}()`", self.text(expr)))
        } else if matches!(found, Type::List(_)) {
            issue.help(format!(
                "take one element with `[0]`, or the field of each with `map(item, item.{name})`"
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
        let message = format!("expected an index of type {wanted} for {target}, found {found}");
        self.report(Issue::new(Code::InvalidIndex, index.span, message));
        Type::Error
    }

    pub(in crate::check) fn not_indexable(&mut self, operand: &Expr, found: &Type, index: &Expr) -> Type {
        let shown = self.show(found);
        let message = format!("expected a list or a map before `[`, found {shown}");
        let issue = Issue::new(Code::InvalidIndex, operand.span, message);
        let (text, key) = (self.text(operand), self.text(index));
        let issue = match found {
            Type::String => issue.help(format!("one letter of a string is `{text}.charAt({key})`")),
            Type::Object(_) => {
                issue.help(format!("a field of an object is `{text}.{}`", key.trim_matches(['\'', '"'])))
            }
            _ => issue,
        };
        self.report(issue);
        Type::Error
    }

    pub(in crate::check) fn not_boolean(&mut self, expr: &Expr, what: &str, found: &Type) {
        let message = format!("expected a bool as {what}, found {found}");
        let issue = Issue::new(Code::NotBoolean, expr.span, message);
        let text = self.text(expr);
        let issue = match found {
            Type::Int => issue.help(format!("compare it: `{text} != 0`")),
            Type::String => issue.help(format!("compare it: `{text} != ''`")),
            Type::List(_) | Type::Map(_) => issue.help(format!("compare its size: `size({text}) > 0`")),
            Type::Optional(_) => issue.help(format!("ask whether it is there: `{text}.hasValue()`")),
            _ => issue,
        };
        self.report(issue);
    }

    pub(in crate::check) fn not_optional(&mut self, expr: &Expr, found: &Type, what: &str) -> Type {
        let shown = self.show(found);
        let message = format!("expected {what}, found {shown}");
        let issue = Issue::new(Code::NotOptional, expr.span, message);
        let help = format!("make it one: `optional.of({})`, or take the field with `.?`", self.text(expr));
        self.report(issue.help(help));
        Type::Error
    }

    pub(in crate::check) fn unknown_type(&mut self, type_name: &Name, exists: bool) {
        let name = &type_name.text;
        let message = format!("expected a type whose values can be built, found `{name}`");
        let issue = Issue::new(Code::UnknownType, type_name.span, message);
        self.report(if exists {
            issue.help("call the function that makes such a value")
        } else {
            issue.help("write objects as maps: `{'field': value}`")
        });
    }
}

/// A few of the words, and how many there are beyond.
fn listed(words: &[&str]) -> String {
    let shown = words.iter().take(LISTED).map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    match words.len().checked_sub(LISTED) {
        Some(more) if more > 0 => format!("{shown} and {more} more"),
        _ => shown,
    }
}
