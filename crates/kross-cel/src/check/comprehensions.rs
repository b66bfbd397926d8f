//! The types of macros over lists, maps and optionals: of their variables, their bodies and their results. Equivalent to
//! checking the folds that cel-go expands them to.

use kross_diagnostics::Code;

use super::Checker;
use crate::ast::{Comprehension, ComprehensionKind, Expr, Name};
use crate::error::Issue;
use crate::types::Type;

impl Checker<'_> {
    pub(super) fn comprehension(&mut self, comprehension: &Comprehension) -> Type {
        let Comprehension { kind, range, variable, second, filter, body, .. } = comprehension;
        let range_type = self.expr(range);
        let range_type = self.substitution.resolve(&range_type);
        let (first_type, second_type) = self.variables(comprehension, &range_type);
        let mut variables = vec![(variable, first_type.clone())];
        if let Some(second) = second {
            variables.push((second, second_type));
        }
        self.with_locals(&variables, |checker| {
            let filter_type = filter.as_ref().map(|filter| (filter, checker.expr(filter)));
            let result = match kind {
                ComprehensionKind::All | ComprehensionKind::Exists | ComprehensionKind::ExistsOne => {
                    checker.condition(body, &format!("the condition of `{}`", comprehension.name.text));
                    Type::Bool
                }
                ComprehensionKind::Filter => {
                    checker.condition(body, "the condition of `filter`");
                    Type::list(checker.substitution.resolve(&first_type))
                }
                ComprehensionKind::Map | ComprehensionKind::TransformList => Type::list(checker.expr(body)),
                ComprehensionKind::TransformMap => {
                    let value = checker.expr(body);
                    Type::map(checker.substitution.resolve(&first_type), value)
                }
                ComprehensionKind::TransformMapEntry => checker.map_entry(body),
                ComprehensionKind::SortBy => checker.sort_by(&range_type, body),
            };
            // After the body, which may determine the type of the filter.
            if let Some((filter, found)) = filter_type {
                checker.must_be_boolean(
                    filter,
                    &format!("the condition of `{}`", comprehension.name.text),
                    &found,
                );
            }
            result
        })
    }

    /// The types of the variables, by the type of the range.
    fn variables(&mut self, comprehension: &Comprehension, range: &Type) -> (Type, Type) {
        let two = comprehension.second.is_some();
        match range {
            Type::Nullable(inner) => self.variables(comprehension, inner),
            Type::List(item) if two => (Type::Int, (**item).clone()),
            Type::List(item) => ((**item).clone(), Type::Error),
            Type::Map(_) if comprehension.kind == ComprehensionKind::SortBy => {
                self.not_iterable(comprehension, range)
            }
            Type::Map(entry) => (entry.0.clone(), entry.1.clone()),
            Type::Dyn | Type::Variable(_) => {
                self.substitution.assign(&Type::Dyn, range);
                (Type::Dyn, Type::Dyn)
            }
            Type::Error => (Type::Error, Type::Error),
            other => self.not_iterable(comprehension, other),
        }
    }

    fn not_iterable(&mut self, comprehension: &Comprehension, found: &Type) -> (Type, Type) {
        let sorts = comprehension.kind == ComprehensionKind::SortBy;
        let (wanted, name) = (if sorts { "a list" } else { "a list or a map" }, &comprehension.name.text);
        let shown = self.show(found);
        let message = format!("`{name}` needs {wanted}, found {shown}");
        let issue = Issue::new(Code::NotIterable, comprehension.range.span, message);
        let issue = match found {
            Type::String => issue.help("split it into a list first, for example with `split(',')`"),
            Type::Optional(_) => issue.help("unwrap it first with `orValue([])`, or use `optMap`"),
            Type::Object(_) => issue.help("use one of its fields that is a list or a map"),
            _ => issue,
        };
        self.report(issue);
        (Type::Error, Type::Error)
    }

    fn map_entry(&mut self, body: &Expr) -> Type {
        let found = self.expr(body);
        let entry = Type::map(self.substitution.fresh(), self.substitution.fresh());
        if self.substitution.assign(&found, &entry) {
            return match self.substitution.resolve(&found) {
                Type::Dyn | Type::Variable(_) => entry,
                Type::Error => Type::Error,
                map => map,
            };
        }
        let found = self.show(&found);
        let message = format!("the result of `transformMapEntry` must be a map, found {found}");
        self.report(Issue::new(Code::NotAMapEntry, body.span, message).help("write `{key: value}`"));
        Type::Error
    }

    fn sort_by(&mut self, range: &Type, body: &Expr) -> Type {
        const SORTABLE: [Type; 8] = [
            Type::Int,
            Type::UInt,
            Type::Double,
            Type::Bool,
            Type::Duration,
            Type::Timestamp,
            Type::String,
            Type::Bytes,
        ];
        let found = self.expr(body);
        let known = SORTABLE.iter().find(|sortable| self.substitution.assign(&found, sortable));
        if known.is_none() {
            let found = self.show(&found);
            let message = format!(
                "the sort key must be an int, uint, double, bool, string, bytes, duration or timestamp, found {found}"
            );
            self.report(
                Issue::new(Code::NotSortable, body.span, message)
                    .help("sort by a field of one of these types"),
            );
            return range.clone();
        }
        match range {
            Type::Dyn | Type::Variable(_) if self.substitution.resolve(&found) == Type::Dyn => Type::Dyn,
            Type::Dyn | Type::Variable(_) => Type::list(Type::Dyn),
            list => list.clone(),
        }
    }

    pub(super) fn optional_map(&mut self, operand: &Expr, variable: &Name, body: &Expr, flat: bool) -> Type {
        let found = self.expr(operand);
        let inner = self.substitution.fresh();
        if !self.substitution.assign(&found, &Type::optional(inner.clone())) {
            let found = self.substitution.finish(&found);
            let name = if flat { "optFlatMap" } else { "optMap" };
            self.not_optional(operand, &found, &format!("the receiver of `{name}`"));
            self.with_locals(&[(variable, Type::Error)], |checker| checker.expr(body));
            return Type::Error;
        }
        // After an error nothing is known of the type.
        let inner = if found == Type::Error { Type::Error } else { self.substitution.resolve(&inner) };
        let result = self.with_locals(&[(variable, inner)], |checker| checker.expr(body));
        if !flat {
            return Type::optional(result);
        }
        let none = Type::optional(self.substitution.fresh());
        match self.unify(&result, &none) {
            Some(result) => result,
            None => {
                let result = self.substitution.finish(&result);
                self.not_optional(body, &result, "the result of `optFlatMap`")
            }
        }
    }
}
