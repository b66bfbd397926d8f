//! What the checker says: what was expected, what was found, and what to type instead.

use kross_diagnostics::{Code, suggest};

use super::Checker;
use crate::ast::{BinaryOperator, Expr, Name};
use crate::error::Issue;
use crate::library::{DeclaredOverload, OverloadId};
use crate::types::{ObjectType, Type};

/// How many fields or overloads a message lists at most.
const LISTED: usize = 8;

impl Checker<'_> {
    pub(super) fn undeclared(&mut self, expr: &Expr, name: &str) -> Type {
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

    pub(super) fn undefined_field(&mut self, object: &ObjectType, field: &Name) -> Type {
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

    pub(super) fn not_selectable(&mut self, expr: &Expr, found: &Type, field: &Name) -> Type {
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

    fn is_member_function(&self, name: &str) -> bool {
        let functions = self.env.functions();
        let ids = functions.find(name).unwrap_or(&[]);
        ids.iter().filter_map(|id| functions.overload(*id)).any(|overload| overload.signature.member)
    }

    pub(super) fn wrong_index(&mut self, index: &Expr, target: &Type, wanted: &Type, found: &Type) -> Type {
        let (target, wanted, found) = (self.show(target), self.show(wanted), self.show(found));
        let message = format!("expected an index of type {wanted} for {target}, found {found}");
        self.report(Issue::new(Code::InvalidIndex, index.span, message));
        Type::Error
    }

    pub(super) fn not_indexable(&mut self, operand: &Expr, found: &Type, index: &Expr) -> Type {
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

    pub(super) fn not_boolean(&mut self, expr: &Expr, what: &str, found: &Type) {
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

    pub(super) fn not_optional(&mut self, expr: &Expr, found: &Type, what: &str) -> Type {
        let shown = self.show(found);
        let message = format!("expected {what}, found {shown}");
        let issue = Issue::new(Code::NotOptional, expr.span, message);
        let help = format!("make it one: `optional.of({})`, or take the field with `.?`", self.text(expr));
        self.report(issue.help(help));
        Type::Error
    }

    pub(super) fn incomparable(
        &mut self,
        expr: &Expr,
        operator: BinaryOperator,
        left: &Expr,
        right: &Expr,
        types: &[Type; 2],
    ) -> Type {
        let [first, second] = [self.show(&types[0]), self.show(&types[1])];
        let symbol = operator.symbol();
        let message =
            format!("expected both sides of `{symbol}` to have one type, found {first} and {second}");
        let issue = Issue::new(Code::IncomparableTypes, expr.span, message);
        let issue = match (&types[0], &types[1]) {
            (Type::Null, _) | (_, Type::Null) => {
                issue.help("a value of this type is never null; ask `has(…)` whether a field is there")
            }
            _ => match self.conversion([left, right], types) {
                Some(help) => issue.help(help),
                None => issue,
            },
        };
        self.report(issue);
        Type::Error
    }

    pub(super) fn incompatible_branches(&mut self, then: &Expr, otherwise: &Expr, types: &[Type; 2]) -> Type {
        let [first, second] = [self.show(&types[0]), self.show(&types[1])];
        let message = format!("expected both branches to have one type, found {first} and {second}");
        let issue = Issue::new(Code::IncompatibleBranches, then.span.to(otherwise.span), message);
        let help = self
            .conversion([then, otherwise], types)
            .unwrap_or_else(|| format!("if both are meant, write `dyn({})`", self.text(otherwise)));
        self.report(issue.help(help));
        Type::Error
    }

    /// How to make two sides the same type, where there is an obvious way.
    fn conversion(&self, operands: [&Expr; 2], types: &[Type; 2]) -> Option<String> {
        let (function, operand) = match types {
            [Type::String, other] if is_printable(other) => ("string", operands[1]),
            [other, Type::String] if is_printable(other) => ("string", operands[0]),
            [Type::Double, Type::Int | Type::UInt] => ("double", operands[1]),
            [Type::Int | Type::UInt, Type::Double] => ("double", operands[0]),
            [Type::Int, Type::UInt] => ("int", operands[1]),
            [Type::UInt, Type::Int] => ("int", operands[0]),
            [Type::Optional(inner), other] | [other, Type::Optional(inner)] if **inner == *other => {
                return Some("take the value out of the optional with `orValue(…)`".to_owned());
            }
            _ => return None,
        };
        Some(format!("convert one side: `{function}({})`", self.text(operand)))
    }

    /// An operator that does not take these types.
    pub(super) fn no_overload(
        &mut self,
        expr: &Expr,
        name: &str,
        operands: &[&Expr],
        types: &[Type],
    ) -> Type {
        if types.contains(&Type::Error) {
            return Type::Error;
        }
        let shown: Vec<String> = types.iter().map(|found| self.show(found)).collect();
        let (symbol, found) = match (name, &*shown) {
            ("-_", [only]) => ("-", only.clone()),
            (symbol, [left, right]) => (symbol, format!("{left} {symbol} {right}")),
            (symbol, _) => (symbol, shown.join(", ")),
        };
        let message = format!("expected types that `{symbol}` takes, found `{found}`");
        let issue = Issue::new(Code::NoMatchingOverload, expr.span, message);
        let conversion = match (operands, types) {
            (&[left, right], [_, Type::String]) if name == "in" => {
                Some(format!("look into text with `{}.contains({})`", self.text(right), self.text(left)))
            }
            (&[left, right], [_, Type::Object(_)]) if name == "in" => {
                let field = self.text(left).trim_matches(['\'', '"']);
                Some(format!("ask for a field with `has({}.{field})`", self.text(right)))
            }
            (_, _) if name == "in" => None,
            (&[left, right], [Type::Opaque(first), Type::Opaque(second)]) if first == second => {
                let method = match name {
                    "<" | "<=" => "isLessThan",
                    ">" | ">=" => "isGreaterThan",
                    "+" => "add",
                    _ => "sub",
                };
                self.is_member_function(method)
                    .then(|| format!("write `{}.{method}({})`", self.text(left), self.text(right)))
            }
            (&[left, right], [first, second]) => {
                self.conversion([left, right], &[first.clone(), second.clone()])
            }
            _ => None,
        };
        let issue = match conversion {
            Some(help) => issue.help(help),
            None => issue.help(format!("`{symbol}` takes {}", self.alternatives(name, types))),
        };
        self.report(issue);
        Type::Error
    }

    /// The overloads of an operator, those that share a type with what was found first.
    fn alternatives(&self, name: &str, types: &[Type]) -> String {
        let ids = self.env.functions().find(name).unwrap_or(&[]);
        let overloads = ids.iter().filter_map(|id| self.env.functions().overload(*id));
        let (close, far): (Vec<_>, Vec<_>) = overloads.partition(|overload| shares_type(overload, types));
        let shown: Vec<String> =
            if close.is_empty() { far } else { close }.into_iter().map(parameters).collect();
        listed(&shown.iter().map(String::as_str).collect::<Vec<_>>())
    }

    pub(super) fn unknown_type(&mut self, type_name: &Name, exists: bool) {
        let name = &type_name.text;
        let message = format!("expected a type whose values can be built, found `{name}`");
        let issue = Issue::new(Code::UnknownType, type_name.span, message);
        self.report(if exists {
            issue.help("call the function that makes such a value")
        } else {
            issue.help("write objects as maps: `{'field': value}`")
        });
    }

    pub(super) fn unknown_function(
        &mut self,
        function: &Name,
        target: Option<&Expr>,
        types: &[Type],
    ) -> Type {
        let name = &*function.text;
        let message = format!("expected the name of a function, found `{name}`, which does not exist");
        let issue = Issue::new(Code::UnknownFunction, function.span, message);
        let issue = match foreign_name(name, types.first()) {
            Some(meant) => issue.help(format!("did you mean `{meant}`?")),
            None => match self.similar_function(name, target.is_some(), types) {
                Some(meant) => issue.help(format!("did you mean `{meant}`?")).replace(meant),
                None => issue,
            },
        };
        self.report(issue);
        Type::Error
    }

    /// A macro called without a list; its arguments mean nothing.
    pub(super) fn macro_without_receiver(&mut self, function: &Name) -> Type {
        let name = &function.text;
        let message =
            format!("expected the macro `{name}` to be called on a value, found a call without one");
        let issue = Issue::new(Code::WrongCallStyle, function.span, message);
        self.report(issue.help(format!("call it on a list or a map: `items.{name}(…)`")));
        Type::Error
    }

    /// A function with a similar name that is called in the same way, on the same type if possible.
    fn similar_function(&self, name: &str, member: bool, types: &[Type]) -> Option<&'static str> {
        let functions = self.env.functions();
        let mut fitting: Vec<(bool, &'static str)> = functions
            .names()
            .filter(|known| known.starts_with(|letter: char| letter.is_ascii_alphabetic()) && *known != "in")
            .filter_map(|known| {
                let overloads = functions.find(known)?.iter().filter_map(|id| functions.overload(*id));
                let mut overloads = overloads.filter(|overload| overload.signature.member == member);
                let first = overloads.next()?;
                let receives = |overload: &DeclaredOverload| {
                    overload.signature.parameters.first().is_some_and(|wanted| Some(wanted) == types.first())
                };
                Some((!(member && (receives(first) || overloads.any(receives))), known))
            })
            .collect();
        fitting.sort_unstable();
        suggest(name, fitting.into_iter().map(|(_, known)| known))
    }

    /// A function that exists, but not like this.
    pub(super) fn no_call(
        &mut self,
        expr: &Expr,
        function: &Name,
        ids: &[OverloadId],
        member: bool,
        operands: &[&Expr],
        types: &[Type],
    ) -> Type {
        let env = self.env;
        let all: Vec<&DeclaredOverload> = ids.iter().filter_map(|id| env.functions().overload(*id)).collect();
        let name = all.first().map_or(&*function.text, |overload| overload.function);
        let styled: Vec<&DeclaredOverload> =
            all.iter().copied().filter(|overload| overload.signature.member == member).collect();
        let issue = if styled.is_empty() {
            self.wrong_style(function, name, member, &all, operands)
        } else if !styled.iter().any(|overload| overload.signature.takes(types.len())) {
            wrong_count(function, name, &styled, types.len() - usize::from(member))
        } else {
            let mut fitting: Vec<&DeclaredOverload> =
                styled.into_iter().filter(|overload| overload.signature.takes(types.len())).collect();
            // Of a function that many types have, only what this type has is of interest.
            if member && fitting.iter().any(|overload| self.takes_at(overload, 0, types)) {
                fitting.retain(|overload| self.takes_at(overload, 0, types));
            }
            self.wrong_arguments(expr, name, &fitting, operands, types)
        };
        self.report(issue);
        Type::Error
    }

    fn wrong_style(
        &self,
        function: &Name,
        name: &str,
        member: bool,
        all: &[&DeclaredOverload],
        operands: &[&Expr],
    ) -> Issue {
        let texts: Vec<&str> = operands.iter().map(|operand| self.text(operand)).collect();
        let (expected, found, example) = if member {
            ("given its argument", "called on it", format!("{name}({})", texts.join(", ")))
        } else {
            let (receiver, rest) =
                texts.split_first().map_or(("value", &[][..]), |(first, rest)| (*first, rest));
            ("called on a value", "a call without one", format!("{receiver}.{name}({})", rest.join(", ")))
        };
        let message = format!("expected `{name}` to be {expected}, found {found}");
        let issue = Issue::new(Code::WrongCallStyle, function.span, message);
        if operands.is_empty() {
            return issue.help(format!("it is declared as {}", signatures(all)));
        }
        issue.help(format!("write `{example}`"))
    }

    fn wrong_arguments(
        &mut self,
        expr: &Expr,
        name: &str,
        fitting: &[&DeclaredOverload],
        operands: &[&Expr],
        types: &[Type],
    ) -> Issue {
        let first = usize::from(fitting.first().is_some_and(|overload| overload.signature.member));
        // One argument that fits no overload is the one to point at.
        let wrong: Vec<usize> = (0..types.len())
            .filter(|position| !fitting.iter().any(|overload| self.takes_at(overload, *position, types)))
            .collect();
        if let &[position] = &*wrong
            && let (Some(operand), Some(found)) = (operands.get(position), types.get(position))
        {
            let wanted = self.wanted_at(fitting, position);
            let found = self.show(found);
            let what = if position < first { "to be called on" } else { "to be given" };
            let message = format!("expected `{name}` {what} {wanted}, found {found}");
            let issue = Issue::new(Code::NoMatchingOverload, operand.span, message);
            if let (0, "contains", [items, value]) = (position, name, operands)
                && matches!(types.first(), Some(Type::List(_) | Type::Map(_)))
            {
                return issue.help(format!("write `{} in {}`", self.text(value), self.text(items)));
            }
            return issue.help(format!("it is declared as {}", signatures(fitting)));
        }
        let shown: Vec<String> = types.iter().skip(first).map(|found| self.show(found)).collect();
        let message = match types.first().filter(|_| first == 1) {
            Some(receiver) => {
                let receiver = self.show(receiver);
                format!(
                    "expected types that `{name}` takes, found `({receiver}).{name}({})`",
                    shown.join(", ")
                )
            }
            None => format!("expected types that `{name}` takes, found `{name}({})`", shown.join(", ")),
        };
        let issue = Issue::new(Code::NoMatchingOverload, expr.span, message);
        issue.help(format!("it is declared as {}", signatures(fitting)))
    }

    fn takes_at(&mut self, overload: &DeclaredOverload, position: usize, types: &[Type]) -> bool {
        let (Some(wanted), Some(found)) = (overload.signature.parameter(position), types.get(position))
        else {
            return false;
        };
        let mark = self.substitution.mark();
        let parameters: Vec<(char, Type)> = overload
            .signature
            .type_parameters
            .iter()
            .map(|letter| (*letter, self.substitution.fresh()))
            .collect();
        let fits = self.substitution.fits(found, &wanted.instantiate(&parameters));
        self.substitution.roll_back(mark);
        fits
    }

    fn wanted_at(&self, fitting: &[&DeclaredOverload], position: usize) -> String {
        let mut wanted: Vec<String> = Vec::new();
        for overload in fitting {
            if let Some(parameter) = overload.signature.parameter(position) {
                let text = parameter.to_string();
                if !wanted.contains(&text) {
                    wanted.push(text);
                }
            }
        }
        any_of(&wanted)
    }
}

fn wrong_count(function: &Name, name: &str, styled: &[&DeclaredOverload], found: usize) -> Issue {
    let mut counts: Vec<usize> = styled
        .iter()
        .map(|overload| overload.signature.parameters.len() - usize::from(overload.signature.member))
        .collect();
    counts.sort_unstable();
    counts.dedup();
    let shown: Vec<String> = counts.iter().map(ToString::to_string).collect();
    let plural = if counts == [1] { "" } else { "s" };
    let message = format!("expected {} argument{plural} for `{name}`, found {found}", any_of(&shown));
    Issue::new(Code::WrongArgumentCount, function.span, message)
        .help(format!("it is declared as {}", signatures(styled)))
}

/// `a, b or c`
fn any_of(words: &[String]) -> String {
    match words.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
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

fn signatures(overloads: &[&DeclaredOverload]) -> String {
    listed(&overloads.iter().map(|overload| overload.text).collect::<Vec<_>>())
}

/// The parameters of an operator around its symbol.
fn parameters(overload: &DeclaredOverload) -> String {
    match &*overload.signature.parameters {
        [left, right] => format!("{left} {} {right}", overload.function),
        [only] => format!("{}{only}", overload.function.trim_end_matches('_')),
        _ => overload.text.to_owned(),
    }
}

fn shares_type(overload: &DeclaredOverload, types: &[Type]) -> bool {
    overload
        .signature
        .parameters
        .iter()
        .zip(types)
        .any(|(wanted, found)| std::mem::discriminant(wanted) == std::mem::discriminant(found))
}

fn is_printable(of: &Type) -> bool {
    matches!(of, Type::Bool | Type::Int | Type::UInt | Type::Double | Type::Timestamp | Type::Duration)
}

pub(super) fn is_macro(name: &str) -> bool {
    matches!(
        name,
        "all"
            | "exists"
            | "exists_one"
            | "existsOne"
            | "map"
            | "filter"
            | "transformList"
            | "transformMap"
            | "transformMapEntry"
            | "sortBy"
            | "optMap"
            | "optFlatMap"
    )
}

/// What functions of other languages are called here.
fn foreign_name(name: &str, on: Option<&Type>) -> Option<&'static str> {
    Some(match name {
        "length" | "len" | "count" => "size",
        "toLower" | "toLowerCase" | "lower" | "lowercase" => "lowerAscii",
        "toUpper" | "toUpperCase" | "upper" | "uppercase" => "upperAscii",
        "hasPrefix" => "startsWith",
        "hasSuffix" => "endsWith",
        "toString" | "str" | "String" => "string(…)",
        "toInt" | "parseInt" | "Number" | "integer" => "int(…)",
        "some" | "any" => "exists",
        "every" => "all",
        "includes" | "has" if matches!(on, Some(Type::List(_) | Type::Map(_))) => "value in items",
        "contains" if matches!(on, Some(Type::List(_) | Type::Map(_))) => "value in items",
        "default" | "getOrDefault" | "orDefault" => "orValue",
        _ => return None,
    })
}
