//! The messages for operators and conditionals whose operands have incompatible types.

use kross_diagnostics::Code;

use super::super::Checker;
use super::listed;
use crate::Span;
use crate::ast::{BinaryOperator, Expr, Literal, Node};
use crate::error::Issue;
use crate::library::DeclaredOverload;
use crate::types::Type;

/// A conversion that gives both operands the same type.
struct Conversion {
    /// The common type.
    to: Type,
    help: String,
    at: Span,
    replacement: String,
}

impl Conversion {
    /// Adds the conversion to an issue, which then points at the operand to replace.
    fn add_to(self, mut issue: Issue) -> Issue {
        issue.span = self.at;
        issue.help(self.help).replace(self.replacement)
    }
}

impl Checker<'_> {
    pub(in crate::check) fn incomparable(
        &mut self,
        expr: &Expr,
        operator: BinaryOperator,
        left: &Expr,
        right: &Expr,
        types: &[Type; 2],
    ) -> Type {
        let [first, second] = [self.show(&types[0]), self.show(&types[1])];
        let symbol = operator.symbol();
        let message = format!("both sides of `{symbol}` must have the same type, found {first} and {second}");
        let issue = Issue::new(Code::IncomparableTypes, expr.span, message);
        let issue = match (&types[0], &types[1]) {
            (Type::Null, _) | (_, Type::Null) => {
                issue.help("a value of this type is never null; use `has(…)` to check whether a field is set")
            }
            (Type::Optional(_), _) | (_, Type::Optional(_)) => {
                issue.help("unwrap the optional with `orValue(…)`")
            }
            (first, second) => match self.conversion([left, right], [first, second]) {
                Some(conversion) => conversion.add_to(issue),
                None => issue,
            },
        };
        self.report(issue);
        Type::Error
    }

    pub(in crate::check) fn incompatible_branches(
        &mut self,
        then: &Expr,
        otherwise: &Expr,
        types: &[Type; 2],
    ) -> Type {
        let [first, second] = [self.show(&types[0]), self.show(&types[1])];
        let message = format!("both branches must have the same type, found {first} and {second}");
        let issue = Issue::new(Code::IncompatibleBranches, then.span.to(otherwise.span), message);
        let issue = match (&types[0], &types[1]) {
            (Type::Optional(inner), other) | (other, Type::Optional(inner)) if **inner == *other => {
                issue.help("unwrap the optional with `orValue(…)`")
            }
            (first, second) => match self.conversion([then, otherwise], [first, second]) {
                Some(conversion) => conversion.add_to(issue),
                None => issue.help(format!("to allow both types, write `dyn({})`", self.text(otherwise))),
            },
        };
        self.report(issue);
        Type::Error
    }

    /// The conversion that gives two operands the same type, if there is an obvious one.
    fn conversion(&self, operands: [&Expr; 2], types: [&Type; 2]) -> Option<Conversion> {
        if let Some(literal) = self.unquoted(operands, types) {
            return Some(literal);
        }
        let (to, operand) = match types {
            [Type::String, other] if is_printable(other) => (Type::String, operands[1]),
            [other, Type::String] if is_printable(other) => (Type::String, operands[0]),
            [Type::Double, Type::Int | Type::UInt] => (Type::Double, operands[1]),
            [Type::Int | Type::UInt, Type::Double] => (Type::Double, operands[0]),
            [Type::Int, Type::UInt] => (Type::Int, operands[1]),
            [Type::UInt, Type::Int] => (Type::Int, operands[0]),
            _ => return None,
        };
        let replacement = format!("{to}({})", self.source_of(operand));
        let help = format!("convert one side: `{to}({})`", self.text(operand));
        Some(Conversion { to, help, at: operand.span, replacement })
    }

    /// The conversion of a quoted number or bool to the type of the other operand.
    fn unquoted(&self, operands: [&Expr; 2], types: [&Type; 2]) -> Option<Conversion> {
        let (Node::Literal(Literal::String(text)), other, operand) = (match types {
            [other, Type::String] => (&operands[1].node, other, operands[1]),
            [Type::String, other] => (&operands[0].node, other, operands[0]),
            _ => return None,
        }) else {
            return None;
        };
        let fits = match other {
            Type::Int => text.parse::<i64>().is_ok(),
            Type::UInt | Type::Double => text.parse::<f64>().is_ok_and(f64::is_finite),
            Type::Bool => matches!(&**text, "true" | "false"),
            _ => false,
        };
        let replacement = match other {
            Type::UInt => format!("{text}u"),
            Type::Double if !text.contains(['.', 'e', 'E']) => format!("{text}.0"),
            _ => text.to_string(),
        };
        let help = format!("write it without quotes: `{replacement}`");
        fits.then(|| Conversion { to: other.clone(), help, at: operand.span, replacement })
    }

    /// Reports an operator that is not defined for these types.
    pub(in crate::check) fn no_overload(
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
        let message = format!("`{symbol}` is not defined for `{found}`");
        let issue = Issue::new(Code::NoMatchingOverload, expr.span, message);
        let issue = match (operands, types) {
            (&[left, right], [first, second]) => self.advise(issue, name, [left, right], [first, second]),
            _ => issue,
        };
        let issue = match &issue.help {
            Some(_) => issue,
            None => issue.help(format!("`{symbol}` is defined for {}", self.alternatives(name, types))),
        };
        self.report(issue);
        Type::Error
    }

    /// Adds what to write instead of an operator, if the intent is clear.
    fn advise(&self, issue: Issue, name: &str, operands: [&Expr; 2], types: [&Type; 2]) -> Issue {
        let [left, right] = operands.map(|operand| self.text(operand));
        match types {
            [_, Type::String] if name == "in" => {
                issue.help(format!("to search in a string, write `{right}.contains({left})`"))
            }
            [_, Type::Object(_)] if name == "in" => {
                let field = left.trim_matches(['\'', '"']);
                issue.help(format!("to check for a field, write `has({right}.{field})`"))
            }
            _ if name == "in" => issue,
            [Type::Opaque(first), Type::Opaque(second)] if first == second => {
                let method = match name {
                    "<" | "<=" => "isLessThan",
                    ">" | ">=" => "isGreaterThan",
                    "+" => "add",
                    _ => "sub",
                };
                if !self.is_member_function(method) {
                    return issue;
                }
                issue.help(format!("write `{left}.{method}({right})`"))
            }
            _ => match self.conversion(operands, types) {
                Some(conversion) if self.takes_two(name, &conversion.to) => conversion.add_to(issue),
                _ => issue,
            },
        }
    }

    /// Whether an operator is defined for two operands of this type.
    fn takes_two(&self, name: &str, of: &Type) -> bool {
        let functions = self.env.functions();
        let ids = functions.find(name).unwrap_or(&[]);
        ids.iter().filter_map(|id| functions.overload(*id)).any(|overload| {
            matches!(&*overload.signature.parameters, [first, second] if first == of && second == of)
        })
    }

    /// The overloads of an operator; only those that share a type with the operands, if there are any.
    fn alternatives(&self, name: &str, types: &[Type]) -> String {
        let ids = self.env.functions().find(name).unwrap_or(&[]);
        let overloads = ids.iter().filter_map(|id| self.env.functions().overload(*id));
        let (close, far): (Vec<_>, Vec<_>) = overloads.partition(|overload| shares_type(overload, types));
        let shown: Vec<String> =
            if close.is_empty() { far } else { close }.into_iter().map(parameters).collect();
        listed(&shown.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

/// The signature of an operator in infix notation.
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
