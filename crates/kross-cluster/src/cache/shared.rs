//! One watch as its users see it: the copy, its state, and those who want to know about it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kross_api::{FailureReason, SyncMode};
use kross_value::{Text, Value};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use super::metadata::ObjectVersion;
use super::poll::PollResult;
use super::store::{Lookup, NamespacedName, Store};
use super::{CacheEvent, CacheKey, CacheOptions, CacheRegistry, Change, Subscribers};
use crate::error::ApiError;
use crate::object::StoredObject;

/// What a watch is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CachePhase {
    /// Reading the list.
    Listing,
    /// Following changes.
    Live,
    /// Waiting to try again after a failure.
    Failed,
}

/// A watch as a page shows it.
#[derive(Clone, Debug)]
pub struct CacheState {
    /// What it is about.
    pub key: Arc<CacheKey>,
    /// Whether it watches or polls.
    pub mode: SyncMode,
    /// What it is doing.
    pub phase: CachePhase,
    /// For how long.
    pub since: Duration,
    /// Why it does not follow, if so.
    pub failure: Option<ApiError>,
    /// Whether its copy was complete at some time.
    pub synced: bool,
    /// How many objects it has.
    pub objects: usize,
    /// How many hold it.
    pub users: usize,
    /// How many lists it has read; for a poll, how often it has looked.
    pub lists: u64,
    /// How often a watch was opened.
    pub opened: u64,
}

/// The right to say what happens to a copy. Whoever takes it over next has it: one that is told to stop may still be in the
/// middle of something, and is not listened to any more.
pub(super) struct WriterToken {
    shared: Arc<SharedCache>,
    number: u64,
}

pub(super) struct SharedCache {
    pub(super) key: Arc<CacheKey>,
    /// Ends a wait after a failure.
    pub(super) retry: Notify,
    synced: Notify,
    inner: Mutex<Inner>,
    all_subscribers: Arc<Subscribers>,
}

struct Inner {
    store: Store,
    /// The seat that counts.
    writer: u64,
    mode: SyncMode,
    phase: CachePhase,
    since: Instant,
    failure: Option<ApiError>,
    lists: u64,
    opened: u64,
    subscribers: Vec<mpsc::UnboundedSender<CacheEvent>>,
}

impl SharedCache {
    pub(super) fn new(key: CacheKey, options: &CacheOptions, all_subscribers: Arc<Subscribers>) -> Self {
        Self {
            key: Arc::new(key),
            retry: Notify::new(),
            synced: Notify::new(),
            inner: Mutex::new(Inner {
                store: Store::new(options.indexed_labels.clone()),
                writer: 0,
                mode: SyncMode::Watch,
                phase: CachePhase::Listing,
                since: Instant::now(),
                failure: None,
                lists: 0,
                opened: 0,
                subscribers: Vec::new(),
            }),
            all_subscribers,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    /// Changes the copy and tells everybody, in one step: what subscribers hear and what readers see never disagree.
    fn change<C: IntoIterator<Item = Change>>(&self, change: impl FnOnce(&mut Store) -> C) {
        self.change_inner(&mut self.lock(), change);
    }

    fn change_inner<C>(&self, inner: &mut Inner, change: impl FnOnce(&mut Store) -> C)
    where
        C: IntoIterator<Item = Change>,
    {
        let changes = change(&mut inner.store);
        for change in changes {
            self.emit(inner, change);
        }
    }

    fn emit(&self, inner: &mut Inner, change: Change) {
        let event = CacheEvent { cache: Arc::clone(&self.key), change };
        inner.subscribers.retain(|subscriber| subscriber.send(event.clone()).is_ok());
        self.all_subscribers.send(&event);
    }

    /// What of a list is as it is known, and what is not.
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
            // Whoever hung up meanwhile does not want to know.
            let _ = subscriber.send(CacheEvent { cache: Arc::clone(&self.key), change });
        }
    }

    pub(super) fn get(&self, namespace: Option<&str>, name: &str) -> Lookup {
        let inner = self.lock();
        match inner.store.get(namespace, name) {
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
            users,
            lists: inner.lists,
            opened: inner.opened,
        }
    }
}

impl WriterToken {
    /// Takes a copy over.
    pub(super) fn acquire(shared: &Arc<SharedCache>, mode: SyncMode) -> Self {
        let mut inner = shared.lock();
        inner.writer += 1;
        inner.mode = mode;
        Self { shared: Arc::clone(shared), number: inner.writer }
    }

    /// The state, as long as nobody else has taken over.
    fn lock(&self) -> Option<MutexGuard<'_, Inner>> {
        Some(self.shared.lock()).filter(|inner| inner.writer == self.number)
    }

    /// What it is about.
    pub(super) fn key(&self) -> &CacheKey {
        &self.shared.key
    }

    /// Ends a wait after a failure.
    pub(super) fn retry(&self) -> &Notify {
        &self.shared.retry
    }

    /// Changes the copy and tells everybody.
    pub(super) fn change<C: IntoIterator<Item = Change>>(&self, change: impl FnOnce(&mut Store) -> C) {
        if let Some(mut inner) = self.lock() {
            self.shared.change_inner(&mut inner, change);
        }
    }

    /// What of a list is as it is known, and what is not.
    pub(super) fn compare(&self, listed: Vec<ObjectVersion>) -> (Vec<NamespacedName>, Vec<ObjectVersion>) {
        self.shared.compare(listed)
    }

    pub(super) fn has_synced(&self) -> bool {
        self.shared.has_synced()
    }

    /// A look at the cluster begins.
    pub(super) fn begin_poll(&self) {
        if let Some(mut inner) = self.lock() {
            inner.store.begin_poll();
        }
    }

    /// A list begins.
    pub(super) fn listing(&self) {
        let Some(mut inner) = self.lock() else { return };
        if inner.failure.is_none() {
            inner.enter(CachePhase::Listing);
        }
    }

    /// A list was read to its end.
    pub(super) fn synced(&self) {
        let Some(mut inner) = self.lock() else { return };
        let gone = inner.store.end_list();
        for change in gone {
            self.shared.emit(&mut inner, change);
        }
        inner.lists += 1;
        inner.failure = None;
        inner.enter(CachePhase::Live);
        self.shared.emit(&mut inner, Change::Synced);
        drop(inner);
        self.shared.synced.notify_waiters();
    }

    /// A poll is at its end. Told as a watch would: `Synced` when the copy becomes complete, `Resumed` after a failure.
    pub(super) fn polled(&self, found: PollResult) {
        let PollResult { version, unchanged, changed } = found;
        let Some(mut inner) = self.lock() else { return };
        let first = !inner.store.has_synced();
        if inner.failure.take().is_some() && !first {
            self.shared.emit(&mut inner, Change::Resumed);
        }
        inner.store.begin_list(version.parse().ok());
        for name in unchanged {
            inner.store.seen(name);
        }
        for object in changed {
            if let Some(change) = inner.store.listed(object) {
                self.shared.emit(&mut inner, change);
            }
        }
        let gone = inner.store.end_list();
        for change in gone {
            self.shared.emit(&mut inner, change);
        }
        inner.lists += 1;
        inner.enter(CachePhase::Live);
        if first {
            self.shared.emit(&mut inner, Change::Synced);
        }
        drop(inner);
        self.shared.synced.notify_waiters();
    }

    pub(super) fn set_mode(&self, mode: SyncMode) {
        if let Some(mut inner) = self.lock() {
            inner.mode = mode;
        }
    }

    /// The watch is open.
    pub(super) fn live(&self) {
        let Some(mut inner) = self.lock() else { return };
        inner.opened += 1;
        inner.enter(CachePhase::Live);
        if inner.failure.take().is_some() {
            self.shared.emit(&mut inner, Change::Resumed);
        }
    }

    /// It does not follow any more. Told once per reason.
    pub(super) fn failed(&self, error: &ApiError) {
        let Some(mut inner) = self.lock() else { return };
        let known = inner.failure.as_ref().map(ApiError::reason) == Some(error.reason());
        inner.failure = Some(error.clone());
        inner.enter(CachePhase::Failed);
        if !known {
            self.shared.emit(&mut inner, Change::Failed { error: error.clone() });
        }
    }
}

impl Inner {
    fn enter(&mut self, phase: CachePhase) {
        if self.phase != phase {
            self.phase = phase;
            self.since = Instant::now();
        }
    }

    /// Whether what is not in the copy is not there. A short interruption does not matter: the cluster is asked again
    /// before anything is decided for good. A kind that we may not read, or that is gone, does.
    fn is_authoritative(&self) -> bool {
        let blind = self.failure.as_ref().is_some_and(|error| {
            matches!(
                error.reason(),
                FailureReason::Forbidden | FailureReason::NotFound | FailureReason::Unauthorized
            )
        });
        self.store.has_synced() && !blind
    }
}

/// A hold on a watch, and the way to read its copy. The watch runs as long as somebody has one.
pub struct Cache {
    shared: Arc<SharedCache>,
    registry: Arc<CacheRegistry>,
}

impl Cache {
    pub(super) fn new(shared: Arc<SharedCache>, registry: Arc<CacheRegistry>) -> Self {
        Self { shared, registry }
    }

    /// What it is about.
    #[must_use]
    pub fn key(&self) -> &Arc<CacheKey> {
        &self.shared.key
    }

    /// An object of the copy.
    #[must_use]
    pub fn get(&self, namespace: Option<&str>, name: &str) -> Lookup {
        self.shared.get(namespace, name)
    }

    /// All objects of the copy, or nothing if it cannot tell.
    #[must_use]
    pub fn list(&self) -> Option<Vec<Arc<StoredObject>>> {
        let inner = self.shared.lock();
        inner.is_authoritative().then(|| inner.store.iter().cloned().collect())
    }

    /// The objects that the copy knows, also where it cannot tell whether that is all.
    #[must_use]
    pub fn known(&self) -> Vec<Arc<StoredObject>> {
        self.shared.lock().store.iter().cloned().collect()
    }

    /// The objects of the copy with a value of a label, or nothing if it cannot tell.
    #[must_use]
    pub fn list_by_label(&self, label: &str, value: &str) -> Option<Vec<Arc<StoredObject>>> {
        let inner = self.shared.lock();
        inner.is_authoritative().then(|| inner.store.by_label(label, value))
    }

    /// The objects with a value of a label that the copy knows, also where it cannot tell any more whether that is all.
    #[must_use]
    pub fn known_by_label(&self, label: &str, value: &str) -> Vec<Arc<StoredObject>> {
        self.shared.lock().store.by_label(label, value)
    }

    /// Whether what is not in the copy is not there.
    #[must_use]
    pub fn is_authoritative(&self) -> bool {
        self.shared.lock().is_authoritative()
    }

    /// Why the copy does not follow at the moment, if so.
    #[must_use]
    pub fn failure(&self) -> Option<ApiError> {
        self.shared.lock().failure.clone()
    }

    /// Adds what a write of ours returned, so that it is known before the cluster tells. Does nothing if the copy knows
    /// something later, or if the object is of another kind than the watch: no event would ever take it out again.
    pub fn observe(&self, written: &StoredObject) {
        let CacheKey { group, kind, selection, .. } = &*self.shared.key;
        let of_kind = *group == *written.group() && *kind == *written.kind();
        if of_kind && selection.selects(written) {
            self.shared.change(|store| store.observed(written));
        }
    }

    /// Whether it tells when this object goes: it follows, and has it.
    #[must_use]
    pub fn will_report_deletion_of(&self, namespace: Option<&str>, name: &str, uid: &Text) -> bool {
        self.is_live() && matches!(self.get(namespace, name), Lookup::Found(found) if found.uid() == uid)
    }

    /// Takes out what a delete of ours found gone, where the next look would be the first to tell. A watch tells soon enough,
    /// and in order.
    pub fn observe_deleted(&self, deleted: &StoredObject) {
        if self.mode() == SyncMode::Poll {
            self.shared.change(|store| store.observed_deleted(deleted));
        }
    }

    /// Whether it watches or polls: a watch on another cluster polls while there is no room for it.
    #[must_use]
    pub fn mode(&self) -> SyncMode {
        self.shared.lock().mode
    }

    /// Keeps only this much of an object, if the copy still has this version of it: for objects that are large, and of which
    /// little is needed once they were looked at. Nobody is told.
    pub fn trim(&self, object: &StoredObject, value: Value) {
        self.shared.lock().store.trim(object, value);
    }

    /// What happens to this watch, what it knows already first. Read it without doing anything slow.
    #[must_use]
    pub fn subscribe(&self) -> mpsc::UnboundedReceiver<CacheEvent> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut inner = self.shared.lock();
        self.shared.replay_inner(&inner, &sender);
        inner.subscribers.push(sender);
        receiver
    }

    /// Whether the copy was complete at some time.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.shared.has_synced()
    }

    /// Whether changes arrive at this moment, so that there is no need to look for them.
    #[must_use]
    pub fn is_live(&self) -> bool {
        let inner = self.shared.lock();
        inner.phase == CachePhase::Live && inner.store.has_synced()
    }

    /// Returns when the copy is complete. For start-up and tests: a reconcile must not wait.
    pub async fn wait_for_sync(&self) {
        loop {
            let changed = self.shared.synced.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.has_synced() {
                return;
            }
            changed.await;
        }
    }
}

impl Clone for Cache {
    fn clone(&self) -> Self {
        self.registry.join(&self.shared.key);
        Self { shared: Arc::clone(&self.shared), registry: Arc::clone(&self.registry) }
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.registry.leave(&self.shared.key);
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Watch({})", self.shared.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::{Selection, SyncPolicy};
    use crate::object::{ClusterId, read_object};

    fn shared() -> Arc<SharedCache> {
        let key = CacheKey {
            cluster: ClusterId::new("eu"),
            access: "one".into(),
            group: "".into(),
            kind: "ConfigMap".into(),
            version: "v1".into(),
            selection: Selection::All,
            sync: SyncPolicy::Watch,
        };
        Arc::new(SharedCache::new(key, &CacheOptions::default(), Arc::default()))
    }

    fn list(writer: &WriterToken, version: u64, names: &[&str]) {
        writer.change(|store| {
            store.begin_list(Some(version));
            let object = |name: &&str| {
                let text = format!(
                    r#"{{"metadata":{{"name":"{name}","namespace":"shop","uid":"{name}","resourceVersion":"1"}}}}"#
                );
                read_object(text.as_bytes()).unwrap()
            };
            names.iter().filter_map(|name| store.listed(object(name))).collect::<Vec<_>>()
        });
    }

    #[test]
    fn one_that_was_told_to_stop_in_the_middle_of_something_is_not_listened_to_any_more() {
        let shared = shared();
        let first = WriterToken::acquire(&shared, SyncMode::Watch);
        list(&first, 5, &["a", "b"]);
        let second = WriterToken::acquire(&shared, SyncMode::Watch);
        // The first half of its list.
        list(&second, 7, &["a"]);
        // The end of a list that is not the one that was begun last: nothing is gone, and nothing is complete.
        first.synced();
        assert!(!shared.has_synced());
        assert!(matches!(shared.get(Some("shop"), "b"), Lookup::Found(_)));
        let state = || shared.state(1);
        first.live();
        assert_eq!((state().opened, state().phase), (0, CachePhase::Listing));
        second.synced();
        assert!(matches!(shared.get(Some("shop"), "b"), Lookup::Absent));
        assert_eq!((state().lists, state().phase), (1, CachePhase::Live));
    }
}
