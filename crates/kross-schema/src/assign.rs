//! Checks whether the result of an expression can be assigned to a field: compares its type with the field's schema, and
//! reports the part that differs.

use std::fmt;

use kross_cel::types::{ObjectType, Type};
use kross_diagnostics::{Path, suggest};

use crate::openapi::{Kind, Schema};
use crate::view::{FieldView, SchemaView};

/// Maximum depth; only recursive schemas are nested more deeply.
const MAX_DEPTH: usize = 64;
/// How many types are compared at most, in all combinations.
const MAX_STEPS: u32 = 20_000;
/// How many choices within choices are compared.
const MAX_CHOOSING: u32 = 3;
/// How many levels of a type a message describes.
const MAX_DESCRIBED: u32 = 4;

/// How an assignable value is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Written {
    /// Unchanged.
    #[default]
    AsIs,
    /// With its bytes encoded as base64, as the field expects.
    BytesAsBase64,
}

/// Why a type cannot be assigned to a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The path of the part that differs, relative to the field. Items of lists and values of maps are `[]`.
    pub path: Path,
    /// The expected type.
    pub expected: String,
    /// The type of the expression.
    pub found: String,
    /// How to fix it.
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

/// Whether a value of type `found` can be assigned to a field with the schema `target`.
///
/// # Errors
/// The part that differs.
pub fn assignable(found: &Type, target: &SchemaView) -> Result<Written, Mismatch> {
    let mut assigning =
        Assigning { path: Path::root(), around: Vec::new(), written: Written::AsIs, steps: 0, choosing: 0 };
    assigning.check(found, target)?;
    Ok(assigning.written)
}

/// The type of a schema in messages: `string`, `list of integer`, `integer or string`.
#[must_use]
pub fn describe(target: &SchemaView) -> String {
    describe_within(target, MAX_DESCRIBED)
}

/// The same, without what is nested deeper: a schema may contain itself.
fn describe_within(target: &SchemaView, levels: u32) -> String {
    let Some(levels) = levels.checked_sub(1) else { return "any value".to_owned() };
    let schema = target.schema();
    if schema.int_or_string {
        return "integer or string".to_owned();
    }
    match schema.kind {
        Some(Kind::String) => describe_string(schema),
        Some(Kind::Array) => match target.items() {
            Some(items) => format!("list of {}", describe_within(&items, levels)),
            None => "list".to_owned(),
        },
        Some(Kind::Object) => match target.values() {
            Some(values) if schema.properties.is_empty() => {
                format!("map of {}", describe_within(&values, levels))
            }
            _ if schema.properties.is_empty() => "object".to_owned(),
            _ => format!("object `{}`", target.name()),
        },
        Some(kind) => kind.as_str().to_owned(),
        None => {
            let choices: Vec<String> =
                target.choices().iter().map(|choice| describe_within(choice, levels)).collect();
            if choices.is_empty() { "any value".to_owned() } else { choices.join(" or ") }
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
    /// The enclosing pairs that are being compared, to stop at recursive types.
    around: Vec<(ObjectType, SchemaView)>,
    written: Written,
    /// How many types were compared.
    steps: u32,
    /// How many choices enclose the schema.
    choosing: u32,
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
        // A schema of a hostile server can make this endless. What is not compared here, the API server checks.
        self.steps += 1;
        if self.steps > MAX_STEPS || self.choosing > MAX_CHOOSING {
            return Ok(());
        }
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
            self.choosing += 1;
            let fits = choices.iter().any(|choice| self.check(found, choice).is_ok());
            self.choosing -= 1;
            return if fits { Ok(()) } else { Err(self.mismatch(found, target)) };
        }
        if schema.kind.is_none() && schema.properties.is_empty() {
            return self.check_free(found, target);
        }
        self.check_kind(found, target)
    }

    /// A field without a type accepts any value that can be represented in JSON.
    fn check_free(&mut self, found: &Type, target: &SchemaView) -> Checked {
        match found {
            Type::Bytes => Err(self.mismatch(found, target)),
            Type::List(item) => self.inside(|this| this.check(item, target)),
            Type::Map(entry) => {
                self.check_key(found, &entry.0, target)?;
                self.inside(|this| this.check(&entry.1, target))
            }
            // Objects that were read can be written as they are.
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

    /// Checks the items of a list or the values of a map.
    fn inside(&mut self, check: impl FnOnce(&mut Self) -> Checked) -> Checked {
        self.at("[]", check)
    }

    fn at(&mut self, segment: &str, check: impl FnOnce(&mut Self) -> Checked) -> Checked {
        let outer = self.path.clone();
        self.path = outer.key(segment);
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

    /// Checks a map whose keys are known only at run time: its values must be assignable to the values of the target map,
    /// or to at least one of its fields.
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
                        help: meant.map(|meant| format!("did you mean `{meant}`?")),
                    });
                }
            }
        }
        Ok(())
    }
}

/// The function that converts a value to the type of the field.
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
