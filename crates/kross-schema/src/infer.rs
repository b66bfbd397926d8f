//! Infers OpenAPI schemas from CEL types: the schema of a status follows from the types of its expressions.

use std::sync::Arc;

use kross_cel::types::{ObjectType, Type};
use kross_value::Key;

use crate::openapi::{Kind, Properties, Schema};

/// Maximum depth; deeper values are not restricted. No API is nested more deeply.
const MAX_DEPTH: usize = 24;
/// Maximum number of objects with fields, and of fields; further values are not restricted. Definitions of a hostile server that name
/// each other several times would multiply on every level. A CustomResourceDefinition with so many is too large for an API server.
const MAX_FIELDS: usize = 20_000;

/// The schema of a type. Parts that are known only at run time are not restricted.
#[must_use]
pub fn schema_of(found: &Type) -> Schema {
    Inference { around: Vec::new(), left: MAX_FIELDS }.infer(found)
}

struct Inference {
    /// The types that the current one is a part of.
    around: Vec<ObjectType>,
    /// How many fields the schema may still have.
    left: usize,
}

impl Inference {
    fn infer(&mut self, found: &Type) -> Schema {
        match found {
            Type::Bool => Schema::of(Kind::Boolean),
            Type::Int | Type::UInt => Schema::of(Kind::Integer),
            Type::Double => Schema::of(Kind::Number),
            Type::String => Schema::of(Kind::String),
            Type::Bytes => Schema::format("byte"),
            Type::Timestamp => Schema::format("date-time"),
            Type::Duration => Schema::format("duration"),
            Type::List(item) => Schema::array(self.infer(item)),
            Type::Map(entry) if matches!(entry.0, Type::String) => Schema::map(self.infer(&entry.1)),
            Type::Map(_) => Schema::free_object(),
            Type::Optional(inner) => self.infer(inner),
            Type::Nullable(inner) => self.infer(inner).or_null(),
            Type::Object(object) => self.infer_object(object),
            Type::Dyn
            | Type::Null
            | Type::Error
            | Type::Type(_)
            | Type::Opaque(_)
            | Type::Parameter(_)
            | Type::Variable(_) => Schema::anything(),
        }
    }

    fn infer_object(&mut self, object: &ObjectType) -> Schema {
        // A recursive type would be infinite, because a CRD cannot contain references.
        if self.left == 0 || self.around.len() >= MAX_DEPTH || self.around.contains(object) {
            return Schema::free_object();
        }
        let names = object.field_names();
        self.left = self.left.saturating_sub(1 + names.len());
        self.around.push(object.clone());
        let fields = names.into_iter().filter_map(|name| {
            let schema = self.infer(&object.field(&name)?);
            Some((Key::new(&name), Arc::new(schema)))
        });
        let properties: Properties = fields.collect();
        self.around.pop();
        Schema::of_properties(properties)
    }
}
