//! Fields and elements of values, plain, tested and optional, also through optionals.

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
        // A question about a variable's field needs no copy of the variable.
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

/// `value.field`; of an optional, an optional.
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

/// Asked of null or a number, a field is just not there, as kro's settings of cel-go have it; or, as the language has
/// it, that is an error. Of a list it is one in any case.
fn absent(value: &Value, name: &str, strict: bool) -> Result<(), Fault> {
    if strict || matches!(value, Value::List(_)) { Err(no_field(value, name)) } else { Ok(()) }
}

/// `value[key]`; of an optional, an optional.
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
        Map::Built(_) => Fault::NoSuchKey { key: name.to_owned(), available },
        Map::Data(_) | Map::Typed(_) => Fault::NoSuchField { field: name.to_owned(), available },
    }
}

/// Null, above all, is what stands where an object is still to come: cel-go too speaks of a missing key.
#[cold]
fn no_field(value: &Value, name: &str) -> Fault {
    match value {
        Value::List(_) | Value::Opaque(_) => Fault::WrongType {
            expected: format!("something with a field `{name}`"),
            found: value.type_name().into(),
        },
        _ => Fault::NoSuchField { field: name.to_owned(), available: Vec::new() },
    }
}
