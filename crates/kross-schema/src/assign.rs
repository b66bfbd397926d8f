//! Whether what an expression gives can be written into a field: the type against the field's schema, part by part,
//! with the part that differs.

use std::fmt;

use kross_cel::types::{ObjectType, Type};
use kross_diagnostics::{Path, suggest};

use crate::openapi::{Kind, Schema};
use crate::view::{FieldView, SchemaView};

/// Deeper than any schema that is not recursive.
const MAX_DEPTH: usize = 64;

/// How a value that fits is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Written {
    /// As it is.
    #[default]
    AsIs,
    /// With its bytes as base64, which is what the field holds.
    BytesAsBase64,
}

/// Why a type does not fit a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The part that differs, from the field down; the root for the whole. Items of lists and values of maps are `[]`.
    pub path: Path,
    /// What the schema takes there.
    pub expected: String,
    /// What the expression gives there.
    pub found: String,
    /// What to do about it.
    pub help: Option<String>,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}, found {}", self.expected, self.found)?;
        if self.path.is_root() {
            return Ok(());
        }
        let path = self.path.to_string().replace(r#"["[]"]"#, "[]");
        write!(f, " at `{path}`")
    }
}

/// Whether a value of type `found` can be written where `target` is expected.
///
/// # Errors
/// The part that does not fit.
pub fn assignable(found: &Type, target: &SchemaView) -> Result<Written, Mismatch> {
    let mut assigning = Assigning { path: Path::root(), around: Vec::new(), written: Written::AsIs };
    assigning.check(found, target)?;
    Ok(assigning.written)
}

/// What a schema takes, in words: `string`, `list of integer`, `integer or string`.
#[must_use]
pub fn describe(target: &SchemaView) -> String {
    let schema = target.schema();
    if schema.int_or_string {
        return "integer or string".to_owned();
    }
    match schema.kind {
        Some(Kind::String) => describe_string(schema),
        Some(Kind::Array) => match target.items() {
            Some(items) => format!("list of {}", describe(&items)),
            None => "list".to_owned(),
        },
        Some(Kind::Object) => match target.values() {
            Some(values) if schema.properties.is_empty() => format!("map of {}", describe(&values)),
            _ if schema.properties.is_empty() => "object".to_owned(),
            _ => format!("object `{}`", target.name()),
        },
        Some(kind) => kind.as_str().to_owned(),
        None => {
            let choices: Vec<String> = target.choices().iter().map(describe).collect();
            if choices.is_empty() { "anything".to_owned() } else { choices.join(" or ") }
        }
    }
}

fn describe_string(schema: &Schema) -> String {
    match schema.format.as_deref() {
        Some("byte") => "base64 string".to_owned(),
        Some("date-time" | "date") => "timestamp".to_owned(),
        Some("duration") => "duration".to_owned(),
        _ => "string".to_owned(),
    }
}

struct Assigning {
    path: Path,
    /// The pairs that are being compared, for types inside themselves.
    around: Vec<(ObjectType, SchemaView)>,
    written: Written,
}

type Checked = Result<(), Mismatch>;

impl Assigning {
    fn mismatch(&self, found: &Type, target: &SchemaView) -> Mismatch {
        Mismatch {
            path: self.path.clone(),
            expected: describe(target),
            found: found.to_string(),
            help: conversion(found, target),
        }
    }

    fn check(&mut self, found: &Type, target: &SchemaView) -> Checked {
        match found {
            Type::Dyn | Type::Error | Type::Parameter(_) | Type::Variable(_) => return Ok(()),
            Type::Optional(inner) | Type::Nullable(inner) => return self.check(inner, target),
            Type::Opaque(_) | Type::Type(_) => return Err(self.mismatch(found, target)),
            _ => {}
        }
        let schema = target.schema();
        if schema.int_or_string {
            return match found {
                Type::Int | Type::UInt | Type::String => Ok(()),
                _ => Err(self.mismatch(found, target)),
            };
        }
        let choices = target.choices();
        if !choices.is_empty() {
            let fits = choices.iter().any(|choice| self.check(found, choice).is_ok());
            return if fits { Ok(()) } else { Err(self.mismatch(found, target)) };
        }
        if schema.kind.is_none() && schema.properties.is_empty() {
            return self.check_free(found, target);
        }
        self.check_kind(found, target)
    }

    /// Anything that has a form in JSON may be written where nothing is said.
    fn check_free(&mut self, found: &Type, target: &SchemaView) -> Checked {
        match found {
            Type::Bytes => Err(self.mismatch(found, target)),
            Type::List(item) => self.inside(|this| this.check(item, target)),
            Type::Map(entry) => {
                self.check_key(found, &entry.0, target)?;
                self.inside(|this| this.check(&entry.1, target))
            }
            // Fields of objects that were read are written as they were read.
            _ => Ok(()),
        }
    }

    fn check_kind(&mut self, found: &Type, target: &SchemaView) -> Checked {
        let schema = target.schema();
        let kind = schema.kind.unwrap_or(Kind::Object);
        match (found, kind) {
            (Type::Bool, Kind::Boolean)
            | (Type::Int | Type::UInt, Kind::Integer | Kind::Number)
            | (Type::Double, Kind::Number)
            | (Type::String, Kind::String) => Ok(()),
            (Type::Bytes, Kind::String) if schema.format.as_deref() == Some("byte") => {
                self.written = Written::BytesAsBase64;
                Ok(())
            }
            (Type::Timestamp, Kind::String) => match schema.format.as_deref() {
                Some("date-time" | "date") => Ok(()),
                _ => Err(self.mismatch(found, target)),
            },
            (Type::Duration, Kind::String) => match schema.format.as_deref() {
                Some("duration") => Ok(()),
                _ => Err(self.mismatch(found, target)),
            },
            (Type::Null, Kind::Object | Kind::Array) => Ok(()),
            (Type::Null, _) if schema.nullable => Ok(()),
            (Type::List(item), Kind::Array) => match target.items() {
                Some(items) => self.inside(|this| this.check(item, &items)),
                None => Ok(()),
            },
            (Type::Map(entry), Kind::Object) => {
                self.check_key(found, &entry.0, target)?;
                self.check_map(found, &entry.1, target)
            }
            (Type::Object(object), Kind::Object) => self.check_object(object, target),
            _ => Err(self.mismatch(found, target)),
        }
    }

    /// Runs a check one step inside a list or map.
    fn inside(&mut self, check: impl FnOnce(&mut Self) -> Checked) -> Checked {
        self.at("[]", check)
    }

    fn at(&mut self, step: &str, check: impl FnOnce(&mut Self) -> Checked) -> Checked {
        let outer = self.path.clone();
        self.path = outer.key(step);
        let checked = check(self);
        self.path = outer;
        checked
    }

    fn check_key(&self, found: &Type, key: &Type, target: &SchemaView) -> Checked {
        match key {
            Type::String | Type::Dyn | Type::Error | Type::Parameter(_) | Type::Variable(_) => Ok(()),
            _ => Err(self.mismatch(found, target)),
        }
    }

    /// A map whose keys are known only at run time: its values must fit the map's, or at least one of the fields.
    fn check_map(&mut self, found: &Type, value: &Type, target: &SchemaView) -> Checked {
        if let Some(values) = target.values() {
            return self.inside(|this| this.check(value, &values));
        }
        if target.schema().properties.is_empty() {
            return if target.is_free() {
                self.inside(|this| this.check_free(value, target))
            } else {
                Err(self.mismatch(found, target))
            };
        }
        let written = self.written;
        let fits = target.schema().properties.names().any(|name| match target.field(name) {
            FieldView::Known(field) => self.check(value, &field).is_ok(),
            FieldView::Free | FieldView::Unknown => false,
        });
        self.written = written;
        if fits || target.is_free() { Ok(()) } else { Err(self.mismatch(found, target)) }
    }

    fn check_object(&mut self, object: &ObjectType, target: &SchemaView) -> Checked {
        if target.cel_type() == Type::Object(object.clone()) {
            return Ok(());
        }
        let seen = self.around.iter().any(|(other, schema)| other == object && schema.same(target));
        if seen || self.around.len() >= MAX_DEPTH {
            return Ok(());
        }
        self.around.push((object.clone(), target.clone()));
        let checked = self.check_fields(object, target);
        self.around.pop();
        checked
    }

    fn check_fields(&mut self, object: &ObjectType, target: &SchemaView) -> Checked {
        for name in object.field_names() {
            let Some(found) = object.field(&name) else { continue };
            match target.field(&name) {
                FieldView::Known(field) => self.at(&name, |this| this.check(&found, &field))?,
                FieldView::Free => {}
                FieldView::Unknown => {
                    let meant = suggest(&name, target.field_names());
                    return Err(Mismatch {
                        path: self.path.clone(),
                        expected: describe(target),
                        found: format!("`{}` with a field `{name}`", object.name()),
                        help: meant.map(|meant| format!("the closest field is `{meant}`")),
                    });
                }
            }
        }
        Ok(())
    }
}

/// The function that makes of a value what the field takes.
fn conversion(found: &Type, target: &SchemaView) -> Option<String> {
    let schema = target.schema();
    let function = match (found, schema.kind) {
        (Type::Int | Type::UInt | Type::Double | Type::Bool, Some(Kind::String)) => "string(…)",
        (Type::Timestamp | Type::Duration, Some(Kind::String)) => "string(…)",
        (Type::Bytes, Some(Kind::String)) => "string(…)` or `base64.encode(…)",
        (Type::Bytes, None) => "string(…)` or `base64.encode(…)",
        (Type::String | Type::Double, Some(Kind::Integer)) => "int(…)",
        (Type::String, Some(Kind::Number)) => "double(…)",
        (Type::String, Some(Kind::Boolean)) => "bool(…)",
        (Type::Opaque(_), Some(Kind::String)) => "string(…)",
        _ => return None,
    };
    Some(format!("convert it with `{function}`"))
}
