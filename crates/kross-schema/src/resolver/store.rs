//! Packs by name, which are unpacked when one of their kinds is resolved. Only the most recently used ones stay unpacked,
//! so that hundreds of large CRDs use little memory.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};

use kross_value::Text;
use parking_lot::RwLock;

use crate::library::Library;

use super::pack::{PackedKind, pack, unpack};
use super::{GroupVersionKind, ResolvedKind};

/// Maximum number of packs that stay unpacked although their types are not in use.
const MAX_OPEN: usize = 32;
/// Low compression level: dozens of documents arrive when a cluster connects.
const LEVEL: u8 = 3;

/// Packs by name.
#[derive(Debug, Default)]
pub(crate) struct Store {
    state: RwLock<State>,
}

#[derive(Debug, Default)]
struct State {
    packs: HashMap<Text, Pack>,
    by_kind: BTreeMap<GroupVersionKind, (Text, PackedKind)>,
    /// The most recently unpacked libraries, newest last.
    open: Vec<(Text, Arc<Library>)>,
}

#[derive(Debug)]
struct Pack {
    hash: Text,
    bytes: Arc<[u8]>,
    kinds: Vec<GroupVersionKind>,
    /// The unpacked library as long as one of its types is in use, so that a kind never has two types at a time.
    opened: Weak<Library>,
}

impl Store {
    /// The hash of a pack.
    pub(crate) fn hash(&self, name: &str) -> Option<Text> {
        let state = self.state.read();
        state.packs.get(name).map(|pack| pack.hash.clone())
    }

    /// Adds or replaces a pack.
    pub(crate) fn put(
        &self,
        name: &str,
        hash: &str,
        kinds: &[PackedKind],
        definitions: &BTreeMap<Text, String>,
    ) {
        let bytes = pack(name, kinds, definitions, LEVEL).into();
        let name = Text::from(name);
        let mut state = self.state.write();
        state.remove(&name);
        for packed in kinds {
            state.by_kind.insert(packed.kind.clone(), (name.clone(), packed.clone()));
        }
        let kinds = kinds.iter().map(|packed| packed.kind.clone()).collect();
        state.packs.insert(name, Pack { hash: hash.into(), bytes, kinds, opened: Weak::new() });
    }

    /// Removes a pack. Returns whether it existed.
    pub(crate) fn remove(&self, name: &str) -> bool {
        self.state.write().remove(name)
    }

    /// The names of all packs.
    pub(crate) fn names(&self) -> Vec<Text> {
        let state = self.state.read();
        state.packs.keys().cloned().collect()
    }

    /// All kinds, sorted.
    pub(crate) fn kinds(&self) -> Vec<GroupVersionKind> {
        let state = self.state.read();
        state.by_kind.keys().cloned().collect()
    }

    /// The total size of the packs in bytes.
    pub(crate) fn packed_size(&self) -> usize {
        let state = self.state.read();
        state.packs.values().map(|pack| pack.bytes.len()).sum()
    }

    /// Resolves a kind.
    pub(crate) fn resolve(&self, kind: &GroupVersionKind) -> Option<Arc<ResolvedKind>> {
        let state = self.state.read();
        let (name, packed) = state.by_kind.get(kind)?;
        let pack = state.packs.get(name)?;
        if let Some(library) = pack.opened.upgrade() {
            return packed.resolve(&library);
        }
        let (name, packed, bytes) = (name.clone(), packed.clone(), Arc::clone(&pack.bytes));
        drop(state);
        // Unpack without holding the lock. If several threads do so, the first one to store its library wins.
        let library = unpack(&bytes)?.library;
        let library = self.state.write().keep(&name, library, &bytes);
        packed.resolve(&library)
    }
}

impl State {
    fn remove(&mut self, name: &str) -> bool {
        self.open.retain(|(other, _)| other != name);
        let Some(pack) = self.packs.remove(name) else { return false };
        for kind in &pack.kinds {
            if self.by_kind.get(kind).is_some_and(|(owner, _)| owner == name) {
                self.by_kind.remove(kind);
            }
        }
        true
    }

    /// Stores an unpacked library, and returns the one to use.
    fn keep(&mut self, name: &Text, library: Arc<Library>, bytes: &Arc<[u8]>) -> Arc<Library> {
        let Some(pack) = self.packs.get_mut(name).filter(|pack| Arc::ptr_eq(&pack.bytes, bytes)) else {
            // The pack was replaced meanwhile; the library is still valid for this call.
            return library;
        };
        if let Some(first) = pack.opened.upgrade() {
            return first;
        }
        pack.opened = Arc::downgrade(&library);
        self.open.push((name.clone(), Arc::clone(&library)));
        if self.open.len() > MAX_OPEN {
            self.open.remove(0);
        }
        library
    }
}
