//! Selects fields and elements of values: plain, `has()` and optional, also through optionals.

use super::super::node::{Index, Node, Select};
use super::walk::Walked;
use super::{Machine, Outcome, at};
use crate::ast::Access;
use crate::error::Fault;
use crate::library::operators;
use crate::value::{Map, Value};

impl<'run> Machine<'run> {
    pub(super) fn select(&mut self, select: &'run Select) -> Outcome {
        self.spend(1, select.span)?;
        // `has()` on a path needs no clone of the operand.
        if select.access == Access::Test
            && let Node::Path(path) = &select.operand
        {
            self.enter(path)?;
            if let Walked::Data(data, _) = self.walk(path)?
                && let Some(object) = data.as_object()
            {
                return Ok(Value::Bool(object.contains_key(&select.field)));
            }
        }
        let operand = self.eval(&select.operand)?;
        match select.access {
            Access::Plain => field(&operand, &select.field, self.strict),
            Access::Test => has(&operand, &select.field, self.strict).map(Value::Bool),
            Access::Optional => optional_field(&operand, &select.field, self.strict),
        }
        .map_err(at(select.span))
    }

    pub(super) fn index(&mut self, index: &'run Index) -> Outcome {
        self.spend(1, index.span)?;
        let operand = self.eval(&index.operand)?;
        let key = self.eval(&index.index)?;
        let found = if index.optional {
            optional_element(&operand, &key, self.strict)
        } else {
            element(&operand, &key, self.strict)
        };
        found.map_err(at(index.span))
    }
}

/// `value.field`; an optional if the value is one.
pub(super) fn field(value: &Value, name: &str, strict: bool) -> Result<Value, Fault> {
    match value {
        Value::Map(map) => map.get_str(name).ok_or_else(|| missing_field(map, name)),
        Value::Optional(None) => Ok(Value::Optional(None)),
        Value::Optional(Some(inner)) => optional_field(inner, name, strict),
        Value::Opaque(opaque) => opaque.field(name).ok_or_else(|| no_field(value, name)),
        other => Err(no_field(other, name)),
    }
}

/// `has(value.field)`
fn has(value: &Value, name: &str, strict: bool) -> Result<bool, Fault> {
    match value {
        Value::Map(map) => Ok(map.contains_str(name)),
        Value::Optional(None) => Ok(false),
        Value::Optional(Some(inner)) => has(inner, name, strict),
        Value::Opaque(opaque) => Ok(opaque.field(name).is_some()),
        other => absent(other, name, strict).map(|()| false),
    }
}

/// `value.?field`
fn optional_field(value: &Value, name: &str, strict: bool) -> Result<Value, Fault> {
    match value {
        Value::Map(map) => Ok(map.get_str(name).map_or(Value::Optional(None), Value::some)),
        Value::Optional(None) => Ok(Value::Optional(None)),
        Value::Optional(Some(inner)) => optional_field(inner, name, strict),
        Value::Opaque(opaque) => Ok(opaque.field(name).map_or(Value::Optional(None), Value::some)),
        other => absent(other, name, strict).map(|()| Value::Optional(None)),
    }
}

/// A field of null or of a number is absent with kro's cel-go options; in strict mode, as the language specifies, it is an
/// error. A field of a list is always an error.
fn absent(value: &Value, name: &str, strict: bool) -> Result<(), Fault> {
    if strict || matches!(value, Value::List(_)) { Err(no_field(value, name)) } else { Ok(()) }
}

/// `value[key]`; an optional if the value is one.
pub(super) fn element(value: &Value, key: &Value, strict: bool) -> Result<Value, Fault> {
    match value {
        Value::Optional(None) => Ok(Value::Optional(None)),
        Value::Optional(Some(inner)) => optional_element(inner, key, strict),
        other => operators::index(other, key),
    }
}

/// `value[?key]`
fn optional_element(value: &Value, key: &Value, strict: bool) -> Result<Value, Fault> {
    match value {
        Value::Optional(None) => Ok(Value::Optional(None)),
        Value::Optional(Some(inner)) => optional_element(inner, key, strict),
        Value::List(_) | Value::Map(_) => match operators::index(value, key) {
            Ok(found) => Ok(Value::some(found)),
            Err(Fault::NoSuchKey { .. } | Fault::IndexOutOfBounds { .. }) => Ok(Value::Optional(None)),
            Err(fault) => Err(fault),
        },
        other if strict => operators::index(other, key),
        _ => Ok(Value::Optional(None)),
    }
}

#[cold]
fn missing_field(map: &Map, name: &str) -> Fault {
    let available = operators::some_keys(map);
    match map {
        Map::Built(_) => Fault::NoSuchKey { key: Some(name.to_owned()), available },
        Map::Data(_) | Map::Typed(_) => Fault::NoSuchField { field: name.to_owned(), available },
    }
}

/// A field of a value without fields is reported as missing, as in cel-go: null often means that an object is not set yet.
#[cold]
fn no_field(value: &Value, name: &str) -> Fault {
    match value {
        Value::List(_) | Value::Opaque(_) => Fault::WrongType {
            expected: format!("a value with a field `{name}`"),
            found: value.type_name().into(),
        },
        _ => Fault::NoSuchField { field: name.to_owned(), available: Vec::new() },
    }
}
