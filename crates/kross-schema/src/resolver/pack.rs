//! Compresses kinds and definitions, and unpacks them into a library that parses definitions on demand. Used for the
//! bundle in the binary and for the schemas of live clusters.

use std::collections::BTreeMap;
use std::sync::Arc;

use kross_value::Text;
use miniz_oxide::deflate::compress_to_vec;
use miniz_oxide::inflate::decompress_to_vec_with_limit;
use serde::{Deserialize, Serialize};

use crate::library::Library;
use crate::view::SchemaView;

use super::{GroupVersionKind, ResolvedKind};

/// Maximum unpacked size; larger packs are considered corrupt.
const MAX_UNPACKED: usize = 256 << 20;

/// A kind and the definition of its objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PackedKind {
    pub(crate) kind: GroupVersionKind,
    pub(crate) plural: Text,
    pub(crate) namespaced: bool,
    pub(crate) definition: Text,
}

/// The first line of a pack: its contents.
#[derive(Serialize, Deserialize)]
struct Header {
    /// The origin: a version of Kubernetes, a group and version, or the name of a CRD.
    origin: String,
    /// Group, version, kind, plural, whether namespaced, definition.
    kinds: Vec<(String, String, String, String, bool, String)>,
}

/// Packs kinds and definitions. `level` is the compression level, from 1 to 10.
pub(crate) fn pack(
    origin: &str,
    kinds: &[PackedKind],
    definitions: &BTreeMap<Text, String>,
    level: u8,
) -> Vec<u8> {
    let kinds = kinds.iter().map(|packed| {
        let kind = &packed.kind;
        (
            kind.group.to_string(),
            kind.version.to_string(),
            kind.kind.to_string(),
            packed.plural.to_string(),
            packed.namespaced,
            packed.definition.to_string(),
        )
    });
    let header = Header { origin: origin.to_owned(), kinds: kinds.collect() };
    let mut text = serde_json::to_string(&header).unwrap_or_default();
    text.push('\n');
    for (name, schema) in definitions {
        text.push_str(name);
        text.push('\t');
        text.push_str(schema);
        text.push('\n');
    }
    compress_to_vec(text.as_bytes(), level)
}

impl PackedKind {
    /// Resolves the kind in its library.
    pub(crate) fn resolve(&self, library: &Arc<Library>) -> Option<Arc<ResolvedKind>> {
        Some(Arc::new(ResolvedKind {
            kind: self.kind.clone(),
            schema: SchemaView::definition(library, &self.definition)?,
            namespaced: self.namespaced,
            plural: self.plural.clone(),
        }))
    }
}

/// An unpacked pack.
#[derive(Debug)]
pub(crate) struct Unpacked {
    pub(crate) origin: Text,
    pub(crate) library: Arc<Library>,
    pub(crate) kinds: Vec<PackedKind>,
}

/// Unpacks a pack; `None` if it is corrupt.
pub(crate) fn unpack(bytes: &[u8]) -> Option<Unpacked> {
    let bytes = decompress_to_vec_with_limit(bytes, MAX_UNPACKED).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    let (header, _) = text.split_once('\n')?;
    let header: Header = serde_json::from_str(header).ok()?;
    let kinds = header.kinds.into_iter().map(|(group, version, kind, plural, namespaced, definition)| {
        let kind = GroupVersionKind { group: group.into(), version: version.into(), kind: kind.into() };
        PackedKind { kind, plural: plural.into(), namespaced, definition: definition.into() }
    });
    Some(Unpacked { origin: header.origin.into(), kinds: kinds.collect(), library: Library::of_lines(text) })
}
