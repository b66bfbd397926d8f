//! Definitions that refer to each other by name: the schemas of one OpenAPI document, one CRD, or one instance. Each is
//! parsed on first use, and every object in it has exactly one CEL type.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, LazyLock, OnceLock, Weak};

use kross_value::Text;
use parking_lot::RwLock;

use crate::openapi::{Additional, Keep, Kind, Schema};
use crate::types::TypeTable;

/// The definition of an object's metadata. All libraries share it, so that metadata has the same type everywhere.
pub const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
/// The same without a namespace, for cluster-scoped instances.
pub const CLUSTER_OBJECT_META: &str = "run.kross.cluster.ObjectMeta";
/// Prefix of the definitions of built-in kinds.
const BUILT_IN: &str = "io.k8s.";

/// Definitions by name.
pub struct Library {
    text: String,
    index: HashMap<Text, Entry>,
    pub(crate) types: RwLock<TypeTable>,
    pub(crate) merged: RwLock<HashMap<usize, Arc<Schema>>>,
    me: Weak<Self>,
}

struct Entry {
    source: Range<usize>,
    parsed: OnceLock<Arc<Schema>>,
}

impl Library {
    /// Creates a library of parsed schemas.
    pub fn of_schemas(schemas: impl IntoIterator<Item = (Text, Schema)>) -> Arc<Self> {
        let entries = schemas
            .into_iter()
            .map(|(name, schema)| (name, Entry { source: 0..0, parsed: OnceLock::from(Arc::new(schema)) }));
        Self::new(String::new(), entries.collect())
    }

    /// Creates a library of lines that consist of a name, a tab and a JSON schema. The schemas are parsed on first use.
    #[must_use]
    pub fn of_lines(text: String) -> Arc<Self> {
        let mut index = HashMap::new();
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            let end = start + line.trim_end_matches('\n').len();
            if let Some((name, _)) = line.split_once('\t') {
                let entry = Entry { source: start + name.len() + 1..end, parsed: OnceLock::new() };
                index.insert(name.into(), entry);
            }
            start += line.len();
        }
        Self::new(text, index)
    }

    fn new(text: String, index: HashMap<Text, Entry>) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            text,
            index,
            types: RwLock::default(),
            merged: RwLock::default(),
            me: Weak::clone(me),
        })
    }

    /// The library of metadata definitions, which all other libraries share.
    pub fn metadata() -> &'static Arc<Self> {
        static METADATA: LazyLock<Arc<Library>> = LazyLock::new(metadata_library);
        &METADATA
    }

    /// The definition with a name, and the library that contains it.
    #[must_use]
    pub fn definition(&self, name: &str) -> Option<(Arc<Self>, Arc<Schema>)> {
        let metadata = Self::metadata_of(name);
        let library = metadata.as_deref().unwrap_or(self);
        let entry = library.index.get(name)?;
        let schema = entry.parsed.get_or_init(|| Arc::new(library.parse(name, entry)));
        Some((library.me.upgrade()?, Arc::clone(schema)))
    }

    /// The library of metadata definitions, if it contains the name.
    fn metadata_of(name: &str) -> Option<Arc<Self>> {
        // Check the name first: accessing the library during its own initialization would deadlock.
        let shared = name.starts_with("io.k8s.apimachinery.pkg.apis.meta.v1.") || name == CLUSTER_OBJECT_META;
        let library = shared.then(Self::metadata)?;
        library.index.contains_key(name).then(|| Arc::clone(library))
    }

    /// Parses a definition. One that cannot be parsed allows any value, because the API server considers it valid.
    fn parse(&self, name: &str, entry: &Entry) -> Schema {
        let text = self.text.get(entry.source.clone()).unwrap_or("");
        let mut schema = Schema::from_json(text, Keep::Meaning).unwrap_or_else(|_| Schema::anything());
        if name.starts_with(BUILT_IN) && is_bare_object(&schema) {
            // Kubernetes describes fields for arbitrary objects, such as a raw extension, as objects without properties.
            schema.preserve_unknown = true;
        }
        schema
    }

    /// The names of all definitions, in no particular order.
    pub fn names(&self) -> impl Iterator<Item = &Text> {
        self.index.keys()
    }

    /// The number of definitions that have been parsed.
    #[must_use]
    pub fn parsed(&self) -> usize {
        self.index.values().filter(|entry| entry.parsed.get().is_some()).count()
    }

    pub(crate) fn me(&self) -> Option<Arc<Self>> {
        self.me.upgrade()
    }

    /// Resolves references and merges `allOf`.
    pub(crate) fn resolve(self: &Arc<Self>, schema: &Arc<Schema>) -> (Arc<Self>, Arc<Schema>) {
        /// Maximum number of references; only a cycle of references has more.
        const MAX_HOPS: usize = 32;
        let mut at = (Arc::clone(self), Arc::clone(schema));
        for _ in 0..MAX_HOPS {
            let (library, schema) = &at;
            let next = if let Some(name) = &schema.reference {
                library.definition(name)
            } else {
                match schema.details().all_of.as_slice() {
                    [] => return at,
                    [only] if only_wraps(schema) => Some((Arc::clone(library), Arc::clone(only))),
                    _ => return (Arc::clone(library), library.merge(schema)),
                }
            };
            let Some(next) = next else { break };
            at = next;
        }
        (Arc::clone(self), Arc::new(Schema::anything()))
    }

    /// Merges a schema with all of its `allOf`.
    fn merge(self: &Arc<Self>, schema: &Arc<Schema>) -> Arc<Schema> {
        let address = Arc::as_ptr(schema) as usize;
        let known = self.merged.read().get(&address).cloned();
        if let Some(known) = known {
            return known;
        }
        let mut merged = Schema::clone(schema);
        let parts = std::mem::take(&mut merged.details_mut().all_of);
        for part in parts.iter().filter(|part| !Arc::ptr_eq(part, schema)) {
            let (_, part) = self.resolve_plain(part);
            merge_into(&mut merged, &part);
        }
        let mut table = self.merged.write();
        Arc::clone(table.entry(address).or_insert_with(|| Arc::new(merged)))
    }

    /// Resolves references only.
    fn resolve_plain(self: &Arc<Self>, schema: &Arc<Schema>) -> (Arc<Self>, Arc<Schema>) {
        match &schema.reference {
            Some(name) => {
                self.definition(name).unwrap_or_else(|| (Arc::clone(self), Arc::new(Schema::anything())))
            }
            None => (Arc::clone(self), Arc::clone(schema)),
        }
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Library").field("definitions", &self.index.len()).finish_non_exhaustive()
    }
}

fn is_bare_object(schema: &Schema) -> bool {
    schema.kind == Some(Kind::Object)
        && schema.properties.is_empty()
        && schema.additional == Additional::Unspecified
}

/// Whether a schema with `allOf` does not change the type of the schema that it wraps.
fn only_wraps(schema: &Schema) -> bool {
    schema.kind.is_none()
        && schema.properties.is_empty()
        && schema.items.is_none()
        && schema.additional == Additional::Unspecified
        && !schema.nullable
        && !schema.preserve_unknown
        && !schema.int_or_string
        && schema.values.is_empty()
}

fn merge_into(merged: &mut Schema, part: &Schema) {
    merged.kind = merged.kind.or(part.kind);
    merged.nullable |= part.nullable;
    merged.preserve_unknown |= part.preserve_unknown;
    merged.int_or_string |= part.int_or_string;
    merged.embedded |= part.embedded;
    merged.format = merged.format.take().or_else(|| part.format.clone());
    merged.items = merged.items.take().or_else(|| part.items.clone());
    if merged.additional == Additional::Unspecified {
        merged.additional = part.additional.clone();
    }
    if merged.values.is_empty() {
        merged.values.clone_from(&part.values);
    }
    for (name, property) in part.properties.iter() {
        // In a CRD, `allOf` repeats properties only to add constraints.
        if merged.properties.get(name).is_none() {
            merged.properties.insert(name.clone(), Arc::clone(property));
        }
    }
    for name in &part.required {
        if !merged.requires(name) {
            merged.required.push(name.clone());
        }
    }
    let details = part.details();
    if merged.details().one_of.is_empty() && !details.one_of.is_empty() {
        merged.details_mut().one_of.clone_from(&details.one_of);
    }
    if merged.details().any_of.is_empty() && !details.any_of.is_empty() {
        merged.details_mut().any_of.clone_from(&details.any_of);
    }
    if merged.details().pattern.is_none() && details.pattern.is_some() {
        merged.details_mut().pattern.clone_from(&details.pattern);
    }
    if merged.details().list_type.is_none() && details.list_type.is_some() {
        merged.details_mut().list_type.clone_from(&details.list_type);
        merged.details_mut().list_map_keys.clone_from(&details.list_map_keys);
    }
}

fn metadata_library() -> Arc<Library> {
    let lines = include_str!("library/metadata.tsv");
    let cluster: String = lines
        .lines()
        .filter(|line| line.starts_with(OBJECT_META))
        .map(|line| {
            let line = line.replacen(OBJECT_META, CLUSTER_OBJECT_META, 1);
            format!("{}\n", line.replacen(r#""namespace":{"type":"string"},"#, "", 1))
        })
        .collect();
    Library::of_lines(format!("{lines}{cluster}"))
}
