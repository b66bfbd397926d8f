//! Turns "I care about these objects" into one list and one watch per cluster, kind and selection, shared by everybody who
//! cares, and into a local copy that answers at once. Where a watch is not wanted, or has no room, polls take its place.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::AbortHandle;

use crate::client::ClusterClient;
use crate::discovery::ApiKind;
use crate::object::{ClusterId, ObjectKey, StoredObject};
use kross_value::Text;

mod decoder;
mod key;
mod metadata;
mod poll;
mod reflector;
mod shared;
mod store;
mod sync_policy;

pub use self::shared::{Cache, CachePhase, CacheState};
pub use key::{CacheKey, Selection};
pub use store::Lookup;
pub use sync_policy::SyncPolicy;

use self::shared::{SharedCache, WriterToken};
use self::sync_policy::{SyncMethod, WatchBudget};

/// How watches are shared.
#[derive(Clone, Debug)]
pub struct CacheOptions {
    /// How long a watch stays after its last user has gone. The next one often comes soon.
    pub grace: Duration,
    /// Labels by whose values objects can be listed quickly.
    pub indexed_labels: Vec<&'static str>,
    /// Lists of one cluster that run at once.
    pub lists_at_once: usize,
    /// Watches on other clusters that are open at once. What is beyond polls until there is room.
    pub budget: usize,
    /// How often something polls that has no room for a watch.
    pub fallback_interval: Duration,
    /// The most that is added to that at random.
    pub fallback_jitter: Duration,
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self {
            grace: Duration::from_secs(10),
            indexed_labels: vec![kross_api::labels::INSTANCE_ID, kross_api::labels::APPLYSET_PART_OF],
            lists_at_once: 16,
            budget: 20_000,
            fallback_interval: Duration::from_secs(30),
            fallback_jitter: Duration::from_secs(10),
        }
    }
}

/// Something that happened to a watch or to an object that it follows.
#[derive(Clone, Debug)]
pub struct CacheEvent {
    /// The watch.
    pub cache: Arc<CacheKey>,
    /// What happened.
    pub change: Change,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Change {
    /// An object is new or has changed.
    Applied {
        /// As it was before, if it was known.
        old: Option<Arc<StoredObject>>,
        /// As it is now.
        new: Arc<StoredObject>,
        /// Whether it is known because we wrote it ([`Cache::observe`]) and not because the cluster told.
        ours: bool,
    },
    /// An object is gone, or is no longer one of those that the watch is about.
    Deleted {
        /// As it was last.
        old: Arc<StoredObject>,
    },
    /// The copy is complete.
    Synced,
    /// The copy no longer follows, and why. Sent once per reason; tries go on.
    Failed {
        /// Why.
        error: crate::ApiError,
    },
    /// The copy follows again; what was missed comes now.
    Resumed,
}

/// The watches of a process. Clones share them.
///
/// ```no_run
/// # async fn example(connection: kross_cluster::ClusterClient) -> Result<(), kross_cluster::ApiError> {
/// use kross_cluster::{Lookup, Selection, CacheOptions, Caches};
///
/// let watches = Caches::new(CacheOptions::default());
/// let mut events = watches.subscribe();
/// let kind = connection.kind("apps", Some("v1"), "Deployment").await?;
/// let deployments = watches.watch(&connection, &kind, Selection::Managed);
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

pub(crate) struct CacheRegistry {
    options: CacheOptions,
    runtime: Handle,
    budget: WatchBudget,
    /// For each cluster, so that one that does not answer holds up no other.
    lists: Mutex<HashMap<ClusterId, Weak<Semaphore>>>,
    entries: Mutex<HashMap<KindKey, Vec<CacheEntry>>>,
    subscribers: Arc<Subscribers>,
}

/// All watches of one kind in one cluster, whatever they select.
type KindKey = (ClusterId, Text, Text);

struct CacheEntry {
    shared: Arc<SharedCache>,
    /// Those who share the copy came with this credential, whatever their Secrets say later.
    client: ClusterClient,
    users: usize,
    /// Counts the times that it got a user, so that a grace time can tell whether somebody came and went meanwhile.
    arrivals: u64,
    task: AbortHandle,
}

impl Drop for CacheEntry {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Caches {
    /// No watches yet. They will run on the runtime that this is called on.
    #[must_use]
    pub fn new(options: CacheOptions) -> Self {
        Self {
            registry: Arc::new(CacheRegistry {
                budget: WatchBudget::new(&options),
                options,
                runtime: Handle::current(),
                lists: Mutex::default(),
                entries: Mutex::default(),
                subscribers: Arc::default(),
            }),
        }
    }

    /// The watch on some objects of a kind: the one that runs already, or a new one. Returns at once. The watch runs as long
    /// as somebody holds it.
    #[must_use]
    pub fn watch(&self, client: &ClusterClient, kind: &Arc<ApiKind>, selection: Selection) -> Cache {
        self.cache_with(client, kind, selection, SyncPolicy::Watch)
    }

    /// Like [`Caches::watch`], by a watch or by polls. They tell the same, a poll somewhat later.
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
        let shared = if let Some(entry) = known {
            entry.users += 1;
            entry.arrivals += 1;
            if !key.access.is_empty() && client.is_newer_than(&entry.client) {
                // The way that it follows by was given up, and the same credential is in use again.
                let method = registry.budget.method(&key.cluster, sync);
                entry.task.abort();
                entry.task = registry.spawn(&entry.shared, client, kind, method);
                entry.client = client.pinned();
            }
            Arc::clone(&entry.shared)
        } else {
            let method = registry.budget.method(&key.cluster, sync);
            let all_subscribers = Arc::clone(&registry.subscribers);
            let shared = Arc::new(SharedCache::new(key, &registry.options, all_subscribers));
            let task = registry.spawn(&shared, client, kind, method);
            let client = client.pinned();
            of_kind.push(CacheEntry { shared: Arc::clone(&shared), client, users: 1, arrivals: 1, task });
            shared
        };
        drop(entries);
        Cache::new(shared, Arc::clone(registry))
    }

    /// Everything that happens to all watches, what they know already first. Read it without doing anything slow: what is
    /// not read yet is kept in memory.
    #[must_use]
    pub fn subscribe(&self) -> mpsc::UnboundedReceiver<CacheEvent> {
        let (sender, receiver) = mpsc::unbounded_channel();
        // First for what comes, then what is there: some of it may come twice, nothing is missed.
        self.registry.subscribers.add(sender.clone());
        for shared in self.registry.shared_caches() {
            shared.replay(&sender);
        }
        receiver
    }

    /// What is known about an object from whichever watch of the same credential knows it.
    #[must_use]
    pub fn find(&self, client: &ClusterClient, object: &ObjectKey) -> Lookup {
        let kind = (object.cluster.clone(), object.group.clone(), object.kind.clone());
        let entries = self.registry.lock();
        let mut answer = Lookup::Unknown;
        let watches = entries.get(&kind).into_iter().flatten();
        for entry in watches.filter(|entry| entry.shared.key.access == *client.access()) {
            match entry.shared.get(object.namespace.as_deref(), &object.name) {
                found @ Lookup::Found(_) => return found,
                // Only a watch that would see the object can say that it is not there.
                Lookup::Absent if entry.shared.key.selection.covers(object) => answer = Lookup::Absent,
                Lookup::Absent | Lookup::Unknown => {}
            }
        }
        answer
    }

    /// Makes watches of a kind that wait after a failure try again now, for instance since its definition appeared.
    pub fn retry(&self, cluster: &ClusterId, group: &str, kind: &str) {
        let entries = self.registry.lock();
        for entry in entries.get(&(cluster.clone(), group.into(), kind.into())).into_iter().flatten() {
            entry.shared.retry.notify_one();
        }
    }

    /// Makes everything of a cluster that waits after a failure try again now, for instance since it can be reached again.
    pub fn retry_cluster(&self, cluster: &ClusterId) {
        let entries = self.registry.lock();
        let of_cluster = entries.iter().filter(|((known, _, _), _)| known == cluster);
        for entry in of_cluster.flat_map(|(_, entries)| entries) {
            entry.shared.retry.notify_one();
        }
    }

    /// The state of every watch, in a stable order.
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

    /// Begins to follow.
    fn spawn(
        &self,
        shared: &Arc<SharedCache>,
        client: &ClusterClient,
        kind: &Arc<ApiKind>,
        method: SyncMethod,
    ) -> AbortHandle {
        let lists = self.lists_of(&shared.key.cluster);
        let (client, kind) = (client.pinned(), Arc::clone(kind));
        let writer = WriterToken::acquire(shared, method.mode());
        let reflector = reflector::run(writer, client, kind, lists, method);
        self.runtime.spawn(reflector).abort_handle()
    }

    /// What bounds the lists of a cluster.
    fn lists_of(&self, cluster: &ClusterId) -> Arc<Semaphore> {
        let mut lists = self.lists.lock();
        if let Some(known) = lists.get(cluster).and_then(Weak::upgrade) {
            return known;
        }
        lists.retain(|_, lists| lists.strong_count() > 0);
        let new = Arc::new(Semaphore::new(self.options.lists_at_once.max(1)));
        lists.insert(cluster.clone(), Arc::downgrade(&new));
        new
    }

    fn shared_caches(&self) -> Vec<Arc<SharedCache>> {
        self.lock().values().flatten().map(|entry| Arc::clone(&entry.shared)).collect()
    }

    /// One more user of a watch that has one already.
    fn join(&self, key: &CacheKey) {
        let mut entries = self.lock();
        if let Some(entry) = find(&mut entries, key) {
            entry.users += 1;
            entry.arrivals += 1;
        }
    }

    /// One user less. After the last one the watch stays for the grace time.
    fn leave(self: &Arc<Self>, key: &Arc<CacheKey>) {
        let arrivals = {
            let mut entries = self.lock();
            let Some(entry) = find(&mut entries, key) else { return };
            entry.users = entry.users.saturating_sub(1);
            if entry.users > 0 {
                return;
            }
            entry.arrivals
        };
        let (registry, key) = (Arc::clone(self), Arc::clone(key));
        self.runtime.spawn(async move {
            tokio::time::sleep(registry.options.grace).await;
            registry.release(&key, arrivals);
        });
    }

    fn release(&self, key: &CacheKey, arrivals: u64) {
        let mut entries = self.lock();
        let unused =
            find(&mut entries, key).is_some_and(|entry| entry.users == 0 && entry.arrivals == arrivals);
        if !unused {
            return;
        }
        let kind = key.kind_key();
        if let Some(of_kind) = entries.get_mut(&kind) {
            of_kind.retain(|entry| *entry.shared.key != *key);
            if of_kind.is_empty() {
                entries.remove(&kind);
            }
        }
    }
}

fn find<'a>(
    entries: &'a mut HashMap<KindKey, Vec<CacheEntry>>,
    key: &CacheKey,
) -> Option<&'a mut CacheEntry> {
    entries.get_mut(&key.kind_key())?.iter_mut().find(|entry| *entry.shared.key == *key)
}

/// Those who want to know everything.
#[derive(Default)]
pub(crate) struct Subscribers(Mutex<Vec<mpsc::UnboundedSender<CacheEvent>>>);

impl Subscribers {
    fn add(&self, sender: mpsc::UnboundedSender<CacheEvent>) {
        self.0.lock().push(sender);
    }

    /// Sends to everybody who still listens.
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

    /// A way to a cluster that nobody answers at.
    fn client() -> ClusterClient {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let tls = rustls::ClientConfig::builder()
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        let address = http::Uri::from_static("http://127.0.0.1:1");
        let endpoint = Endpoint::new(&address, tls, None).unwrap();
        let options = ClientOptions::default();
        let transports = Transports::new(&endpoint, Credential::none(), &options);
        ClusterClient::over(ClusterId::new("eu"), "one".into(), transports, options, None).unwrap()
    }

    #[tokio::test]
    async fn somebody_who_still_has_a_way_that_was_given_up_does_not_lead_others_back_to_it() {
        let watches = Caches::new(CacheOptions::default());
        let kind = Arc::new(ApiKind::custom("", "v1", "ConfigMap", "configmaps", true));
        let (earlier, later) = (client(), client());
        let follows = |client: &ClusterClient| {
            let watch = watches.watch(client, &kind, Selection::All);
            let mut entries = watches.registry.lock();
            let entry = find(&mut entries, watch.key()).unwrap();
            !later.is_newer_than(&entry.client)
        };
        assert!(!follows(&earlier));
        assert!(follows(&later));
        assert!(follows(&earlier), "the later one counts");
    }
}
