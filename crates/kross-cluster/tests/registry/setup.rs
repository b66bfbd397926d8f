//! A hub, a remote cluster behind a fault proxy, and a cluster registry for each test.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kross_api::SecretAddress;
use kross_cluster::{
    Backoff, CacheOptions, Caches, ClientOptions, ClusterChange, ClusterClient, ClusterEvent, ClusterHandle,
    ClusterId, ClusterIdentity, ClusterOptions, ClusterRegistry, ConnectStep, Connection, ConnectionFailure,
    ConnectionState,
};
use kross_local::{Kubeconfig, rule};
use kross_testing::{FaultProxy, Fixture, objects, wait};
use kube::api::{DeleteParams, Patch, PatchParams};
use tokio::sync::mpsc::UnboundedReceiver;

/// A backoff for tests in which something has to wake the registry, and how long they wait for that: a retry comes too late.
pub const BACKOFF: Backoff = Backoff { base: Duration::from_secs(90), cap: Duration::from_secs(90) };
pub const WOKEN_WITHIN: Duration = Duration::from_secs(45);

pub struct Setup {
    pub fixture: Fixture,
    pub caches: Caches,
    pub clusters: ClusterRegistry,
    pub proxy: FaultProxy,
}

impl Setup {
    pub async fn new() -> Self {
        Self::with(ClusterOptions::default()).await
    }

    /// With a backoff of the registry and of caches that is longer than [`WOKEN_WITHIN`].
    pub async fn backing_off() -> Self {
        let caches =
            CacheOptions { backoff: BACKOFF, persistent_backoff: BACKOFF, ..CacheOptions::default() };
        Self::with_caches(caches, ClusterOptions { backoff: BACKOFF, ..ClusterOptions::default() }).await
    }

    pub async fn with(options: ClusterOptions) -> Self {
        Self::with_caches(CacheOptions::default(), options).await
    }

    pub async fn with_caches(caches: CacheOptions, options: ClusterOptions) -> Self {
        // Starting control planes takes a deep stack.
        let fixture = Box::pin(Fixture::with(&["eu"])).await;
        let config = fixture.hub.plane.admin().config().await.unwrap();
        let hub = ClusterClient::trusted(ClusterId::local(), config, ClientOptions::default()).await.unwrap();
        let caches = Caches::new(caches);
        let clusters = ClusterRegistry::new(hub, caches.clone(), options);
        let proxy = FaultProxy::start(fixture.remote("eu").plane.admin()).unwrap();
        Self { fixture, caches, clusters, proxy }
    }

    pub fn namespace(&self) -> &str {
        &self.fixture.namespace
    }

    pub fn address(&self, name: &str) -> SecretAddress {
        SecretAddress {
            namespace: self.namespace().to_owned(),
            name: name.to_owned(),
            key: "kubeconfig".to_owned(),
        }
    }

    /// The administrator of the remote cluster, through the proxy.
    pub fn admin(&self) -> Kubeconfig {
        self.proxy.kubeconfig(self.fixture.remote("eu").plane.admin()).unwrap()
    }

    /// A user of the remote cluster who may do everything with ConfigMaps and nothing else, through the proxy.
    pub async fn user(&self, name: &str) -> Kubeconfig {
        let access = kross_local::Access::none()
            .in_namespace(self.namespace(), [rule(&[""], &["configmaps"], &["*"])]);
        let plane = self.fixture.remote("eu").plane;
        self.proxy.kubeconfig(&plane.mint_token(self.namespace(), name, &access).await.unwrap()).unwrap()
    }

    /// Stores a kubeconfig in a Secret of the hub.
    pub async fn put(&self, name: &str, kubeconfig: &Kubeconfig) {
        let secrets = self.fixture.hub.api::<Secret>();
        let secret = objects::kubeconfig_secret(name, kubeconfig);
        secrets.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(&secret)).await.unwrap();
    }

    pub async fn delete(&self, name: &str) {
        self.fixture.hub.api::<Secret>().delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// A handle for a Secret with this kubeconfig.
    pub async fn hold(&self, name: &str, kubeconfig: &Kubeconfig) -> ClusterHandle {
        self.put(name, kubeconfig).await;
        self.clusters.hold(&self.address(name))
    }

    pub async fn connected(&self, hold: &ClusterHandle) -> Connection {
        self.connected_within(wait::WAIT_LIMIT, hold).await
    }

    /// Waits for a connection that something has to wake up: `limit` must be shorter than the backoff of the registry.
    pub async fn connected_within(&self, limit: Duration, hold: &ClusterHandle) -> Connection {
        wait::until_within(limit, "the cluster to be connected", || async {
            match hold.state(Some(self.namespace())) {
                ConnectionState::Connected(live) => Ok(live),
                other => Err(format!("{other:?}")),
            }
        })
        .await
    }

    /// Waits until connecting fails at this step.
    pub async fn down(&self, hold: &ClusterHandle, step: ConnectStep) -> Down {
        wait::until(format!("connecting to fail at {step:?}"), || async {
            match hold.state(Some(self.namespace())) {
                ConnectionState::NotConnected { failure, identity } if failure.step == step => {
                    Ok(Down { message: failure.message(&hold.secret().to_string()), failure, identity })
                }
                other => Err(format!("{other:?}")),
            }
        })
        .await
    }

    /// The UID of the remote cluster's `kube-system`.
    pub async fn uid(&self) -> String {
        let namespaces =
            kube::Api::<k8s_openapi::api::core::v1::Namespace>::all(self.fixture.remote("eu").client.clone());
        namespaces.get("kube-system").await.unwrap().metadata.uid.unwrap()
    }
}

/// Why a cluster is not connected, with the sentence that people read.
#[derive(Debug)]
pub struct Down {
    pub failure: ConnectionFailure,
    pub message: String,
    pub identity: Option<ClusterIdentity>,
}

impl std::ops::Deref for Down {
    type Target = ConnectionFailure;

    fn deref(&self) -> &ConnectionFailure {
        &self.failure
    }
}

/// Waits for an event of a cluster, and returns the events before it. The state changes a moment before its event is sent, so
/// some of those may be about a state that was seen already.
pub async fn until_event(
    events: &mut UnboundedReceiver<ClusterEvent>,
    hold: &ClusterHandle,
    change: ClusterChange,
) -> Vec<ClusterEvent> {
    let expected = ClusterEvent { secret: hold.secret().clone(), change };
    let mut before = Vec::new();
    loop {
        let event = tokio::time::timeout(wait::WAIT_LIMIT, events.recv()).await;
        match event.unwrap_or_else(|_| panic!("no event {change:?}, only {before:?}")).unwrap() {
            event if event == expected => return before,
            event => before.push(event),
        }
    }
}
