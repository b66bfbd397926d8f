//! Selects the overload for some values by the outermost types of its parameters.

use kross_value::Text;

use crate::library::{DeclaredOverload, Implementation};
use crate::types::Type;
use crate::value::Value;

/// An overload as evaluation needs it.
#[derive(Clone, Debug)]
pub(super) struct Resolved {
    shapes: Box<[Shape]>,
    variadic: bool,
    pub(super) implementation: Implementation,
}

/// The outermost type of a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Shape {
    Any,
    Null,
    Bool,
    Int,
    UInt,
    Double,
    String,
    Bytes,
    Timestamp,
    Duration,
    List,
    Map,
    Optional,
    Type,
    Opaque(Text),
    Nullable(Box<Shape>),
}

impl Shape {
    fn of(parameter: &Type) -> Self {
        match parameter {
            Type::Null => Self::Null,
            Type::Bool => Self::Bool,
            Type::Int => Self::Int,
            Type::UInt => Self::UInt,
            Type::Double => Self::Double,
            Type::String => Self::String,
            Type::Bytes => Self::Bytes,
            Type::Timestamp => Self::Timestamp,
            Type::Duration => Self::Duration,
            Type::List(_) => Self::List,
            Type::Map(_) => Self::Map,
            Type::Optional(_) => Self::Optional,
            Type::Type(_) => Self::Type,
            Type::Opaque(opaque) => Self::Opaque(opaque.name.clone()),
            Type::Nullable(inner) => Self::Nullable(Box::new(Self::of(inner))),
            Type::Error | Type::Dyn | Type::Object(_) | Type::Parameter(_) | Type::Variable(_) => Self::Any,
        }
    }

    fn takes(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::Any, _)
            | (Self::Null, Value::Null)
            | (Self::Bool, Value::Bool(_))
            | (Self::Int, Value::Int(_))
            | (Self::UInt, Value::UInt(_))
            | (Self::Double, Value::Double(_))
            | (Self::String, Value::String(_))
            | (Self::Bytes, Value::Bytes(_))
            | (Self::Timestamp, Value::Timestamp(_))
            | (Self::Duration, Value::Duration(_))
            | (Self::List, Value::List(_))
            | (Self::Map, Value::Map(_))
            | (Self::Optional, Value::Optional(_))
            | (Self::Type, Value::Type(_))
            | (Self::Nullable(_), Value::Null) => true,
            (Self::Opaque(name), Value::Opaque(value)) => name.as_str() == value.type_name(),
            (Self::Nullable(inner), value) => inner.takes(value),
            _ => false,
        }
    }
}

impl Resolved {
    pub(super) fn new(declared: &DeclaredOverload) -> Self {
        let shapes = declared.signature.parameters.iter().map(Shape::of).collect();
        Self { shapes, variadic: declared.signature.variadic, implementation: declared.implementation }
    }

    /// Whether the overload accepts these values.
    #[inline]
    pub(super) fn takes(&self, arguments: &[Value]) -> bool {
        let (given, wanted) = (arguments.len(), self.shapes.len());
        if given != wanted && !(self.variadic && given > wanted) {
            return false;
        }
        let last = self.shapes.last();
        arguments
            .iter()
            .enumerate()
            .all(|(at, argument)| self.shapes.get(at).or(last).is_some_and(|shape| shape.takes(argument)))
    }
}
