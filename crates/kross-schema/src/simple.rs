//! Turns SimpleSchema into OpenAPI: `replicas: integer | default=3` into a schema that a CRD can carry. Every mistake
//! is reported, and what is mistaken becomes a schema that allows anything, so that nothing else is.

mod apply;
mod custom;
mod marker_text;
mod rules;
mod together;
mod type_text;

use std::sync::Arc;

use kross_diagnostics::Code;
use kross_value::{Key, Object, Value};

use crate::openapi::{Kind, Properties, Schema};
use kross_diagnostics::{Path, Place, Problem};

use custom::CustomTypes;
use type_text::{Shape, TypeText};

/// How deep structs may nest, custom types included.
const MAX_STRUCT_DEPTH: usize = 64;
/// How many fields all of it may come to once custom types are written out: types that use types twice double with
/// every step, and a CRD has to fit into a request.
const MAX_FIELDS: usize = 50_000;

/// A schema, and what is wrong with the text it came from.
#[derive(Clone, Debug)]
pub struct Translation {
    /// The schema; where the text is mistaken, anything is allowed.
    pub schema: Schema,
    /// Every mistake.
    pub problems: Vec<Problem>,
}

/// Turns `spec` and the custom `types` it uses into OpenAPI. `at` is where both stand in the document: `spec.schema`.
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
        "null" => "nothing".to_owned(),
        "array" | "integer" | "object" => format!("an {kind}"),
        _ => format!("a {kind}"),
    }
}

/// What the text of one field comes to.
struct Field {
    schema: Arc<Schema>,
    required: bool,
    /// How many fields it comes to, itself included.
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
    /// A struct and how many fields it comes to.
    fn structure(&mut self, fields: &Object, path: &Path, depth: usize) -> (Schema, usize) {
        if depth > MAX_STRUCT_DEPTH {
            let message = format!("the schema nests more than {MAX_STRUCT_DEPTH} levels deep");
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
                let message = format!(
                    "the schema comes to more than {MAX_FIELDS} fields once custom types are written out"
                );
                // Whatever uses this type is too large as well; the first place is where it began.
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
                let message =
                    format!("`{path}` is written as OpenAPI, but a field of this schema is one line of text");
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
                let message =
                    format!("a field is a type such as `string`, or a map of fields, but this is {found}");
                let problem = Problem::new(Code::FieldNotType, Place::value(path), message);
                self.problems.push(match example_type(other) {
                    Some(example) => problem.help(format!("write `{example}`")),
                    None => problem,
                });
                Field::anything()
            }
        }
    }

    /// A field written as text: a type and its markers.
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
            // The type is unknown, so is what its markers may be; those that are misspelt are reported by now.
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

/// Whether a map is an OpenAPI schema rather than a struct that happens to have a field `type`: every key is a
/// keyword, and beside `type` at least one other is there.
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

/// The line that says what a small OpenAPI schema says.
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

/// The type whose default a bare value probably was meant to be.
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
