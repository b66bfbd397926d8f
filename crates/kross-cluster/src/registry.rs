//! Turns the address of a kubeconfig Secret into a connection that somebody looks after. Asking is answered at once from
//! memory; dialling, asking whether a cluster is still there, and trying again happen elsewhere, for each credential on its own.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use kross_api::SecretAddress;
use kross_value::Text;
use tokio::runtime::Handle;
use tokio::sync::{OnceCell, mpsc};

use crate::audit::{Audit, AuditStats};
use crate::cache::{CacheOptions, Caches, Change, Selection};
use crate::client::{ClientOptions, ClusterClient, Tally};
use crate::discovery::ApiKind;
use crate::kubeconfig::{Accepted, KubeconfigPolicy};
use crate::secrets::{Asker, SecretPolicy, check_address};
use crate::workqueue::Backoff;

mod connection_state;
mod entry;
mod intake;
mod own;
mod reach;
mod slot;
mod view;

pub use connection_state::{ClusterChange, ClusterEvent, ClusterIdentity, Connection, ConnectionState};
pub use kross_api::{ConnectStep, ConnectionAdvice, ConnectionFailure};
pub use view::{ClusterState, ClusterTotals, ClusterView};

use entry::{Attempts, Entry};
use own::Own;
use slot::Slot;

/// How clusters are looked after.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// How they are talked to.
    pub client: ClientOptions,
    /// How long an attempt to connect may wait for an answer.
    pub attempt_timeout: Duration,
    /// The waits between attempts.
    pub backoff: Backoff,
    /// How long a connected cluster may be silent before it is asked for a sign of life.
    pub probe_interval: Duration,
    /// How long that sign may take before the cluster counts as lost.
    pub probe_timeout: Duration,
    /// How often it is looked whether anybody answers at all while a cluster cannot be reached.
    pub knock_interval: Duration,
    /// How long that answer may take.
    pub knock_timeout: Duration,
    /// Requests in a row that fail before nothing is sent until the cluster was asked.
    pub breaker_threshold: u32,
    /// How long a cluster stays connected that nobody needs.
    pub idle_timeout: Duration,
    /// What kubeconfigs may ask for.
    pub kubeconfigs: KubeconfigPolicy,
    /// What Secrets must say.
    pub secrets: SecretPolicy,
    /// Where it is written down what is done in other clusters.
    pub audit: Audit,
}

impl ClusterOptions {
    /// The options of a controller that stands for this kro version.
    #[must_use]
    pub fn for_version(version: &str) -> Self {
        Self {
            client: ClientOptions::for_remotes(version),
            attempt_timeout: Duration::from_secs(8),
            backoff: Backoff { base: Duration::from_millis(500), cap: Duration::from_secs(30) },
            probe_interval: Duration::from_secs(8),
            probe_timeout: Duration::from_secs(5),
            knock_interval: Duration::from_secs(1),
            knock_timeout: Duration::from_secs(2),
            breaker_threshold: 3,
            idle_timeout: Duration::from_secs(60),
            kubeconfigs: KubeconfigPolicy::default(),
            secrets: SecretPolicy::default(),
            audit: Audit::off(),
        }
    }
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self::for_version(kross_api::DEFAULT_KRO_VERSION)
    }
}

/// The clusters of a process, other than the local one. Clones share them.
///
/// ```no_run
/// # async fn example(hub: kross_cluster::ClusterClient, watches: kross_cluster::Caches) {
/// use kross_api::SecretAddress;
/// use kross_cluster::{ClusterOptions, ClusterRegistry, ConnectionState};
///
/// let clusters = ClusterRegistry::new(hub, watches, ClusterOptions::default());
/// let mut events = clusters.subscribe();
/// let secret = SecretAddress {
///     namespace: "shop".to_owned(),
///     name: "eu-kubeconfig".to_owned(),
///     key: "kubeconfig".to_owned(),
/// };
/// let eu = clusters.hold(&secret);
/// while events.recv().await.is_some() {
///     match eu.state(Some("shop")) {
///         ConnectionState::Connecting { since } => println!("connecting since {since}"),
///         ConnectionState::Connected(live) => println!("connected to {}", live.identity.uid),
///         ConnectionState::NotConnected { failure, .. } => println!("{}", failure.message("eu")),
///     }
/// }
/// # }
/// ```
#[derive(Clone)]
pub struct ClusterRegistry {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    hub: ClusterClient,
    /// The watches in all clusters.
    watches: Caches,
    /// The watches of the Secrets, apart: nobody else gets to see what is in them.
    secrets: Caches,
    secret_kind: Arc<ApiKind>,
    options: Arc<ClusterOptions>,
    runtime: Handle,
    slots: Mutex<HashMap<SecretAddress, Arc<Slot>>>,
    entries: Mutex<HashMap<Text, Weak<Entry>>>,
    /// What was done in all clusters.
    attempts: Mutex<Attempts>,
    requests: Arc<Tally>,
    subscribers: Mutex<Vec<mpsc::UnboundedSender<ClusterEvent>>>,
    /// What tells the hub from other clusters, once somebody had to know.
    own: OnceCell<Own>,
}

impl ClusterRegistry {
    /// No clusters yet. Secrets are read from the hub; tasks will run on the runtime that this is called on.
    #[must_use]
    pub fn new(hub: ClusterClient, watches: Caches, options: ClusterOptions) -> Self {
        Self {
            inner: Arc::new(Inner {
                hub,
                watches,
                secrets: Caches::new(CacheOptions { indexed_labels: Vec::new(), ..CacheOptions::default() }),
                secret_kind: Arc::new(ApiKind::custom("", "v1", "Secret", "secrets", true)),
                options: Arc::new(options),
                runtime: Handle::current(),
                slots: Mutex::default(),
                entries: Mutex::default(),
                attempts: Mutex::default(),
                requests: Arc::default(),
                subscribers: Mutex::default(),
                own: OnceCell::new(),
            }),
        }
    }

    /// A hold on the cluster whose kubeconfig is in a Secret. Returns at once; from now on the Secret is followed, and once
    /// somebody who may use it asks for its [`link`](ClusterHandle::link), the cluster is connected and stays so as long as somebody
    /// holds it.
    #[must_use]
    pub fn hold(&self, secret: &SecretAddress) -> ClusterHandle {
        let mut slots = lock(&self.inner.slots);
        let slot = slots.entry(secret.clone()).or_insert_with(|| self.inner.follow(secret));
        slot.join();
        ClusterHandle { slot: Arc::clone(slot), inner: Arc::clone(&self.inner) }
    }

    /// What happens to clusters from now on. Read it without doing anything slow: what is not read yet is kept in memory.
    #[must_use]
    pub fn subscribe(&self) -> mpsc::UnboundedReceiver<ClusterEvent> {
        let (sender, receiver) = mpsc::unbounded_channel();
        lock(&self.inner.subscribers).push(sender);
        receiver
    }

    /// What became of the audit records so far.
    #[must_use]
    pub fn audit(&self) -> AuditStats {
        self.inner.options.audit.stats()
    }

    /// Every cluster that is held, in the order of the Secrets.
    #[must_use]
    pub fn states(&self) -> Vec<ClusterView> {
        self.inner.views()
    }

    /// What was done in all clusters so far.
    #[must_use]
    pub fn totals(&self) -> ClusterTotals {
        self.inner.totals()
    }
}

impl fmt::Debug for ClusterRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clusters({})", lock(&self.inner.slots).len())
    }
}

/// A hold on a cluster, which stays connected as long as somebody has one.
pub struct ClusterHandle {
    slot: Arc<Slot>,
    inner: Arc<Inner>,
}

impl ClusterHandle {
    /// The Secret.
    #[must_use]
    pub fn secret(&self) -> &SecretAddress {
        &self.slot.address
    }

    /// What is known about the way to the cluster, at once and from memory, for whoever asks: a definition, or an instance in
    /// a namespace or in none.
    #[must_use]
    pub fn state<'a>(&self, asker: impl Into<Asker<'a>>) -> ConnectionState {
        self.slot.state(&self.inner, asker.into())
    }
}

impl Clone for ClusterHandle {
    fn clone(&self) -> Self {
        self.slot.join();
        Self { slot: Arc::clone(&self.slot), inner: Arc::clone(&self.inner) }
    }
}

impl Drop for ClusterHandle {
    fn drop(&mut self) {
        let Some(arrivals) = self.slot.leave() else { return };
        let (inner, address) = (Arc::downgrade(&self.inner), self.slot.address.clone());
        let idle = self.inner.options.idle_timeout;
        self.inner.runtime.spawn(async move {
            tokio::time::sleep(idle).await;
            if let Some(inner) = inner.upgrade() {
                inner.release(&address, arrivals);
            }
        });
    }
}

impl fmt::Debug for ClusterHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hold({})", self.slot.address)
    }
}

impl Inner {
    /// Begins to follow a Secret. What cannot be one is not asked for.
    fn follow(self: &Arc<Self>, address: &SecretAddress) -> Arc<Slot> {
        if let Err(refusal) = check_address(address) {
            return Slot::new(address, Err(refusal.into()));
        }
        let selection = Selection::Name {
            namespace: Some(address.namespace.as_str().into()),
            name: address.name.as_str().into(),
        };
        let watch = self.secrets.watch(&self.hub, &self.secret_kind, selection);
        let mut events = watch.subscribe();
        let (inner, followed) = (Arc::downgrade(self), address.clone());
        let task = self.runtime.spawn(async move {
            while let Some(event) = events.recv().await {
                let unreadable = match event.change {
                    Change::Failed { error } => Some(error),
                    _ => None,
                };
                let Some(inner) = inner.upgrade() else { return };
                let slot = lock(&inner.slots).get(&followed).cloned();
                if let Some(slot) = slot {
                    slot.read(&inner, unreadable.as_ref());
                }
            }
        });
        Slot::new(address, Ok((watch, task.abort_handle())))
    }

    fn slots(&self) -> Vec<Arc<Slot>> {
        lock(&self.slots).values().cloned().collect()
    }

    /// Lets go of a Secret that nobody has asked for meanwhile.
    fn release(&self, address: &SecretAddress, arrivals: u64) {
        let mut slots = lock(&self.slots);
        let released = match slots.get(address) {
            Some(slot) if slot.is_idle(arrivals) => slots.remove(address),
            _ => None,
        };
        drop(slots);
        // Without the lock: what it holds goes with it.
        drop(released);
    }

    /// The entry of a credential: the one that others use already, or a new one.
    fn entry(self: &Arc<Self>, access: &Text, source: &Arc<Accepted>, secret: &SecretAddress) -> Arc<Entry> {
        let mut entries = lock(&self.entries);
        if let Some(entry) = entries.get(access).and_then(Weak::upgrade) {
            return entry;
        }
        entries.retain(|_, entry| entry.strong_count() > 0);
        let entry = Entry::start(self, access, source, secret);
        entries.insert(access.clone(), Arc::downgrade(&entry));
        entry
    }

    /// Something has changed about a credential.
    fn entry_changed(self: &Arc<Self>, access: &Text) {
        for slot in self.slots() {
            if slot.concerns(access) {
                slot.settle(self);
            }
        }
    }

    /// Asks the hub for the Secrets of a credential that was not accepted: there may be a new one, of which no watch has told
    /// yet.
    fn read_secrets_again(self: &Arc<Self>, access: &Text) {
        for slot in self.slots() {
            if slot.concerns(access) {
                let inner = Arc::clone(self);
                self.runtime.spawn(async move {
                    let SecretAddress { namespace, name, .. } = &slot.address;
                    let read = inner.hub.get(&inner.secret_kind, Some(namespace), name).await;
                    if let (Ok(secret), Some(watch)) = (read, &slot.watch) {
                        watch.observe(&secret);
                    }
                });
            }
        }
    }

    fn tell(&self, secret: &SecretAddress, change: ClusterChange) {
        let event = ClusterEvent { secret: secret.clone(), change };
        lock(&self.subscribers).retain(|subscriber| subscriber.send(event.clone()).is_ok());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
