//! Caches of Kubernetes objects: one list and one watch per cluster, kind and selection, shared by everyone who needs
//! those objects. Where a watch is not wanted, or the budget for watches is used up, a poll keeps the cache in sync.
//!
//! This is not `kube::runtime`: its shared reflectors do not support dynamic kinds, do not dispatch deletions and
//! cannot be subscribed to later; its store takes about four times the memory per object, twice that during a relist;
//! and it cannot poll.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use kross_value::Text;
use parking_lot::{Mutex, MutexGuard};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::AbortHandle;

use crate::client::ClusterClient;
use crate::discovery::ApiKind;
use crate::object::{ClusterId, ObjectKey, StoredObject};
use crate::supervisor::{Task, supervise};
use crate::workqueue::Backoff;

pub(crate) mod decoder;
mod key;
mod load;
mod metadata;
mod poll;
mod reflector;
mod relist;
mod rollback;
mod shared;
mod store;
mod sync_policy;

pub use self::shared::{Cache, CachePhase, CacheState};
pub use key::{CacheKey, Selection};
pub use store::Lookup;
pub use sync_policy::SyncPolicy;

use self::load::{ClusterLoad, PendingEvent};
use self::reflector::Reflector;
use self::shared::{SharedCache, WriterToken};
use self::sync_policy::{SyncMethod, WatchBudget};

/// How caches are shared and kept in sync.
#[derive(Clone, Debug)]
pub struct CacheOptions {
    /// How long a cache outlives its last user, since the next one often follows soon.
    pub grace: Duration,
    /// Labels that objects are indexed by.
    pub indexed_labels: Vec<&'static str>,
    /// How many lists may run at once in one cluster with one credential.
    pub max_concurrent_lists: usize,
    /// How many watches may be open in remote clusters. A cache beyond that polls until a watch is available.
    pub budget: usize,
    /// How many bytes of each remote cluster may be cached, as they were received; none for no limit. The caches of a cluster
    /// that exceed it are not live.
    pub max_cluster_bytes: Option<usize>,
    /// The interval of a poll that stands in for a watch.
    pub fallback_interval: Duration,
    /// The maximum random delay added to that interval.
    pub fallback_jitter: Duration,
    /// How often a cache with a watch lists its objects again, should the watch have missed something; none for never.
    /// Each cache adds up to a tenth of it at random, so that not all of them list at once.
    pub resync_period: Option<Duration>,
    /// The backoff of a reflector after a failure that may pass.
    pub backoff: Backoff,
    /// The backoff after a failure that persists until something changes, such as permissions or CustomResourceDefinitions.
    pub persistent_backoff: Backoff,
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self {
            grace: Duration::from_secs(10),
            indexed_labels: vec![kross_api::labels::INSTANCE_ID, kross_api::labels::APPLYSET_PART_OF],
            max_concurrent_lists: 16,
            budget: 20_000,
            max_cluster_bytes: Some(256 << 20),
            fallback_interval: Duration::from_secs(30),
            fallback_jitter: Duration::from_secs(10),
            resync_period: Some(Duration::from_secs(10 * 60 * 60)),
            backoff: Backoff { base: Duration::from_millis(100), cap: Duration::from_secs(30) },
            persistent_backoff: Backoff { base: Duration::from_millis(200), cap: Duration::from_secs(60) },
        }
    }
}

/// An event of a cache: an object changed, or the state of the cache did.
#[derive(Clone, Debug)]
pub struct CacheEvent {
    /// The cache.
    pub cache: Arc<CacheKey>,
    /// What changed.
    pub change: Change,
    /// Counts as pending until the event is dropped.
    _pending: PendingEvent,
}

/// What changed in a cache.
#[derive(Clone, Debug)]
pub enum Change {
    /// An object was added or changed.
    Applied {
        /// The previous version, if it was cached.
        old: Option<Arc<StoredObject>>,
        /// The current version.
        new: Arc<StoredObject>,
        /// Whether it is cached because we wrote it ([`Cache::observe`]), before the API server reported it.
        ours: bool,
    },
    /// An object was deleted, or no longer matches the selection of the cache.
    Deleted {
        /// The last version.
        old: Arc<StoredObject>,
    },
    /// The cache has synced: it holds every object of the selection.
    Synced,
    /// The cache is no longer kept in sync. Sent once per reason; the reflector keeps retrying.
    Failed {
        /// Why.
        error: crate::ApiError,
    },
    /// The cache is in sync again; events for what it missed follow.
    Resumed,
    /// The objects were listed again because the cached ones could be wrong in ways that no event shows: the schema of the
    /// kind has changed, or the cluster was restored from an older state. What depends on the cache has to be checked again.
    Relisted,
}

/// The caches of a process. Clones share them.
///
/// ```no_run
/// # async fn example(client: kross_cluster::ClusterClient) -> Result<(), kross_cluster::ApiError> {
/// use kross_cluster::{CacheOptions, Caches, Lookup, Selection};
///
/// let caches = Caches::new(CacheOptions::default());
/// let mut events = caches.subscribe();
/// let kind = client.kind("apps", Some("v1"), "Deployment").await?;
/// let deployments = caches.watch(&client, &kind, Selection::Managed);
/// while let Some(event) = events.recv().await {
///     if let Lookup::Found(web) = deployments.get(Some("shop"), "web") {
///         println!("{:?} {}", event.change, web.resource_version());
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Caches {
    registry: Arc<CacheRegistry>,
}

/// The caches by key.
///
/// Lock order: `entries`, then either `lists`, `loads` or the state of one [`SharedCache`], then `subscribers`. No lock is held across
/// an await or while something that locks is dropped, and nobody is called back under a lock, so callers may hold locks of
/// their own.
pub(crate) struct CacheRegistry {
    options: CacheOptions,
    runtime: Handle,
    budget: WatchBudget,
    /// Per cluster and credential, so that lists in a cluster that does not respond do not delay others. The credential counts
    /// because its kubeconfig also names the way to the cluster, which may be slow.
    lists: Mutex<HashMap<(ClusterId, Text), Weak<Semaphore>>>,
    /// Per cluster.
    loads: Mutex<HashMap<ClusterId, Weak<ClusterLoad>>>,
    entries: Mutex<HashMap<KindKey, Vec<CacheEntry>>>,
    subscribers: Arc<Subscribers>,
}

/// All caches of one kind in one cluster, whatever they select.
type KindKey = (ClusterId, Text, Text);

struct CacheEntry {
    shared: Arc<SharedCache>,
    /// The connection that fills the cache. It is pinned to one credential: all users of the cache have that
    /// credential, whatever their Secrets contain later.
    client: ClusterClient,
    kind: Arc<ApiKind>,
    users: usize,
    /// How often a user was added, so that the delayed eviction can tell whether the cache was used in the meantime.
    acquisitions: u64,
    task: AbortHandle,
}

impl Drop for CacheEntry {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Caches {
    /// No caches yet. Reflectors run on the current runtime.
    #[must_use]
    pub fn new(options: CacheOptions) -> Self {
        Self {
            registry: Arc::new(CacheRegistry {
                budget: WatchBudget::new(&options),
                options,
                runtime: Handle::current(),
                lists: Mutex::default(),
                loads: Mutex::default(),
                entries: Mutex::default(),
                subscribers: Arc::default(),
            }),
        }
    }

    /// A cache of the selected objects of a kind, filled by a watch: the existing one, or a new one. Returns without
    /// waiting for it to sync. The watch runs as long as somebody holds the cache.
    #[must_use]
    pub fn watch(&self, client: &ClusterClient, kind: &Arc<ApiKind>, selection: Selection) -> Cache {
        self.cache_with(client, kind, selection, SyncPolicy::Watch)
    }

    /// Like [`Caches::watch`], filled by a watch or by polls. Both emit the same events, polls somewhat later.
    #[must_use]
    pub fn cache_with(
        &self,
        client: &ClusterClient,
        kind: &Arc<ApiKind>,
        selection: Selection,
        sync: SyncPolicy,
    ) -> Cache {
        let key = CacheKey {
            cluster: client.cluster().clone(),
            access: client.access().clone(),
            group: kind.group.clone(),
            version: kind.version.clone(),
            kind: kind.kind.clone(),
            selection,
            sync,
        };
        let registry = &self.registry;
        let mut entries = registry.lock();
        let of_kind = entries.entry(key.kind_key()).or_default();
        let known = of_kind.iter_mut().find(|entry| *entry.shared.key == key);
        let (shared, replaced) = if let Some(entry) = known {
            entry.users += 1;
            entry.acquisitions += 1;
            let outdated = !key.access.is_empty() && client.is_newer_than(&entry.client);
            let replaced = outdated.then(|| {
                // The credential is in use again after its previous connection was closed.
                let method = registry.budget.method(&key.cluster, sync);
                entry.task.abort();
                entry.task = registry.spawn(&entry.shared, client, kind, method);
                std::mem::replace(&mut entry.client, client.pinned())
            });
            (Arc::clone(&entry.shared), replaced)
        } else {
            let method = registry.budget.method(&key.cluster, sync);
            let all_subscribers = Arc::clone(&registry.subscribers);
            let load = registry.load_of(&key.cluster);
            let shared = Arc::new(SharedCache::new(key, &registry.options, all_subscribers, load));
            let task = registry.spawn(&shared, client, kind, method);
            of_kind.push(CacheEntry {
                shared: Arc::clone(&shared),
                client: client.pinned(),
                kind: Arc::clone(kind),
                users: 1,
                acquisitions: 1,
                task,
            });
            (shared, None)
        };
        drop(entries);
        // Outside the lock: this may close the sockets of the previous connection.
        drop(replaced);
        Cache::new(shared, Arc::clone(registry))
    }

    /// Events of all caches, beginning with their current content. Events that are not received yet are kept in memory,
    /// so receive them without blocking.
    #[must_use]
    pub fn subscribe(&self) -> mpsc::UnboundedReceiver<CacheEvent> {
        let (sender, receiver) = mpsc::unbounded_channel();
        // Subscribe before replaying: an event may arrive twice, but none is missed.
        self.registry.subscribers.add(sender.clone());
        for shared in self.registry.shared_caches() {
            shared.replay(&sender);
        }
        receiver
    }

    /// Looks an object up in all caches that were filled with the credential of this client.
    #[must_use]
    pub fn find(&self, client: &ClusterClient, object: &ObjectKey) -> Lookup {
        let kind = (object.cluster.clone(), object.group.clone(), object.kind.clone());
        let entries = self.registry.lock();
        let mut lookup = Lookup::Unknown;
        let caches = entries.get(&kind).into_iter().flatten();
        for entry in caches.filter(|entry| entry.shared.key.access == *client.access()) {
            match entry.shared.get(object.namespace.as_deref(), &object.name) {
                found @ Lookup::Found(_) => return found,
                // Only a cache whose selection includes the object can tell that it does not exist.
                Lookup::Absent if entry.shared.key.selection.covers(object) => lookup = Lookup::Absent,
                Lookup::Absent | Lookup::Unknown => {}
            }
        }
        lookup
    }

    /// Wakes the reflectors of a kind that back off after a failure, for example because its CustomResourceDefinition
    /// was created.
    pub fn retry(&self, cluster: &ClusterId, group: &str, kind: &str) {
        let entries = self.registry.lock();
        for entry in entries.get(&(cluster.clone(), group.into(), kind.into())).into_iter().flatten() {
            entry.shared.retry.notify_one();
        }
    }

    /// Lists the objects of a kind again, because its CustomResourceDefinition has changed.
    pub fn schema_changed(&self, cluster: &ClusterId, group: &str, kind: &str) {
        let entries = self.registry.lock();
        for entry in entries.get(&(cluster.clone(), group.into(), kind.into())).into_iter().flatten() {
            entry.shared.relist.schema_changed();
        }
    }

    /// Wakes the reflectors of a cluster that back off after a failure, for example because the cluster is reachable
    /// again.
    pub fn retry_cluster(&self, cluster: &ClusterId) {
        let entries = self.registry.lock();
        let of_cluster = entries.iter().filter(|((known, _, _), _)| known == cluster);
        for entry in of_cluster.flat_map(|(_, entries)| entries) {
            entry.shared.retry.notify_one();
        }
    }

    /// The state of every cache, ordered by key.
    #[must_use]
    pub fn states(&self) -> Vec<CacheState> {
        let entries = self.registry.lock();
        let mut states: Vec<CacheState> =
            entries.values().flatten().map(|entry| entry.shared.state(entry.users)).collect();
        states.sort_by(|a, b| a.key.cmp(&b.key));
        states
    }
}

impl CacheRegistry {
    fn lock(&self) -> MutexGuard<'_, HashMap<KindKey, Vec<CacheEntry>>> {
        self.entries.lock()
    }

    /// Starts the reflector of a cache, which takes over from a previous one.
    fn spawn(
        &self,
        shared: &Arc<SharedCache>,
        client: &ClusterClient,
        kind: &Arc<ApiKind>,
        method: SyncMethod,
    ) -> AbortHandle {
        let lists = self.lists_of(&shared.key);
        let (client, kind) = (client.pinned(), Arc::clone(kind));
        let (options, budget) = (self.options.clone(), self.budget.clone());
        let writer = WriterToken::acquire(shared, method.mode());
        let mut first = Some(method);
        let current = Arc::new(Mutex::new(writer));
        let failed = Arc::clone(&current);
        let start = move || {
            let mut current = current.lock();
            let method = first.take().or_else(|| {
                // It panicked: a new one takes over, with a new list, unless another one has already.
                let CacheKey { cluster, sync, .. } = current.key();
                let method = budget.method(cluster, *sync);
                *current = current.renew(method.mode())?;
                Some(method)
            });
            let reflector = Reflector::new(
                current.clone(),
                client.clone(),
                Arc::clone(&kind),
                Arc::clone(&lists),
                &options,
            );
            async move {
                if let Some(method) = method {
                    reflector.run(method).await;
                }
            }
        };
        let supervised = supervise(Task::Cache, start, move || failed.lock().panicked());
        self.runtime.spawn(supervised).abort_handle()
    }

    /// Starts the reflector of a cache again, with a list. Nothing that the previous one still receives is stored.
    fn restart(&self, key: &CacheKey) {
        let mut entries = self.lock();
        if let Some(entry) = find(&mut entries, key) {
            entry.task.abort();
            let method = self.budget.method(&key.cluster, key.sync);
            entry.task = self.spawn(&entry.shared, &entry.client, &entry.kind, method);
        }
    }

    /// The semaphore that limits the lists of a cluster with one credential.
    fn lists_of(&self, cache: &CacheKey) -> Arc<Semaphore> {
        let key = (cache.cluster.clone(), cache.access.clone());
        let mut lists = self.lists.lock();
        if let Some(known) = lists.get(&key).and_then(Weak::upgrade) {
            return known;
        }
        lists.retain(|_, lists| lists.strong_count() > 0);
        let new = Arc::new(Semaphore::new(self.options.max_concurrent_lists.max(1)));
        lists.insert(key, Arc::downgrade(&new));
        new
    }

    /// The load of a cluster. The local one is neither limited nor paced.
    fn load_of(&self, cluster: &ClusterId) -> Arc<ClusterLoad> {
        let mut loads = self.loads.lock();
        if let Some(known) = loads.get(cluster).and_then(Weak::upgrade) {
            return known;
        }
        loads.retain(|_, load| load.strong_count() > 0);
        let new = if cluster.is_local() {
            ClusterLoad::local()
        } else {
            ClusterLoad::remote(self.options.max_cluster_bytes)
        };
        loads.insert(cluster.clone(), Arc::downgrade(&new));
        new
    }

    fn shared_caches(&self) -> Vec<Arc<SharedCache>> {
        self.lock().values().flatten().map(|entry| Arc::clone(&entry.shared)).collect()
    }

    /// Adds a user to a cache that has at least one.
    fn acquire(&self, key: &CacheKey) {
        let mut entries = self.lock();
        if let Some(entry) = find(&mut entries, key) {
            entry.users += 1;
            entry.acquisitions += 1;
        }
    }

    /// Removes a user. A cache without users is evicted after the grace period.
    fn release(self: &Arc<Self>, key: &Arc<CacheKey>) {
        let acquisitions = {
            let mut entries = self.lock();
            let Some(entry) = find(&mut entries, key) else { return };
            entry.users = entry.users.saturating_sub(1);
            if entry.users > 0 {
                return;
            }
            entry.acquisitions
        };
        let (registry, key) = (Arc::clone(self), Arc::clone(key));
        self.runtime.spawn(async move {
            tokio::time::sleep(registry.options.grace).await;
            // Dropped here, after the lock is released: this stops the reflector and may close sockets.
            drop(registry.evict_unused(&key, acquisitions));
        });
    }

    /// Takes a cache out of the registry, unless it was used since its users were counted.
    fn evict_unused(&self, key: &CacheKey, acquisitions: u64) -> Option<CacheEntry> {
        let mut entries = self.lock();
        let kind = key.kind_key();
        let of_kind = entries.get_mut(&kind)?;
        let is_unused = |entry: &CacheEntry| entry.users == 0 && entry.acquisitions == acquisitions;
        let at = of_kind.iter().position(|entry| *entry.shared.key == *key && is_unused(entry))?;
        let evicted = of_kind.remove(at);
        if of_kind.is_empty() {
            entries.remove(&kind);
        }
        Some(evicted)
    }
}

fn find<'a>(
    entries: &'a mut HashMap<KindKey, Vec<CacheEntry>>,
    key: &CacheKey,
) -> Option<&'a mut CacheEntry> {
    entries.get_mut(&key.kind_key())?.iter_mut().find(|entry| *entry.shared.key == *key)
}

/// The subscribers to the events of all caches.
#[derive(Default)]
pub(crate) struct Subscribers(Mutex<Vec<mpsc::UnboundedSender<CacheEvent>>>);

impl Subscribers {
    fn add(&self, sender: mpsc::UnboundedSender<CacheEvent>) {
        self.0.lock().push(sender);
    }

    /// Sends an event to every subscriber, and forgets those that hung up.
    fn send(&self, event: &CacheEvent) {
        let mut subscribers = self.0.lock();
        subscribers.retain(|subscriber| subscriber.send(event.clone()).is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{ClientOptions, Credential, Transports};
    use crate::transport::Endpoint;

    /// A client of a cluster that does not respond.
    fn client() -> ClusterClient {
        let _ = crate::crypto_provider().install_default();
        let tls = rustls::ClientConfig::builder()
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        let address = http::Uri::from_static("http://127.0.0.1:1");
        let endpoint = Endpoint::new(&address, tls, None).unwrap();
        let options = ClientOptions::default();
        let transports = Transports::new(&endpoint, Credential::none(), &options);
        let limit = crate::client::RequestLimit::new(1);
        let (cluster, access) = (ClusterId::new("eu"), "one".into());
        ClusterClient::with_transports(cluster, access, transports, options, limit, None).unwrap()
    }

    #[tokio::test]
    async fn a_user_with_an_outdated_client_does_not_replace_the_newer_client_of_a_shared_cache() {
        let caches = Caches::new(CacheOptions::default());
        let kind = Arc::new(ApiKind::custom("", "v1", "ConfigMap", "configmaps", true));
        let (earlier, later) = (client(), client());
        let uses_later = |client: &ClusterClient| {
            let cache = caches.watch(client, &kind, Selection::All);
            let mut entries = caches.registry.lock();
            let entry = find(&mut entries, cache.key()).unwrap();
            !later.is_newer_than(&entry.client)
        };
        assert!(!uses_later(&earlier));
        assert!(uses_later(&later));
        assert!(uses_later(&earlier), "the newer client stays");
    }
}
