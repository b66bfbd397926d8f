//! Translates SimpleSchema, such as `replicas: integer | default=3`, to OpenAPI. Every error is reported; an invalid
//! field becomes a schema that allows any value, so that it does not cause further errors.

mod apply;
mod custom;
mod field_checks;
mod marker_text;
mod rules;
mod type_text;

use std::sync::Arc;

use kross_diagnostics::Code;
use kross_value::{Key, Object, Value};

use crate::openapi::{Kind, Properties, Schema};
use kross_diagnostics::{Path, Place, Problem};

use custom::CustomTypes;
use type_text::{Shape, TypeText};

/// Maximum nesting depth of structs, including custom types.
const MAX_STRUCT_DEPTH: usize = 64;
/// Maximum number of fields after custom types are expanded. Types that use other types twice grow exponentially, and a
/// CRD must fit into one request.
const MAX_FIELDS: usize = 50_000;

/// A translated schema, and the problems in its SimpleSchema.
#[derive(Clone, Debug)]
pub struct Translation {
    /// The schema; invalid fields allow any value.
    pub schema: Schema,
    /// All problems.
    pub problems: Vec<Problem>,
}

/// The names of the built-in types.
pub const TYPES: &[&str] = type_text::BUILTIN;

/// The names of the markers that may follow a type.
pub const MARKERS: &[&str] = marker_text::WORDS;

/// Translates `spec` and its custom `types` to OpenAPI. `at` is the path of both in the document: `spec.schema`.
#[must_use]
pub fn translate(spec: Option<&Value>, types: Option<&Value>, at: &Path) -> Translation {
    let mut problems = Vec::new();
    let mut types = CustomTypes::new(types, &at.key("types"), &mut problems);
    types.resolve_all(&mut problems);
    let path = at.key("spec");
    let schema = match spec {
        None | Some(Value::Null) => Schema::of(Kind::Object),
        Some(Value::Object(fields)) => {
            Builder { types: &mut types, problems: &mut problems }.structure(fields, &path, 0).0
        }
        Some(other) => {
            let message = format!("`{path}` must be a map of fields, found {}", article(other.kind()));
            problems.push(Problem::new(Code::SchemaNotMap, Place::value(&path), message));
            Schema::anything()
        }
    };
    Translation { schema, problems }
}

/// `a string`, `an integer`.
fn article(kind: &str) -> String {
    match kind {
        "null" => "null".to_owned(),
        "array" | "integer" | "object" => format!("an {kind}"),
        _ => format!("a {kind}"),
    }
}

/// The translation of one field.
struct Field {
    schema: Arc<Schema>,
    required: bool,
    /// Number of fields in it, including itself.
    size: usize,
}

impl Field {
    fn anything() -> Self {
        Self { schema: Arc::new(Schema::anything()), required: false, size: 1 }
    }
}

/// Builds schemas field by field.
struct Builder<'a, 'b> {
    types: &'a mut CustomTypes<'b>,
    problems: &'a mut Vec<Problem>,
}

impl Builder<'_, '_> {
    /// Translates a struct, and counts its fields.
    fn structure(&mut self, fields: &Object, path: &Path, depth: usize) -> (Schema, usize) {
        if depth > MAX_STRUCT_DEPTH {
            let message = format!("the schema is nested more than {MAX_STRUCT_DEPTH} levels deep");
            self.problems.push(Problem::new(Code::SchemaTooLarge, Place::value(path), message));
            return (Schema::anything(), 1);
        }
        let mut schema = Schema::of(Kind::Object);
        let mut properties: Vec<(Key, Arc<Schema>)> = Vec::with_capacity(fields.len());
        let mut total = 1;
        for (name, value) in fields.iter() {
            let path = path.key(name.as_str());
            let mut field = self.field(value, &path, depth);
            total += field.size;
            if total > MAX_FIELDS {
                let message =
                    format!("the schema has more than {MAX_FIELDS} fields after custom types are expanded");
                // Every type that uses this one is too large as well, so report only the first one.
                if !self.problems.iter().any(|problem| problem.code == Code::SchemaTooLarge) {
                    self.problems.push(Problem::new(Code::SchemaTooLarge, Place::value(&path), message));
                }
                total -= field.size;
                field = Field::anything();
            }
            if field.required {
                schema.required.push(name.text().clone());
            }
            properties.push((name.clone(), field.schema));
        }
        let any_default = properties.iter().any(|(_, property)| property.default.is_some());
        if any_default && schema.required.is_empty() {
            schema.default = Some(Value::Object(Object::new()));
        }
        schema.properties = properties.into_iter().collect::<Properties>();
        (schema, total)
    }

    fn field(&mut self, value: &Value, path: &Path, depth: usize) -> Field {
        match value {
            Value::String(text) => self.text(text, path, depth),
            Value::Object(fields) if looks_like_openapi(fields) => {
                let message = format!(
                    "`{path}` is written as an OpenAPI schema, but fields are written in SimpleSchema"
                );
                let help = format!("write `{}`", inline_form(fields));
                self.problems
                    .push(Problem::new(Code::OpenApiInSimpleSchema, Place::value(path), message).help(help));
                Field::anything()
            }
            Value::Object(fields) => {
                let (schema, size) = self.structure(fields, path, depth + 1);
                Field { schema: Arc::new(schema), required: false, size }
            }
            other => {
                let found = article(other.kind());
                let message = format!("expected a type such as `string` or a map of fields, found {found}");
                let problem = Problem::new(Code::FieldNotType, Place::value(path), message);
                self.problems.push(match example_type(other) {
                    Some(example) => problem.help(format!("write `{example}`")),
                    None => problem,
                });
                Field::anything()
            }
        }
    }

    /// Translates a field that is written as a string: a type and its markers.
    fn text(&mut self, text: &str, path: &Path, depth: usize) -> Field {
        let (type_part, marker_part) = match text.split_once('|') {
            Some((before, after)) => (before, Some((before.len() + 1, after))),
            None => (text, None),
        };
        let parsed = type_text::parse(type_part, path, self.problems);
        let markers = marker_part.map_or_else(Vec::new, |(offset, markers)| {
            marker_text::parse(markers, offset, path, self.problems)
        });
        let Some(parsed) = parsed else {
            // Without a type, the markers cannot be checked; misspelled markers have already been reported.
            return Field::anything();
        };
        let Some(mut field) = self.shape(&parsed, path, depth) else {
            let required = markers.iter().any(|marker| marker.is_required());
            return Field { required, ..Field::anything() };
        };
        if !markers.is_empty() {
            apply::apply(Arc::make_mut(&mut field.schema), &markers, path, self.problems);
            field.required |= markers.iter().any(|marker| marker.is_required());
        }
        field
    }

    fn shape(&mut self, parsed: &TypeText, path: &Path, depth: usize) -> Option<Field> {
        let plain = |schema| Some(Field { schema: Arc::new(schema), required: false, size: 1 });
        match &parsed.shape {
            Shape::Atomic(kind) => plain(Schema::of(*kind)),
            Shape::Free => plain(Schema::free_object()),
            Shape::List(item) => {
                let item = self.shape(item, path, depth)?;
                Some(Field {
                    schema: Arc::new(Schema::array(item.schema)),
                    required: false,
                    size: item.size + 1,
                })
            }
            Shape::Map(value) => {
                let value = self.shape(value, path, depth)?;
                Some(Field {
                    schema: Arc::new(Schema::map(value.schema)),
                    required: false,
                    size: value.size + 1,
                })
            }
            Shape::Custom(name) => self.types.resolve(name, &parsed.range, path, depth, self.problems),
        }
    }
}

/// Whether a map is an OpenAPI schema and not a struct with a field `type`: every key is a keyword, and there is at
/// least one keyword in addition to `type`.
fn looks_like_openapi(fields: &Object) -> bool {
    const KEYWORDS: &[&str] = &[
        "additionalProperties",
        "default",
        "description",
        "enum",
        "format",
        "items",
        "maxItems",
        "maxLength",
        "maximum",
        "minItems",
        "minLength",
        "minimum",
        "nullable",
        "pattern",
        "properties",
        "required",
        "type",
        "x-kubernetes-preserve-unknown-fields",
    ];
    let typed = fields.get("type").and_then(Value::as_str).and_then(Kind::find);
    typed.is_some() && fields.len() > 1 && fields.keys().all(|key| KEYWORDS.contains(&key.as_str()))
}

/// The SimpleSchema equivalent of a small OpenAPI schema.
fn inline_form(fields: &Object) -> String {
    let word = |value: Option<&Value>| match value.and_then(|value| value.get("type")).and_then(Value::as_str)
    {
        Some("number") => "float".to_owned(),
        Some(word @ ("string" | "integer" | "boolean")) => word.to_owned(),
        _ => "object".to_owned(),
    };
    let mut line = match fields.get("type").and_then(Value::as_str) {
        Some("array") => format!("[]{}", word(fields.get("items"))),
        Some("object") if fields.contains_key("additionalProperties") => {
            format!("map[string]{}", word(fields.get("additionalProperties")))
        }
        _ => word(Some(&Value::Object(fields.clone()))),
    };
    if let Some(default) = fields.get("default") {
        line.push_str(" | default=");
        match default {
            Value::String(text) => line.push_str(&format!("{:?}", text.as_str())),
            other => line.push_str(&other.to_string()),
        }
    }
    line
}

/// The field definition that was probably meant by a bare value: a type with this default.
fn example_type(value: &Value) -> Option<String> {
    match value {
        Value::Int(number) => Some(format!("integer | default={number}")),
        Value::Float(number) => Some(format!("float | default={number}")),
        Value::Bool(flag) => Some(format!("boolean | default={flag}")),
        Value::List(items) => match items.first() {
            Some(Value::String(item)) if items.len() == 1 => Some(format!("[]{item}")),
            _ => Some("[]string".to_owned()),
        },
        Value::Null => Some("string".to_owned()),
        Value::String(_) | Value::Object(_) => None,
    }
}
