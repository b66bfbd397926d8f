//! One cache as its users share it: the store, its sync state and its subscribers. The reflector writes to it through a
//! [`WriterToken`]; users read it through a [`Cache`].

use std::sync::Arc;
use std::time::Duration;

use kross_api::{FailureReason, Operation, SyncMode};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use super::load::{ClusterLoad, PendingEvent};
use super::metadata::ObjectVersion;
use super::poll::PollResult;
use super::relist::Relist;
use super::store::{Lookup, NamespacedName, Store};
use super::{CacheEvent, CacheKey, CacheOptions, Change, Subscribers, SyncPolicy};
use crate::client::nameless;
use crate::error::{ApiError, Attempt};
use crate::object::StoredObject;

mod handle;

pub use handle::Cache;

/// What the reflector of a cache is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CachePhase {
    /// It is listing.
    Listing,
    /// It watches or polls, and the cache is in sync.
    Live,
    /// It backs off after a failure.
    Failed,
}

/// The state of a cache, for admin pages and metrics.
#[derive(Clone, Debug)]
pub struct CacheState {
    /// Which cache it is.
    pub key: Arc<CacheKey>,
    /// Whether it watches or polls.
    pub mode: SyncMode,
    /// What the reflector is doing.
    pub phase: CachePhase,
    /// For how long.
    pub since: Duration,
    /// The last error, if the cache is not in sync.
    pub failure: Option<ApiError>,
    /// Whether the cache has synced at least once.
    pub synced: bool,
    /// The number of objects.
    pub objects: usize,
    /// The number of objects that cannot be read.
    pub unreadable: usize,
    /// The number of users.
    pub users: usize,
    /// The bytes of its objects, as they were received.
    pub bytes: usize,
    /// Whether it has no objects because those of its cluster exceed what may be cached.
    pub over_limit: bool,
    /// The number of lists read; for a poll, the number of polls.
    pub lists: u64,
    /// The number of watches opened.
    pub opened: u64,
}

/// The right to write to a cache. Acquiring it revokes the previous token: a reflector that was aborted may still be in
/// the middle of a list, and its writes are ignored from then on. Clones have the same right.
#[derive(Clone)]
pub(super) struct WriterToken {
    shared: Arc<SharedCache>,
    number: u64,
}

/// A cache that several users share. For the order of its locks see [`CacheRegistry`](super::CacheRegistry).
pub(super) struct SharedCache {
    pub(super) key: Arc<CacheKey>,
    /// Wakes the reflector while it backs off.
    pub(super) retry: Notify,
    pub(super) relist: Relist,
    synced: Notify,
    inner: Mutex<Inner>,
    /// The subscribers to all caches.
    all_subscribers: Arc<Subscribers>,
    /// The load of the cluster.
    load: Arc<ClusterLoad>,
}

struct Inner {
    store: Store,
    /// The number of the token that is valid.
    writer: u64,
    /// The number of the token whose list was completed last.
    listed_by: u64,
    mode: SyncMode,
    phase: CachePhase,
    since: Instant,
    failure: Option<ApiError>,
    lists: u64,
    opened: u64,
    /// The bytes of the store that the load of the cluster includes.
    bytes: usize,
    /// Whether the content was dropped because the cluster exceeds its limit.
    forgotten: bool,
    /// The subscribers to this cache.
    subscribers: Vec<mpsc::UnboundedSender<CacheEvent>>,
}

impl CacheState {
    /// Whether it polls a remote cluster that it would watch, because the budget for watches is used up.
    #[must_use]
    pub fn is_over_watch_budget(&self) -> bool {
        self.key.sync == SyncPolicy::Watch && self.mode == SyncMode::Poll
    }
}

impl SharedCache {
    pub(super) fn new(
        key: CacheKey,
        options: &CacheOptions,
        all_subscribers: Arc<Subscribers>,
        load: Arc<ClusterLoad>,
    ) -> Self {
        Self {
            key: Arc::new(key),
            retry: Notify::new(),
            relist: Relist::default(),
            synced: Notify::new(),
            inner: Mutex::new(Inner {
                store: Store::new(options.indexed_labels.clone()),
                writer: 0,
                listed_by: 0,
                mode: SyncMode::Watch,
                phase: CachePhase::Listing,
                since: Instant::now(),
                failure: None,
                lists: 0,
                opened: 0,
                bytes: 0,
                forgotten: false,
                subscribers: Vec::new(),
            }),
            all_subscribers,
            load,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    /// Changes the store and emits the events under one lock, so that subscribers and readers see the same order.
    fn change<C: IntoIterator<Item = Change>>(&self, change: impl FnOnce(&mut Store) -> C) {
        self.change_inner(&mut self.lock(), change);
    }

    fn change_inner<C>(&self, inner: &mut Inner, change: impl FnOnce(&mut Store) -> C)
    where
        C: IntoIterator<Item = Change>,
    {
        let changes = change(&mut inner.store);
        self.account(inner);
        for change in changes {
            self.emit(inner, change);
        }
    }

    /// Adds to the load of the cluster what the store has grown.
    fn account(&self, inner: &mut Inner) {
        let bytes = inner.store.bytes();
        self.load.resize(inner.bytes, bytes);
        inner.bytes = bytes;
    }

    fn event(&self, change: Change) -> CacheEvent {
        CacheEvent { cache: Arc::clone(&self.key), change, _pending: PendingEvent::new(&self.load) }
    }

    fn emit(&self, inner: &mut Inner, change: Change) {
        if let Change::Applied { new, .. } = &change
            && let Some(error) = new.unreadable()
        {
            let namespace = new.namespace().map(|namespace| &**namespace).unwrap_or_default();
            let (name, version) = (new.name(), new.resource_version());
            tracing::warn!(cache = %self.key, namespace, %name, %version, %error, "cannot read object");
        }
        let event = self.event(change);
        inner.subscribers.retain(|subscriber| subscriber.send(event.clone()).is_ok());
        self.all_subscribers.send(&event);
    }

    /// Splits listed objects into those that are cached in the same version, and the others.
    pub(super) fn compare(&self, listed: Vec<ObjectVersion>) -> (Vec<NamespacedName>, Vec<ObjectVersion>) {
        let inner = self.lock();
        let (mut unchanged, mut changed) = (Vec::with_capacity(listed.len()), Vec::new());
        for entry in listed {
            match inner.store.get(entry.namespace.as_deref(), &entry.name) {
                Some(known) if entry.is(known) => unchanged.push(entry.namespaced_name()),
                _ => changed.push(entry),
            }
        }
        (unchanged, changed)
    }

    pub(super) fn has_synced(&self) -> bool {
        self.lock().store.has_synced()
    }

    /// Returns when a condition holds that a list or its failure may bring about.
    async fn wait_until(&self, condition: impl Fn(&Inner) -> bool) {
        loop {
            let changed = self.synced.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if condition(&self.lock()) {
                return;
            }
            changed.await;
        }
    }

    pub(super) fn replay(&self, subscriber: &mpsc::UnboundedSender<CacheEvent>) {
        self.replay_inner(&self.lock(), subscriber);
    }

    fn replay_inner(&self, inner: &Inner, subscriber: &mpsc::UnboundedSender<CacheEvent>) {
        let known = inner.store.iter().map(|object| Change::Applied {
            old: None,
            new: Arc::clone(object),
            ours: false,
        });
        let synced = inner.store.has_synced().then_some(Change::Synced);
        let failed = inner.failure.clone().map(|error| Change::Failed { error });
        for change in known.chain(synced).chain(failed) {
            // A subscriber that has hung up is removed by the next event.
            let _ = subscriber.send(self.event(change));
        }
    }

    pub(super) fn get(&self, namespace: Option<&str>, name: &str) -> Lookup {
        let inner = self.lock();
        match inner.store.get(namespace, name) {
            Some(object) if object.unreadable().is_some() => Lookup::Unknown,
            Some(object) => Lookup::Found(Arc::clone(object)),
            None if inner.is_authoritative() => Lookup::Absent,
            None => Lookup::Unknown,
        }
    }

    pub(super) fn state(&self, users: usize) -> CacheState {
        let inner = self.lock();
        CacheState {
            key: Arc::clone(&self.key),
            mode: inner.mode,
            phase: inner.phase,
            since: inner.since.elapsed(),
            failure: inner.failure.clone(),
            synced: inner.store.has_synced(),
            objects: inner.store.len(),
            unreadable: inner.store.unreadable(),
            users,
            bytes: inner.bytes,
            over_limit: inner.forgotten,
            lists: inner.lists,
            opened: inner.opened,
        }
    }
}

impl WriterToken {
    /// Takes over a cache from its previous writer.
    pub(super) fn acquire(shared: &Arc<SharedCache>, mode: SyncMode) -> Self {
        let mut inner = shared.lock();
        inner.writer += 1;
        inner.mode = mode;
        Self { shared: Arc::clone(shared), number: inner.writer }
    }

    /// Takes over from this token, unless another writer has.
    pub(super) fn renew(&self, mode: SyncMode) -> Option<Self> {
        let mut inner = self.lock()?;
        inner.writer += 1;
        inner.mode = mode;
        Some(Self { shared: Arc::clone(&self.shared), number: inner.writer })
    }

    /// The state, unless another writer has taken over.
    fn lock(&self) -> Option<MutexGuard<'_, Inner>> {
        Some(self.shared.lock()).filter(|inner| inner.writer == self.number)
    }

    /// Which cache it is.
    pub(super) fn key(&self) -> &CacheKey {
        &self.shared.key
    }

    /// Wakes the reflector while it backs off.
    pub(super) fn retry(&self) -> &Notify {
        &self.shared.retry
    }

    /// Changes the store and emits the events.
    pub(super) fn change<C: IntoIterator<Item = Change>>(&self, change: impl FnOnce(&mut Store) -> C) {
        if let Some(mut inner) = self.lock() {
            self.shared.change_inner(&mut inner, change);
        }
    }

    /// Splits listed objects into those that are cached in the same version, and the others.
    pub(super) fn compare(&self, listed: Vec<ObjectVersion>) -> (Vec<NamespacedName>, Vec<ObjectVersion>) {
        self.shared.compare(listed)
    }

    /// Reads the store.
    pub(super) fn read<T>(&self, read: impl FnOnce(&Store) -> T) -> T {
        read(&self.shared.lock().store)
    }

    /// The load of the cluster.
    pub(super) fn load(&self) -> &ClusterLoad {
        &self.shared.load
    }

    /// Drops the content of the cache. It is not live until a list fits.
    pub(super) fn forget(&self) {
        if let Some(mut inner) = self.lock() {
            inner.store.forget();
            inner.forgotten = true;
            self.shared.account(&mut inner);
        }
    }

    /// Whether the objects have to be listed again.
    pub(super) fn relist(&self) -> &Relist {
        &self.shared.relist
    }

    /// Called before the requests of a poll are sent.
    pub(super) fn begin_poll(&self) {
        if let Some(mut inner) = self.lock() {
            self.shared.relist.begin();
            inner.store.request_list();
            inner.store.begin_poll();
        }
    }

    /// Called when a list begins.
    pub(super) fn listing(&self) {
        let Some(mut inner) = self.lock() else { return };
        self.shared.relist.begin();
        inner.store.request_list();
        if inner.failure.is_none() {
            inner.enter(CachePhase::Listing);
        }
    }

    /// Ends a list. Returns whether what was cached before could be wrong in ways that no event shows.
    fn end_list(&self, inner: &mut Inner) -> bool {
        let rolled_back = inner.store.is_rolled_back();
        if rolled_back {
            tracing::warn!(cache = %self.key(), "listed again: the cluster was restored from an older state");
        }
        let changes = inner.store.end_list();
        self.shared.account(inner);
        for change in changes {
            self.shared.emit(inner, change);
        }
        let forgotten = std::mem::take(&mut inner.forgotten);
        self.shared.relist.end() || rolled_back || forgotten
    }

    /// Called when the last page of a list has been stored. Emits `Synced`, unless the cache was in sync before.
    pub(super) fn synced(&self, is_news: bool) {
        let Some(mut inner) = self.lock() else { return };
        let relisted = self.end_list(&mut inner);
        inner.lists += 1;
        inner.listed_by = self.number;
        let had_failed = inner.failure.take().is_some();
        inner.enter(CachePhase::Live);
        if is_news || had_failed {
            self.shared.emit(&mut inner, Change::Synced);
        }
        if relisted {
            self.shared.emit(&mut inner, Change::Relisted);
        }
        drop(inner);
        self.shared.synced.notify_waiters();
    }

    /// Stores the result of a poll. Emits what a watch would: `Synced` the first time, `Resumed` after a failure.
    pub(super) fn polled(&self, result: PollResult) {
        let PollResult { version, unchanged, changed, dropped } = result;
        let Some(mut inner) = self.lock() else { return };
        let first = !inner.store.has_synced();
        if inner.failure.take().is_some() && !first {
            self.shared.emit(&mut inner, Change::Resumed);
        }
        inner.store.begin_list(version.parse().ok());
        self.report_dropped(&inner, dropped);
        inner.store.drop_listed(dropped);
        for name in unchanged {
            inner.store.seen(name);
        }
        for object in changed {
            if let Some(change) = inner.store.listed(object) {
                self.shared.emit(&mut inner, change);
            }
        }
        let relisted = self.end_list(&mut inner);
        inner.lists += 1;
        inner.listed_by = self.number;
        inner.enter(CachePhase::Live);
        if first {
            self.shared.emit(&mut inner, Change::Synced);
        }
        if relisted {
            self.shared.emit(&mut inner, Change::Relisted);
        }
        drop(inner);
        self.shared.synced.notify_waiters();
    }

    /// Objects of the list have no readable names.
    pub(super) fn dropped(&self, dropped: usize) {
        if dropped == 0 {
            return;
        }
        let Some(mut inner) = self.lock() else { return };
        self.report_dropped(&inner, dropped);
        inner.store.drop_listed(dropped);
    }

    /// Logs how many objects have no readable names, once as long as there are some.
    fn report_dropped(&self, inner: &Inner, dropped: usize) {
        if dropped > 0 && inner.store.dropped() == 0 {
            let cache = &self.shared.key;
            tracing::warn!(%cache, dropped, "skipped objects of a list whose names cannot be read");
        }
    }

    pub(super) fn set_mode(&self, mode: SyncMode) {
        if let Some(mut inner) = self.lock() {
            inner.mode = mode;
        }
    }

    /// Called when a watch is open.
    pub(super) fn live(&self) {
        let Some(mut inner) = self.lock() else { return };
        inner.opened += 1;
        inner.enter(CachePhase::Live);
        if inner.failure.take().is_some() {
            self.shared.emit(&mut inner, Change::Resumed);
        }
    }

    /// Called when the reflector fails. Emits one event per reason.
    pub(super) fn failed(&self, error: &ApiError) {
        let Some(mut inner) = self.lock() else { return };
        let known = inner.failure.as_ref().map(ApiError::reason) == Some(error.reason());
        inner.failure = Some(error.clone());
        inner.enter(CachePhase::Failed);
        if !known {
            self.shared.emit(&mut inner, Change::Failed { error: error.clone() });
        }
        drop(inner);
        self.shared.synced.notify_waiters();
    }
}

impl Drop for SharedCache {
    fn drop(&mut self) {
        self.load.resize(self.inner.get_mut().bytes, 0);
    }
}

impl Inner {
    fn enter(&mut self, phase: CachePhase) {
        if self.phase != phase {
            self.phase = phase;
            self.since = Instant::now();
        }
    }

    /// Whether an object that is not cached does not exist. A short interruption does not matter, since the API server
    /// is asked again before anything irreversible. A kind that we may not read, or that is no longer served, does.
    fn is_authoritative(&self) -> bool {
        self.store.has_synced() && !self.is_refused()
    }

    /// Whether the API server refuses the objects, or does not serve them.
    fn is_refused(&self) -> bool {
        self.failure.as_ref().is_some_and(|error| {
            matches!(
                error.reason(),
                FailureReason::Forbidden | FailureReason::NotFound | FailureReason::Unauthorized
            )
        })
    }

    fn is_complete(&self) -> bool {
        self.is_authoritative() && self.store.unreadable() == 0
    }

    /// The failure to read objects of the last list whose names cannot be read, if there are any.
    fn nameless_objects(&self, key: &CacheKey) -> Option<ApiError> {
        let dropped = self.store.dropped();
        let attempt = || {
            let (cluster, operation) = (key.cluster.clone(), Operation::Get);
            Attempt { cluster, operation, target: format!("{} ({})", key.kind, key.selection) }
        };
        (dropped > 0).then(|| ApiError::new(attempt(), FailureReason::ServerError, &nameless(dropped)))
    }

    /// The failure to read one of these objects, if there is one that cannot be read.
    fn unreadable_object<'a>(
        &self,
        key: &CacheKey,
        objects: impl IntoIterator<Item = &'a Arc<StoredObject>>,
    ) -> Option<ApiError> {
        if !self.store.has_synced() {
            return None;
        }
        let (object, error) = objects.into_iter().find_map(|object| Some((object, object.unreadable()?)))?;
        let target = match object.namespace() {
            Some(namespace) => format!("{} `{namespace}/{}`", key.kind, object.name()),
            None => format!("{} `{}`", key.kind, object.name()),
        };
        let attempt = Attempt { cluster: key.cluster.clone(), operation: Operation::Get, target };
        Some(ApiError::unreadable(attempt, error))
    }
}

#[cfg(test)]
mod tests;
