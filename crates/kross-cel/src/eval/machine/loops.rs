//! Evaluates the macros over lists and maps as loops.

use kross_value::Value as Data;

use super::super::is_fatal;
use super::super::node::{Loop, Node};
use super::{Machine, Outcome, at, build};
use crate::Span;
use crate::ast::ComprehensionKind as Kind;
use crate::error::Fault;
use crate::library::ELEMENT;
use crate::types::Type;
use crate::value::{List, ListIter, Map, Value};

/// Whether a loop continues after an element.
enum Next {
    Continue,
    Break,
}

impl<'run> Machine<'run> {
    pub(super) fn run_loop(&mut self, inner: &'run Loop) -> Outcome {
        let range = self.eval(&inner.range)?;
        match inner.kind {
            Kind::All => self.quantify(inner, &range, false),
            Kind::Exists => self.quantify(inner, &range, true),
            Kind::ExistsOne => self.exists_one(inner, &range),
            Kind::Filter => self.filter(inner, &range),
            Kind::Map | Kind::TransformList => self.transform(inner, &range),
            Kind::TransformMap => self.transform_map(inner, &range),
            Kind::TransformMapEntry => self.transform_entries(inner, &range),
            Kind::SortBy => self.sort_by(inner, &range),
        }
    }

    /// Runs `body` once for each element, with the loop's variables set to it.
    #[inline]
    fn each(
        &mut self,
        inner: &'run Loop,
        range: &Value,
        body: impl FnMut(&mut Self) -> Outcome<Next>,
    ) -> Outcome<()> {
        match (range, inner.second) {
            (Value::List(list), None) => self.each_item(inner, list, body),
            (Value::List(list), Some(second)) => self.each_indexed_item(inner, second, list, body),
            (Value::Map(map), _) => self.each_entry(inner, map, body),
            (other, _) => Err(at(inner.span)(Fault::WrongType {
                expected: "a list or a map".into(),
                found: other.type_name().into(),
            })),
        }
    }

    /// The items of a list, in one variable.
    #[inline]
    fn each_item(
        &mut self,
        inner: &'run Loop,
        list: &List,
        mut body: impl FnMut(&mut Self) -> Outcome<Next>,
    ) -> Outcome<()> {
        match list.iter() {
            ListIter::Built(items) => {
                for item in items {
                    self.spend(1, inner.span)?;
                    self.set_local(inner.variable, item.clone());
                    if let Next::Break = body(self)? {
                        break;
                    }
                }
            }
            ListIter::Data(items, read_as) => {
                for item in items {
                    self.spend(1, inner.span)?;
                    self.set_local_data(inner.variable, item, read_as);
                    if let Next::Break = body(self)? {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// The items of a list, with the index in the first variable and the item in the second.
    #[inline]
    fn each_indexed_item(
        &mut self,
        inner: &'run Loop,
        second: u32,
        list: &List,
        mut body: impl FnMut(&mut Self) -> Outcome<Next>,
    ) -> Outcome<()> {
        for (position, item) in list.iter().enumerate() {
            self.spend(1, inner.span)?;
            let position = i64::try_from(position).unwrap_or(i64::MAX);
            self.set_local(inner.variable, Value::Int(position));
            self.set_local(second, item);
            if let Next::Break = body(self)? {
                break;
            }
        }
        Ok(())
    }

    /// The entries of a map, with the key in the first variable and the value in the second, if there is one.
    #[inline]
    fn each_entry(
        &mut self,
        inner: &'run Loop,
        map: &Map,
        mut body: impl FnMut(&mut Self) -> Outcome<Next>,
    ) -> Outcome<()> {
        for position in 0..map.len() {
            self.spend(1, inner.span)?;
            match inner.second {
                Some(second) => {
                    let Some((key, value)) = map.entry(position) else { break };
                    self.set_local(inner.variable, key);
                    self.set_local(second, value);
                }
                None => {
                    let Some(key) = map.key(position) else { break };
                    self.set_local(inner.variable, key);
                }
            }
            if let Next::Break = body(self)? {
                break;
            }
        }
        Ok(())
    }

    /// Sets a variable to raw JSON. Integers are written in place, because moving a value takes twice the time.
    #[inline]
    fn set_local_data(&mut self, number: u32, data: &Data, read_as: Option<&Type>) {
        let Some(local) = self.locals.get_mut(number as usize) else { return };
        match (data, read_as) {
            (Data::Int(value), None | Some(Type::Int | Type::Dyn)) => *local = Value::Int(*value),
            _ => *local = Value::from_data(data, read_as),
        }
    }

    /// Evaluates a predicate for the current element.
    #[inline]
    fn predicate(&mut self, node: &'run Node, span: Span) -> Outcome<bool> {
        match self.eval(node)? {
            Value::Bool(value) => Ok(value),
            other => {
                Err(at(span)(Fault::WrongType { expected: "bool".into(), found: other.type_name().into() }))
            }
        }
    }

    /// Whether the current element passes the filter, if there is one.
    #[inline]
    fn passes(&mut self, inner: &'run Loop) -> Outcome<bool> {
        match &inner.filter {
            Some(filter) => self.predicate(filter, inner.filter_span),
            None => Ok(true),
        }
    }

    /// `all` and `exists`: one decisive element determines the result, and errors of the others are ignored then.
    fn quantify(&mut self, inner: &'run Loop, range: &Value, decisive: bool) -> Outcome {
        let mut decided = false;
        let mut first_error = None;
        self.each(inner, range, |machine| match machine.predicate(&inner.body, inner.body_span) {
            Ok(value) if value == decisive => {
                decided = true;
                Ok(Next::Break)
            }
            Ok(_) => Ok(Next::Continue),
            Err(error) if is_fatal(&error.fault) => Err(error),
            Err(error) => {
                first_error.get_or_insert(error);
                Ok(Next::Continue)
            }
        })?;
        match first_error {
            Some(error) if !decided => Err(error),
            _ => Ok(Value::Bool(decided == decisive)),
        }
    }

    fn exists_one(&mut self, inner: &'run Loop, range: &Value) -> Outcome {
        let mut count = 0_usize;
        self.each(inner, range, |machine| {
            count += usize::from(machine.predicate(&inner.body, inner.body_span)?);
            Ok(Next::Continue)
        })?;
        Ok(Value::Bool(count == 1))
    }

    fn filter(&mut self, inner: &'run Loop, range: &Value) -> Outcome {
        let mut items = Vec::new();
        self.each(inner, range, |machine| {
            if machine.predicate(&inner.body, inner.body_span)? {
                items.push(machine.local(inner.variable).clone());
            }
            Ok(Next::Continue)
        })?;
        self.allocate(items.len() * ELEMENT, inner.span)?;
        Ok(Value::list(items))
    }

    fn transform(&mut self, inner: &'run Loop, range: &Value) -> Outcome {
        let mut items = Vec::with_capacity(if inner.filter.is_none() { size_of_range(range) } else { 0 });
        self.each(inner, range, |machine| {
            if machine.passes(inner)? {
                items.push(machine.eval(&inner.body)?);
            }
            Ok(Next::Continue)
        })?;
        self.allocate(items.len() * ELEMENT, inner.span)?;
        Ok(Value::list(items))
    }

    fn transform_map(&mut self, inner: &'run Loop, range: &Value) -> Outcome {
        let mut entries = Vec::new();
        self.each(inner, range, |machine| {
            if machine.passes(inner)? {
                let value = machine.eval(&inner.body)?;
                entries.push((machine.local(inner.variable).clone(), value));
            }
            Ok(Next::Continue)
        })?;
        self.allocate(2 * entries.len() * ELEMENT, inner.span)?;
        Ok(Value::map(entries))
    }

    fn transform_entries(&mut self, inner: &'run Loop, range: &Value) -> Outcome {
        let mut entries = Vec::new();
        self.each(inner, range, |machine| {
            if machine.passes(inner)? {
                match machine.eval(&inner.body)? {
                    Value::Map(map) => {
                        machine.spend(map.len() as u64, inner.body_span)?;
                        machine.allocate(2 * map.len() * ELEMENT, inner.body_span)?;
                        entries.extend(map.into_entries());
                    }
                    other => {
                        return Err(at(inner.body_span)(Fault::WrongType {
                            expected: "a map with the new entries".into(),
                            found: other.type_name().into(),
                        }));
                    }
                }
            }
            Ok(Next::Continue)
        })?;
        build::built(entries, inner.span)
    }

    fn sort_by(&mut self, inner: &'run Loop, range: &Value) -> Outcome {
        let mut keyed = Vec::with_capacity(size_of_range(range));
        self.each(inner, range, |machine| {
            let key = machine.eval(&inner.body)?;
            keyed.push((key, machine.local(inner.variable).clone()));
            Ok(Next::Continue)
        })?;
        // Check comparability first, so that the sort itself cannot fail.
        if let Some((first, _)) = keyed.first() {
            for (key, _) in &keyed {
                comparable(first, key).map_err(at(inner.body_span))?;
            }
        }
        let length = keyed.len() as u64;
        self.allocate(2 * keyed.len() * ELEMENT, inner.span)?;
        self.spend(length * u64::from(length.checked_ilog2().unwrap_or(0) + 1), inner.span)?;
        keyed.sort_by(|(a, _), (b, _)| a.compare(b).unwrap_or(std::cmp::Ordering::Equal));
        Ok(Value::list(keyed.into_iter().map(|(_, item)| item).collect()))
    }
}

/// Checks that two keys have the same type, and that it has an order.
fn comparable(first: &Value, key: &Value) -> Result<(), Fault> {
    if std::mem::discriminant(first) != std::mem::discriminant(key) {
        return Err(Fault::no_such_overload("sortBy", &[first.clone(), key.clone()]));
    }
    key.compare(key).map(|_| ())
}

fn size_of_range(range: &Value) -> usize {
    match range {
        Value::List(list) => list.len(),
        Value::Map(map) => map.len(),
        _ => 0,
    }
}
