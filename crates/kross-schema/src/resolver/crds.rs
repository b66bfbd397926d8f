//! The schemas of CRDs, from files or from the CRD objects of a cluster, which are up to date earlier than the cluster's
//! OpenAPI documents.

use std::collections::BTreeMap;
use std::sync::Arc;

use kross_diagnostics::{Code, Path, Place, Problem};
use kross_value::{Key, Text, Value};

use crate::library::OBJECT_META;
use crate::openapi::{Keep, Kind, Schema};

use super::pack::PackedKind;
use super::store::Store;
use super::{GroupVersionKind, ResolvedKind, SchemaResolver};

/// The schemas of CRDs by name. Stores them compressed, and parses them on demand.
#[derive(Debug, Default)]
pub struct CrdSchemas {
    store: Store,
}

impl CrdSchemas {
    /// Creates an empty collection.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds or replaces a CustomResourceDefinition, and returns the kinds that it serves.
    ///
    /// # Errors
    /// The problems of the CRD, by path. The previous CRD with the same name is then kept.
    pub fn insert(&self, crd: &Value) -> Result<Vec<GroupVersionKind>, Vec<Problem>> {
        let mut reading = Reading { crd, problems: Vec::new() };
        let (name, kinds, definitions) = reading.read();
        if !reading.problems.is_empty() {
            return Err(reading.problems);
        }
        let hash = crd.at(&["metadata", "resourceVersion"]).and_then(Value::as_str).unwrap_or("");
        self.store.put(&name, hash, &kinds, &definitions);
        Ok(kinds.into_iter().map(|packed| packed.kind).collect())
    }

    /// Removes a CRD by its name, such as `widgets.example.com`. Returns whether it existed.
    pub fn remove(&self, name: &str) -> bool {
        self.store.remove(name)
    }

    /// The `resourceVersion` of the stored CRD with a name.
    #[must_use]
    pub fn held_version(&self, name: &str) -> Option<Text> {
        self.store.hash(name)
    }

    /// The size of the stored data in bytes.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.store.packed_size()
    }
}

impl SchemaResolver for CrdSchemas {
    fn resolve(&self, kind: &GroupVersionKind) -> Option<Arc<ResolvedKind>> {
        self.store.resolve(kind)
    }

    fn kinds(&self) -> Vec<GroupVersionKind> {
        self.store.kinds()
    }
}

struct Reading<'a> {
    crd: &'a Value,
    problems: Vec<Problem>,
}

impl Reading<'_> {
    fn read(&mut self) -> (String, Vec<PackedKind>, BTreeMap<Text, String>) {
        let group = self.text(&["spec", "group"]);
        let kind = self.text(&["spec", "names", "kind"]);
        let plural = self.text(&["spec", "names", "plural"]);
        let scope = self.text(&["spec", "scope"]);
        if !scope.is_empty() && scope != "Namespaced" && scope != "Cluster" {
            self.report(
                &["spec", "scope"],
                format!("the scope must be `Namespaced` or `Cluster`, found `{scope}`"),
            );
        }
        let mut kinds = Vec::new();
        let mut definitions = BTreeMap::new();
        let versions = self.crd.at(&["spec", "versions"]).and_then(Value::as_list).unwrap_or_default();
        if versions.is_empty() {
            self.report(&["spec", "versions"], "the CustomResourceDefinition has no versions".to_owned());
        }
        for (index, version) in versions.iter().enumerate() {
            let path = Path::root().key("spec").key("versions").index(index);
            let Some(name) = version.get("name").and_then(Value::as_str) else {
                self.problem(&path.key("name"), "the version has no name".to_owned());
                continue;
            };
            if version.get("served").and_then(Value::as_bool) == Some(false) {
                continue;
            }
            let definition = format!("{group}.{name}.{kind}");
            let schema = self.schema(version, &path);
            definitions.insert(Text::from(definition.as_str()), schema.to_value().to_string());
            kinds.push(PackedKind {
                kind: GroupVersionKind {
                    group: group.as_str().into(),
                    version: name.into(),
                    kind: kind.as_str().into(),
                },
                plural: plural.as_str().into(),
                namespaced: scope != "Cluster",
                definition: definition.into(),
            });
        }
        (format!("{plural}.{group}"), kinds, definitions)
    }

    /// The schema of a version's objects, with the fields that every object has.
    fn schema(&mut self, version: &Value, path: &Path) -> Schema {
        let path = path.key("schema").key("openAPIV3Schema");
        let mut schema = match version.at(&["schema", "openAPIV3Schema"]) {
            None => Schema::free_object(),
            Some(value) => Schema::from_value(value, Keep::Meaning).unwrap_or_else(|error| {
                self.problem(&path, format!("the schema is invalid: {error}"));
                Schema::anything()
            }),
        };
        if schema.properties.get("metadata").is_none_or(|metadata| metadata.properties.is_empty()) {
            schema.properties.insert(Key::new("metadata"), Schema::reference(OBJECT_META));
        }
        for name in ["apiVersion", "kind"] {
            if schema.properties.get(name).is_none() {
                schema.properties.insert(Key::new(name), Schema::of(Kind::String));
            }
        }
        schema
    }

    fn text(&mut self, path: &[&str]) -> String {
        if let Some(text) = self.crd.at(path).and_then(Value::as_str).filter(|text| !text.is_empty()) {
            return text.to_owned();
        }
        self.report(path, format!("the CustomResourceDefinition has no `{}`", path.join(".")));
        String::new()
    }

    fn report(&mut self, path: &[&str], message: String) {
        let path = path.iter().fold(Path::root(), |path, key| path.key(*key));
        self.problem(&path, message);
    }

    fn problem(&mut self, path: &Path, message: String) {
        self.problems.push(Problem::new(Code::InvalidCrd, Place::value(path), message));
    }
}
