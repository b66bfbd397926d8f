//! Parts of OpenAPI schemas that schemars does not derive from Rust types: untyped values, name sets and validation
//! rules.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value as Json, json};

/// Pattern of durations in `pollConfig` and `lifecycle`.
pub(crate) const DURATION_PATTERN: &str = r"^([0-9]+(\.[0-9]+)?(s|m|h))+$";
/// Pattern of resource ids.
pub(crate) const ID_PATTERN: &str = "^[a-z][a-zA-Z0-9]*$";
/// Pattern of short names and categories of the served API.
pub(crate) const SHORT_NAME_PATTERN: &str = "^[a-z]([-a-z0-9]*[a-z0-9])?$";

/// An object of any shape.
pub(crate) fn raw_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// Any value: kro accepts an object or a single expression here.
pub(crate) fn raw_value(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"x-kubernetes-preserve-unknown-fields": true})
}

/// An integer, or an expression that returns one.
pub(crate) fn int_or_string(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"x-kubernetes-int-or-string": true})
}

/// A set of lower-case names, for short names and categories.
pub(crate) fn name_set(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 32,
        "items": {"type": "string", "maxLength": 63, "pattern": SHORT_NAME_PATTERN},
        "x-kubernetes-list-type": "set",
    })
}

/// One CEL validation rule and its message.
pub(crate) fn rule(rule: &str, message: &str) -> Json {
    json!({"rule": rule, "message": message})
}

/// The validation rule of an immutable field.
pub(crate) fn immutable(field: &str) -> Json {
    json!([rule("self == oldSelf", &format!("{field} is immutable"))])
}
