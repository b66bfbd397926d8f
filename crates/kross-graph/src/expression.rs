//! A compiled expression, and the variables it is evaluated with.

use std::cell::RefCell;

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use kross_cel::checked::Checked;
use kross_cel::error::{EvalError, Fault};
use kross_cel::eval::{Budget, Program};
use kross_cel::references::References;
use kross_cel::types::Type;
use kross_cel::value::{Value as CelValue, to_data};
use kross_cel::{Span, ast};
use kross_diagnostics::Path;
use kross_value::{Text, Value};

/// One `${…}` of a definition, parsed, checked and compiled.
#[derive(Debug)]
pub struct Expression {
    /// The text between `${` and `}`.
    pub source: Text,
    /// Its path in the definition.
    pub path: Text,
    /// The type of its value.
    pub result: Type,
    /// The variables and fields that it reads.
    pub references: References,
    /// Whether bytes are encoded as base64, because the field's format is `byte`, or because the type is not known: that is how
    /// Kubernetes writes them.
    pub(crate) bytes_as_base64: bool,
    uses_omit: bool,
    program: Program,
}

/// What an expression writes to its field.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// A value.
    Value(Value),
    /// `omit()`: the field is omitted.
    Omitted,
}

/// The variables of one evaluation, and its cost budget. Scopes are nested: that of a collection's item is inside that of
/// the instance.
pub struct Scope<'a> {
    below: Option<&'a Scope<'a>>,
    values: Vec<(Text, CelValue)>,
    /// Variables whose keys and indexes errors must not name.
    hidden: Vec<Text>,
    budget: Option<&'a RefCell<Budget>>,
}

impl<'a> Scope<'a> {
    /// An empty scope; every evaluation in it uses `budget`.
    #[must_use]
    pub fn new(budget: &'a RefCell<Budget>) -> Self {
        Self { below: None, values: Vec::new(), hidden: Vec::new(), budget: Some(budget) }
    }

    /// A scope inside `below`.
    #[must_use]
    pub fn over(below: &'a Self) -> Self {
        Self { below: Some(below), values: Vec::new(), hidden: Vec::new(), budget: None }
    }

    /// Sets the value of a variable.
    pub fn set(&mut self, name: impl Into<Text>, value: CelValue) {
        let name = name.into();
        match self.values.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = value,
            None => self.values.push((name, value)),
        }
    }

    /// The value of a variable, if it has one.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&CelValue> {
        let own = self.values.iter().find(|(known, _)| *known == *name).map(|(_, value)| value);
        own.or_else(|| self.below.and_then(|below| below.get(name)))
    }

    /// Keeps the keys of a variable, and keys that are computed from it, out of errors: it was read from a Secret.
    pub fn hide_keys(&mut self, name: impl Into<Text>) {
        self.hidden.push(name.into());
    }

    /// Whether errors must not name the keys of a variable.
    #[must_use]
    pub fn hides_keys(&self, name: &str) -> bool {
        self.hidden.iter().any(|hidden| *hidden == *name)
            || self.below.is_some_and(|below| below.hides_keys(name))
    }

    fn budget(&self) -> Option<&'a RefCell<Budget>> {
        self.budget.or_else(|| self.below.and_then(Scope::budget))
    }
}

impl Expression {
    pub(crate) fn new(
        source: Text,
        path: &Path,
        checked: &Checked,
        references: References,
    ) -> Result<Self, EvalError> {
        Ok(Self {
            source,
            path: path.to_string().into(),
            result: checked.result().clone(),
            references,
            bytes_as_base64: is_untyped(checked.result()),
            uses_omit: calls_omit(&checked.ast.root),
            program: Program::new(checked)?,
        })
    }

    /// Whether it uses a variable.
    #[must_use]
    pub fn uses(&self, variable: &str) -> bool {
        self.references.variables.iter().any(|mention| mention.variable == *variable)
    }

    /// Whether it calls `omit()`.
    #[must_use]
    pub fn uses_omit(&self) -> bool {
        self.uses_omit
    }

    /// Evaluates it with these variables. A variable without a value is a pending error.
    ///
    /// # Errors
    /// The cause, and the part of the expression that failed.
    pub fn evaluate(&self, scope: &Scope<'_>) -> Result<CelValue, EvalError> {
        let slots: Vec<Option<CelValue>> =
            self.program.variables().iter().map(|name| scope.get(name).cloned()).collect();
        let result = match scope.budget() {
            Some(budget) => self.program.evaluate(&slots, &mut budget.borrow_mut()),
            None => self.program.evaluate(&slots, &mut Budget::default()),
        };
        result.map_err(|error| {
            let hides_keys = self.program.variables().iter().any(|name| scope.hides_keys(name));
            if hides_keys { EvalError { fault: error.fault.without_keys(), ..error } } else { error }
        })
    }

    /// Evaluates it to JSON.
    ///
    /// # Errors
    /// As [`Expression::evaluate`], and for a value that JSON cannot represent.
    pub fn evaluate_data(&self, scope: &Scope<'_>) -> Result<Outcome, EvalError> {
        let mut value = self.evaluate(scope)?;
        if self.bytes_as_base64 {
            value = encode_bytes(&value);
        }
        let data = match scope.budget() {
            Some(budget) => budget.borrow_mut().to_data(&value),
            None => to_data(&value),
        };
        match data.map_err(|fault| self.whole(fault))? {
            Some(data) => Ok(Outcome::Value(data)),
            None => Ok(Outcome::Omitted),
        }
    }

    /// Evaluates it to a string.
    ///
    /// # Errors
    /// As [`Expression::evaluate`], and for a value that is not a string.
    pub fn evaluate_string(&self, scope: &Scope<'_>) -> Result<Text, EvalError> {
        match self.evaluate(scope)? {
            CelValue::String(text) => Ok(text),
            CelValue::Bytes(bytes) if self.bytes_as_base64 => Ok(BASE64.encode(bytes).into()),
            other => Err(self.whole(wrong_type("string", &other))),
        }
    }

    /// Evaluates it to a bool; null and the empty optional are false.
    ///
    /// # Errors
    /// As [`Expression::evaluate`], and for a value of another type.
    pub fn evaluate_bool(&self, scope: &Scope<'_>) -> Result<bool, EvalError> {
        let mut value = self.evaluate(scope)?;
        while let CelValue::Optional(inner) = value {
            match inner {
                Some(inner) => value = (*inner).clone(),
                None => return Ok(false),
            }
        }
        match value {
            CelValue::Bool(value) => Ok(value),
            CelValue::Null => Ok(false),
            other => Err(self.whole(wrong_type("bool", &other))),
        }
    }

    fn whole(&self, fault: Fault) -> EvalError {
        EvalError { fault, span: Span::new(0, u32::try_from(self.source.len()).unwrap_or(u32::MAX)) }
    }
}

/// Whether a type is not known, or that of values in it.
fn is_untyped(found: &Type) -> bool {
    match found {
        Type::Dyn => true,
        Type::List(inner) | Type::Optional(inner) | Type::Nullable(inner) => is_untyped(inner),
        Type::Map(types) => is_untyped(&types.1),
        _ => false,
    }
}

/// The value with all bytes in it encoded as base64.
fn encode_bytes(value: &CelValue) -> CelValue {
    match value {
        CelValue::Bytes(bytes) => CelValue::string(BASE64.encode(bytes)),
        CelValue::Optional(Some(inner)) => CelValue::some(encode_bytes(inner)),
        CelValue::List(list) => CelValue::list(list.iter().map(|item| encode_bytes(&item)).collect()),
        CelValue::Map(map) => {
            CelValue::map(map.iter().map(|(key, value)| (key, encode_bytes(&value))).collect())
        }
        other => other.clone(),
    }
}

fn wrong_type(expected: &str, found: &CelValue) -> Fault {
    Fault::WrongType { expected: expected.to_owned(), found: found.type_name().to_owned() }
}

fn calls_omit(expression: &ast::Expr) -> bool {
    let here = matches!(&expression.node, ast::Node::Call { function, receiver: None, .. } if function.text == "omit");
    here || expression.children().into_iter().any(calls_omit)
}
