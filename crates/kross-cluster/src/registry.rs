//! Turns the address of a kubeconfig Secret into a supervised connection. A caller gets the connection state at once, from
//! memory; connecting, probing and retrying happen in the background, in one task per credential.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use kross_api::{KUBECONFIG_KEY, SecretAddress};
use kross_value::Text;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{OnceCell, mpsc};

use crate::audit::{Audit, AuditStats};
use crate::cache::{CacheEvent, CacheOptions, Caches, Change, Selection};
use crate::client::{ClientOptions, ClusterClient, RequestCounters};
use crate::discovery::ApiKind;
use crate::kubeconfig::{Accepted, CredentialLifetime, KubeconfigPolicy};
use crate::object::ClusterId;
use crate::secrets::{SecretConsumer, SecretName, SecretPolicy, check_address};
use crate::supervisor::{Task, supervise};
use crate::workqueue::Backoff;

mod connection_state;
mod credential_entry;
mod hub_identity;
mod identity_claims;
mod probe;
mod protection;
mod renewal;
mod report;
mod secret_content;
mod view;
mod watched_secret;

pub use connection_state::{ClusterChange, ClusterEvent, ClusterIdentity, Connection, ConnectionState};
pub use kross_api::{ClusterState, ConnectStep, ConnectionAdvice, ConnectionFailure};
pub use protection::KubeconfigSecret;
pub use renewal::{RenewableSecret, RenewalError, renewal_due, renewal_patch, token_duration};
pub use report::ClusterReport;
pub use view::{ClusterTotals, ClusterView};

use credential_entry::{Attempts, CredentialEntry};
use hub_identity::HubIdentity;
use identity_claims::IdentityClaims;
use secret_content::SecretUse;
use watched_secret::WatchedSecret;

/// How remote clusters are connected and probed.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// The options of every client.
    pub client: ClientOptions,
    /// How long a connection attempt waits for an answer.
    pub attempt_timeout: Duration,
    /// The delays between connection attempts.
    pub backoff: Backoff,
    /// The time between two probes of a connected cluster.
    pub probe_interval: Duration,
    /// How long a probe may take before the cluster counts as lost.
    pub probe_timeout: Duration,
    /// How often the liveness check runs while a cluster is unreachable: it finds out whether any server answers.
    pub liveness_interval: Duration,
    /// How long the liveness check waits for an answer.
    pub liveness_timeout: Duration,
    /// Consecutive failed requests (timeouts do not count) that open the circuit breaker until a probe succeeds.
    pub breaker_threshold: u32,
    /// How long a cluster stays connected after its last handle was dropped.
    pub idle_timeout: Duration,
    /// How long copies of a Secret may have different certificate authorities during a rotation before their users are warned of
    /// two servers that claim one UID, and how long such a warning stays after its cause has ended.
    pub identity_grace: Duration,
    /// What kubeconfigs may contain.
    pub kubeconfigs: KubeconfigPolicy,
    /// What Secrets must declare.
    pub secrets: SecretPolicy,
    /// Where operations in remote clusters are recorded.
    pub audit: Audit,
}

impl ClusterOptions {
    /// The options of a controller that is compatible with this kro version.
    #[must_use]
    pub fn for_version(version: &str) -> Self {
        Self {
            client: ClientOptions::for_remotes(version),
            attempt_timeout: Duration::from_secs(8),
            backoff: Backoff { base: Duration::from_millis(500), cap: Duration::from_secs(30) },
            probe_interval: Duration::from_secs(8),
            probe_timeout: Duration::from_secs(5),
            liveness_interval: Duration::from_secs(1),
            liveness_timeout: Duration::from_secs(2),
            breaker_threshold: 3,
            idle_timeout: Duration::from_secs(60),
            identity_grace: Duration::from_secs(600),
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

/// The remote clusters of a process. Clones share them.
///
/// ```no_run
/// # async fn example(hub: kross_cluster::ClusterClient, caches: kross_cluster::Caches) {
/// use kross_api::SecretAddress;
/// use kross_cluster::{ClusterOptions, ClusterRegistry, ConnectionState};
///
/// let clusters = ClusterRegistry::new(hub, caches, ClusterOptions::default());
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
///         ConnectionState::Connected(connection) => println!("connected to {}", connection.identity.uid),
///         ConnectionState::NotConnected { failure, .. } => println!("{}", failure.message("eu")),
///     }
/// }
/// # }
/// ```
#[derive(Clone)]
pub struct ClusterRegistry {
    inner: Arc<Inner>,
}

/// What the registry's handles and tasks share.
///
/// # Lock order
///
/// A task that holds one of these locks may take only those below it. No lock is held across `.await`.
///
/// 1. `Inner::secrets`
/// 2. the state of one [`WatchedSecret`], never of two
/// 3. `Inner::credentials`
/// 4. the state of one `Connector`, never of two
/// 5. `Inner::attempts`, `Inner::claims`, `Inner::subscribers`, and the locks inside [`Caches`], clients, routes and circuit breakers: none of
///    them calls back into the registry
///
/// Handles, caches and credential entries take locks when they are dropped, so they are moved out and dropped after the
/// lock was released. A connector releases its own lock before it reports a change, which takes 1 and 2.
pub(crate) struct Inner {
    hub: ClusterClient,
    /// The caches of objects in all clusters.
    caches: Caches,
    /// The caches of the Secrets, kept apart so that nobody else can read them.
    secret_caches: Caches,
    secret_kind: Arc<ApiKind>,
    options: Arc<ClusterOptions>,
    runtime: Handle,
    secrets: Mutex<HashMap<(SecretAddress, SecretUse), Arc<WatchedSecret>>>,
    /// The credentials in use, by the fingerprint of their kubeconfig.
    credentials: Mutex<HashMap<Text, Weak<CredentialEntry>>>,
    /// Connection attempts to all clusters, including those that are no longer registered.
    attempts: Mutex<Attempts>,
    requests: Arc<RequestCounters>,
    subscribers: Mutex<Vec<mpsc::UnboundedSender<ClusterEvent>>>,
    /// Which Secrets lead to servers that claim which UID.
    claims: Mutex<IdentityClaims>,
    /// What distinguishes the hub from other clusters; read when it is first needed.
    hub_identity: OnceCell<HubIdentity>,
}

impl ClusterRegistry {
    /// A registry without clusters. It reads Secrets from the hub and spawns its tasks on the current runtime.
    #[must_use]
    pub fn new(hub: ClusterClient, caches: Caches, options: ClusterOptions) -> Self {
        Self {
            inner: Arc::new(Inner {
                hub,
                caches,
                secret_caches: Caches::new(CacheOptions {
                    indexed_labels: Vec::new(),
                    ..CacheOptions::default()
                }),
                secret_kind: Arc::new(ApiKind::custom("", "v1", "Secret", "secrets", true)),
                options: Arc::new(options),
                runtime: Handle::current(),
                secrets: Mutex::default(),
                credentials: Mutex::default(),
                attempts: Mutex::default(),
                requests: Arc::default(),
                subscribers: Mutex::default(),
                claims: Mutex::default(),
                hub_identity: OnceCell::new(),
            }),
        }
    }

    /// A handle to the cluster whose kubeconfig is in a Secret. Returns at once and watches the Secret from now on. The cluster
    /// is connected once a consumer who may use the Secret asks for its [`state`](ClusterHandle::state), and stays connected as
    /// long as there is a handle.
    #[must_use]
    pub fn hold(&self, secret: &SecretAddress) -> ClusterHandle {
        self.hold_for(secret, SecretUse::Kubeconfig)
    }

    /// A handle to the cluster of a target's connection Secret. The target authorises it: the Secret needs neither label nor
    /// suffix, and every consumer of the handle may use it. It has a kubeconfig or the fields of a connection Secret. While it is
    /// being deleted it serves deletions only. Events have its address with the key `kubeconfig`.
    #[must_use]
    pub fn hold_connection(&self, secret: &SecretName) -> ClusterHandle {
        let address = SecretAddress {
            namespace: secret.namespace.to_string(),
            name: secret.name.to_string(),
            key: KUBECONFIG_KEY.to_owned(),
        };
        self.hold_for(&address, SecretUse::Connection)
    }

    fn hold_for(&self, secret: &SecretAddress, secret_use: SecretUse) -> ClusterHandle {
        let mut secrets = self.inner.secrets.lock();
        let watched = secrets
            .entry((secret.clone(), secret_use))
            .or_insert_with(|| self.inner.watch_secret(secret, secret_use));
        watched.add_user();
        ClusterHandle { secret: Arc::clone(watched), inner: Arc::clone(&self.inner) }
    }

    /// A channel of what happens to clusters from now on. It is unbounded: read it without doing anything slow in between.
    #[must_use]
    pub fn subscribe(&self) -> mpsc::UnboundedReceiver<ClusterEvent> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.inner.subscribers.lock().push(sender);
        receiver
    }

    /// How many audit records were written and dropped so far.
    #[must_use]
    pub fn audit(&self) -> AuditStats {
        self.inner.options.audit.stats()
    }

    /// Every cluster that has a handle, sorted by Secret.
    #[must_use]
    pub fn states(&self) -> Vec<ClusterView> {
        self.inner.views()
    }

    /// What is known of every cluster that has a handle, sorted by Secret.
    #[must_use]
    pub fn reports(&self) -> Vec<ClusterReport> {
        self.inner.reports()
    }

    /// The counters of all clusters since the process started.
    #[must_use]
    pub fn totals(&self) -> ClusterTotals {
        self.inner.totals()
    }
}

impl fmt::Debug for ClusterRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClusterRegistry({})", self.inner.secrets.lock().len())
    }
}

/// A handle to a cluster, which stays connected as long as there is one.
pub struct ClusterHandle {
    secret: Arc<WatchedSecret>,
    inner: Arc<Inner>,
}

impl ClusterHandle {
    /// The address of the Secret.
    #[must_use]
    pub fn secret(&self) -> &SecretAddress {
        &self.secret.address
    }

    /// The connection state, at once and from memory, for this consumer: a definition, or an instance in a namespace or in
    /// none.
    #[must_use]
    pub fn state<'a>(&self, consumer: impl Into<SecretConsumer<'a>>) -> ConnectionState {
        self.secret.state(&self.inner, consumer.into())
    }
}

impl ClusterHandle {
    /// The id of the cluster with this UID, or with this URL, as far as the Secret tells where it leads to: the identity of the last
    /// connection, or else the trust anchor of the kubeconfig. None for a consumer that may not use the Secret.
    #[must_use]
    pub fn cluster_id<'a>(&self, claim: &str, consumer: impl Into<SecretConsumer<'a>>) -> Option<ClusterId> {
        self.secret.cluster_id(claim, consumer.into())
    }

    /// From when until when the credential in the Secret is valid, as far as it tells; whether or not the cluster is connected.
    #[must_use]
    pub fn credential_lifetime(&self) -> CredentialLifetime {
        self.secret.lifetime()
    }

    /// Makes sure that the cluster was identified within the probe interval, so that what it does not list does not exist.
    ///
    /// # Errors
    /// It is another cluster than the one that was connected, it does not tell, or it does not answer.
    pub async fn verify(&self) -> Result<(), ConnectionFailure> {
        self.secret.verify().await
    }
}

impl Clone for ClusterHandle {
    fn clone(&self) -> Self {
        self.secret.add_user();
        Self { secret: Arc::clone(&self.secret), inner: Arc::clone(&self.inner) }
    }
}

impl Drop for ClusterHandle {
    fn drop(&mut self) {
        let Some(acquired) = self.secret.remove_user() else { return };
        let (inner, key) = (Arc::downgrade(&self.inner), self.secret.key());
        let idle = self.inner.options.idle_timeout;
        self.inner.runtime.spawn(async move {
            tokio::time::sleep(idle).await;
            if let Some(inner) = inner.upgrade() {
                inner.release(&key, acquired);
            }
        });
    }
}

impl fmt::Debug for ClusterHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClusterHandle({})", self.secret.address)
    }
}

/// Reads a Secret again whenever its cache has an event.
async fn refresh_on_events(
    inner: Weak<Inner>,
    key: (SecretAddress, SecretUse),
    mut events: mpsc::UnboundedReceiver<CacheEvent>,
) {
    while let Some(event) = events.recv().await {
        let unreadable = match event.change {
            Change::Failed { error } => Some(error),
            _ => None,
        };
        let Some(inner) = inner.upgrade() else { return };
        let secret = inner.secrets.lock().get(&key).cloned();
        if let Some(secret) = secret {
            secret.refresh(&inner, unreadable.as_ref());
        }
    }
}

impl Inner {
    /// Starts to watch a Secret. An address that no Secret can have is refused without a request.
    fn watch_secret(self: &Arc<Self>, address: &SecretAddress, secret_use: SecretUse) -> Arc<WatchedSecret> {
        if let Err(refusal) = check_address(address) {
            return WatchedSecret::new(address, secret_use, Err(refusal.into()));
        }
        let selection = Selection::Name {
            namespace: Some(address.namespace.as_str().into()),
            name: address.name.as_str().into(),
        };
        let cache = self.secret_caches.watch(&self.hub, &self.secret_kind, selection);
        let (inner, watched, events) = (Arc::downgrade(self), (address.clone(), secret_use), cache.clone());
        // The first events are the current content, so a new start misses nothing.
        let start = move || refresh_on_events(inner.clone(), watched.clone(), events.subscribe());
        let task = self.runtime.spawn(supervise(Task::Secret, start, || {}));
        WatchedSecret::new(address, secret_use, Ok((cache, task.abort_handle())))
    }

    fn secrets(&self) -> Vec<Arc<WatchedSecret>> {
        self.secrets.lock().values().cloned().collect()
    }

    /// Stops watching a Secret, unless it got a handle since.
    fn release(self: &Arc<Self>, key: &(SecretAddress, SecretUse), acquired: u64) {
        let mut secrets = self.secrets.lock();
        let released = match secrets.get(key) {
            Some(secret) if secret.is_idle(acquired) => secrets.remove(key),
            _ => None,
        };
        drop(secrets);
        if released.is_some() {
            self.withdraw_claim(key);
        }
        // Dropping it locks the caches and closes connections: not while others wait for the map.
        drop(released);
    }

    /// The entry of a credential: the one that other Secrets use already, or a new one.
    fn credential(
        self: &Arc<Self>,
        access: &Text,
        source: &Arc<Accepted>,
        secret: &SecretAddress,
    ) -> Arc<CredentialEntry> {
        let mut credentials = self.credentials.lock();
        if let Some(entry) = credentials.get(access).and_then(Weak::upgrade) {
            return entry;
        }
        credentials.retain(|_, entry| entry.strong_count() > 0);
        let entry = CredentialEntry::start(self, access, source, secret);
        credentials.insert(access.clone(), Arc::downgrade(&entry));
        entry
    }

    /// Updates the Secrets that hold a credential whose connection state changed.
    fn credential_changed(self: &Arc<Self>, access: &Text) {
        for secret in self.secrets() {
            if secret.uses(access) {
                secret.update(self);
            }
        }
    }

    /// Reads the Secrets of a credential that a cluster did not accept: the hub may have a newer one than the watch delivered.
    fn reread_secrets(self: &Arc<Self>, access: &Text) {
        for secret in self.secrets() {
            if secret.uses(access) {
                let inner = Arc::clone(self);
                self.runtime.spawn(async move {
                    let SecretAddress { namespace, name, .. } = &secret.address;
                    let read = inner.hub.get(&inner.secret_kind, Some(namespace), name).await;
                    if let (Ok(object), Some(cache)) = (read, &secret.cache) {
                        cache.observe(&object);
                    }
                });
            }
        }
    }

    fn notify(&self, secret: &SecretAddress, change: ClusterChange) {
        let event = ClusterEvent { secret: secret.clone(), change };
        self.subscribers.lock().retain(|subscriber| subscriber.send(event.clone()).is_ok());
    }
}
