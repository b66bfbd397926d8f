//! Pieces of OpenAPI schema that Rust types alone do not give: untyped values, label selectors and validation rules.
//! Turns a few words at a field into what an API server enforces there.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value as Json, json};

/// Durations as `pollConfig` and `lifecycle` write them.
pub(crate) const DURATION_PATTERN: &str = r"^([0-9]+(\.[0-9]+)?(s|m|h))+$";
/// Ids of resources.
pub(crate) const ID_PATTERN: &str = "^[a-z][a-zA-Z0-9]*$";
/// Short names and categories of the served API.
pub(crate) const SHORT_NAME_PATTERN: &str = "^[a-z]([-a-z0-9]*[a-z0-9])?$";

/// An object of any shape.
pub(crate) fn raw_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// Any value: kro takes an object or a whole expression here.
pub(crate) fn raw_value(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"x-kubernetes-preserve-unknown-fields": true})
}

/// An integer, or an expression that gives one.
pub(crate) fn int_or_string(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"x-kubernetes-int-or-string": true})
}

/// Names for `kubectl`: a small set of lower-case words.
pub(crate) fn name_set(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 32,
        "items": {"type": "string", "maxLength": 63, "pattern": SHORT_NAME_PATTERN},
        "x-kubernetes-list-type": "set",
    })
}

/// One validation rule in CEL with the message that a person sees.
pub(crate) fn rule(rule: &str, message: &str) -> Json {
    json!({"rule": rule, "message": message})
}

/// The rule of a field that never changes.
pub(crate) fn immutable(field: &str) -> Json {
    json!([rule("self == oldSelf", &format!("{field} is immutable"))])
}
