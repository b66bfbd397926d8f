//! Deserializes schemas without an intermediate value: the documents of a live cluster are large, and most of their bytes
//! are descriptions.

use std::fmt;
use std::sync::Arc;

use kross_value::{Key, Object, Text, Value};
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

use super::value_reader::ValueReader;
use super::{Additional, Details, Kind, Properties, Schema, Validation};

/// Maximum depth; deeper schemas are rejected.
const MAX_DEPTH: u32 = 120;

/// Whether to keep documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Keep descriptions, titles and examples.
    Everything,
    /// Drop them.
    Meaning,
}

impl Schema {
    /// Parses a schema from JSON.
    ///
    /// # Errors
    /// The text is not JSON, or not a schema.
    pub fn from_json(text: &str, keep: Keep) -> Result<Self, serde_json::Error> {
        let mut reader = serde_json::Deserializer::from_str(text);
        let schema = SchemaSeed::new(keep).deserialize(&mut reader)?;
        reader.end()?;
        Ok(schema)
    }

    /// Parses a schema from a value.
    ///
    /// # Errors
    /// The value is not a schema.
    pub fn from_value(value: &Value, keep: Keep) -> Result<Self, serde::de::value::Error> {
        SchemaSeed::new(keep).deserialize(ValueReader(value))
    }
}

impl<'de> Deserialize<'de> for Schema {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        SchemaSeed::new(Keep::Everything).deserialize(deserializer)
    }
}

#[derive(Clone, Copy)]
struct SchemaSeed {
    keep: Keep,
    depth: u32,
}

impl SchemaSeed {
    fn new(keep: Keep) -> Self {
        Self { keep, depth: 0 }
    }

    fn deeper<E: Error>(self) -> Result<Self, E> {
        if self.depth >= MAX_DEPTH {
            return Err(E::custom("the schema is nested too deeply"));
        }
        Ok(Self { depth: self.depth + 1, ..self })
    }
}

impl<'de> DeserializeSeed<'de> for SchemaSeed {
    type Value = Schema;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Schema, D::Error> {
        deserializer.deserialize_map(self.deeper()?)
    }
}

impl<'de> Visitor<'de> for SchemaSeed {
    type Value = Schema;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a schema")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Schema, A::Error> {
        let mut schema = Schema::default();
        while let Some(name) = map.next_key::<Name>()? {
            self.read_field(&mut schema, &name.0, &mut map)?;
        }
        if schema.format.as_deref() == Some("int-or-string") {
            schema.int_or_string = true;
        }
        schema.normalize();
        Ok(schema)
    }
}

impl SchemaSeed {
    fn read_field<'de, A: MapAccess<'de>>(
        self,
        schema: &mut Schema,
        name: &str,
        map: &mut A,
    ) -> Result<(), A::Error> {
        match name {
            "type" => schema.kind = read_kind(&map.next_value::<Name>()?.0)?,
            "nullable" => schema.nullable = map.next_value()?,
            "format" => schema.format = Some(map.next_value::<Name>()?.text()),
            "$ref" => schema.reference = Some(definition_name(&map.next_value::<Name>()?.0)),
            "properties" => schema.properties = map.next_value_seed(PropertiesSeed(self))?,
            "required" => schema.required = map.next_value_seed(TextsSeed)?,
            "items" => schema.items = Some(Arc::new(map.next_value_seed(self)?)),
            "additionalProperties" => schema.additional = map.next_value_seed(AdditionalSeed(self))?,
            "enum" => schema.values = map.next_value()?,
            "default" => schema.default = Some(map.next_value()?),
            "x-kubernetes-preserve-unknown-fields" => schema.preserve_unknown = map.next_value()?,
            "x-kubernetes-int-or-string" => schema.int_or_string = map.next_value()?,
            "x-kubernetes-embedded-resource" => schema.embedded = map.next_value()?,
            _ => return self.read_detail(schema, name, map),
        }
        Ok(())
    }

    fn read_detail<'de, A: MapAccess<'de>>(
        self,
        schema: &mut Schema,
        name: &str,
        map: &mut A,
    ) -> Result<(), A::Error> {
        if !is_detail(name) || (self.keep == Keep::Meaning && is_documentation(name)) {
            map.next_value::<IgnoredAny>()?;
            return Ok(());
        }
        let details: &mut Details = schema.details_mut();
        match name {
            "title" => details.title = Some(map.next_value::<String>()?.into()),
            "description" => details.description = Some(map.next_value::<String>()?.into()),
            "pattern" => details.pattern = Some(map.next_value::<String>()?.into()),
            "minimum" => details.minimum = map.next_value()?,
            "exclusiveMinimum" => details.exclusive_minimum = map.next_value()?,
            "maximum" => details.maximum = map.next_value()?,
            "exclusiveMaximum" => details.exclusive_maximum = map.next_value()?,
            "multipleOf" => details.multiple_of = map.next_value()?,
            "minLength" => details.min_length = map.next_value()?,
            "maxLength" => details.max_length = map.next_value()?,
            "minItems" => details.min_items = map.next_value()?,
            "maxItems" => details.max_items = map.next_value()?,
            "uniqueItems" => details.unique_items = map.next_value()?,
            "minProperties" => details.min_properties = map.next_value()?,
            "maxProperties" => details.max_properties = map.next_value()?,
            "allOf" => details.all_of = map.next_value_seed(SchemasSeed(self))?,
            "anyOf" => details.any_of = map.next_value_seed(SchemasSeed(self))?,
            "oneOf" => details.one_of = map.next_value_seed(SchemasSeed(self))?,
            "not" => details.not = Some(Arc::new(map.next_value_seed(self)?)),
            "x-kubernetes-list-type" => details.list_type = Some(map.next_value::<Name>()?.text()),
            "x-kubernetes-list-map-keys" => details.list_map_keys = map.next_value_seed(TextsSeed)?,
            "x-kubernetes-map-type" => details.map_type = Some(map.next_value::<Name>()?.text()),
            "x-kubernetes-validations" => {
                let rules: Vec<Object> = map.next_value()?;
                details.validations = rules.into_iter().map(read_validation).collect();
            }
            other => {
                details.rest.insert(other, map.next_value()?);
            }
        }
        Ok(())
    }
}

fn is_documentation(name: &str) -> bool {
    matches!(name, "title" | "description" | "example" | "externalDocs")
}

fn is_detail(name: &str) -> bool {
    is_documentation(name)
        || matches!(
            name,
            "pattern"
                | "minimum"
                | "exclusiveMinimum"
                | "maximum"
                | "exclusiveMaximum"
                | "multipleOf"
                | "minLength"
                | "maxLength"
                | "minItems"
                | "maxItems"
                | "uniqueItems"
                | "minProperties"
                | "maxProperties"
                | "allOf"
                | "anyOf"
                | "oneOf"
                | "not"
                | "x-kubernetes-list-type"
                | "x-kubernetes-list-map-keys"
                | "x-kubernetes-map-type"
                | "x-kubernetes-validations"
        )
}

fn read_kind<E: Error>(word: &str) -> Result<Option<Kind>, E> {
    if word.is_empty() {
        return Ok(None);
    }
    Kind::find(word).map(Some).ok_or_else(|| E::custom(format_args!("unknown type `{word}` in a schema")))
}

/// The name of the definition in `#/components/schemas/io.k8s.api.core.v1.Pod`.
fn definition_name(reference: &str) -> Text {
    reference.rsplit('/').next().unwrap_or(reference).into()
}

fn read_validation(mut rule: Object) -> Validation {
    let mut take = |key: &str| match rule.remove(key) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    };
    let (message, expression) = (take("message"), take("rule").unwrap_or_else(|| "".into()));
    Validation { rule: expression, message, rest: rule }
}

/// A short, interned string.
struct Name(Key);

impl Name {
    fn text(self) -> Text {
        self.0.text().clone()
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameVisitor;
        impl Visitor<'_> for NameVisitor {
            type Value = Name;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E>(self, name: &str) -> Result<Name, E> {
                Ok(Name(Key::new(name)))
            }
        }
        deserializer.deserialize_str(NameVisitor)
    }
}

struct PropertiesSeed(SchemaSeed);

impl<'de> DeserializeSeed<'de> for PropertiesSeed {
    type Value = Properties;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Properties, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for PropertiesSeed {
    type Value = Properties;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of schemas")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Properties, A::Error> {
        let mut entries = Vec::new();
        while let Some(Name(name)) = map.next_key()? {
            entries.push((name, Arc::new(map.next_value_seed(self.0)?)));
        }
        Ok(entries.into_iter().collect())
    }
}

struct SchemasSeed(SchemaSeed);

impl<'de> DeserializeSeed<'de> for SchemasSeed {
    type Value = Vec<Arc<Schema>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for SchemasSeed {
    type Value = Vec<Arc<Schema>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of schemas")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
        let mut schemas = Vec::new();
        while let Some(schema) = sequence.next_element_seed(self.0)? {
            schemas.push(Arc::new(schema));
        }
        Ok(schemas)
    }
}

struct AdditionalSeed(SchemaSeed);

impl<'de> DeserializeSeed<'de> for AdditionalSeed {
    type Value = Additional;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Additional, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for AdditionalSeed {
    type Value = Additional;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a schema or a boolean")
    }

    fn visit_bool<E>(self, allowed: bool) -> Result<Additional, E> {
        Ok(Additional::Allowed(allowed))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Additional, A::Error> {
        Ok(Additional::Schema(Arc::new(self.0.deeper()?.visit_map(map)?)))
    }
}

struct TextsSeed;

impl<'de> DeserializeSeed<'de> for TextsSeed {
    type Value = Vec<Text>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<Text>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for TextsSeed {
    type Value = Vec<Text>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of names")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Vec<Text>, A::Error> {
        let mut names = Vec::new();
        while let Some(name) = sequence.next_element::<Name>()? {
            names.push(name.text());
        }
        Ok(names)
    }
}
