//! A template with its expressions compiled: renders into a value for one instance. What has no expression in it
//! stays one shared literal, however large.

use kross_cel::error::EvalError;
use kross_value::{Key, Object, Text, Value};

use crate::expression::{Expression, Outcome, Scope};

/// A value with expressions in it.
#[derive(Debug)]
pub enum Template {
    /// No expression below here.
    Literal(Value),
    /// `${…}` alone: the expression's value takes its place, whatever its type.
    Expression(Box<Expression>),
    /// Text with `${…}` in it: strings, one after the other.
    Text(Vec<Part>),
    /// A list with expressions below it.
    List(Vec<Template>),
    /// An object with expressions below it.
    Object(Vec<(Key, Template)>),
}

/// A piece of text with expressions in it.
#[derive(Debug)]
pub enum Part {
    /// As it is.
    Literal(Text),
    /// The string that an expression gives.
    Expression(Expression),
}

/// Why a template could not be rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderError {
    /// Where the expression stands in the definition.
    pub path: Text,
    /// The expression.
    pub expression: Text,
    /// What went wrong in it.
    pub error: EvalError,
}

impl RenderError {
    fn of(expression: &Expression, error: EvalError) -> Self {
        Self { path: expression.path.clone(), expression: expression.source.clone(), error }
    }

    /// Whether the data is merely not there yet.
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
    /// The value for one instance. None when the whole of it is `omit()`.
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

    /// What can be rendered now. An entry of an object whose value fails is left out and its error is kept, also in the
    /// items of a list; a list with another item that fails is left out whole, since its items would move.
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
                // An object that came out empty because all of its fields failed is not a field either.
                Some(Value::Object(object)) if object.is_empty() && matches!(template, Self::Object(_)) => {}
                Some(value) => rendered.push((key.clone(), value)),
                None => {}
            }
        }
        Some(Value::Object(rendered.into_iter().collect()))
    }

    /// The string for one instance, where the place needs one.
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

    /// The value, if there is no expression in it.
    #[must_use]
    pub fn into_literal(self) -> Option<Value> {
        if let Self::Literal(value) = self { Some(value) } else { None }
    }

    /// Whether there is no expression in it.
    #[must_use]
    pub fn is_literal(&self) -> bool {
        matches!(self, Self::Literal(_))
    }

    /// Every expression in it, in the order of the text.
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

/// What stands under a key of a template.
#[derive(Clone, Copy, Debug)]
pub enum Field<'a> {
    /// A value without expressions.
    Literal(&'a Value),
    /// A template.
    Template(&'a Template),
}

impl<'a> Field<'a> {
    /// What stands under a key of it.
    #[must_use]
    pub fn get(self, key: &str) -> Option<Field<'a>> {
        match self {
            Self::Literal(value) => value.get(key).map(Field::Literal),
            Self::Template(template) => template.get(key),
        }
    }
}

/// The items of a list, objects as far as they go. None when nothing of them is known, or an item is not that is no object.
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
