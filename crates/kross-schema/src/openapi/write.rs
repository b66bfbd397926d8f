//! Serializes schemas like Kubernetes does: unset keywords are omitted, and integers have no fraction.

use kross_value::{Object, Text, Value};
use serde::{Serialize, Serializer};

use super::{Additional, Details, Schema, Validation};

impl Schema {
    /// The schema as JSON.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let mut entries = Entries::default();
        entries.text("type", self.kind.map(|kind| kind.as_str().into()));
        entries.flag("nullable", self.nullable);
        entries.text("format", self.format.clone());
        let reference = self.reference.as_ref().map(|name| format!("#/components/schemas/{name}").into());
        entries.text("$ref", reference);
        if !self.properties.is_empty() {
            let properties = self.properties.iter().map(|(name, schema)| (name.clone(), schema.to_value()));
            entries.push("properties", Value::Object(properties.collect()));
        }
        entries.texts("required", &self.required);
        if let Some(items) = &self.items {
            entries.push("items", items.to_value());
        }
        match &self.additional {
            Additional::Unspecified => {}
            Additional::Allowed(allowed) => entries.push("additionalProperties", Value::Bool(*allowed)),
            Additional::Schema(schema) => entries.push("additionalProperties", schema.to_value()),
        }
        if !self.values.is_empty() {
            entries.push("enum", Value::list(self.values.iter().cloned()));
        }
        if let Some(default) = &self.default {
            entries.push("default", default.clone());
        }
        entries.flag("x-kubernetes-preserve-unknown-fields", self.preserve_unknown);
        // Built-in definitions use the format and CRDs use the extension, never both.
        let by_format = self.format.as_deref() == Some("int-or-string");
        entries.flag("x-kubernetes-int-or-string", self.int_or_string && !by_format);
        entries.flag("x-kubernetes-embedded-resource", self.embedded);
        entries.details(self.details());
        Value::Object(entries.0.into_iter().collect())
    }
}

impl Serialize for Schema {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_value().serialize(serializer)
    }
}

#[derive(Default)]
struct Entries(Vec<(&'static str, Value)>);

impl Entries {
    fn push(&mut self, name: &'static str, value: Value) {
        self.0.push((name, value));
    }

    fn text(&mut self, name: &'static str, text: Option<Text>) {
        if let Some(text) = text {
            self.push(name, Value::String(text));
        }
    }

    fn texts(&mut self, name: &'static str, texts: &[Text]) {
        if !texts.is_empty() {
            self.push(name, Value::list(texts.iter().cloned().map(Value::String)));
        }
    }

    fn flag(&mut self, name: &'static str, set: bool) {
        if set {
            self.push(name, Value::Bool(true));
        }
    }

    fn number(&mut self, name: &'static str, number: Option<f64>) {
        if let Some(number) = number {
            self.push(name, write_number(number));
        }
    }

    fn count(&mut self, name: &'static str, count: Option<i64>) {
        if let Some(count) = count {
            self.push(name, Value::Int(count));
        }
    }

    fn schemas(&mut self, name: &'static str, schemas: &[std::sync::Arc<Schema>]) {
        if !schemas.is_empty() {
            self.push(name, Value::list(schemas.iter().map(|schema| schema.to_value())));
        }
    }

    fn details(&mut self, details: &Details) {
        self.text("title", details.title.clone());
        self.text("description", details.description.clone());
        self.text("pattern", details.pattern.clone());
        self.number("minimum", details.minimum);
        self.flag("exclusiveMinimum", details.exclusive_minimum);
        self.number("maximum", details.maximum);
        self.flag("exclusiveMaximum", details.exclusive_maximum);
        self.number("multipleOf", details.multiple_of);
        self.count("minLength", details.min_length);
        self.count("maxLength", details.max_length);
        self.count("minItems", details.min_items);
        self.count("maxItems", details.max_items);
        self.flag("uniqueItems", details.unique_items);
        self.count("minProperties", details.min_properties);
        self.count("maxProperties", details.max_properties);
        self.schemas("allOf", &details.all_of);
        self.schemas("anyOf", &details.any_of);
        self.schemas("oneOf", &details.one_of);
        if let Some(not) = &details.not {
            self.push("not", not.to_value());
        }
        self.text("x-kubernetes-list-type", details.list_type.clone());
        self.texts("x-kubernetes-list-map-keys", &details.list_map_keys);
        self.text("x-kubernetes-map-type", details.map_type.clone());
        if !details.validations.is_empty() {
            let rules = Value::list(details.validations.iter().map(write_validation));
            self.push("x-kubernetes-validations", rules);
        }
        for name in ["example", "externalDocs"] {
            if let Some(value) = details.rest.get(name) {
                self.push(name, value.clone());
            }
        }
    }
}

fn write_validation(validation: &Validation) -> Value {
    let mut rule: Object = validation.rest.clone();
    rule.insert("rule", Value::String(validation.rule.clone()));
    if let Some(message) = &validation.message {
        rule.insert("message", Value::String(message.clone()));
    }
    Value::Object(rule)
}

/// A number in JSON: without a fraction if it is an integer.
pub(crate) fn write_number(number: f64) -> Value {
    /// Every integer up to this one can be represented exactly as a double.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() <= EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "an integer within the exact range")]
        return Value::Int(number as i64);
    }
    Value::Float(number)
}

/// Whether two values are equal in JSON, in which `1` and `1.0` are the same: the API server may reformat numbers.
pub(crate) fn same_json(a: &Value, b: &Value) -> bool {
    #[expect(clippy::cast_precision_loss, reason = "compared, not computed with")]
    match (a, b) {
        (Value::Int(whole), Value::Float(number)) | (Value::Float(number), Value::Int(whole)) => {
            *whole as f64 == *number
        }
        (Value::List(a), Value::List(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| same_json(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|((k, a), (l, b))| k == l && same_json(a, b))
        }
        _ => a == b,
    }
}
