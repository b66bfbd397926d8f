//! A cache as a user holds it.

use std::fmt;
use std::sync::Arc;

use kross_api::SyncMode;
use kross_value::{Text, Value};
use tokio::sync::mpsc;

use super::SharedCache;
use crate::cache::store::Lookup;
use crate::cache::{CacheEvent, CacheKey, CachePhase, CacheRegistry};
use crate::error::ApiError;
use crate::object::StoredObject;

/// A cache as a user holds it. The reflector runs as long as there is a user.
pub struct Cache {
    shared: Arc<SharedCache>,
    registry: Arc<CacheRegistry>,
}

impl Cache {
    pub(in crate::cache) fn new(shared: Arc<SharedCache>, registry: Arc<CacheRegistry>) -> Self {
        Self { shared, registry }
    }

    /// Which cache it is.
    #[must_use]
    pub fn key(&self) -> &Arc<CacheKey> {
        &self.shared.key
    }

    /// An object. `Unknown` if it cannot be read.
    #[must_use]
    pub fn get(&self, namespace: Option<&str>, name: &str) -> Lookup {
        self.shared.get(namespace, name)
    }

    /// The outline of an object that cannot be read.
    #[must_use]
    pub fn unreadable(&self, namespace: Option<&str>, name: &str) -> Option<Arc<StoredObject>> {
        let inner = self.shared.lock();
        inner.store.get(namespace, name).filter(|object| object.unreadable().is_some()).cloned()
    }

    /// All objects, or `None` if the cache is not authoritative or an object cannot be read: the caller would take that
    /// one for deleted.
    #[must_use]
    pub fn list(&self) -> Option<Vec<Arc<StoredObject>>> {
        let inner = self.shared.lock();
        inner.is_complete().then(|| inner.store.iter().cloned().collect())
    }

    /// All objects that can be read, or `None` if the cache is not authoritative. For callers to whom an object that is
    /// left out does not count as deleted.
    #[must_use]
    pub fn list_readable(&self) -> Option<Vec<Arc<StoredObject>>> {
        let inner = self.shared.lock();
        let readable = || inner.store.iter().filter(|object| object.unreadable().is_none()).cloned();
        inner.is_authoritative().then(|| readable().collect())
    }

    /// All cached objects and outlines, also if the cache is not authoritative.
    #[must_use]
    pub fn known(&self) -> Vec<Arc<StoredObject>> {
        self.shared.lock().store.iter().cloned().collect()
    }

    /// The objects with this value of a label, or `None` if the cache is not authoritative or one of them cannot be read.
    #[must_use]
    pub fn list_by_label(&self, label: &str, value: &str) -> Option<Vec<Arc<StoredObject>>> {
        let inner = self.shared.lock();
        let objects = inner.is_authoritative().then(|| inner.store.by_label(label, value))?;
        objects.iter().all(|object| object.unreadable().is_none()).then_some(objects)
    }

    /// The cached objects with this value of a label that can be read, also if the cache is not authoritative.
    #[must_use]
    pub fn known_by_label(&self, label: &str, value: &str) -> Vec<Arc<StoredObject>> {
        let mut objects = self.shared.lock().store.by_label(label, value);
        objects.retain(|object| object.unreadable().is_none());
        objects
    }

    /// Whether an object that is not cached does not exist.
    #[must_use]
    pub fn is_authoritative(&self) -> bool {
        self.shared.lock().is_authoritative()
    }

    /// Whether the cache is authoritative and all of its objects can be read.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.shared.lock().is_complete()
    }

    /// Why the cache is not in sync, or which of its objects cannot be read.
    #[must_use]
    pub fn failure(&self) -> Option<ApiError> {
        let inner = self.shared.lock();
        let unreadable = || inner.unreadable_object(self.key(), inner.store.iter());
        inner.failure.clone().or_else(unreadable).or_else(|| inner.nameless_objects(self.key()))
    }

    /// Like [`Cache::failure`], for the objects with this value of a label.
    #[must_use]
    pub fn failure_by_label(&self, label: &str, value: &str) -> Option<ApiError> {
        let inner = self.shared.lock();
        let objects = || inner.store.by_label(label, value);
        inner.failure.clone().or_else(|| inner.unreadable_object(self.key(), &objects()))
    }

    /// Stores the object that a write of ours returned, so that it is cached before the watch reports it. Ignored if
    /// the cache has a later version, or if the object is of another kind: no event would ever remove it. Also ignored if a server
    /// under another trust anchor answered.
    pub fn observe(&self, written: &StoredObject) {
        let CacheKey { group, kind, selection, .. } = &*self.shared.key;
        let of_kind = *group == *written.group() && *kind == *written.kind();
        if of_kind && !written.is_foreign() && selection.selects(written) {
            self.shared.change(|store| store.observed(written));
        }
    }

    /// Whether the cache will emit an event when this object is deleted: it is in sync and has the object.
    #[must_use]
    pub fn will_report_deletion_of(&self, namespace: Option<&str>, name: &str, uid: &Text) -> bool {
        self.is_live() && matches!(self.get(namespace, name), Lookup::Found(found) if found.uid() == uid)
    }

    /// Removes an object that a delete of ours found to be absent, if the cache polls and would report that only with
    /// the next poll. A watch reports it soon, and in order.
    pub fn observe_deleted(&self, deleted: &StoredObject) {
        if self.mode() == SyncMode::Poll {
            self.shared.change(|store| store.observed_deleted(deleted));
        }
    }

    /// Whether it watches or polls. A watch of a remote cluster polls while the budget for watches is used up.
    #[must_use]
    pub fn mode(&self) -> SyncMode {
        self.shared.lock().mode
    }

    /// Replaces a cached object by a part of it, if this version is still cached. For large objects of which little is
    /// needed once they were processed. Emits no event.
    pub fn trim(&self, object: &StoredObject, value: Value) {
        self.shared.lock().store.trim(object, value);
    }

    /// Events of this cache, beginning with its current content. Receive them without blocking.
    #[must_use]
    pub fn subscribe(&self) -> mpsc::UnboundedReceiver<CacheEvent> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut inner = self.shared.lock();
        self.shared.replay_inner(&inner, &sender);
        inner.subscribers.push(sender);
        receiver
    }

    /// Whether the cache has synced at least once.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.shared.has_synced()
    }

    /// Whether the cache receives changes now, so that nobody needs to poll for them.
    #[must_use]
    pub fn is_live(&self) -> bool {
        let inner = self.shared.lock();
        inner.phase == CachePhase::Live && inner.store.has_synced()
    }

    /// Returns when the cache has synced. For start-up and tests: a reconcile must not wait.
    pub async fn wait_for_sync(&self) {
        self.shared.wait_until(|inner| inner.store.has_synced()).await;
    }

    /// Lists the objects again and returns once the cache has everything that the API server had when this was called,
    /// however far the watch lags behind. For start-up: a reconcile must not wait.
    pub async fn relist(&self) {
        self.registry.restart(self.key());
        let writer = self.shared.lock().writer;
        self.shared.wait_until(|inner| inner.listed_by >= writer).await;
    }

    /// Like [`Cache::relist`], but returns as well once the API server refuses to list the objects. Until a later list succeeds,
    /// the cache is not authoritative.
    pub async fn relist_unless_refused(&self) {
        self.registry.restart(self.key());
        let writer = self.shared.lock().writer;
        self.shared.wait_until(|inner| inner.listed_by >= writer || inner.is_refused()).await;
    }
}

impl Clone for Cache {
    fn clone(&self) -> Self {
        self.registry.acquire(&self.shared.key);
        Self { shared: Arc::clone(&self.shared), registry: Arc::clone(&self.registry) }
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.registry.release(&self.shared.key);
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cache({})", self.shared.key)
    }
}
