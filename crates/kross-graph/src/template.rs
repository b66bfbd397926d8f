//! A template with compiled expressions, which is rendered to a value for one instance. A part without expressions
//! is one shared literal, however large.

use kross_cel::error::EvalError;
use kross_value::{Key, Object, Text, Value};

use crate::expression::{Expression, Outcome, Scope};

/// A value that may contain expressions.
#[derive(Debug)]
pub enum Template {
    /// A value without expressions.
    Literal(Value),
    /// Only `${…}`: the field gets the expression's value, of any type.
    Expression(Box<Expression>),
    /// A string with `${…}` in it: the parts are concatenated.
    Text(Vec<Part>),
    /// A list that contains expressions.
    List(Vec<Template>),
    /// An object that contains expressions.
    Object(Vec<(Key, Template)>),
}

/// A part of a string with expressions in it.
#[derive(Debug)]
pub enum Part {
    /// Literal text.
    Literal(Text),
    /// An expression that returns a string.
    Expression(Expression),
}

/// Why a template could not be rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderError {
    /// The path of the expression in the definition.
    pub path: Text,
    /// The expression.
    pub expression: Text,
    /// The cause.
    pub error: EvalError,
}

impl RenderError {
    fn of(expression: &Expression, error: EvalError) -> Self {
        Self { path: expression.path.clone(), expression: expression.source.clone(), error }
    }

    /// Whether data is missing that may still appear.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.error.fault.is_pending()
    }
}

impl std::fmt::Display for RenderError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: `{}`: {}", self.path, self.expression, self.error)
    }
}

impl std::error::Error for RenderError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl Default for Template {
    fn default() -> Self {
        Self::Literal(Value::Object(Object::new()))
    }
}

impl Template {
    /// Renders the value for one instance. None if the whole value is omitted with `omit()`.
    ///
    /// # Errors
    /// The first expression that fails, pending or not.
    pub fn render(&self, scope: &Scope<'_>) -> Result<Option<Value>, RenderError> {
        match self {
            Self::Literal(value) => Ok(Some(value.clone())),
            Self::Expression(expression) => render_expression(expression, scope),
            Self::Text(parts) => render_text(parts, scope).map(|text| Some(Value::from(text))),
            Self::List(items) => {
                let rendered = items.iter().map(|item| item.render(scope)).collect::<Result<Vec<_>, _>>()?;
                Ok(Some(Value::list(rendered.into_iter().flatten())))
            }
            Self::Object(entries) => {
                let mut rendered = Vec::with_capacity(entries.len());
                for (key, template) in entries {
                    if let Some(value) = template.render(scope)? {
                        rendered.push((key.clone(), value));
                    }
                }
                Ok(Some(Value::Object(rendered.into_iter().collect())))
            }
        }
    }

    /// Renders what is available now. A field whose expression fails is omitted and its error is added to `errors`, also in
    /// objects within a list. A list with any other failing item is omitted as a whole, because its indexes would shift.
    pub fn render_available(&self, scope: &Scope<'_>, errors: &mut Vec<RenderError>) -> Option<Value> {
        let entries = match self {
            Self::Object(entries) => entries,
            Self::List(items) if items.iter().any(|item| matches!(item, Self::Object(_))) => {
                return available_items(items, scope, errors);
            }
            _ => {
                return self.render(scope).unwrap_or_else(|error| {
                    errors.push(error);
                    None
                });
            }
        };
        let mut rendered = Vec::with_capacity(entries.len());
        for (key, template) in entries {
            match template.render_available(scope, errors) {
                // An object all of whose fields failed is omitted too.
                Some(Value::Object(object)) if object.is_empty() && matches!(template, Self::Object(_)) => {}
                Some(value) => rendered.push((key.clone(), value)),
                None => {}
            }
        }
        Some(Value::Object(rendered.into_iter().collect()))
    }

    /// Renders the string for one instance, for a field that must be a string.
    ///
    /// # Errors
    /// As [`Template::render`].
    pub fn render_string(&self, scope: &Scope<'_>) -> Result<Option<Text>, RenderError> {
        Ok(match self.render(scope)? {
            Some(Value::String(text)) => Some(text),
            Some(Value::Null) | None => None,
            Some(other) => Some(other.to_string().into()),
        })
    }

    /// The value, if it has no expressions.
    #[must_use]
    pub fn into_literal(self) -> Option<Value> {
        if let Self::Literal(value) = self { Some(value) } else { None }
    }

    /// Whether it has no expressions.
    #[must_use]
    pub fn is_literal(&self) -> bool {
        matches!(self, Self::Literal(_))
    }

    /// Every expression in it, in source order.
    #[must_use]
    pub fn expressions(&self) -> Vec<&Expression> {
        let mut found = Vec::new();
        self.collect(&mut found);
        found
    }

    fn collect<'a>(&'a self, found: &mut Vec<&'a Expression>) {
        match self {
            Self::Literal(_) => {}
            Self::Expression(expression) => found.push(expression),
            Self::Text(parts) => found.extend(parts.iter().filter_map(|part| match part {
                Part::Expression(expression) => Some(expression),
                Part::Literal(_) => None,
            })),
            Self::List(items) => items.iter().for_each(|item| item.collect(found)),
            Self::Object(entries) => entries.iter().for_each(|(_, template)| template.collect(found)),
        }
    }

    /// The template under a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Field<'_>> {
        match self {
            Self::Literal(value) => value.get(key).map(Field::Literal),
            Self::Object(entries) => {
                let (_, template) = entries.iter().find(|(name, _)| name.as_str() == key)?;
                Some(match template {
                    Self::Literal(value) => Field::Literal(value),
                    template => Field::Template(template),
                })
            }
            _ => None,
        }
    }
}

/// The value of a key of a template.
#[derive(Clone, Copy, Debug)]
pub enum Field<'a> {
    /// A value without expressions.
    Literal(&'a Value),
    /// A template.
    Template(&'a Template),
}

impl<'a> Field<'a> {
    /// The value of a key of it.
    #[must_use]
    pub fn get(self, key: &str) -> Option<Field<'a>> {
        match self {
            Self::Literal(value) => value.get(key).map(Field::Literal),
            Self::Template(template) => template.get(key),
        }
    }
}

/// The items of a list, with objects rendered as far as possible. None if nothing is available, or if an item that is not
/// an object fails.
fn available_items(items: &[Template], scope: &Scope<'_>, errors: &mut Vec<RenderError>) -> Option<Value> {
    let mut rendered = Vec::with_capacity(items.len());
    let mut known = false;
    for item in items {
        let Template::Object(_) = item else {
            match item.render(scope) {
                Ok(value) => rendered.extend(value),
                Err(error) => {
                    errors.push(error);
                    return None;
                }
            }
            known = true;
            continue;
        };
        let value = item.render_available(scope, errors)?;
        known |= value.as_object().is_some_and(|object| !object.is_empty());
        rendered.push(value);
    }
    known.then(|| Value::list(rendered))
}

fn render_expression(expression: &Expression, scope: &Scope<'_>) -> Result<Option<Value>, RenderError> {
    match expression.evaluate_data(scope) {
        Ok(Outcome::Value(value)) => Ok(Some(value)),
        Ok(Outcome::Omitted) => Ok(None),
        Err(error) => Err(RenderError::of(expression, error)),
    }
}

fn render_text(parts: &[Part], scope: &Scope<'_>) -> Result<String, RenderError> {
    let mut text = String::new();
    for part in parts {
        match part {
            Part::Literal(literal) => text.push_str(literal),
            Part::Expression(expression) => {
                let string =
                    expression.evaluate_string(scope).map_err(|error| RenderError::of(expression, error))?;
                text.push_str(&string);
            }
        }
    }
    Ok(text)
}
