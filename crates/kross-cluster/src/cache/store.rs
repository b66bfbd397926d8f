//! The content of a cache: applies lists, watch events and our own writes, and returns what changed. No I/O and no
//! locks; the caller decides in which order things arrive.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kross_value::{Text, Value};

use super::Change;
use crate::object::StoredObject;

/// What a cache knows about an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Lookup {
    /// It exists.
    Found(Arc<StoredObject>),
    /// It does not exist.
    Absent,
    /// Not known: the cache has not synced or is not authoritative, or the object cannot be read.
    Unknown,
}

/// Namespace and name. The namespace is empty for cluster-scoped objects.
pub(super) type NamespacedName = (Text, Text);

/// The objects of a cache, with indexes by label.
#[derive(Default)]
pub(super) struct Store {
    objects: HashMap<NamespacedName, Arc<StoredObject>>,
    indexed_labels: Vec<&'static str>,
    /// For each indexed label: the objects by value.
    indexes: Vec<HashMap<Text, HashSet<NamespacedName>>>,
    /// The highest resource version up to which everything is known.
    progress: u64,
    /// The highest resource version that a write of ours returned.
    written: u64,
    /// The highest resource version that was known when the list was requested.
    known: u64,
    /// Whether the next list is of another history: the cluster was restored from an older state.
    rolled_back: bool,
    /// The list that is being read.
    listing: Option<Listing>,
    synced: bool,
    /// Objects that we wrote before the cache synced. The first list may be older.
    written_before_sync: HashMap<NamespacedName, StoredObject>,
    /// UIDs of objects that we deleted since the current poll began, which may still contain them.
    deleted_uids: HashSet<Text>,
    /// The bytes of all objects.
    bytes: usize,
    /// The number of objects that cannot be read.
    unreadable: usize,
    /// The number of objects of the last list whose names cannot be read either. They are not stored.
    dropped: usize,
}

/// Where an object comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    List {
        /// Its resource version, if that is a number.
        version: Option<u64>,
        /// The resource versions went backwards.
        rolled_back: bool,
    },
    Watch,
    /// The response to a write of ours.
    OwnWrite,
}

impl Origin {
    /// Whether an object from here replaces the cached one.
    fn replaces(self, old: &StoredObject, new: &StoredObject) -> bool {
        let same = old.resource_version() == new.resource_version() && old.uid() == new.uid();
        match self {
            // The same version has another content after the schema of its kind has changed, or in another history.
            Self::List { .. } if same => old.value() != new.value(),
            // A list has every object as it was then: only what we wrote after is newer.
            Self::List { version, rolled_back } => {
                let written_since = old.version().zip(version).is_none_or(|(own, list)| own > list);
                rolled_back || !(written_since && is_newer(old, new))
            }
            Self::Watch | Self::OwnWrite => !same && !is_newer(old, new),
        }
    }
}

struct Listing {
    seen: HashSet<NamespacedName>,
    version: Option<u64>,
    /// The resource versions went backwards, as after a restore of etcd, so cached versions are not comparable.
    rolled_back: bool,
    /// The number of its objects whose names cannot be read.
    dropped: usize,
}

impl Store {
    pub(super) fn new(indexed_labels: Vec<&'static str>) -> Self {
        let indexes = indexed_labels.iter().map(|_| HashMap::new()).collect();
        Self { indexed_labels, indexes, ..Self::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    /// The bytes of all objects, as they were received.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Drops everything, because it is too much. Nothing was deleted, so nothing is reported.
    pub(super) fn forget(&mut self) {
        let Self { progress, written, known, .. } = *self;
        *self = Self { progress, written, known, ..Self::new(std::mem::take(&mut self.indexed_labels)) };
    }

    /// The number of objects that cannot be read. They are stored as outlines, unless not even their names can be read.
    pub(super) fn unreadable(&self) -> usize {
        self.unreadable + self.dropped
    }

    /// The number of objects of the last list whose names cannot be read.
    pub(super) fn dropped(&self) -> usize {
        self.dropped
    }

    /// Objects of the list have no readable names.
    pub(super) fn drop_listed(&mut self, dropped: usize) {
        if let Some(listing) = &mut self.listing {
            listing.dropped += dropped;
        }
    }

    /// Whether a list has been read completely.
    pub(super) fn has_synced(&self) -> bool {
        self.synced
    }

    pub(super) fn get(&self, namespace: Option<&str>, name: &str) -> Option<&Arc<StoredObject>> {
        self.objects.get(&(namespace.unwrap_or_default().into(), name.into()))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<StoredObject>> {
        self.objects.values()
    }

    /// The objects with this value of a label, through the index if there is one.
    pub(super) fn by_label(&self, label: &str, value: &str) -> Vec<Arc<StoredObject>> {
        let Some(index) = self.index_of(label) else {
            return self.iter().filter(|object| object.label(label) == Some(value)).cloned().collect();
        };
        let names = index.get(value).into_iter().flatten();
        names.filter_map(|name| self.objects.get(name).cloned()).collect()
    }

    fn index_of(&self, label: &str) -> Option<&HashMap<Text, HashSet<NamespacedName>>> {
        let at = self.indexed_labels.iter().position(|indexed| *indexed == label)?;
        self.indexes.get(at)
    }

    /// A list is requested: it cannot be older than what is known now.
    pub(super) fn request_list(&mut self) {
        self.known = self.highest();
    }

    /// Whether a list is older than what was known when it was requested.
    pub(super) fn is_rollback(&self, version: Option<u64>) -> bool {
        version.is_some_and(|version| version < self.progress.max(self.known))
    }

    /// The next list is of another history.
    pub(super) fn roll_back(&mut self) {
        self.rolled_back = true;
    }

    /// Whether the list that is being read is of another history than the cached objects.
    pub(super) fn is_rolled_back(&self) -> bool {
        self.listing.as_ref().is_some_and(|listing| listing.rolled_back)
    }

    /// Everything up to this resource version is known.
    pub(super) fn progress(&self) -> u64 {
        self.progress
    }

    /// The highest resource version that was seen.
    pub(super) fn highest(&self) -> u64 {
        self.progress.max(self.written)
    }

    /// The object that changed last.
    pub(super) fn newest(&self) -> Option<&Arc<StoredObject>> {
        self.objects
            .values()
            .filter(|object| object.version().is_some())
            .max_by_key(|object| object.version())
    }

    /// A list begins, with its resource version if that is a number.
    pub(super) fn begin_list(&mut self, version: Option<u64>) {
        let rolled_back = std::mem::take(&mut self.rolled_back) || self.is_rollback(version);
        self.listing = Some(Listing { seen: HashSet::new(), version, rolled_back, dropped: 0 });
    }

    /// A poll begins: its requests cannot return objects that were deleted before.
    pub(super) fn begin_poll(&mut self) {
        self.deleted_uids.clear();
    }

    /// An object of the list.
    pub(super) fn listed(&mut self, object: StoredObject) -> Option<Change> {
        if self.deleted_uids.contains(object.uid()) {
            return None;
        }
        let name = namespaced_name(&object);
        let origin = match &mut self.listing {
            Some(listing) => {
                listing.seen.insert(name.clone());
                Origin::List { version: listing.version, rolled_back: listing.rolled_back }
            }
            None => Origin::Watch,
        };
        self.put(name, object, origin)
    }

    /// An object of the list that is cached in the same version.
    pub(super) fn seen(&mut self, name: NamespacedName) {
        if let Some(listing) = &mut self.listing {
            listing.seen.insert(name);
        }
    }

    /// The list is complete: objects that are not in it were deleted. If some of it have no readable names, any other may be one
    /// of them, and is kept.
    pub(super) fn end_list(&mut self) -> Vec<Change> {
        let Some(listing) = self.listing.take() else { return Vec::new() };
        self.dropped = listing.dropped;
        let deleted: Vec<NamespacedName> = self
            .objects
            .iter()
            .filter(|(name, object)| {
                // An object that we wrote after the list was taken is not in it, and exists.
                let newer = object.version().zip(listing.version).is_some_and(|(own, list)| own > list);
                listing.dropped == 0 && !listing.seen.contains(*name) && (listing.rolled_back || !newer)
            })
            .map(|(name, _)| name.clone())
            .collect();
        self.progress = match listing.version {
            Some(version) if listing.rolled_back => version,
            Some(version) => self.progress.max(version),
            None => self.progress,
        };
        if listing.rolled_back {
            (self.written, self.known) = (0, 0);
        }
        self.synced = true;
        let written_before_sync = std::mem::take(&mut self.written_before_sync);
        let deleted = deleted.iter().filter_map(|name| self.remove(name)).map(|old| Change::Deleted { old });
        let mut changes: Vec<Change> = deleted.collect();
        changes.extend(written_before_sync.values().filter_map(|object| self.observed(object)));
        changes
    }

    /// A watch event: an object was added or modified.
    pub(super) fn applied(&mut self, object: StoredObject) -> Option<Change> {
        self.advance(object.version());
        self.put(namespaced_name(&object), object, Origin::Watch)
    }

    /// A watch event: an object was deleted.
    pub(super) fn deleted(&mut self, object: &StoredObject) -> Option<Change> {
        self.advance(object.version());
        let name = namespaced_name(object);
        let stale = self.objects.get(&name).is_some_and(|known| is_newer(known, object));
        if stale { None } else { self.remove(&name).map(|old| Change::Deleted { old }) }
    }

    /// Everything up to this resource version is known.
    pub(super) fn advance(&mut self, version: Option<u64>) {
        self.progress = self.progress.max(version.unwrap_or(0));
    }

    /// A write of ours returned this object. It is stored until the watch reports it, unless that has already happened
    /// or the cache has a later version.
    pub(super) fn observed(&mut self, object: &StoredObject) -> Option<Change> {
        let name = namespaced_name(object);
        if !self.synced {
            // Readers get nothing before the cache has synced; afterwards the first list decides whether this is still
            // current.
            let outdated = self.written_before_sync.get(&name).is_some_and(|known| is_newer(known, object));
            if !outdated {
                self.written_before_sync.insert(name, object.clone());
            }
            return None;
        }
        self.written = self.written.max(object.version().unwrap_or(0));
        let fresh = object.version().is_some_and(|version| version > self.progress);
        if fresh { self.put(name, object.clone(), Origin::OwnWrite) } else { None }
    }

    /// Replaces an object by a part of it, if this version is still cached.
    pub(super) fn trim(&mut self, object: &StoredObject, value: Value) {
        if let Some(known) = self.objects.get_mut(&namespaced_name(object))
            && known.uid() == object.uid()
            && known.resource_version() == object.resource_version()
        {
            *known = Arc::new(known.with_value(value));
        }
    }

    /// A delete of ours found that the object is absent.
    pub(super) fn observed_deleted(&mut self, object: &StoredObject) -> Option<Change> {
        let name = namespaced_name(object);
        self.deleted_uids.insert(object.uid().clone());
        if self.written_before_sync.get(&name).is_some_and(|known| known.uid() == object.uid()) {
            self.written_before_sync.remove(&name);
        }
        let is_cached = self.objects.get(&name).is_some_and(|known| known.uid() == object.uid());
        if is_cached { self.remove(&name).map(|old| Change::Deleted { old }) } else { None }
    }

    /// Removes everything, because the kind is no longer served.
    pub(super) fn clear(&mut self) -> Vec<Change> {
        self.listing = None;
        self.synced = false;
        self.written_before_sync.clear();
        let names: Vec<NamespacedName> = self.objects.keys().cloned().collect();
        names.iter().filter_map(|name| self.remove(name)).map(|old| Change::Deleted { old }).collect()
    }

    fn put(&mut self, name: NamespacedName, object: StoredObject, origin: Origin) -> Option<Change> {
        if self.objects.get(&name).is_some_and(|old| !origin.replaces(old, &object)) {
            return None;
        }
        let old = self.remove(&name);
        let new = Arc::new(object);
        self.bytes += new.size();
        self.unreadable += usize::from(new.unreadable().is_some());
        for (label, index) in self.indexed_labels.iter().zip(&mut self.indexes) {
            if let Some(value) = new.label(label) {
                index.entry(value.into()).or_default().insert(name.clone());
            }
        }
        self.objects.insert(name, Arc::clone(&new));
        Some(Change::Applied { old, new, ours: origin == Origin::OwnWrite })
    }

    fn remove(&mut self, name: &NamespacedName) -> Option<Arc<StoredObject>> {
        let old = self.objects.remove(name)?;
        self.bytes -= old.size();
        self.unreadable -= usize::from(old.unreadable().is_some());
        for (label, index) in self.indexed_labels.iter().zip(&mut self.indexes) {
            let Some(value) = old.label(label) else { continue };
            if let Some(names) = index.get_mut(value) {
                names.remove(name);
                if names.is_empty() {
                    index.remove(value);
                }
            }
        }
        Some(old)
    }
}

fn namespaced_name(object: &StoredObject) -> NamespacedName {
    (object.namespace().cloned().unwrap_or_else(|| "".into()), object.name().clone())
}

/// Whether `one` is certainly a later version than `other`.
fn is_newer(one: &StoredObject, other: &StoredObject) -> bool {
    one.version().zip(other.version()).is_some_and(|(one, other)| one > other)
}

#[cfg(test)]
mod tests;
