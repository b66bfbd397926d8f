//! A serde deserializer for values, so that schemas in objects are parsed like those in documents.

use kross_value::{Key, Value};
use serde::de::value::{Error, MapDeserializer, SeqDeserializer, StrDeserializer};
use serde::de::{Deserializer, IntoDeserializer, Visitor};

/// A value as a deserializer.
pub(super) struct ValueReader<'a>(pub(super) &'a Value);

impl<'de> Deserializer<'de> for ValueReader<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Int(value) => visitor.visit_i64(*value),
            Value::Float(value) => visitor.visit_f64(*value),
            Value::String(text) => visitor.visit_str(text),
            Value::List(items) => visitor.visit_seq(SeqDeserializer::new(items.iter().map(ValueReader))),
            Value::Object(object) => visitor.visit_map(MapDeserializer::new(
                object.iter().map(|(key, value)| (KeyReader(key), ValueReader(value))),
            )),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl IntoDeserializer<'_, Error> for ValueReader<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

struct KeyReader<'a>(&'a Key);

impl<'a> IntoDeserializer<'_, Error> for KeyReader<'a> {
    type Deserializer = StrDeserializer<'a, Error>;

    fn into_deserializer(self) -> Self::Deserializer {
        self.0.as_str().into_deserializer()
    }
}
