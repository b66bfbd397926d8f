//! The documentation of fields, functions and markers, as editors show it.

use std::collections::HashMap;
use std::sync::LazyLock;

use kross_cel::library::{Function, GATED, standard};
use kross_diagnostics::PathSegment;
use kross_graph::definition_crd;
use kross_schema::documentation::Documentation;
use kross_schema::openapi::{Kind, Schema};
use kross_schema::{FieldView, GroupVersionKind, SchemaView};
use kross_value::Value;

use crate::schema_fields::Step;
use crate::workspace::Workspace;

/// The CustomResourceDefinition of definitions.
pub(crate) static DEFINITION: LazyLock<Value> = LazyLock::new(definition_crd);

/// The functions by name.
pub(crate) static FUNCTIONS: LazyLock<HashMap<&'static str, &'static Function>> = LazyLock::new(|| {
    let libraries = standard().chain(GATED.iter().copied());
    libraries.flat_map(|library| library.functions).map(|function| (function.name, function)).collect()
});

/// The macros: name, how it is written, what it does.
pub(crate) const MACROS: &[(&str, &str, &str)] = &[
    (
        "all",
        "list.all(item, condition)",
        "Whether the condition is true for every element, or for every key of a map.",
    ),
    ("exists", "list.exists(item, condition)", "Whether the condition is true for at least one element."),
    (
        "exists_one",
        "list.exists_one(item, condition)",
        "Whether the condition is true for exactly one element.",
    ),
    ("filter", "list.filter(item, condition)", "The elements for which the condition is true."),
    ("map", "list.map(item, value)", "A list with the value of every element."),
    ("sortBy", "list.sortBy(item, key)", "The list, sorted by a key of each element."),
    ("transformList", "map.transformList(key, value, result)", "A list with the result for every entry."),
    (
        "transformMap",
        "map.transformMap(key, value, result)",
        "A map with the result for every entry, under the same key.",
    ),
    (
        "optMap",
        "optional.optMap(value, result)",
        "The result for the value of an optional; empty if the optional is.",
    ),
    (
        "optFlatMap",
        "optional.optFlatMap(value, result)",
        "As `optMap`, for a result that is an optional itself.",
    ),
];

/// The global macros.
pub(crate) const GLOBAL_MACROS: &[(&str, &str, &str)] = &[
    ("has", "has(object.field)", "Whether a field exists."),
    ("cel.bind", "cel.bind(name, value, result)", "The result, with a value bound to a name."),
];

/// What a marker of SimpleSchema means.
pub(crate) fn marker(name: &str) -> &'static str {
    match name {
        "required" => "The field must be set: `required=true`.",
        "default" => "The value if the field is not set: `default=3`.",
        "description" => "The documentation of the field: `description=\"…\"`.",
        "minimum" => "The smallest number: `minimum=1`.",
        "maximum" => "The largest number: `maximum=10`.",
        "validation" => "A CEL rule that must be true; `self` is the value: `validation=\"self > 0\"`.",
        "enum" => "The allowed values: `enum=\"small,medium,large\"`.",
        "immutable" => "The value cannot change: `immutable=true`.",
        "pattern" => "A regular expression that the string must match: `pattern=\"^[a-z]+$\"`.",
        "uniqueItems" => "Whether the items of a list must differ: `uniqueItems=true`.",
        "minLength" => "The smallest length of a string: `minLength=1`.",
        "maxLength" => "The largest length of a string: `maxLength=63`.",
        "minItems" => "The smallest number of items: `minItems=1`.",
        "maxItems" => "The largest number of items: `maxItems=10`.",
        "listType" => "How lists are merged: `atomic`, `set` or `map`.",
        "listMapKey" => "A key of the items of a list of type `map`.",
        _ => "",
    }
}

/// The steps of a path.
pub(crate) fn steps(path: &[PathSegment]) -> Vec<Step> {
    let step = |segment: &PathSegment| match segment {
        PathSegment::Key(key) => Step::Field(key.clone()),
        PathSegment::Index(_) => Step::Item,
    };
    path.iter().map(step).collect()
}

/// The schema that steps lead to.
pub(crate) fn view(from: &SchemaView, steps: &[Step]) -> Option<SchemaView> {
    steps.iter().try_fold(from.clone(), |view, step| match step {
        Step::Field(name) => match view.field(name) {
            FieldView::Known(inner) => Some(inner),
            FieldView::Free | FieldView::Unknown => None,
        },
        Step::Item => view.items().or_else(|| view.values()),
    })
}

/// The type of a schema's values in words: `string`, `[]Container`, `map[string]string`.
pub(crate) fn type_name(view: &SchemaView) -> String {
    let schema = view.schema();
    if schema.int_or_string {
        return "integer or string".to_owned();
    }
    match (schema.kind, view.items(), view.values()) {
        (Some(Kind::Array), Some(items), _) => format!("[]{}", type_name(&items)),
        (Some(Kind::Object), _, Some(values)) => format!("map[string]{}", type_name(&values)),
        (Some(Kind::Object) | None, ..) if !schema.properties.is_empty() => view.name(),
        (Some(kind), ..) => kind.as_str().to_owned(),
        (None, ..) => "any".to_owned(),
    }
}

/// What a schema says about its values, besides the type.
pub(crate) fn constraints(schema: &Schema) -> Vec<String> {
    let details = schema.details();
    let mut found = Vec::new();
    if !schema.values.is_empty() {
        let values: Vec<String> = schema.values.iter().map(|value| format!("`{value}`")).collect();
        found.push(format!("one of {}", values.join(", ")));
    }
    found.extend(schema.default.as_ref().map(|value| format!("default `{value}`")));
    found.extend(details.minimum.map(|value| format!("at least {value}")));
    found.extend(details.maximum.map(|value| format!("at most {value}")));
    found.extend(details.pattern.as_ref().map(|value| format!("matches `{value}`")));
    found.extend(schema.format.as_ref().map(|value| format!("format {value}")));
    found
}

impl Workspace {
    /// The description of a field of a kind.
    pub(crate) fn description(&self, kind: &GroupVersionKind, steps: &[Step]) -> Option<String> {
        let text =
            |crd: &Value, path: &[&str]| crd.at(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let defines = |crd: &&Value| {
            text(crd, &["spec", "group"]) == *kind.group
                && text(crd, &["spec", "names", "kind"]) == *kind.kind
        };
        let Some(crd) = self.crds().chain(std::iter::once(&*DEFINITION)).find(defines) else {
            let fields = steps.iter().filter_map(|step| match step {
                Step::Field(name) => Some(name.as_str()),
                Step::Item => None,
            });
            return Documentation::built_in().describe(kind, fields).map(str::to_owned);
        };
        let versions = crd.at(&["spec", "versions"]).and_then(Value::as_list)?;
        let version = versions.iter().find(|version| text(version, &["name"]) == *kind.version)?;
        description_below(version.at(&["schema", "openAPIV3Schema"])?, steps)
    }
}

/// The description of a field below an OpenAPI schema.
pub(crate) fn description_below(schema: &Value, steps: &[Step]) -> Option<String> {
    let found = steps.iter().try_fold(schema, |schema, step| match step {
        Step::Field(name) => {
            let property = schema.get("properties").and_then(|properties| properties.get(name));
            property
                .or_else(|| schema.get("additionalProperties").filter(|values| values.as_object().is_some()))
        }
        Step::Item => schema.get("items").or_else(|| schema.get("additionalProperties")),
    })?;
    found.get("description").and_then(Value::as_str).map(str::to_owned)
}
