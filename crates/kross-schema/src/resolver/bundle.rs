//! The built-in kinds of some minor versions of Kubernetes, embedded in the binary. Generated from a real API server;
//! unpacked on first use, and each definition is parsed on demand.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use kross_value::Text;

use crate::library::Library;

use super::document::{self, DocumentError};
use super::pack::{PackedKind, Unpacked, pack, unpack};
use super::{GroupVersionKind, ResolvedKind, SchemaResolver};

/// Maximum compression: the bundle is generated only once.
const LEVEL: u8 = 10;

/// The minor versions in the binary, newest first.
static BUNDLES: [EmbeddedBundle; 2] = [
    EmbeddedBundle { minor: "1.36", bytes: include_bytes!("bundle/1.36.bin"), opened: OnceLock::new() },
    EmbeddedBundle { minor: "1.30", bytes: include_bytes!("bundle/1.30.bin"), opened: OnceLock::new() },
];

struct EmbeddedBundle {
    minor: &'static str,
    bytes: &'static [u8],
    opened: OnceLock<Arc<Bundle>>,
}

/// The built-in kinds of one minor version of Kubernetes.
#[derive(Debug)]
pub struct Bundle {
    minor: Text,
    origin: Text,
    library: Arc<Library>,
    kinds: HashMap<GroupVersionKind, PackedKind>,
}

/// There is no bundle for the requested version.
#[derive(Debug, thiserror::Error)]
#[error("there are no schemas for Kubernetes {requested}; available versions: {}", available.join(", "))]
pub struct BundleError {
    /// The requested version.
    pub requested: String,
    /// The available versions.
    pub available: Vec<&'static str>,
}

impl Bundle {
    /// The available minor versions, newest first: `1.36`, `1.30`.
    pub fn versions() -> impl Iterator<Item = &'static str> {
        BUNDLES.iter().map(|embedded| embedded.minor)
    }

    /// The bundle of the newest version.
    #[must_use]
    pub fn latest() -> Arc<Self> {
        BUNDLES.first().map_or_else(|| Arc::new(Self::empty("")), EmbeddedBundle::open)
    }

    /// The bundle of a minor version, such as `1.36`, `v1.36` or `1.36.3`.
    ///
    /// # Errors
    /// There is no bundle for the version.
    pub fn of_version(version: &str) -> Result<Arc<Self>, BundleError> {
        let mut parts = version.trim_start_matches('v').split('.');
        let minor = [parts.next(), parts.next()].into_iter().flatten().collect::<Vec<_>>().join(".");
        let found = BUNDLES.iter().find(|embedded| embedded.minor == minor);
        found.map(EmbeddedBundle::open).ok_or_else(|| BundleError {
            requested: version.to_owned(),
            available: Self::versions().collect(),
        })
    }

    /// The minor version: `1.36`.
    #[must_use]
    pub fn minor(&self) -> &str {
        &self.minor
    }

    /// The version of the API server that the bundle was generated from: `v1.36.3`.
    #[must_use]
    pub fn server_version(&self) -> &str {
        &self.origin
    }

    /// The number of definitions that have been parsed so far.
    #[must_use]
    pub fn parsed(&self) -> usize {
        self.library.parsed()
    }

    fn new(minor: &str, unpacked: Unpacked) -> Self {
        let Unpacked { origin, library, kinds } = unpacked;
        let kinds = kinds.into_iter().map(|packed| (packed.kind.clone(), packed)).collect();
        Self { minor: minor.into(), origin, library, kinds }
    }

    fn empty(minor: &str) -> Self {
        let unpacked =
            Unpacked { origin: "".into(), library: Library::of_lines(String::new()), kinds: Vec::new() };
        Self::new(minor, unpacked)
    }
}

impl EmbeddedBundle {
    fn open(&self) -> Arc<Bundle> {
        let opened = self.opened.get_or_init(|| {
            // The tests unpack every bundle, so none of them is corrupt.
            let bundle = unpack(self.bytes)
                .map_or_else(|| Bundle::empty(self.minor), |unpacked| Bundle::new(self.minor, unpacked));
            Arc::new(bundle)
        });
        Arc::clone(opened)
    }
}

impl SchemaResolver for Bundle {
    fn resolve(&self, kind: &GroupVersionKind) -> Option<Arc<ResolvedKind>> {
        self.kinds.get(kind)?.resolve(&self.library)
    }

    fn kinds(&self) -> Vec<GroupVersionKind> {
        let mut kinds: Vec<_> = self.kinds.keys().cloned().collect();
        kinds.sort();
        kinds
    }
}

/// Generates a bundle from an API server's version, such as `v1.36.3`, and all of its OpenAPI v3 documents. The result
/// does not depend on the order of the documents.
///
/// # Errors
/// One of the documents cannot be parsed.
pub fn generate<D: AsRef<[u8]>>(
    server_version: &str,
    documents: impl IntoIterator<Item = D>,
) -> Result<Vec<u8>, DocumentError> {
    let mut kinds: Vec<PackedKind> = Vec::new();
    let mut definitions: BTreeMap<Text, String> = BTreeMap::new();
    for bytes in documents {
        let document = document::read(bytes.as_ref())?;
        kinds.extend(document.kinds);
        definitions.extend(document.definitions);
    }
    kinds.sort_by(|a, b| a.kind.cmp(&b.kind));
    kinds.dedup_by(|a, b| a.kind == b.kind);
    Ok(pack(server_version, &kinds, &definitions, LEVEL))
}
