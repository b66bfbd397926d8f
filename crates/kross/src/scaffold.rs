//! Turns objects into a definition whose instance renders the same objects: ids from kinds and names, references between the
//! objects as expressions, values that repeat as fields of the schema.

mod clean;
mod identifiers;
mod parameters;
mod references;
mod selectors;

use anyhow::bail;
use kross_api::yaml::format::{Style, format};
use kross_diagnostics::PathSegment;
use kross_value::Value;
use serde_json::{Value as Json, json};

use parameters::Parameter;

/// What the definition is called, and where the objects come from.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options<'o> {
    /// Name of the definition (default: what the names of the objects have in common).
    pub(crate) name: Option<&'o str>,
    /// Kind of the instances (default: from the name).
    pub(crate) kind: Option<&'o str>,
    /// Group of the instances.
    pub(crate) group: Option<&'o str>,
    /// Whether the objects were read from a cluster: they have what the API server sets, and Secrets with real content.
    pub(crate) live: bool,
}

/// A definition made from objects.
#[derive(Debug)]
pub(crate) struct Scaffold {
    /// The definition as YAML, with comments.
    pub(crate) text: String,
    /// What the author should know: what was left out, what needs a look.
    pub(crate) notes: Vec<String>,
}

/// An object on its way to becoming a resource.
#[derive(Debug)]
struct Resource {
    id: String,
    /// The object, with expressions where they have been found already.
    object: Json,
    kind: String,
    name: String,
    /// The resources that it reads.
    reads: Vec<usize>,
    /// Only read: the definition does not contain it.
    external: bool,
    comments: Vec<String>,
}

/// Makes a definition.
///
/// # Errors
/// No object is left for it.
pub(crate) fn definition(objects: Vec<Json>, options: &Options<'_>) -> anyhow::Result<Scaffold> {
    let mut notes = Vec::new();
    let mut resources = clean::resources(objects, options.live, &mut notes);
    if resources.is_empty() {
        bail!("there is no object to make a definition of{}", because(&notes));
    }
    identifiers::assign(&mut resources);
    let base = identifiers::base(&resources);
    clean::namespaces(&mut resources, &mut notes);
    resources.iter_mut().for_each(|resource| escape(&mut resource.object));
    references::link(&mut resources, &base);
    selectors::link(&mut resources);
    references::link_services(&mut resources, &base);
    let parameters = parameters::extract(&mut resources);
    identifiers::rename(&mut resources, &base);
    let name = options.name.map_or_else(|| identifiers::definition_name(&base), str::to_owned);
    let kind = options.kind.map_or_else(|| identifiers::pascal(&name), str::to_owned);
    for resource in resources.iter().filter(|resource| !resource.external) {
        let is_literal = resource
            .object
            .pointer("/metadata/name")
            .and_then(Json::as_str)
            .is_some_and(|name| !name.contains("${"));
        if is_literal {
            notes.push(format!(
                "{} `{}` has the same name for every instance, so that a second instance conflicts with the first",
                resource.kind, resource.name
            ));
        }
    }
    let text = write(&resources, &parameters, &name, &kind, options.group, &notes);
    let text = format("definition", &text, &Readable).unwrap_or(text);
    let text = match kross_graph::format_text("definition", &text) {
        Ok(formatted) => formatted,
        // It is valid YAML anyway; what is wrong with it shows when it is validated.
        Err(_) => text,
    };
    Ok(Scaffold { text, notes })
}

/// The order in which people write the fields of objects; values are sorted by key.
struct Readable;

impl Style for Readable {
    fn keys(
        &self,
        _document: &Value,
        path: &[PathSegment],
    ) -> (&'static [&'static str], &'static [&'static str]) {
        match path.last() {
            Some(PathSegment::Index(_)) => (ITEM, &[]),
            Some(PathSegment::Key(key)) if key == "spec" => {
                (&["replicas", "selector"], &["containers", "volumes"])
            }
            _ => (&[], &[]),
        }
    }
}

/// The fields of items of lists: containers, ports, environment variables, rules.
const ITEM: &[&str] = &[
    "id",
    "apiGroup",
    "kind",
    "name",
    "image",
    "host",
    "path",
    "pathType",
    "command",
    "args",
    "port",
    "containerPort",
    "ports",
    "env",
    "envFrom",
    "value",
    "valueFrom",
];

fn because(notes: &[String]) -> String {
    if notes.is_empty() { String::new() } else { format!(": {}", notes.join("; ")) }
}

/// Text that looks like an expression stays text.
fn escape(value: &mut Json) {
    match value {
        Json::String(text) if text.contains("${") => *text = text.replace("${", "${\"${\"}"),
        Json::Array(items) => items.iter_mut().for_each(escape),
        Json::Object(entries) => entries.values_mut().for_each(escape),
        _ => {}
    }
}

/// Visits every value with its path of keys and indexes.
fn visit(value: &mut Json, path: &mut Vec<String>, change: &mut dyn FnMut(&[String], &mut Json)) {
    change(path, value);
    match value {
        Json::Object(entries) => {
            for (key, entry) in entries {
                path.push(key.clone());
                visit(entry, path, change);
                path.pop();
            }
        }
        Json::Array(items) => {
            for (at, item) in items.iter_mut().enumerate() {
                path.push(at.to_string());
                visit(item, path, change);
                path.pop();
            }
        }
        _ => {}
    }
}

/// Whether a new edge would make a cycle: `read` already reads `reader`, directly or not.
fn would_cycle(resources: &[Resource], reader: usize, read: usize) -> bool {
    let (mut open, mut seen) = (vec![read], Vec::new());
    while let Some(at) = open.pop() {
        if at == reader {
            return true;
        }
        if !seen.contains(&at) {
            seen.push(at);
            open.extend(resources.get(at).map(|resource| resource.reads.as_slice()).unwrap_or_default());
        }
    }
    false
}

fn write(
    resources: &[Resource],
    parameters: &[Parameter],
    name: &str,
    kind: &str,
    group: Option<&str>,
    notes: &[String],
) -> String {
    let mut text = String::new();
    for note in notes {
        text.push_str(&format!("# {note}.\n"));
    }
    let scalar = |value: &str| kross_api::to_yaml(&json!(value)).trim_end().to_owned();
    text.push_str(&format!(
        "apiVersion: {}\nkind: {}\nmetadata:\n  name: {}\nspec:\n  schema:\n    apiVersion: v1alpha1\n    kind: {}\n",
        kross_graph::API_VERSION,
        kross_graph::KIND,
        scalar(name),
        scalar(kind)
    ));
    if let Some(group) = group {
        text.push_str(&format!("    group: {}\n", scalar(group)));
    }
    if parameters.is_empty() {
        text.push_str("    spec: {}\n");
    } else {
        text.push_str("    spec:\n");
        for parameter in parameters {
            text.push_str(&format!("      {}: {}\n", parameter.name, scalar(&parameter.simple_schema())));
        }
    }
    text.push_str("  resources:\n");
    for (at, resource) in resources.iter().enumerate() {
        if at > 0 {
            text.push('\n');
        }
        for comment in &resource.comments {
            text.push_str(&format!("    # {comment}\n"));
        }
        let field = if resource.external { "externalRef" } else { "template" };
        text.push_str(&format!("    - id: {}\n      {field}:\n", resource.id));
        for line in kross_api::to_yaml(&resource.object).lines() {
            text.push_str(&if line.is_empty() { "\n".to_owned() } else { format!("        {line}\n") });
        }
    }
    text
}
