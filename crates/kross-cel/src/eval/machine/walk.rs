//! Walks paths: by reference through raw JSON and built maps, by value through everything else.

use kross_value::{Object, Value as Data};

use super::super::node::{Path, PathStep, Root, StepKey};
use super::{Machine, Outcome, access, at};
use crate::Span;
use crate::error::{EvalError, Fault};
use crate::library::operators;
use crate::types::Type;
use crate::value::{List, Map, Value};

/// The leaf of a path.
pub(super) enum Walked<'a> {
    /// Raw JSON, and the type to read it as.
    Data(&'a Data, Option<&'a Type>),
    /// A borrowed value.
    Borrowed(&'a Value),
    /// A value created while walking.
    Owned(Value),
}

impl Walked<'_> {
    #[inline]
    pub(super) fn into_value(self) -> Value {
        match self {
            Self::Data(data, read_as) => Value::from_data(data, read_as),
            Self::Borrowed(value) => value.clone(),
            Self::Owned(value) => value,
        }
    }
}

impl Path {
    /// The position of the whole path.
    pub(super) fn span(&self) -> Span {
        self.steps.last().map(|step| step.span).unwrap_or_default()
    }
}

impl Machine<'_> {
    /// Walks a path to its leaf.
    pub(super) fn walk<'a>(&'a self, path: &'a Path) -> Outcome<Walked<'a>> {
        let mut current = match path.root {
            Root::Variable(slot, span) => self.variable(slot, span)?,
            Root::Local(number) | Root::Bound(number) => self.local(number),
        };
        let mut steps = path.steps.as_slice();
        // Fast path: the variable is an object.
        if let Value::Map(map) = current
            && let Some((object, leaf)) = raw(map, path)
            && let Some((first, rest)) = steps.split_first()
        {
            return walk_data(field(object, first)?, rest, leaf);
        }
        while let Some((step, rest)) = steps.split_first() {
            match (current, &step.key) {
                (Value::Map(Map::Data(object)), _) => return walk_data(field(object, step)?, rest, None),
                (Value::Map(Map::Built(map)), StepKey::Field(key) | StepKey::Key(key)) => {
                    current = map.get_str(key).ok_or_else(|| missing(current, step))?;
                }
                (Value::List(List::Built(items)), StepKey::Position(position)) => {
                    let found = usize::try_from(*position).ok().and_then(|position| items.get(position));
                    current = found.ok_or_else(|| missing(current, step))?;
                }
                (Value::List(List::Data(items)), StepKey::Position(_)) => {
                    return walk_data(element(items, step)?, rest, None);
                }
                _ => return self.walk_by_value(current, steps),
            }
            steps = rest;
        }
        Ok(Walked::Borrowed(current))
    }

    /// Walks by value: through typed views, optionals and opaque values.
    fn walk_by_value<'a>(&self, start: &Value, steps: &[PathStep]) -> Outcome<Walked<'a>> {
        let mut current = start.clone();
        for step in steps {
            current = take(&current, &step.key, self.strict).map_err(at(step.span))?;
        }
        Ok(Walked::Owned(current))
    }
}

/// The raw object behind a path's root, and the type to read the leaf as, if both are known.
#[inline]
fn raw<'a>(map: &'a Map, path: &'a Path) -> Option<(&'a Object, Option<&'a Type>)> {
    match map {
        Map::Data(object) => Some((object, None)),
        Map::Typed(typed) if path.root_type.as_ref() == Some(&typed.object_type) => {
            Some((&typed.object, path.leaf_type.as_ref()))
        }
        _ => None,
    }
}

fn walk_data<'a>(mut data: &'a Data, steps: &'a [PathStep], leaf: Option<&'a Type>) -> Outcome<Walked<'a>> {
    for step in steps {
        data = match data {
            Data::Object(object) => field(object, step)?,
            Data::List(items) => element(items, step)?,
            other => return Err(missing(&Value::from(other), step)),
        };
    }
    Ok(Walked::Data(data, leaf))
}

#[inline]
fn field<'a>(object: &'a Object, step: &PathStep) -> Outcome<&'a Data> {
    let found = match &step.key {
        StepKey::Field(key) | StepKey::Key(key) => object.get_key(key),
        StepKey::Position(_) => None,
    };
    found.ok_or_else(|| missing(&Value::Map(Map::Data(object.clone())), step))
}

#[inline]
fn element<'a>(items: &'a std::sync::Arc<[Data]>, step: &PathStep) -> Outcome<&'a Data> {
    let found = match &step.key {
        StepKey::Position(position) => {
            usize::try_from(*position).ok().and_then(|position| items.get(position))
        }
        _ => None,
    };
    found.ok_or_else(|| missing(&Value::List(List::Data(items.clone())), step))
}

fn take(value: &Value, key: &StepKey, strict: bool) -> Result<Value, Fault> {
    match key {
        StepKey::Field(field) => access::field(value, field, strict),
        StepKey::Key(key) => access::element(value, &Value::String(key.text().clone()), strict),
        StepKey::Position(position) => access::element(value, &Value::Int(*position), strict),
    }
}

/// The error of a step that finds nothing.
#[cold]
fn missing(value: &Value, step: &PathStep) -> Box<EvalError> {
    let fault = match take(value, &step.key, true) {
        Err(fault) => fault,
        // Unreachable: the same lookup failed just before.
        Ok(_) => operators::missing(value, &Value::Null),
    };
    at(step.span)(fault)
}
