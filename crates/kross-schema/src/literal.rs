//! Checks the literals of a template or default against the schema of their field. Passes every string with its schema to
//! a callback, which checks the expressions in it.

mod format;
mod lists;
mod scalar;

use kross_diagnostics::{Code, Path, PathSegment, Place, Problem, suggest};
use kross_value::{Object, Text, Value};

use crate::assign::describe;
use crate::openapi::Kind;
use crate::view::{FieldView, SchemaView};

/// Maximum depth; deeper values are not checked.
const MAX_DEPTH: usize = 128;
/// How many choices within choices are compared.
const MAX_CHOOSING: u32 = 2;

/// A string in the value that is checked.
#[derive(Debug)]
pub struct FoundText<'a> {
    /// Its path.
    pub path: &'a Path,
    /// The string.
    pub text: &'a Text,
    /// The schema of the field; `None` if there is none or the field is unknown.
    pub target: Option<&'a SchemaView>,
}

/// Is called for every string; returns whether it contains expressions and must not be checked as a literal.
pub type Texts<'a> = &'a mut dyn FnMut(FoundText<'_>) -> bool;

/// Checks a template against the schema of its kind. Missing required fields are warnings, because a webhook or another
/// controller may set them.
pub fn check_template(
    value: &Value,
    target: &SchemaView,
    at: &Path,
    texts: Texts<'_>,
    problems: &mut Vec<Problem>,
) {
    let missing = Code::MissingRequiredField;
    Checking { path: at.clone(), texts, problems, missing, choosing: 0 }.value(value, Some(target));
}

/// Checks a value that must be complete, such as a default: missing fields are reported with `missing`.
pub fn check_complete(
    value: &Value,
    target: &SchemaView,
    at: &Path,
    missing: Code,
    problems: &mut Vec<Problem>,
) {
    let texts: Texts<'_> = &mut |_| false;
    Checking { path: at.clone(), texts, problems, missing, choosing: 0 }.value(value, Some(target));
}

struct Checking<'a> {
    path: Path,
    texts: Texts<'a>,
    problems: &'a mut Vec<Problem>,
    /// The code for missing required fields.
    missing: Code,
    /// How many choices enclose the value.
    choosing: u32,
}

impl Checking<'_> {
    fn value(&mut self, value: &Value, target: Option<&SchemaView>) {
        if self.path.segments().len() > MAX_DEPTH {
            return;
        }
        if let Value::String(text) = value {
            let found = FoundText { path: &self.path, text, target };
            if (self.texts)(found) {
                return;
            }
        }
        match target {
            None => self.children(value),
            Some(target) => self.typed(value, target),
        }
    }

    /// Visits the strings in a value without a schema.
    fn children(&mut self, value: &Value) {
        match value {
            Value::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.inside(PathSegment::Index(index), |this| this.value(item, None));
                }
            }
            Value::Object(object) => {
                for (name, value) in object.iter() {
                    self.inside(PathSegment::Key(name.to_string()), |this| this.value(value, None));
                }
            }
            _ => {}
        }
    }

    fn inside(&mut self, segment: PathSegment, check: impl FnOnce(&mut Self)) {
        self.path.push(segment);
        check(self);
        self.path.pop();
    }

    fn typed(&mut self, value: &Value, target: &SchemaView) {
        let schema = target.schema();
        // A key without a value in YAML is null, and the API server treats null as an absent field.
        if value.is_null() {
            return;
        }
        // Choices within choices multiply. What is not compared here, the API server checks.
        if self.choosing > MAX_CHOOSING {
            return;
        }
        let choices = target.choices();
        if !choices.is_empty() {
            return self.choose(value, target, &choices);
        }
        if schema.int_or_string {
            return match value {
                Value::Int(_) | Value::String(_) => self.scalar(value, schema),
                _ => self.wrong_kind(value, target),
            };
        }
        match (value, schema.kind) {
            (Value::Object(object), Some(Kind::Object)) => self.object(object, target),
            (Value::Object(object), None) if !schema.properties.is_empty() => self.object(object, target),
            (Value::List(items), Some(Kind::Array)) => self.list(items, target),
            (_, None) => self.children(value),
            (Value::Bool(_), Some(Kind::Boolean))
            | (Value::Int(_), Some(Kind::Integer | Kind::Number))
            | (Value::Float(_), Some(Kind::Number))
            | (Value::String(_), Some(Kind::String)) => self.scalar(value, schema),
            _ => {
                self.wrong_kind(value, target);
                self.children(value);
            }
        }
    }

    /// Checks that the value satisfies one of several schemas.
    fn choose(&mut self, value: &Value, target: &SchemaView, choices: &[SchemaView]) {
        let fits = choices.iter().any(|choice| {
            let mut problems = Vec::new();
            let texts: Texts<'_> = &mut |_| false;
            let (missing, choosing) = (self.missing, self.choosing + 1);
            let mut trial =
                Checking { path: Path::root(), texts, problems: &mut problems, missing, choosing };
            trial.typed(value, choice);
            problems.is_empty()
        });
        if !fits && !matches!(value, Value::Object(_) | Value::List(_)) {
            self.wrong_kind(value, target);
        }
        self.children(value);
    }

    fn object(&mut self, object: &Object, target: &SchemaView) {
        for (name, value) in object.iter() {
            self.path.push(PathSegment::Key(name.to_string()));
            match target.field(name) {
                FieldView::Known(field) => self.value(value, Some(&field)),
                FieldView::Free => self.value(value, None),
                FieldView::Unknown => {
                    self.unknown_field(name, target);
                    self.value(value, None);
                }
            }
            self.path.pop();
        }
        self.count(object.len(), target.schema());
        self.required(object, target);
    }

    fn required(&mut self, object: &Object, target: &SchemaView) {
        let schema = target.schema();
        for name in schema.required.iter().filter(|name| !object.contains_key(name)) {
            let defaulted = schema.properties.get(name).is_some_and(|field| field.default.is_some());
            if !defaulted {
                self.report(self.missing, format!("the required field `{name}` is missing"));
            }
        }
    }

    fn unknown_field(&mut self, name: &str, target: &SchemaView) {
        let message = format!("`{}` has no field `{name}`", target.name());
        let problem = Problem::new(Code::UnknownField, Place::key(&self.path), message);
        let meant = suggest(name, target.field_names());
        let problem = match (meant, owner(name, target)) {
            (Some(_), _) => problem.did_you_mean(meant),
            (None, Some(owner)) => problem.help(format!("it is a field of `{owner}`")),
            (None, None) => match listed(target) {
                Some(fields) => problem.help(format!("the available fields are {fields}")),
                None => problem,
            },
        };
        self.problems.push(problem);
    }

    fn wrong_kind(&mut self, value: &Value, target: &SchemaView) {
        let found = match value {
            Value::Object(_) | Value::List(_) => value.kind().to_owned(),
            scalar => format!("{} `{}`", scalar.kind(), shortened(scalar)),
        };
        let message = format!("expected {}, found {found}", describe(target));
        let problem = Problem::new(Code::WrongKind, Place::value(&self.path), message);
        self.problems.push(match (value, target.schema().kind) {
            (Value::Bool(_) | Value::Int(_) | Value::Float(_), Some(Kind::String)) => {
                problem.help("put it in quotes").replace(format!("\"{value}\""))
            }
            (Value::String(text), Some(Kind::Integer | Kind::Number | Kind::Boolean)) => {
                let unquoted: Option<Value> = serde_json::from_str(text).ok();
                let fits = matches!(
                    (&unquoted, target.schema().kind),
                    (Some(Value::Int(_)), Some(Kind::Integer | Kind::Number))
                        | (Some(Value::Float(_)), Some(Kind::Number))
                        | (Some(Value::Bool(_)), Some(Kind::Boolean))
                );
                if fits { problem.help("remove the quotes").replace(text.as_str()) } else { problem }
            }
            (Value::Object(_), Some(Kind::Array)) => problem.help("start each item of the list with `-`"),
            (Value::String(text), Some(Kind::Array)) => {
                problem.help("write a list with one item").replace(format!("[{}]", quoted(text)))
            }
            _ => problem,
        });
    }

    fn problem(&self, code: Code, message: impl Into<String>) -> Problem {
        Problem::new(code, Place::value(&self.path), message)
    }

    fn report(&mut self, code: Code, message: String) {
        self.problems.push(self.problem(code, message));
    }
}

/// The field of the target that has a field with this name, which is probably one level too high.
fn owner(name: &str, target: &SchemaView) -> Option<String> {
    let properties = target.field_names().filter(|property| !matches!(*property, "metadata" | "status"));
    for property in properties {
        let FieldView::Known(view) = target.field(property) else { continue };
        if view.schema().properties.get(name).is_some() {
            return Some(property.to_owned());
        }
    }
    None
}

/// The names of all fields, if there are only a few.
fn listed(target: &SchemaView) -> Option<String> {
    const MOST: usize = 12;
    let names: Vec<String> = target.field_names().map(|name| format!("`{name}`")).collect();
    (!names.is_empty() && names.len() <= MOST).then(|| names.join(", "))
}

/// The string in quotes, as an item of a YAML list.
fn quoted(text: &str) -> String {
    if text.contains('"') || text.contains('\\') {
        return format!("'{}'", text.replace('\'', "''"));
    }
    format!("\"{text}\"")
}

/// A scalar as shown in a message, truncated.
fn shortened(value: &Value) -> String {
    const MOST: usize = 40;
    let text = match value {
        Value::String(text) => text.to_string(),
        other => other.to_string(),
    };
    if text.chars().count() <= MOST {
        return text;
    }
    text.chars().take(MOST).chain(['…']).collect()
}
