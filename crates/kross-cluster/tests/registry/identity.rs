//! The address of a cluster that leads to another cluster, which accepts the same credential, under steady traffic.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kross_api::FailureReason;
use kross_cluster::{
    Apply, ClusterChange, ClusterClient, ClusterHandle, ClusterOptions, Connection, ConnectionState, Lookup,
    Selection,
};
use kross_testing::{Action, Answer, Diverted, Requests, Verb, objects, wait};
use kube::api::PostParams;
use serde_json::json;

use crate::setup::{Setup, until_event};

/// A probe interval for tests in which something else must detect the other cluster.
const PROBE_INTERVAL: Duration = Duration::from_secs(90);

fn probes() -> Requests {
    Requests::any().resource("namespaces").name("kube-system")
}

fn rarely_probed() -> ClusterOptions {
    ClusterOptions { probe_interval: PROBE_INTERVAL, ..ClusterOptions::default() }
}

/// Writes two ConfigMaps at once until it is aborted. So few failures do not open the circuit breaker.
async fn write_steadily(client: &ClusterClient, namespace: &str) -> tokio::task::JoinHandle<()> {
    let kind = client.kind("", Some("v1"), "ConfigMap").await.unwrap();
    let (client, namespace) = (client.clone(), namespace.to_owned());
    tokio::spawn(async move {
        for number in 0_u64.. {
            let writes = (0..2).map(|writer| {
                let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"number": number.to_string()},
                    "metadata": {"name": format!("writer-{writer}"), "namespace": namespace}});
                let (client, kind) = (&client, &kind);
                async move { client.apply(kind, &map.into(), Apply::by("test")).await }
            });
            if futures::future::join_all(writes).await.iter().any(Result::is_err) {
                // So that a rejected client does not use all processors.
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    })
}

/// The writes that passed through the proxy.
fn writes(setup: &Setup) -> usize {
    let verbs = [Verb::Create, Verb::Update, Verb::Patch, Verb::Apply, Verb::Delete];
    verbs.into_iter().map(|verb| setup.proxy.count(&Requests::any().verb(verb))).sum()
}

/// The requests for objects in the test's namespace that the other cluster received.
fn diverted(setup: &Setup) -> Vec<String> {
    let sent = setup.proxy.requests(&Requests::any().namespace(setup.namespace()));
    let sent = sent.iter().filter(|record| record.diverted);
    sent.map(|record| format!("{:?}", record.request)).collect()
}

/// New connections lead to the hub from now on; then the existing ones break.
fn divert(setup: &Setup) {
    setup.proxy.divert(Diverted::New, setup.fixture.hub.plane.admin()).unwrap();
    setup.proxy.cut_connections();
}

async fn until_other_cluster(setup: &Setup, hold: &ClusterHandle, live: &Connection) {
    wait::until_true("the other cluster to be identified", || match hold.state(Some(setup.namespace())) {
        ConnectionState::Connected(now) => now.identity != live.identity,
        _ => false,
    })
    .await;
}

/// Waits until the first cluster is connected again. Requests make the registry notice.
async fn until_cluster(setup: &Setup, hold: &ClusterHandle, live: &Connection) {
    wait::until("the first cluster to be connected", || async {
        let now = setup.connected(hold).await;
        let _ = now.client.fetch("/version").await;
        if now.identity == live.identity { Ok(()) } else { Err(format!("{:?}", now.identity)) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_nothing_to_another_cluster_behind_the_same_address() {
    let setup = Setup::with(rarely_probed()).await;
    let hold = setup.hold("eu-kubeconfig", &setup.admin()).await;
    let live = setup.connected(&hold).await;
    let mut events = setup.clusters.subscribe();
    let writer = write_steadily(&live.client, setup.namespace()).await;
    wait::until_true("writes", || writes(&setup) > 20).await;
    divert(&setup);
    until_other_cluster(&setup, &hold, &live).await;
    until_event(&mut events, &hold, ClusterChange::Connected).await;
    let error = live.client.fetch("/version").await.unwrap_err();
    assert_eq!(error.reason(), FailureReason::Credentials, "{error}");
    assert!(error.message().contains("another cluster"), "{error}");
    writer.abort();
    assert_eq!(diverted(&setup), [""; 0]);
    // Back to the first cluster: its clients continue.
    setup.proxy.end_diversion();
    setup.proxy.cut_connections();
    until_cluster(&setup, &hold, &live).await;
    live.client.fetch("/version").await.unwrap();
    assert_eq!(diverted(&setup), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn believes_nothing_that_a_watch_of_another_cluster_shows() {
    let setup = Setup::with(rarely_probed()).await;
    let map = |name: &str| {
        let mut map = objects::config_map(name, &[]);
        map.metadata.labels = Some([("tier".to_owned(), "web".to_owned())].into());
        map
    };
    let (ours, theirs) = (setup.fixture.remote("eu").api(), setup.fixture.hub.api::<ConfigMap>());
    ours.create(&PostParams::default(), &map("ours")).await.unwrap();
    theirs.create(&PostParams::default(), &map("theirs")).await.unwrap();
    let hold = setup.hold("eu-kubeconfig", &setup.admin()).await;
    let live = setup.connected(&hold).await;
    let kind = live.client.kind("", Some("v1"), "ConfigMap").await.unwrap();
    let namespace = Some(setup.namespace().into());
    let selection = Selection::Labels { namespace, selector: "tier=web".into() };
    let cache = setup.caches.watch(&live.client, &kind, selection);
    cache.wait_for_sync().await;
    let watches = Requests::any().verb(Verb::Watch).namespace(setup.namespace());
    wait::until_true("the watch to be open", || setup.proxy.count(&watches) > 0).await;
    divert(&setup);
    // Only the reflector makes requests.
    until_other_cluster(&setup, &hold, &live).await;
    assert!(matches!(cache.get(Some(setup.namespace()), "ours"), Lookup::Found(_)));
    assert!(!matches!(cache.get(Some(setup.namespace()), "theirs"), Lookup::Found(_)));
    assert_eq!(diverted(&setup), [""; 0]);
    // Back to the first cluster: the cache continues.
    ours.create(&PostParams::default(), &map("later")).await.unwrap();
    setup.proxy.end_diversion();
    setup.proxy.cut_connections();
    until_cluster(&setup, &hold, &live).await;
    wait::until_true("an object that was created meanwhile", || {
        matches!(cache.get(Some(setup.namespace()), "later"), Lookup::Found(_))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn verifies_the_cluster_on_a_fixed_schedule_under_steady_traffic() {
    let options = ClusterOptions { probe_interval: Duration::from_millis(500), ..ClusterOptions::default() };
    let setup = Setup::with(options).await;
    let hold = setup.hold("eu-kubeconfig", &setup.admin()).await;
    let live = setup.connected(&hold).await;
    let writer = write_steadily(&live.client, setup.namespace()).await;
    let before = setup.proxy.count(&probes());
    wait::until_true("probes", || setup.proxy.count(&probes()) >= before + 4).await;
    // A load balancer that forwards requests sends all of them to another cluster. No connection breaks.
    setup.proxy.divert(Diverted::All, setup.fixture.hub.plane.admin()).unwrap();
    until_other_cluster(&setup, &hold, &live).await;
    let error = live.client.fetch("/version").await.unwrap_err();
    assert!(error.message().contains("another cluster"), "{error}");
    writer.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn verifies_the_cluster_once_for_each_connection() {
    let setup = Setup::with(rarely_probed()).await;
    let hold = setup.hold("eu-kubeconfig", &setup.admin()).await;
    let live = setup.connected(&hold).await;
    let kind = live.client.kind("", Some("v1"), "ConfigMap").await.unwrap();
    let cache = setup.caches.watch(&live.client, &kind, Selection::Managed);
    cache.wait_for_sync().await;
    let watches = Requests::any().verb(Verb::Watch).resource("configmaps");
    wait::until_true("the watch to be open", || setup.proxy.count(&watches) > 0).await;
    for _ in 0..50 {
        live.client.fetch("/version").await.unwrap();
    }
    // One each for probes, requests and watches.
    assert_eq!(setup.proxy.count(&probes()), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_without_a_readable_uid_is_used_after_its_connections_broke() {
    let setup = Setup::with(rarely_probed()).await;
    let hold = setup.hold("minimal-kubeconfig", &setup.user("minimal").await).await;
    let live = setup.connected(&hold).await;
    let writer = write_steadily(&live.client, setup.namespace()).await;
    for _ in 0..2 {
        let before = writes(&setup);
        wait::until_true("writes", || writes(&setup) > before + 20).await;
        setup.proxy.cut_connections();
    }
    writer.abort();
    assert_eq!(setup.connected(&hold).await.identity, live.identity);
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_nothing_over_a_connection_whose_cluster_no_longer_shows_its_uid() {
    let setup = Setup::with(rarely_probed()).await;
    let hold = setup.hold("eu-kubeconfig", &setup.admin()).await;
    let live = setup.connected(&hold).await;
    let writer = write_steadily(&live.client, setup.namespace()).await;
    wait::until_true("writes", || writes(&setup) > 20).await;
    let rule = setup.proxy.on(probes(), Action::Answer(Answer::status(403)));
    divert(&setup);
    until_other_cluster(&setup, &hold, &live).await;
    writer.abort();
    assert_eq!(diverted(&setup), [""; 0]);
    assert!(!setup.connected(&hold).await.identity.verified);
    setup.proxy.end_diversion();
    setup.proxy.remove(rule);
    setup.proxy.cut_connections();
    until_cluster(&setup, &hold, &live).await;
    live.client.fetch("/version").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_cannot_be_verified_yet_carries_no_write_and_is_no_outage() {
    let setup = Setup::with(rarely_probed()).await;
    let hold = setup.hold("eu-kubeconfig", &setup.admin()).await;
    let live = setup.connected(&hold).await;
    let kind = live.client.kind("", Some("v1"), "ConfigMap").await.unwrap();
    let rule = setup.proxy.on(probes(), Action::Answer(Answer::status(503)));
    setup.proxy.cut_connections();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "web", "namespace": setup.namespace()}});
    let write = || async { live.client.apply(&kind, &map.clone().into(), Apply::by("test")).await };
    wait::until("the connection to be refused", || async {
        match write().await {
            Err(error) if error.reason() == FailureReason::ServerError => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert_eq!(writes(&setup), 0);
    assert_eq!(setup.connected(&hold).await.since, live.since);
    setup.proxy.remove(rule);
    wait::until("the write", || async { write().await.map_err(|error| error.to_string()) }).await;
    assert_eq!(setup.connected(&hold).await.since, live.since);
}
