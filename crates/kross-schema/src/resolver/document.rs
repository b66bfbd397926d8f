//! Parses the OpenAPI v3 document of one group and version into kinds and definitions. Scope and plural are derived from
//! the paths, so that no other request is needed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use kross_value::Text;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::openapi::{Additional, Keep, Schema};

use super::GroupVersionKind;
use super::pack::PackedKind;

/// A document that cannot be parsed.
#[derive(Debug, thiserror::Error)]
#[error("cannot parse the OpenAPI document: {0}")]
pub struct DocumentError(#[from] serde_json::Error);

/// The content of a document.
#[derive(Debug, Default)]
pub(crate) struct Document {
    pub(crate) kinds: Vec<PackedKind>,
    /// The definitions that the kinds use, as JSON without documentation.
    pub(crate) definitions: BTreeMap<Text, String>,
}

#[derive(Deserialize)]
struct RawDocument<'a> {
    #[serde(default)]
    paths: HashMap<String, RawPath>,
    #[serde(default, borrow)]
    components: RawComponents<'a>,
}

#[derive(Deserialize, Default)]
struct RawComponents<'a> {
    #[serde(default, borrow)]
    schemas: HashMap<String, &'a RawValue>,
}

#[derive(Deserialize)]
struct RawPath {
    get: Option<RawOperation>,
    post: Option<RawOperation>,
}

#[derive(Deserialize)]
struct RawOperation {
    #[serde(rename = "x-kubernetes-group-version-kind")]
    kind: Option<RawKind>,
}

#[derive(Deserialize, Clone, PartialEq, Eq, Hash)]
struct RawKind {
    #[serde(default)]
    group: String,
    version: String,
    kind: String,
}

impl From<&RawKind> for GroupVersionKind {
    fn from(raw: &RawKind) -> Self {
        Self {
            group: raw.group.as_str().into(),
            version: raw.version.as_str().into(),
            kind: raw.kind.as_str().into(),
        }
    }
}

/// The kinds of a definition; the rest of it is parsed later, if at all.
#[derive(Deserialize)]
struct RawDefinition {
    #[serde(rename = "x-kubernetes-group-version-kind", default)]
    kinds: Vec<RawKind>,
}

/// Parses a document.
pub(crate) fn read(bytes: &[u8]) -> Result<Document, DocumentError> {
    let raw: RawDocument<'_> = serde_json::from_slice(bytes)?;
    let collections = collections(&raw.paths);
    let mut kinds = Vec::new();
    for (name, schema) in &raw.components.schemas {
        let definition: RawDefinition = serde_json::from_str(schema.get())?;
        for kind in &definition.kinds {
            let kind = GroupVersionKind::from(kind);
            // Only resources have a collection path; options, lists and watch events do not.
            let Some((plural, namespaced)) = collections.get(&kind) else { continue };
            kinds.push(PackedKind {
                kind,
                plural: plural.clone(),
                namespaced: *namespaced,
                definition: name.as_str().into(),
            });
        }
    }
    kinds.sort_by(|a, b| a.kind.cmp(&b.kind));
    let roots: Vec<Text> = kinds.iter().map(|kind| kind.definition.clone()).collect();
    let definitions = reachable(&raw.components.schemas, roots)?;
    Ok(Document { kinds, definitions })
}

/// The plural and scope of every kind that has a collection path.
fn collections(paths: &HashMap<String, RawPath>) -> HashMap<GroupVersionKind, (Text, bool)> {
    let mut found: HashMap<GroupVersionKind, (Text, bool)> = HashMap::new();
    // Sorted, so that the result does not depend on the order of a hash map.
    let sorted: BTreeMap<&String, &RawPath> = paths.iter().collect();
    for (path, operations) in sorted {
        let Some((plural, namespaced)) = collection(path) else { continue };
        let kind = |operation: &Option<RawOperation>| {
            operation.as_ref().and_then(|operation| operation.kind.as_ref()).map(GroupVersionKind::from)
        };
        let Some(kind) = kind(&operations.post).or_else(|| kind(&operations.get)) else { continue };
        let entry = found.entry(kind).or_insert_with(|| (plural.into(), namespaced));
        // A namespaced kind also has a path for all namespaces.
        entry.1 |= namespaced;
    }
    found
}

/// The plural of the resource if the path is a collection path, and whether it is namespaced.
fn collection(path: &str) -> Option<(&str, bool)> {
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    let rest = match parts.as_slice() {
        ["api", _, rest @ ..] | ["apis", _, _, rest @ ..] => rest,
        _ => return None,
    };
    match rest {
        [plural] if !plural.starts_with('{') => Some((plural, false)),
        ["namespaces", "{namespace}", plural] if !plural.starts_with('{') => Some((plural, true)),
        _ => None,
    }
}

/// The definitions that the roots refer to, directly or indirectly.
fn reachable(
    schemas: &HashMap<String, &RawValue>,
    roots: Vec<Text>,
) -> Result<BTreeMap<Text, String>, DocumentError> {
    let mut definitions = BTreeMap::new();
    let mut waiting = roots;
    while let Some(name) = waiting.pop() {
        if definitions.contains_key(&name) {
            continue;
        }
        let Some(raw) = schemas.get(name.as_str()) else { continue };
        let schema = Schema::from_json(raw.get(), Keep::Meaning)?;
        let mut references = BTreeSet::new();
        collect_references(&schema, &mut references);
        waiting.extend(references);
        definitions.insert(name, schema.to_value().to_string());
    }
    Ok(definitions)
}

fn collect_references(schema: &Schema, references: &mut BTreeSet<Text>) {
    references.extend(schema.reference.clone());
    let details = schema.details();
    let mut inner: Vec<&Arc<Schema>> = schema.properties.iter().map(|(_, property)| property).collect();
    inner.extend(&schema.items);
    inner.extend(details.all_of.iter().chain(&details.any_of).chain(&details.one_of).chain(&details.not));
    if let Additional::Schema(values) = &schema.additional {
        inner.push(values);
    }
    for schema in inner {
        collect_references(schema, references);
    }
}
