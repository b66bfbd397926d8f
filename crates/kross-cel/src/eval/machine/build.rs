//! Builds lists, maps and optionals.

use std::sync::Arc;

use super::super::node::{List, Map, OptionalMap};
use super::{Machine, Outcome, at};
use crate::Span;
use crate::error::Fault;
use crate::library::ELEMENT;
use crate::value::{BuiltMap, Map as MapValue, Value};

impl<'run> Machine<'run> {
    pub(super) fn list(&mut self, list: &'run List) -> Outcome {
        self.spend(1, list.span)?;
        self.allocate(list.items.len() * ELEMENT, list.span)?;
        let mut items = Vec::with_capacity(list.items.len());
        for (node, optional) in &list.items {
            self.spend(1, list.span)?;
            let item = self.eval(node)?;
            if *optional {
                items.extend(present(item, list.span)?);
            } else {
                items.push(item);
            }
        }
        Ok(Value::list(items))
    }

    pub(super) fn map(&mut self, map: &'run Map) -> Outcome {
        self.spend(1, map.span)?;
        self.allocate(2 * map.entries.len() * ELEMENT, map.span)?;
        let mut entries = Vec::with_capacity(map.entries.len());
        for entry in &map.entries {
            self.spend(1, map.span)?;
            let key = self.eval(&entry.key)?;
            let value = self.eval(&entry.value)?;
            if entry.optional {
                entries.extend(present(value, entry.span)?.map(|value| (key, value)));
            } else {
                entries.push((key, value));
            }
        }
        built(entries, map.span)
    }

    pub(super) fn optional_map(&mut self, map: &'run OptionalMap) -> Outcome {
        self.spend(1, map.span)?;
        let name = if map.flat { "optFlatMap" } else { "optMap" };
        match self.eval(&map.operand)? {
            Value::Optional(None) => Ok(Value::Optional(None)),
            Value::Optional(Some(inner)) => {
                self.set_local(map.variable, (*inner).clone());
                match (self.eval(&map.body)?, map.flat) {
                    (value, false) => Ok(Value::some(value)),
                    (value @ Value::Optional(_), true) => Ok(value),
                    (other, true) => Err(at(map.span)(Fault::no_such_overload(name, &[other]))),
                }
            }
            other => Err(at(map.span)(Fault::no_such_overload(name, &[other]))),
        }
    }
}

/// Builds a map; duplicate keys are an error.
pub(super) fn built(entries: Vec<(Value, Value)>, span: Span) -> Outcome {
    BuiltMap::checked(entries).map(|map| Value::Map(MapValue::Built(Arc::new(map)))).map_err(at(span))
}

/// The value of an optional element.
fn present(value: Value, span: Span) -> Outcome<Option<Value>> {
    match value {
        Value::Optional(inner) => Ok(inner.map(|inner| (*inner).clone())),
        other => Err(at(span)(Fault::WrongType {
            expected: "an optional after `?`".into(),
            found: other.type_name().into(),
        })),
    }
}
