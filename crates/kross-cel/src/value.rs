//! The values of expressions. Lists and maps are either built by an expression or lazy views of a shared
//! [`kross_value::Value`], whose elements are converted on access.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use kross_value::{Object, Text, Value as Data};

use crate::types::Type;

mod data;
mod duration;
mod equality;
mod list;
mod map;
mod omit;
mod order;
mod show;
mod timestamp;
mod view;

pub use data::to_data;
pub(crate) use data::to_data_within;
pub(crate) use equality::numeric_as_int;
pub use list::ListIter;
pub use map::MapIter;
pub(crate) use map::check_key;
pub use omit::Omit;
pub(crate) use timestamp::civil;

/// Deeper values are neither compared nor converted, to protect the stack.
pub(crate) const MAX_DEPTH: usize = 1_000;

/// A value of the language. 24 bytes; cloning is at most a reference count.
#[derive(Clone, Debug)]
pub enum Value {
    /// `null`
    Null,
    /// `bool`
    Bool(bool),
    /// `int`
    Int(i64),
    /// `uint`
    UInt(u64),
    /// `double`
    Double(f64),
    /// `string`
    String(Text),
    /// `bytes`
    Bytes(Arc<[u8]>),
    /// `google.protobuf.Timestamp`
    Timestamp(Timestamp),
    /// `google.protobuf.Duration`
    Duration(Duration),
    /// `list`
    List(List),
    /// `map`, and objects
    Map(Map),
    /// `optional_type`
    Optional(Option<Arc<Value>>),
    /// A type as a value, by its name: `int`, `list`, `google.protobuf.Timestamp`.
    Type(Text),
    /// A value of an opaque type: a quantity, an IP address, kro's `omit()`.
    Opaque(Arc<dyn Opaque>),
}

/// A point in time, between the years 1 and 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp {
    /// Seconds since 1970, negative before.
    pub seconds: i64,
    /// Nanoseconds after that second.
    pub nanoseconds: u32,
}

/// A duration in nanoseconds, as in cel-go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Duration {
    /// The length; may be negative.
    pub nanoseconds: i64,
}

/// A list.
#[derive(Clone, Debug)]
pub enum List {
    /// Built by an expression.
    Built(Arc<Vec<Value>>),
    /// Raw JSON that needs no conversion.
    Data(Arc<[Data]>),
    /// Raw JSON whose elements are converted to a type.
    Typed(Arc<TypedList>),
}

/// Raw JSON elements and their type.
#[derive(Debug)]
pub struct TypedList {
    /// The elements.
    pub items: Arc<[Data]>,
    /// The type of each element.
    pub item: Type,
}

/// A map or an object.
#[derive(Clone, Debug)]
pub enum Map {
    /// Built by an expression.
    Built(Arc<BuiltMap>),
    /// Raw JSON that needs no conversion.
    Data(Object),
    /// Raw JSON whose entries are converted to a type.
    Typed(Arc<TypedObject>),
}

/// A map that was built by an expression, in insertion order. Keys are bool, int, uint or string.
#[derive(Debug, Default)]
pub struct BuiltMap {
    entries: Vec<(Value, Value)>,
    /// Positions in key order, computed on the first lookup in a map that is not small.
    sorted: OnceLock<Box<[u32]>>,
}

/// A raw JSON object and its type: an object type or `map(string, T)`.
#[derive(Debug)]
pub struct TypedObject {
    /// The entries.
    pub object: Object,
    /// Their type.
    pub object_type: Type,
}

/// A value of an opaque type.
pub trait Opaque: fmt::Debug + Send + Sync + Any {
    /// The type's qualified name, such as `kubernetes.Quantity`.
    fn type_name(&self) -> &'static str;

    /// Whether both are equal in the sense of `==`.
    fn equals(&self, other: &dyn Opaque) -> bool;

    /// For downcasting to the concrete type.
    fn as_any(&self) -> &dyn Any;

    /// The text in JSON, status and `string()`, if there is one.
    fn text(&self) -> Option<String> {
        None
    }

    /// A field, for types that have them, such as `kro.run.Condition`.
    fn field(&self, _name: &str) -> Option<Value> {
        None
    }
}

impl Value {
    /// A string.
    pub fn string(text: impl Into<Text>) -> Self {
        Self::String(text.into())
    }

    /// A list of these values.
    #[must_use]
    pub fn list(items: Vec<Self>) -> Self {
        Self::List(List::Built(Arc::new(items)))
    }

    /// A map of these entries; keys must be distinct.
    #[must_use]
    pub fn map(entries: Vec<(Self, Self)>) -> Self {
        Self::Map(Map::Built(Arc::new(BuiltMap::new(entries))))
    }

    /// A value of an opaque type.
    pub fn opaque(value: impl Opaque) -> Self {
        Self::Opaque(Arc::new(value))
    }

    /// An optional with a value.
    #[must_use]
    pub fn some(value: Self) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    /// kro's `omit()`: the map entry or list element that holds it is omitted.
    #[must_use]
    pub fn omit() -> Self {
        Self::Opaque(Arc::new(Omit))
    }

    /// Whether it is kro's `omit()`.
    #[must_use]
    pub fn is_omit(&self) -> bool {
        self.downcast::<Omit>().is_some()
    }

    /// The concrete value behind an opaque one.
    #[must_use]
    pub fn downcast<T: Opaque>(&self) -> Option<&T> {
        if let Self::Opaque(value) = self { value.as_any().downcast_ref() } else { None }
    }

    /// The name of the value's type, as `type()` returns it.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::UInt(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Opaque(value) => value.type_name(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_three_words() {
        assert_eq!(size_of::<Value>(), 24);
        assert_eq!(size_of::<Option<Value>>(), 24);
    }
}
