//! Infers OpenAPI schemas from CEL types: the schema of a status follows from the types of its expressions.

use std::sync::Arc;

use kross_cel::types::{ObjectType, Type};
use kross_value::Key;

use crate::openapi::{Kind, Properties, Schema};

/// Maximum depth; deeper values are not restricted. No API is nested more deeply.
const MAX_DEPTH: usize = 24;

/// The schema of a type. Parts that are known only at run time are not restricted.
#[must_use]
pub fn schema_of(found: &Type) -> Schema {
    infer(found, &mut Vec::new())
}

fn infer(found: &Type, around: &mut Vec<ObjectType>) -> Schema {
    match found {
        Type::Bool => Schema::of(Kind::Boolean),
        Type::Int | Type::UInt => Schema::of(Kind::Integer),
        Type::Double => Schema::of(Kind::Number),
        Type::String => Schema::of(Kind::String),
        Type::Bytes => Schema::format("byte"),
        Type::Timestamp => Schema::format("date-time"),
        Type::Duration => Schema::format("duration"),
        Type::List(item) => Schema::array(infer(item, around)),
        Type::Map(entry) if matches!(entry.0, Type::String) => Schema::map(infer(&entry.1, around)),
        Type::Map(_) => Schema::free_object(),
        Type::Optional(inner) => infer(inner, around),
        Type::Nullable(inner) => infer(inner, around).or_null(),
        Type::Object(object) => infer_object(object, around),
        Type::Dyn
        | Type::Null
        | Type::Error
        | Type::Type(_)
        | Type::Opaque(_)
        | Type::Parameter(_)
        | Type::Variable(_) => Schema::anything(),
    }
}

fn infer_object(object: &ObjectType, around: &mut Vec<ObjectType>) -> Schema {
    // A recursive type would be infinite, because a CRD cannot contain references.
    if around.len() >= MAX_DEPTH || around.contains(object) {
        return Schema::free_object();
    }
    around.push(object.clone());
    let fields = object.field_names().into_iter().filter_map(|name| {
        let schema = infer(&object.field(&name)?, around);
        Some((Key::new(&name), Arc::new(schema)))
    });
    let properties: Properties = fields.collect();
    around.pop();
    Schema::of_properties(properties)
}
