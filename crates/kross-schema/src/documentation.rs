//! The documentation of the built-in kinds, embedded in the binary. Compiling a definition needs none of it, so it is apart from the
//! schemas and unpacked when somebody asks for it first.

use std::collections::{BTreeMap, HashMap};
use std::sync::OnceLock;

use miniz_oxide::deflate::compress_to_vec;
use miniz_oxide::inflate::decompress_to_vec_with_limit;
use serde_json::Value as Json;

use crate::resolver::GroupVersionKind;

/// Generated from the API server of the newest version.
static PACKED: &[u8] = include_bytes!("documentation.bin");

/// Maximum unpacked size.
const MAX_UNPACKED: usize = 64 << 20;
/// Maximum compression: it is generated only once.
const LEVEL: u8 = 10;
/// The prefix of references in an OpenAPI v3 document.
const REFERENCE: &str = "#/components/schemas/";

/// Descriptions of kinds and of their fields.
#[derive(Debug, Default)]
pub struct Documentation {
    /// The definition of each kind, by `group/version/kind`.
    kinds: HashMap<String, String>,
    definitions: HashMap<String, Definition>,
}

#[derive(Debug, Default)]
struct Definition {
    description: String,
    fields: HashMap<String, Field>,
}

#[derive(Debug, Default)]
struct Field {
    description: String,
    /// The definition of its value, or of the items in it.
    of: String,
}

impl Documentation {
    /// The documentation of the newest version of Kubernetes in the binary.
    #[must_use]
    pub fn built_in() -> &'static Self {
        static BUILT_IN: OnceLock<Documentation> = OnceLock::new();
        // A test unpacks it.
        BUILT_IN.get_or_init(|| unpack(PACKED).unwrap_or_default())
    }

    /// The description of a field of a kind, by the names of the fields that lead to it; of the kind itself without any. Items of lists
    /// and entries of maps are left out: `spec`, `template`, `spec`, `containers`, `image`.
    #[must_use]
    pub fn describe<'f>(
        &self,
        kind: &GroupVersionKind,
        fields: impl IntoIterator<Item = &'f str>,
    ) -> Option<&str> {
        let name = self.kinds.get(&key(&kind.group, &kind.version, &kind.kind))?;
        let mut definition = self.definitions.get(name);
        let mut found = definition.map(|definition| definition.description.as_str());
        for field in fields {
            let field = definition?.fields.get(field)?;
            found = Some(&field.description);
            definition = self.definitions.get(&field.of);
        }
        found.filter(|text| !text.is_empty())
    }
}

fn key(group: &str, version: &str, kind: &str) -> String {
    format!("{group}/{version}/{kind}")
}

/// Packs the descriptions in all OpenAPI v3 documents of an API server. The result does not depend on the order of the documents.
///
/// # Errors
/// One of the documents is not JSON.
pub fn generate<D: AsRef<[u8]>>(
    documents: impl IntoIterator<Item = D>,
) -> Result<Vec<u8>, serde_json::Error> {
    let mut lines: BTreeMap<(String, String), String> = BTreeMap::new();
    for document in documents {
        let document: Json = serde_json::from_slice(document.as_ref())?;
        let schemas = document.pointer("/components/schemas").and_then(Json::as_object);
        for (name, schema) in schemas.into_iter().flatten() {
            collect(name, schema, &mut lines);
        }
    }
    let mut text = String::new();
    for ((name, field), rest) in lines {
        text.push_str(&format!("{name}\t{field}\t{rest}\n"));
    }
    Ok(compress_to_vec(text.as_bytes(), LEVEL))
}

/// The lines of a definition: its kinds, its description, and its fields.
fn collect(name: &str, schema: &Json, lines: &mut BTreeMap<(String, String), String>) {
    let text = |schema: &Json| {
        let text = schema.get("description").and_then(Json::as_str).unwrap_or_default();
        text.replace(['\t', '\r'], " ").replace('\n', "\\n")
    };
    for kind in schema.get("x-kubernetes-group-version-kind").and_then(Json::as_array).into_iter().flatten() {
        let part = |part: &str| kind.get(part).and_then(Json::as_str).unwrap_or_default();
        let key = key(part("group"), part("version"), part("kind"));
        lines.insert((format!("={key}"), String::new()), format!("{name}\t"));
    }
    lines.insert((name.to_owned(), String::new()), format!("\t{}", text(schema)));
    for (field, property) in schema.get("properties").and_then(Json::as_object).into_iter().flatten() {
        let of = reference(property).unwrap_or_default();
        lines.insert((name.to_owned(), field.clone()), format!("{of}\t{}", text(property)));
    }
}

/// The definition of a value, or of the items in it.
fn reference(schema: &Json) -> Option<&str> {
    let own = schema.get("$ref").or_else(|| schema.pointer("/allOf/0/$ref")).and_then(Json::as_str);
    let inner = || {
        [schema.get("items"), schema.get("additionalProperties")].into_iter().flatten().find_map(reference)
    };
    own.map(|reference| reference.trim_start_matches(REFERENCE)).or_else(inner)
}

fn unpack(bytes: &[u8]) -> Option<Documentation> {
    let bytes = decompress_to_vec_with_limit(bytes, MAX_UNPACKED).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    let mut found = Documentation::default();
    for line in text.lines() {
        let mut parts = line.splitn(4, '\t');
        let (Some(name), Some(field), Some(of), Some(description)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        if let Some(kind) = name.strip_prefix('=') {
            found.kinds.insert(kind.to_owned(), of.to_owned());
            continue;
        }
        let description = description.replace("\\n", "\n");
        let definition = found.definitions.entry(name.to_owned()).or_default();
        if field.is_empty() {
            definition.description = description;
        } else {
            definition.fields.insert(field.to_owned(), Field { description, of: of.to_owned() });
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_built_in_kinds_are_described_through_lists_and_references() {
        let documentation = Documentation::built_in();
        let deployment = GroupVersionKind::new("apps/v1", "Deployment");
        let describe = |fields: &[&str]| documentation.describe(&deployment, fields.iter().copied());
        assert!(describe(&[]).unwrap().contains("Deployment enables declarative updates"));
        assert!(describe(&["spec", "replicas"]).unwrap().starts_with("Number of desired pods."));
        let image = describe(&["spec", "template", "spec", "containers", "image"]).unwrap();
        assert!(image.starts_with("Container image name."), "{image}");
        assert_eq!(describe(&["spec", "nothing"]), None);
        assert_eq!(documentation.describe(&GroupVersionKind::new("example.com/v1", "Shop"), []), None);
    }

    #[test]
    fn a_description_with_several_lines_survives_packing() {
        let document = r##"{"components": {"schemas": {"io.k8s.Thing": {
            "description": "A thing.\nOf two lines.", "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "Thing"}],
            "properties": {"parts": {"description": "Its\tparts.", "type": "array", "items": {"allOf": [{"$ref": "#/components/schemas/io.k8s.Part"}]}}}},
            "io.k8s.Part": {"properties": {"size": {"description": "How large."}}}}}}"##;
        let documentation = unpack(&generate([document]).unwrap()).unwrap();
        let thing = GroupVersionKind::new("v1", "Thing");
        assert_eq!(documentation.describe(&thing, []), Some("A thing.\nOf two lines."));
        assert_eq!(documentation.describe(&thing, ["parts"]), Some("Its parts."));
        assert_eq!(documentation.describe(&thing, ["parts", "size"]), Some("How large."));
    }
}
