//! Formats definitions and other objects: YAML, the order of well-known keys, and the expressions of definitions.

use kross_api::yaml::format::{NotFormatted, Style, format};
use kross_cel::format::template;
use kross_diagnostics::PathSegment;
use kross_value::Value;

use crate::KIND;

/// Formats a text of any number of documents. Only the expressions of definitions are formatted; elsewhere `${…}` is text.
///
/// # Errors
/// The text has errors, or uses YAML that is not formatted.
///
/// ```
/// let text = "kind: ResourceGraphDefinition\napiVersion: kro.run/v1alpha1\nspec:\n  resources:\n  - template: {}\n    id: a\n    readyWhen: ['${ a.b==1 }']\n";
/// let formatted = kross_graph::format_text("rgd.yaml", text).unwrap();
/// assert_eq!(formatted, "apiVersion: kro.run/v1alpha1\nkind: ResourceGraphDefinition\nspec:\n  resources:\n    - id: a\n      template: {}\n      readyWhen: ['${a.b == 1}']\n");
/// ```
pub fn format_text(name: &str, text: &str) -> Result<String, Box<NotFormatted>> {
    format(name, text, &Objects)
}

/// Kubernetes objects, with the order of keys that people expect.
struct Objects;

type Keys = &'static [&'static str];

const OBJECT: Keys = &["apiVersion", "kind", "metadata"];
const METADATA: Keys = &["name", "generateName", "namespace", "labels", "annotations"];
const SCHEMA: Keys = &[
    "group",
    "apiVersion",
    "kind",
    "scope",
    "metadata",
    "additionalPrinterColumns",
    "types",
    "spec",
    "status",
];
const RESOURCE: Keys = &[
    "id",
    "forEach",
    "includeWhen",
    "cluster",
    "target",
    "externalRef",
    "template",
    "readyWhen",
    "lifecycle",
];

impl Style for Objects {
    fn keys(&self, document: &Value, path: &[PathSegment]) -> (Keys, Keys) {
        let is_object = document.get("apiVersion").is_some() && document.get("kind").is_some();
        if !is_object {
            return (&[], &[]);
        }
        let keys: Vec<&str> = path
            .iter()
            .map(|segment| match segment {
                PathSegment::Key(key) => key.as_str(),
                PathSegment::Index(_) => "*",
            })
            .collect();
        match keys.as_slice() {
            [] => (OBJECT, &["status"]),
            ["metadata"] => (METADATA, &[]),
            _ if !is_definition(document) => (&[], &[]),
            ["spec"] => (&[], &["resources"]),
            ["spec", "schema"] => (SCHEMA, &[]),
            ["spec", "resources", "*"] => (RESOURCE, &[]),
            ["spec", "resources", "*", "template" | "externalRef"] | ["spec", "schema", "externalRef"] => {
                (OBJECT, &[])
            }
            ["spec", "resources", "*", "template" | "externalRef", "metadata"] => (METADATA, &[]),
            _ => (&[], &[]),
        }
    }

    fn text(&self, document: &Value, path: &[PathSegment], text: &str) -> Option<String> {
        let key = |at: usize| match path.get(at) {
            Some(PathSegment::Key(key)) => key.as_str(),
            _ => "",
        };
        // SimpleSchema has no expressions; its strings may have `${` in patterns and defaults.
        let is_simple_schema = key(1) == "schema" && matches!(key(2), "spec" | "types");
        let has_expressions = text.contains("${") && key(0) == "spec" && !is_simple_schema;
        (has_expressions && is_definition(document)).then(|| template(text))
    }
}

fn is_definition(document: &Value) -> bool {
    document.get("kind").and_then(Value::as_str) == Some(KIND)
}
