//! Caches of a cluster whose etcd is restored from a backup: resource versions go backwards.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kross_cluster::{
    ApiKind, Cache, CacheOptions, Caches, ClientOptions, ClusterClient, ClusterId, Selection, SyncPolicy,
};
use kross_local::ControlPlane;
use kross_testing::{Fault, FaultProxy, Requests, Verb, wait};
use kross_value::Value;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use tokio::sync::{Mutex, MutexGuard};

/// One test at a time starts a control plane: many of them slow all other tests down.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// A control plane of its own, since its other users would lose their objects.
struct Restorable {
    _alone: MutexGuard<'static, ()>,
    plane: ControlPlane,
    proxy: FaultProxy,
    config_maps: Api<ConfigMap>,
    caches: Caches,
    client: ClusterClient,
}

impl Restorable {
    async fn new(name: &str) -> Self {
        let alone = ONE_AT_A_TIME.lock().await;
        let plane = ControlPlane::named(name).start().await.unwrap();
        let proxy = FaultProxy::start(plane.admin()).unwrap();
        let config = proxy.kubeconfig(plane.admin()).unwrap().config().await.unwrap();
        let options = ClientOptions::for_version("devel");
        let client = ClusterClient::trusted(ClusterId::local(), config, options).await.unwrap();
        let config_maps = Api::namespaced(plane.client().await.unwrap(), "default");
        Self {
            _alone: alone,
            plane,
            proxy,
            config_maps,
            caches: Caches::new(CacheOptions::default()),
            client,
        }
    }

    /// A cache that watches, and one that polls.
    async fn both(&self) -> [Cache; 2] {
        let kind: Arc<ApiKind> = self.client.kind("", Some("v1"), "ConfigMap").await.unwrap();
        let selection =
            || Selection::Labels { namespace: Some("default".into()), selector: "test=restore".into() };
        let polled = SyncPolicy::Poll { interval: Duration::from_secs(1), jitter: Duration::ZERO };
        let caches = [
            self.caches.watch(&self.client, &kind, selection()),
            self.caches.cache_with(&self.client, &kind, selection(), polled),
        ];
        for cache in &caches {
            cache.wait_for_sync().await;
        }
        caches
    }

    async fn apply(&self, name: &str, text: &str) {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "labels": {"test": "restore"}}, "data": {"text": text}});
        self.config_maps
            .patch(name, &PatchParams::apply("test").force(), &Patch::Apply(object))
            .await
            .unwrap();
    }

    /// Changes an object until its version is later than those before the restore.
    async fn until_caught_up(&self) {
        for number in 0..100 {
            self.apply("other", &number.to_string()).await;
        }
        self.apply("other", "new").await;
    }

    /// Takes a snapshot, changes everything after it, and waits until the caches have that.
    async fn diverge(&mut self, caches: &[Cache; 2]) -> kross_local::Snapshot {
        self.apply("changed", "before").await;
        self.apply("deleted", "before").await;
        let snapshot = self.plane.snapshot().await.unwrap();
        self.config_maps.delete("deleted", &DeleteParams::default()).await.unwrap();
        self.apply("added", "after").await;
        self.apply("changed", "after").await;
        until_cached(caches, &[("added", "after"), ("changed", "after")]).await;
        snapshot
    }
}

/// Waits until both caches have exactly these objects.
async fn until_cached(caches: &[Cache; 2], expected: &[(&str, &str)]) {
    let expected: BTreeMap<String, String> =
        expected.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    for cache in caches {
        wait::until(format!("{} to be as restored", cache.key()), || async {
            let objects = cache.list().ok_or("not in sync")?;
            let text = |object: &Value| {
                object.at(&["data", "text"]).and_then(Value::as_str).unwrap_or_default().to_owned()
            };
            let cached: BTreeMap<String, String> =
                objects.iter().map(|object| (object.name().to_string(), text(object.value()))).collect();
            if cached == expected { Ok(()) } else { Err(format!("{cached:?}")) }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_was_restored_is_listed_again() {
    let mut cluster = Restorable::new("restored").await;
    let caches = cluster.both().await;
    let snapshot = cluster.diverge(&caches).await;
    cluster.plane.restore(&snapshot).await.unwrap();
    until_cached(&caches, &[("changed", "before"), ("deleted", "before")]).await;

    // The watch goes on in the new history.
    cluster.apply("later", "new").await;
    until_cached(&caches, &[("changed", "before"), ("deleted", "before"), ("later", "new")]).await;
    cluster.plane.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_is_noticed_although_the_versions_have_caught_up() {
    let mut cluster = Restorable::new("busy").await;
    let caches = cluster.both().await;
    let snapshot = cluster.diverge(&caches).await;
    cluster.proxy.set(Fault::Refuse);
    cluster.plane.restore(&snapshot).await.unwrap();
    cluster.until_caught_up().await;
    cluster.proxy.set(Fault::Pass);
    until_cached(&caches, &[("changed", "before"), ("deleted", "before"), ("other", "new")]).await;
    cluster.plane.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_to_a_state_before_the_newest_object_is_noticed_although_the_versions_have_caught_up() {
    let mut cluster = Restorable::new("before").await;
    let caches = cluster.both().await;
    let snapshot = cluster.plane.snapshot().await.unwrap();
    cluster.apply("added", "after").await;
    until_cached(&caches, &[("added", "after")]).await;
    cluster.proxy.set(Fault::Refuse);
    cluster.plane.restore(&snapshot).await.unwrap();
    cluster.until_caught_up().await;
    cluster.proxy.set(Fault::Pass);
    until_cached(&caches, &[("other", "new")]).await;
    cluster.plane.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_watch_is_resumed_after_one_small_request() {
    let cluster = Restorable::new("intact").await;
    let [cache, _polled] = cluster.both().await;
    cluster.apply("a", "1").await;
    wait::until_true("the object to be cached", || cache.list().is_some_and(|all| !all.is_empty())).await;
    let state = || cluster.caches.states().into_iter().find(|state| state.key == *cache.key()).unwrap();
    let (lists, opened) = (state().lists, state().opened);
    cluster.proxy.cut_connections();
    wait::until_true("the watch to be resumed", || state().opened > opened).await;
    assert_eq!(state().lists, lists, "the objects are not listed again");
    let small = cluster.proxy.requests(&Requests::any().verb(Verb::List).resource("configmaps"));
    assert!(small.iter().any(|record| record.request.query.starts_with("limit=1&")), "{small:?}");
    cluster.plane.stop().await;
}
