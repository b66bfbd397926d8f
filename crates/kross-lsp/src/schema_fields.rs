//! The fields of a definition's own schema: which key of `spec.schema` declares the field that a path leads to, through custom types,
//! lists and maps.

use kross_diagnostics::Path;
use kross_value::Value;

use crate::embedded::at;

/// A step from a value into it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    /// A field of an object, or a constant key of a map.
    Field(String),
    /// Any element of a list, or value of a map.
    Item,
}

/// The place of a declaration in `spec.schema`.
#[derive(Clone, Debug)]
pub(crate) struct Declaration<'v> {
    /// The path of the key in the document.
    pub(crate) path: Path,
    /// The type, or the fields of an object.
    pub(crate) value: &'v Value,
    /// The part of a type that is left: `Port` after an item of `[]Port`.
    rest: Option<&'v str>,
}

impl Declaration<'_> {
    /// Whether the last step led to the key itself, and not to an element of its value.
    pub(crate) fn is_field(&self) -> bool {
        self.rest.is_none()
    }
}

/// The path of `spec.schema`.
pub(crate) fn schema_path() -> Path {
    Path::root().key("spec").key("schema")
}

/// The declaration of the field at a path of `schema`, such as `spec.ports[*].number`. None for fields that the definition does not
/// declare itself.
pub(crate) fn declaration<'v>(definition: &'v Value, steps: &[Step]) -> Option<Declaration<'v>> {
    let [Step::Field(spec), below @ ..] = steps else { return None };
    if spec != "spec" || below.is_empty() {
        return None;
    }
    below_declaration(definition, &schema_path().key("spec"), below)
}

/// The declaration of a field below another declaration.
pub(crate) fn below_declaration<'v>(
    definition: &'v Value,
    path: &Path,
    steps: &[Step],
) -> Option<Declaration<'v>> {
    let start = Declaration { path: path.clone(), value: at(definition, path)?, rest: None };
    steps.iter().try_fold(start, |found, step| inner(definition, &found, step))
}

fn inner<'v>(definition: &'v Value, from: &Declaration<'v>, step: &Step) -> Option<Declaration<'v>> {
    let text = match (from.rest, from.value) {
        (Some(rest), _) => rest,
        (None, Value::String(text)) => type_of(text),
        (None, Value::Object(fields)) => {
            let Step::Field(name) = step else { return None };
            let value = fields.get(name)?;
            return Some(Declaration { path: from.path.key(name), value, rest: None });
        }
        _ => return None,
    };
    if let Some(item) = item_type(text) {
        // A constant key of a map is not a field that the schema declares.
        return Some(Declaration { rest: Some(item), ..from.clone() });
    }
    let path = schema_path().key("types").key(text);
    let value = definition.at(&["spec", "schema", "types", text])?;
    let Step::Field(_) = step else { return None };
    inner(definition, &Declaration { path, value, rest: None }, step)
}

/// The type of a field, without its markers.
pub(crate) fn type_of(field: &str) -> &str {
    field.split('|').next().unwrap_or_default().trim()
}

/// The type of the elements of a list or map.
fn item_type(text: &str) -> Option<&str> {
    let text = text.trim();
    let list = text.strip_prefix("[]").or_else(|| text.strip_prefix("list<")?.strip_suffix('>'));
    let map = || text.strip_prefix("map[").and_then(|rest| Some(rest.split_once(']')?.1));
    list.or_else(map).map(str::trim)
}

/// The name of the custom type in a type, and its offset: `Port` in `[]Port`.
pub(crate) fn custom_type(field: &str) -> Option<(usize, &str)> {
    let text = field.split('|').next()?;
    let mut name = text.trim();
    while let Some(item) = item_type(name) {
        name = item;
    }
    let is_name =
        !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    is_name.then_some((text.rfind(name)?, name))
}

/// The CEL rule of a `validation` marker, and its offset. None if the marker's text is escaped, so that offsets would differ.
pub(crate) fn validation_rules(field: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (at, marker) in field.match_indices("validation=") {
        let start = at + marker.len();
        let Some(rest) = field.get(start..) else { continue };
        let Some(quote) = rest.chars().next().filter(|first| matches!(first, '"' | '\'')) else { continue };
        let Some(rule) = rest.get(1..).and_then(|rest| rest.split(quote).next()) else { continue };
        if !rule.contains('\\') {
            found.push((start + 1, rule));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition() -> Value {
        serde_json::from_str(
            r#"{"spec": {"schema": {
                "spec": {"name": "string", "ports": "[]Port | minItems=1", "labels": "map[string]string", "db": {"size": "integer"}},
                "types": {"Port": {"number": "integer", "tls": "Tls"}, "Tls": {"secret": "string"}}
            }}}"#,
        )
        .unwrap()
    }

    fn path_of(steps: &str) -> Option<String> {
        let step = |name: &str| match name {
            "*" => Step::Item,
            name => Step::Field(name.to_owned()),
        };
        let steps: Vec<Step> = steps.split('.').map(step).collect();
        declaration(&definition(), &steps).map(|found| found.path.to_string())
    }

    #[test]
    fn fields_are_found_through_objects_lists_maps_and_types() {
        assert_eq!(path_of("spec.db.size").as_deref(), Some("spec.schema.spec.db.size"));
        assert_eq!(path_of("spec.ports.*.number").as_deref(), Some("spec.schema.types.Port.number"));
        assert_eq!(path_of("spec.ports.*.tls.secret").as_deref(), Some("spec.schema.types.Tls.secret"));
        assert_eq!(path_of("spec.labels.app").as_deref(), Some("spec.schema.spec.labels"));
        assert_eq!(path_of("spec.nothing"), None);
        assert_eq!(path_of("metadata.name"), None);
    }

    #[test]
    fn the_name_of_a_custom_type_is_inside_lists_and_maps() {
        assert_eq!(custom_type("map[string][]Port | required=true"), Some((13, "Port")));
        assert_eq!(custom_type("string"), Some((0, "string")));
        assert_eq!(custom_type("[]"), None);
    }

    #[test]
    fn the_rule_of_a_validation_marker_has_an_offset() {
        let field = r#"Range | validation="self.min < self.max""#;
        assert_eq!(validation_rules(field), [(20, "self.min < self.max")]);
    }
}
