//! Packs by name, opened when a kind of theirs is asked for. Only the most recently used stay open, so that hundreds
//! of large CRDs cost no more than their compressed bytes.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};

use kross_value::Text;
use parking_lot::RwLock;

use crate::library::Library;

use super::pack::{PackedKind, pack, unpack};
use super::{GroupVersionKind, ResolvedKind};

/// How many packs stay open although nobody uses their types.
const MAX_OPEN: usize = 32;
/// Little effort: documents come in by the dozen when a cluster connects.
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
    /// The most recently opened, newest last.
    open: Vec<(Text, Arc<Library>)>,
}

#[derive(Debug)]
struct Pack {
    hash: Text,
    bytes: Arc<[u8]>,
    kinds: Vec<GroupVersionKind>,
    /// There as long as somebody uses a type of it, so that a kind has one type at a time.
    opened: Weak<Library>,
}

impl Store {
    /// The hash that a pack was put in with.
    pub(crate) fn hash(&self, name: &str) -> Option<Text> {
        let state = self.state.read();
        state.packs.get(name).map(|pack| pack.hash.clone())
    }

    /// Puts a pack in place of the one of that name.
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
        state.take(&name);
        for packed in kinds {
            state.by_kind.insert(packed.kind.clone(), (name.clone(), packed.clone()));
        }
        let kinds = kinds.iter().map(|packed| packed.kind.clone()).collect();
        state.packs.insert(name, Pack { hash: hash.into(), bytes, kinds, opened: Weak::new() });
    }

    /// Takes a pack out.
    pub(crate) fn remove(&self, name: &str) -> bool {
        self.state.write().take(name)
    }

    /// The names of all packs.
    pub(crate) fn names(&self) -> Vec<Text> {
        let state = self.state.read();
        state.packs.keys().cloned().collect()
    }

    /// Every kind, sorted.
    pub(crate) fn kinds(&self) -> Vec<GroupVersionKind> {
        let state = self.state.read();
        state.by_kind.keys().cloned().collect()
    }

    /// How many bytes the packs take, closed.
    pub(crate) fn packed_size(&self) -> usize {
        let state = self.state.read();
        state.packs.values().map(|pack| pack.bytes.len()).sum()
    }

    /// What is known of a kind.
    pub(crate) fn resolve(&self, kind: &GroupVersionKind) -> Option<Arc<ResolvedKind>> {
        let state = self.state.read();
        let (name, packed) = state.by_kind.get(kind)?;
        let pack = state.packs.get(name)?;
        if let Some(library) = pack.opened.upgrade() {
            return packed.resolve(&library);
        }
        let (name, packed, bytes) = (name.clone(), packed.clone(), Arc::clone(&pack.bytes));
        drop(state);
        // Opened without the lock: others may ask meanwhile, and the first to come back decides.
        let library = unpack(&bytes)?.library;
        let library = self.state.write().keep(&name, library, &bytes);
        packed.resolve(&library)
    }
}

impl State {
    fn take(&mut self, name: &str) -> bool {
        self.open.retain(|(other, _)| other != name);
        let Some(pack) = self.packs.remove(name) else { return false };
        for kind in &pack.kinds {
            if self.by_kind.get(kind).is_some_and(|(owner, _)| owner == name) {
                self.by_kind.remove(kind);
            }
        }
        true
    }

    /// Keeps an opened library, and gives the one to use.
    fn keep(&mut self, name: &Text, library: Arc<Library>, bytes: &Arc<[u8]>) -> Arc<Library> {
        let Some(pack) = self.packs.get_mut(name).filter(|pack| Arc::ptr_eq(&pack.bytes, bytes)) else {
            // Replaced meanwhile; the answer is still right for when it was asked.
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
