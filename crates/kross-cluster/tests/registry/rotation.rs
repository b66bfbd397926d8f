//! Rotation: the kubeconfig of a Secret changes while it is in use.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use kross_api::FailureReason;
use kross_cluster::{ApiError, Apply, ClusterChange, ClusterClient, ConnectStep, Lookup, Selection};
use kross_local::{Access, Kubeconfig};
use kross_testing::{FaultProxy, wait};
use serde_json::json;

use crate::setup::{Setup, until_event};

/// Writes a ConfigMap again and again with one client until it is stopped.
struct Writer {
    written: Arc<AtomicU32>,
    stop: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<Vec<ApiError>>,
}

impl Writer {
    async fn start(client: ClusterClient, namespace: String) -> Self {
        let (written, stop) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
        let kind = client.kind("", Some("v1"), "ConfigMap").await.unwrap();
        let (count, stopped) = (Arc::clone(&written), Arc::clone(&stop));
        let task = tokio::spawn(async move {
            let mut failed = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                let data = count.load(Ordering::Relaxed).to_string();
                let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": "counter", "namespace": namespace}, "data": {"count": data}});
                match client.apply(&kind, &map.into(), Apply::by("test")).await {
                    Ok(_) => drop(count.fetch_add(1, Ordering::Relaxed)),
                    Err(error) => {
                        failed.push(error);
                        // A client that is refused at once would use all memory.
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                }
            }
            failed
        });
        Self { written, stop, task }
    }

    /// Waits for this many more writes.
    async fn continues(&self, more: u32) {
        let enough = self.written.load(Ordering::Relaxed) + more;
        wait::until_true("writes to continue", || self.written.load(Ordering::Relaxed) >= enough).await;
    }

    async fn failures(self) -> Vec<ApiError> {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.unwrap()
    }
}

/// Replaces a kubeconfig by another one for the same cluster while a client writes.
async fn rotate(setup: &Setup, from: &Kubeconfig, to: &Kubeconfig, revoke: impl AsyncFn()) {
    let hold = setup.hold("eu-kubeconfig", from).await;
    let live = setup.connected(&hold).await;
    let mut events = setup.clusters.subscribe();
    let writer = Writer::start(live.client.clone(), setup.namespace().to_owned()).await;
    writer.continues(2).await;
    setup.put("eu-kubeconfig", to).await;
    until_event(&mut events, &hold, ClusterChange::Credential).await;
    let switched = setup.connected(&hold).await;
    assert_ne!(switched.client.access(), live.client.access());
    // A client that started with the old credential uses the new one, so that the old one can be revoked.
    writer.continues(2).await;
    revoke().await;
    writer.continues(10).await;
    let failures = writer.failures().await;
    assert!(failures.is_empty(), "{failures:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rotates_a_token_without_a_failed_write() {
    let setup = Setup::new().await;
    let (plane, namespace) = (setup.fixture.remote("eu").plane, setup.namespace().to_owned());
    let [old, new] = ["old", "new"].map(|name| (name, Access::all()));
    let mint = async |(name, access): &(&str, Access)| {
        setup.proxy.kubeconfig(&plane.mint_token(&namespace, name, access).await.unwrap()).unwrap()
    };
    let (from, to) = (mint(&old).await, mint(&new).await);
    rotate(&setup, &from, &to, async || plane.revoke(&namespace, "old").await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rotates_a_client_certificate_without_a_failed_write() {
    let setup = Setup::new().await;
    let plane = setup.fixture.remote("eu").plane;
    let mint = async |name: &str| {
        let minted = plane.mint_certificate(name, Some(setup.namespace()), &Access::all()).await.unwrap();
        setup.proxy.kubeconfig(&minted).unwrap()
    };
    let (from, to) = (mint("first").await, mint("second").await);
    rotate(&setup, &from, &to, async || ()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rotates_a_certificate_authority_without_a_failed_write() {
    let setup = Setup::new().await;
    let plane = setup.fixture.remote("eu").plane;
    // The same cluster with another address and another certificate authority.
    let second = FaultProxy::start_under_own_authority(plane.admin()).unwrap();
    let to = second.kubeconfig(plane.admin()).unwrap();
    let from = setup.admin();
    rotate(&setup, &from, &to, async || setup.proxy.set(kross_testing::Fault::Refuse)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_a_new_kubeconfig_that_does_not_work() {
    let setup = Setup::new().await;
    let good = setup.admin();
    let hold = setup.hold("eu-kubeconfig", &good).await;
    let live = setup.connected(&hold).await;
    let bad = Kubeconfig { credential: kross_local::Credential::Token("nobody".to_owned()), ..good.clone() };
    setup.put("eu-kubeconfig", &bad).await;
    let down = setup.down(&hold, ConnectStep::Authenticate).await;
    assert_eq!(down.identity, Some(live.identity.clone()));
    live.client.fetch("/version").await.unwrap_err();
    let broken = Kubeconfig { server: "http://127.0.0.1:1".to_owned(), ..good.clone() };
    setup.put("eu-kubeconfig", &broken).await;
    setup.down(&hold, ConnectStep::Parse).await;
    setup.put("eu-kubeconfig", &good).await;
    setup.connected(&hold).await;
    live.client.fetch("/version").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_points_to_another_cluster_has_its_identity_and_stops_clients_of_the_first_one() {
    let setup = Setup::new().await;
    let hold = setup.hold("eu-kubeconfig", &setup.admin()).await;
    let live = setup.connected(&hold).await;
    let mut events = setup.clusters.subscribe();
    setup.put("eu-kubeconfig", setup.fixture.hub.plane.admin()).await;
    let other = wait::until("the other cluster to be connected", || async {
        let other = setup.connected(&hold).await;
        if other.identity == live.identity { Err("still the first cluster".to_owned()) } else { Ok(other) }
    })
    .await;
    assert!(other.identity.verified);
    until_event(&mut events, &hold, ClusterChange::Connected).await;
    let error = live.client.fetch("/version").await.unwrap_err();
    assert_eq!(error.reason(), FailureReason::Credentials);
    assert!(error.message().contains("another cluster"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cache_is_updated_again_when_its_credential_is_back_in_use() {
    let setup = Setup::new().await;
    let (one, other) = (setup.user("one").await, setup.user("other").await);
    let hold = setup.hold("eu-kubeconfig", &one).await;
    let first = setup.connected(&hold).await;
    let kind = first.client.kind("", Some("v1"), "ConfigMap").await.unwrap();
    let namespace = setup.namespace();
    let selection = Selection::Name { namespace: Some(namespace.into()), name: "web".into() };
    let before = setup.caches.watch(&first.client, &kind, selection.clone());
    before.wait_for_sync().await;

    let access = first.client.access().clone();
    setup.put("eu-kubeconfig", &other).await;
    wait::until_true("the other credential to be in use", || {
        hold.state(Some(namespace)).connected().is_some_and(|live| *live.client.access() != access)
    })
    .await;
    setup.put("eu-kubeconfig", &one).await;
    wait::until_true("the first credential to be in use again", || {
        hold.state(Some(namespace)).connected().is_some_and(|live| *live.client.access() == access)
    })
    .await;
    let again = setup.connected(&hold).await;
    let after = setup.caches.watch(&again.client, &kind, selection);
    assert_eq!(before.key(), after.key());
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web", "namespace": namespace}});
    again.client.apply(&kind, &map.into(), Apply::by("test")).await.unwrap();
    wait::until_true("the object to be cached", || {
        matches!(after.get(Some(namespace), "web"), Lookup::Found(_))
    })
    .await;
}

/// Clusters and people see when a credential expires before it does.
#[tokio::test(flavor = "multi_thread")]
async fn the_lifetime_of_a_token_and_of_a_client_certificate_is_known_also_without_a_connection() {
    let setup = Setup::new().await;
    let plane = setup.fixture.remote("eu").plane;
    let token = setup.user("kross").await;
    let hold = setup.hold("eu-kubeconfig", &token).await;
    let lifetime = setup.connected(&hold).await.lifetime;
    assert_eq!(lifetime.duration().unwrap().as_hours(), 30 * 24);
    assert_eq!(hold.credential_lifetime(), lifetime);

    let expired = plane.mint_expired_certificate("late", None, &Access::all()).await.unwrap();
    let late = setup.hold("late-kubeconfig", &expired).await;
    setup.down(&late, ConnectStep::Authenticate).await;
    let expires = late.credential_lifetime().expires_at.unwrap();
    let views = setup.clusters.states();
    let view = views.iter().find(|view| view.secret.ends_with("/late-kubeconfig")).unwrap();
    assert_eq!(view.credential_expires_at, Some(expires.to_string()));
    assert!(expires < view.since.parse().unwrap(), "{expires}");
}
