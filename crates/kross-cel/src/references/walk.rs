//! Tracks values through an expression: each node returns the places that its value may come from, and a place is read if
//! the value is used for anything but selecting another place.

use kross_value::Text;

use super::{Mention, PathSegment, Read, References};
use crate::Span;
use crate::ast::{Access, Comprehension, ComprehensionKind, Expr, Literal, Node};
use crate::checked::{Checked, Reference};
use crate::types::Type;

/// With more possible places than this a value counts as read as a whole: only precision is lost.
const MAX_PLACES: usize = 32;

/// Finds what an expression reads.
pub(super) fn walk(checked: &Checked) -> References {
    let mut walk = Walk { checked, found: References::default(), locals: Vec::new() };
    walk.read(&checked.ast.root);
    let mut found = walk.found;
    found.variables.sort_by_key(|mention| mention.span.start);
    found
}

/// Where a value may come from.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    variable: Text,
    path: Vec<PathSegment>,
    span: Span,
    optional: bool,
    /// The number of lists and maps built by the expression that enclose it.
    wrapped: u32,
}

type Places = Vec<Place>;

struct Walk<'a> {
    checked: &'a Checked,
    found: References,
    locals: Vec<Places>,
}

impl Walk<'_> {
    /// Records that the value of this node is read.
    fn read(&mut self, expr: &Expr) {
        let places = self.places(expr);
        self.take(places, false);
    }

    fn take(&mut self, places: Places, shallow: bool) {
        for Place { variable, path, span, optional, wrapped } in places {
            // The size of a list built by the expression does not depend on the values in it.
            if shallow && wrapped > 0 {
                continue;
            }
            let known =
                self.found.reads.iter_mut().find(|read| read.variable == variable && read.path == path);
            match known {
                Some(read) => {
                    read.optional &= optional;
                    read.shallow &= shallow;
                }
                None => self.found.reads.push(Read { variable, path, span, optional, shallow }),
            }
        }
    }

    fn read_all<'e>(&mut self, exprs: impl IntoIterator<Item = &'e Expr>) -> Places {
        exprs.into_iter().for_each(|expr| self.read(expr));
        Places::new()
    }

    fn places(&mut self, expr: &Expr) -> Places {
        match self.checked.reference(expr.id) {
            Reference::Local(number) => {
                let mut places = self.locals.get(*number as usize).cloned().unwrap_or_default();
                places.iter_mut().for_each(|place| place.span = expr.span);
                return places;
            }
            Reference::Variable(name) => return self.variable(name, expr.span),
            Reference::Type(_) if !matches!(expr.node, Node::Struct { .. }) => return Places::new(),
            _ => {}
        }
        match &expr.node {
            Node::Literal(_) | Node::Error | Node::Ident { .. } => Places::new(),
            Node::Select { operand, field, access } => {
                let step = PathSegment::Field(field.text.clone());
                let places = self.step(operand, &step, expr.span, *access != Access::Plain);
                if *access == Access::Test {
                    self.take(places, true);
                    return Places::new();
                }
                places
            }
            Node::Index { operand, index, optional } => {
                let step = self.index(index);
                self.step(operand, &step, expr.span, *optional)
            }
            Node::Unary { operand, .. } => self.read_all([&**operand]),
            Node::Binary { left, right, .. } => self.read_all([&**left, right]),
            Node::Conditional { condition, then, otherwise } => {
                self.read(condition);
                let (then, otherwise) = (self.places(then), self.places(otherwise));
                self.union([then, otherwise])
            }
            Node::Call { function, receiver, arguments } => {
                self.call(expr, &function.text, receiver.as_deref(), arguments)
            }
            Node::List { items } => {
                let all: Vec<Places> = items.iter().map(|item| self.places(&item.value)).collect();
                wrapped(self.union(all))
            }
            Node::Map { entries } => {
                let all: Vec<Places> = entries
                    .iter()
                    .map(|entry| {
                        self.read(&entry.key);
                        self.places(&entry.value)
                    })
                    .collect();
                wrapped(self.union(all))
            }
            Node::Struct { fields, .. } => self.read_all(fields.iter().map(|field| &field.value)),
            Node::Comprehension(comprehension) => self.comprehension(comprehension),
            Node::Bind { value, body, .. } => {
                let places = self.places(value);
                self.with_locals(vec![places], |walk| walk.places(body))
            }
            Node::OptionalMap { operand, body, .. } => {
                let places = self.places(operand);
                self.with_locals(vec![places], |walk| walk.places(body))
            }
        }
    }

    fn variable(&mut self, name: &Text, span: Span) -> Places {
        if !self.found.variables.iter().any(|mention| mention.variable == *name) {
            self.found.variables.push(Mention { variable: name.clone(), span });
        }
        vec![Place { variable: name.clone(), path: Vec::new(), span, optional: false, wrapped: 0 }]
    }

    fn with_locals<T>(&mut self, locals: Vec<Places>, step: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.locals.len();
        self.locals.extend(locals);
        let result = step(self);
        self.locals.truncate(before);
        result
    }

    /// The places of several nodes, each once.
    fn union(&mut self, all: impl IntoIterator<Item = Places>) -> Places {
        let mut union = Places::new();
        for place in all.into_iter().flatten() {
            let same = |known: &&mut Place| {
                known.wrapped == place.wrapped && known.variable == place.variable && known.path == place.path
            };
            match union.iter_mut().find(same) {
                Some(known) => known.optional &= place.optional,
                None => union.push(place),
            }
        }
        if union.len() > MAX_PLACES {
            self.take(union, false);
            return Places::new();
        }
        union
    }

    fn step(&mut self, operand: &Expr, step: &PathSegment, span: Span, optional: bool) -> Places {
        let places = self.places(operand);
        let places = into(places, step, span, optional);
        self.union([places])
    }

    fn index(&mut self, index: &Expr) -> PathSegment {
        match &index.node {
            Node::Literal(Literal::String(key)) => PathSegment::Field(key.clone()),
            Node::Literal(Literal::Int(index)) => PathSegment::Index(*index),
            _ => {
                self.read(index);
                PathSegment::Any
            }
        }
    }

    fn call(&mut self, expr: &Expr, name: &str, receiver: Option<&Expr>, arguments: &[Expr]) -> Places {
        let namespaced =
            matches!(self.checked.reference(expr.id), Reference::Function { namespaced: true, .. });
        // These functions return their operands.
        let passes = match receiver {
            Some(_) if namespaced => matches!(name, "of" | "ofNonZeroValue"),
            Some(_) => matches!(name, "value" | "or" | "orValue"),
            None => name == "dyn",
        };
        let operands: Vec<&Expr> = receiver.filter(|_| !namespaced).into_iter().chain(arguments).collect();
        if name == "size" && !namespaced {
            for operand in operands {
                let places = self.places(operand);
                self.take(places, true);
            }
            return Places::new();
        }
        if !passes {
            return self.read_all(operands);
        }
        let all: Vec<Places> = operands.into_iter().map(|operand| self.places(operand)).collect();
        self.union(all)
    }

    fn comprehension(&mut self, comprehension: &Comprehension) -> Places {
        let Comprehension { kind, range, second, filter, body, .. } = comprehension;
        let places = self.places(range);
        let elements = into(places.clone(), &PathSegment::Any, range.span, false);
        let is_map = matches!(self.checked.type_of(range.id), Type::Map(_));
        let locals = match (is_map, second.is_some()) {
            (false, false) => vec![elements.clone()],
            (_, true) => vec![Places::new(), elements.clone()],
            (true, false) => vec![Places::new()],
        };
        // The number of elements matters, whatever the body does.
        self.take(places, true);
        self.with_locals(locals, |walk| {
            filter.iter().for_each(|filter| walk.read(filter));
            match kind {
                ComprehensionKind::All | ComprehensionKind::Exists | ComprehensionKind::ExistsOne => {
                    walk.read(body);
                    Places::new()
                }
                ComprehensionKind::Filter | ComprehensionKind::SortBy => {
                    walk.read(body);
                    if is_map { Places::new() } else { wrapped(elements) }
                }
                ComprehensionKind::Map
                | ComprehensionKind::TransformList
                | ComprehensionKind::TransformMap => wrapped(walk.places(body)),
                ComprehensionKind::TransformMapEntry => walk.places(body),
            }
        })
    }
}

/// The places one segment deeper.
fn into(places: Places, step: &PathSegment, span: Span, optional: bool) -> Places {
    places
        .into_iter()
        .map(|mut place| {
            match place.wrapped.checked_sub(1) {
                Some(wrapped) => place.wrapped = wrapped,
                None => place.path.push(step.clone()),
            }
            place.span = span;
            place.optional |= optional;
            place
        })
        .collect()
}

fn wrapped(mut places: Places) -> Places {
    places.iter_mut().for_each(|place| place.wrapped += 1);
    places
}
