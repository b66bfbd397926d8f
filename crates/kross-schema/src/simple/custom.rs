//! Custom types: names for a type with markers, or for a struct. Each is resolved once, after the types that it depends
//! on; cycles are reported.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use kross_diagnostics::{Code, Severity, suggest};
use kross_value::{Text, Value};

use kross_diagnostics::{Path, Place, Problem};

use super::type_text::{self, BUILTIN};
use super::{Builder, Field, MAX_STRUCT_DEPTH, article};

/// The custom types of a schema.
pub(super) struct CustomTypes<'a> {
    path: Path,
    definitions: BTreeMap<Text, &'a Value>,
    states: BTreeMap<Text, State>,
    /// The names being resolved, outermost first.
    stack: Vec<Text>,
}

enum State {
    Resolving,
    /// The schema, whether fields of this type are required, and its size. `None` if the type is invalid.
    Resolved(Option<(Arc<crate::openapi::Schema>, bool, usize)>),
}

impl<'a> CustomTypes<'a> {
    pub(super) fn new(types: Option<&'a Value>, path: &Path, problems: &mut Vec<Problem>) -> Self {
        let mut definitions = BTreeMap::new();
        match types {
            None | Some(Value::Null) => {}
            Some(Value::Object(entries)) => {
                for (name, value) in entries.iter() {
                    if type_text::builtin(name).is_some() {
                        let message =
                            format!("`{name}` is a built-in type, so this custom type is never used");
                        let problem =
                            Problem::new(Code::TypeShadowed, Place::value(&path.key(name.as_str())), message);
                        problems.push(problem.on_key().help("rename the custom type"));
                    }
                    definitions.insert(name.text().clone(), value);
                }
            }
            Some(other) => {
                let found = article(other.kind());
                let message = format!("`{path}` must be a map of types, found {found}");
                problems.push(Problem::new(Code::SchemaNotMap, Place::value(path), message));
            }
        }
        Self { path: path.clone(), definitions, states: BTreeMap::new(), stack: Vec::new() }
    }

    /// Resolves all types, so that errors in unused types are reported as well.
    pub(super) fn resolve_all(&mut self, problems: &mut Vec<Problem>) {
        let names: Vec<Text> = self.definitions.keys().cloned().collect();
        for name in names {
            self.define(&name, 0, problems);
        }
    }

    /// The schema of a type that is used at `range` of the text at `path`.
    pub(super) fn resolve(
        &mut self,
        name: &Text,
        range: &Range<usize>,
        path: &Path,
        depth: usize,
        problems: &mut Vec<Problem>,
    ) -> Option<Field> {
        if !self.definitions.contains_key(name) {
            problems.push(self.unknown(name, range, path));
            return None;
        }
        if let Some(State::Resolving) = self.states.get(name) {
            problems.push(self.cycle(name, range, path));
            return None;
        }
        if depth > MAX_STRUCT_DEPTH {
            let message = format!("custom types are nested more than {MAX_STRUCT_DEPTH} levels deep");
            problems
                .push(Problem::new(Code::SchemaTooLarge, Place::value(path), message).within(range.clone()));
            return None;
        }
        self.define(name, depth + 1, problems);
        match self.states.get(name) {
            Some(State::Resolved(Some((schema, required, size)))) => {
                Some(Field { schema: Arc::clone(schema), required: *required, size: *size })
            }
            _ => None,
        }
    }

    fn define(&mut self, name: &Text, depth: usize, problems: &mut Vec<Problem>) {
        if self.states.contains_key(name) {
            return;
        }
        let Some(value) = self.definitions.get(name).copied() else { return };
        self.states.insert(name.clone(), State::Resolving);
        self.stack.push(name.clone());
        let path = self.path.key(name.as_str());
        let before = problems.len();
        let field = Builder { types: self, problems: &mut *problems }.field(value, &path, depth);
        let errors =
            || problems.iter().skip(before).any(|problem| problem.code.severity() == Severity::Error);
        let invalid = matches!(value, Value::String(_)) && errors();
        self.stack.pop();
        let resolved = (!invalid).then_some((field.schema, field.required, field.size));
        self.states.insert(name.clone(), State::Resolved(resolved));
    }

    fn unknown(&self, name: &Text, range: &Range<usize>, path: &Path) -> Problem {
        let problem =
            Problem::new(Code::UnknownSchemaType, Place::value(path), format!("unknown type: `{name}`"))
                .within(range.clone());
        let known = BUILTIN.iter().copied().chain(self.definitions.keys().map(Text::as_str));
        match type_text::translated(name).or_else(|| suggest(name, known)) {
            Some(meant) => problem.did_you_mean(Some(meant)),
            None if name.contains(char::is_whitespace) && name.contains('=') => {
                problem.help("put a `|` between the type and its markers")
            }
            None => problem.help(format!("use {}, or a type from `{}`", listed(BUILTIN), self.path)),
        }
    }

    fn cycle(&self, name: &Text, range: &Range<usize>, path: &Path) -> Problem {
        let start = self.stack.iter().position(|other| other == name).unwrap_or(0);
        let mut cycle: Vec<&str> = self.stack.iter().skip(start).map(Text::as_str).collect();
        cycle.push(name);
        let message = format!("a type cannot contain itself: {}", cycle.join(" -> "));
        Problem::new(Code::CyclicTypes, Place::value(path), message)
            .within(range.clone())
            .help("use `object` where the type would repeat")
    }
}

/// `` `a`, `b` ``
fn listed(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
