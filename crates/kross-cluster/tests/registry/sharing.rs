//! Which Secrets share a connection, and when it is closed.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kross_cluster::{ClusterChange, ClusterOptions, ClusterState, Connection, ConnectionState, Selection};
use kross_testing::{Fault, Stopwatch, wait};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::setup::{Setup, until_event};

#[tokio::test(flavor = "multi_thread")]
async fn secrets_with_the_same_kubeconfig_share_a_connection() {
    let setup = Setup::new().await;
    let first = setup.hold("first-kubeconfig", &setup.admin()).await;
    let second = setup.hold("second-kubeconfig", &setup.admin()).await;
    let weaker = setup.hold("weaker-kubeconfig", &setup.user("weaker").await).await;
    let lives =
        [setup.connected(&first).await, setup.connected(&second).await, setup.connected(&weaker).await];
    assert_eq!(lives[0].client.access(), lives[1].client.access());
    assert_ne!(lives[0].client.access(), lives[2].client.access());
    let attempts: Vec<u64> = setup.clusters.states().iter().map(|state| state.attempts).collect();
    assert_eq!(attempts, [1, 1, 1], "one attempt for each credential");

    // Objects that the first credential may read are not shown to users of the weaker one.
    let kind = lives[0].client.kind("", Some("v1"), "Secret").await.unwrap();
    let cache = |live: &Connection| setup.caches.watch(&live.client, &kind, Selection::All);
    let caches = [cache(&lives[0]), cache(&lives[1]), cache(&lives[2])];
    caches[0].wait_for_sync().await;
    assert!(caches[1].has_synced() && !caches[2].has_synced());
    assert_eq!(caches[0].key(), caches[1].key());
    assert!(caches[2].list().is_none());

    // A Secret that gets another kubeconfig does not affect the others.
    setup.put("first-kubeconfig", &setup.user("other").await).await;
    wait::until_true("the first Secret to use another credential", || {
        match first.state(Some(setup.namespace())) {
            ConnectionState::Connected(live) => live.client.access() != lives[1].client.access(),
            _ => false,
        }
    })
    .await;
    drop(first);
    let second = setup.connected(&second).await;
    assert_eq!(second.client.access(), lives[1].client.access());
    second.client.fetch("/version").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn disconnects_from_a_cluster_without_handles() {
    let options = ClusterOptions { idle_timeout: Duration::from_millis(300), ..ClusterOptions::default() };
    let setup = Setup::with(options).await;
    let hold = setup.hold("eu-kubeconfig", &setup.admin()).await;
    let live = setup.connected(&hold).await;
    let again = hold.clone();
    drop(hold);
    assert_eq!(setup.clusters.states().len(), 1);
    drop(again);
    wait::until_true("the cluster to be released", || setup.clusters.states().is_empty()).await;
    wait::until("requests to be rejected", || async {
        let answered = live.client.fetch("/version").await;
        answered.err().ok_or_else(|| "they succeed".to_owned())
    })
    .await;
    // A later handle connects again.
    let hold = setup.clusters.hold(&setup.address("eu-kubeconfig"));
    setup.connected(&hold).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn new_metadata_of_the_secret_does_not_reconnect() {
    let setup = Setup::new().await;
    let hold = setup.hold("eu-kubeconfig", &setup.admin()).await;
    let live = setup.connected(&hold).await;
    let mut events = setup.clusters.subscribe();
    let secrets = setup.fixture.hub.api::<Secret>();
    let annotations = json!({"kro.run/allowed-namespaces": "*"});
    let patch = Patch::Merge(json!({"metadata": {"labels": {"seen": "true"}, "annotations": annotations}}));
    secrets.patch("eu-kubeconfig", &PatchParams::default(), &patch).await.unwrap();
    until_event(&mut events, &hold, ClusterChange::Permissions).await;
    let after = setup.connected(&hold).await;
    assert_eq!((after.since, after.client.access()), (live.since, live.client.access()));
    assert_eq!(setup.clusters.states()[0].attempts, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn reading_the_state_of_an_unreachable_cluster_does_not_wait() {
    let setup = Setup::new().await;
    setup.proxy.set(Fault::Hang);
    let hold = setup.hold("eu-kubeconfig", &setup.admin()).await;
    wait::until_true("the Secret to be read", || {
        setup.clusters.states()[0].state == ClusterState::Connecting
    })
    .await;
    let stopwatch = Stopwatch::start();
    for _ in 0..1000 {
        assert!(!matches!(hold.state(Some(setup.namespace())), ConnectionState::Connected(_)));
    }
    stopwatch.assert_within(Duration::from_secs(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn states_and_debug_output_show_no_credential() {
    let setup = Setup::new().await;
    let kubeconfig = setup.user("canary").await;
    let kross_local::Credential::Token(token) = &kubeconfig.credential else { panic!("a token") };
    let hold = setup.hold("canary-kubeconfig", &kubeconfig).await;
    let live = setup.connected(&hold).await;
    let connected = setup.clusters.states();
    setup.proxy.set(Fault::Refuse);
    let down = setup.down(&hold, kross_cluster::ConnectStep::Reach).await;
    let lost = setup.clusters.states();
    let json = serde_json::to_string_pretty(&(&connected, &lost)).unwrap();
    assert!(
        json.contains("\"state\": \"Connected\"") && json.contains("\"state\": \"NotConnected\""),
        "{json}"
    );
    assert!(json.contains(&setup.proxy.url()) && json.contains("\"method\": \"token\""), "{json}");
    let shown = format!("{json} {live:?} {down:?} {hold:?} {:?} {connected:?} {lost:?}", setup.clusters);
    assert!(!shown.contains(token.as_str()) && !shown.contains(&token[..20]));
}
