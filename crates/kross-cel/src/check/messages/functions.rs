//! The messages for calls: unknown functions, and arguments that no overload accepts.

use kross_diagnostics::{Code, suggest};

use super::super::Checker;
use super::listed;
use crate::ast::{Expr, Name};
use crate::error::Issue;
use crate::library::{DeclaredOverload, OverloadId};
use crate::types::Type;

impl Checker<'_> {
    pub(in crate::check) fn unknown_function(
        &mut self,
        function: &Name,
        target: Option<&Expr>,
        types: &[Type],
    ) -> Type {
        let name = &*function.text;
        let message = format!("unknown function `{name}`");
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

    /// A macro that is called without a receiver; its arguments are not checked.
    pub(in crate::check) fn macro_without_receiver(&mut self, function: &Name) -> Type {
        let name = &function.text;
        let message = format!("the macro `{name}` must be called on a value");
        let issue = Issue::new(Code::WrongCallStyle, function.span, message);
        self.report(issue.help(format!("call it on a list or a map: `items.{name}(…)`")));
        Type::Error
    }

    /// A function with a similar name and the same call style, on the same type if possible.
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

    /// Reports why no overload of an existing function matches.
    pub(in crate::check) fn no_call(
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
            // Show only the overloads of the receiver's type.
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
        let texts: Vec<_> = operands.iter().map(|operand| self.text(operand)).collect();
        let (message, example) = if member {
            (format!("`{name}` cannot be called on a value"), format!("{name}({})", texts.join(", ")))
        } else {
            let (receiver, rest) =
                texts.split_first().map_or(("value", &[][..]), |(first, rest)| (&**first, rest));
            (format!("`{name}` must be called on a value"), format!("{receiver}.{name}({})", rest.join(", ")))
        };
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
        // If exactly one argument matches no overload, point at it.
        let wrong: Vec<usize> = (0..types.len())
            .filter(|position| !fitting.iter().any(|overload| self.takes_at(overload, *position, types)))
            .collect();
        if let &[position] = &*wrong
            && let (Some(operand), Some(found)) = (operands.get(position), types.get(position))
        {
            let wanted = self.wanted_at(fitting, position);
            let found = self.show(found);
            let message = if position < first {
                format!("`{name}` must be called on {wanted}, found {found}")
            } else if types.len() - first == 1 {
                format!("the argument of `{name}` must be {wanted}, found {found}")
            } else {
                format!("argument {} of `{name}` must be {wanted}, found {found}", position - first + 1)
            };
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
                format!("no overload of `{name}` matches `({receiver}).{name}({})`", shown.join(", "))
            }
            None => format!("no overload of `{name}` matches `{name}({})`", shown.join(", ")),
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
    let message = format!("`{name}` takes {} argument{plural}, found {found}", any_of(&shown));
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

fn signatures(overloads: &[&DeclaredOverload]) -> String {
    listed(&overloads.iter().map(|overload| overload.text).collect::<Vec<_>>())
}

pub(in crate::check) fn is_macro(name: &str) -> bool {
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

/// The CEL name of a function that has another name in other languages.
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
