//! Servers under different certificate authorities that claim the UID of one cluster: a tenant's server that lies, and copies of a
//! Secret in the middle of a rotation.

use std::time::Duration;

use kross_cluster::{
    CacheOptions, ClusterChange, ClusterHandle, ClusterOptions, Connection, ConnectionState, Selection,
};
use kross_local::Kubeconfig;
use kross_testing::{Action, Answer, FaultProxy, Requests, Verb, wait};
use serde_json::json;

use crate::setup::Setup;

fn probes() -> Requests {
    Requests::any().resource("namespaces").name("kube-system")
}

/// The server of a tenant, which claims to be the cluster of the test, and its kubeconfig.
async fn liar(setup: &Setup) -> (FaultProxy, Kubeconfig) {
    let admin = setup.fixture.hub.plane.admin();
    let proxy = FaultProxy::start_under_own_authority(admin).unwrap();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "kube-system", "uid": setup.uid().await, "resourceVersion": "1"}});
    proxy.on(probes(), Action::Answer(Answer::json(200, &namespace)));
    let kubeconfig = proxy.kubeconfig(admin).unwrap();
    (proxy, kubeconfig)
}

/// Waits until the users of a Secret are warned, or not any more.
async fn until_warned(setup: &Setup, hold: &ClusterHandle, warned: bool) -> Connection {
    wait::until(format!("a warning to be there: {warned}"), || async {
        match hold.state(Some(setup.namespace())) {
            ConnectionState::Connected(live) if live.identity_conflict.is_some() == warned => Ok(live),
            other => Err(format!("{other:?}")),
        }
    })
    .await
}

/// Waits until a Secret leads to another server.
async fn until_rotated(setup: &Setup, hold: &ClusterHandle, before: &Connection) -> Connection {
    wait::until("the new kubeconfig to be in use", || async {
        match hold.state(Some(setup.namespace())) {
            ConnectionState::Connected(live) if live.client.access() != before.client.access() => Ok(live),
            other => Err(format!("{other:?}")),
        }
    })
    .await
}

/// The same user through a server under another authority.
fn rotated(setup: &Setup) -> (FaultProxy, Kubeconfig) {
    let admin = setup.fixture.remote("eu").plane.admin();
    let proxy = FaultProxy::start_under_own_authority(admin).unwrap();
    let kubeconfig = proxy.kubeconfig(admin).unwrap();
    (proxy, kubeconfig)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_claims_the_uid_of_a_cluster_is_another_cluster_though_it_connected_first() {
    let options = ClusterOptions { probe_interval: Duration::from_millis(500), ..ClusterOptions::default() };
    let setup = Setup::with(options).await;
    let (proxy, kubeconfig) = liar(&setup).await;
    let tenant = setup.hold("tenant-kubeconfig", &kubeconfig).await;
    let first = setup.connected(&tenant).await;
    assert_eq!(first.identity.uid, setup.uid().await.as_str());
    assert!(first.warnings.is_empty(), "{:?}", first.warnings);
    let mut events = setup.clusters.subscribe();

    let production = setup.hold("eu-kubeconfig", &setup.admin()).await;
    let genuine = until_warned(&setup, &production, true).await;
    let claimed = until_warned(&setup, &tenant, true).await;
    assert_eq!(genuine.identity.uid, claimed.identity.uid);
    assert_ne!(genuine.identity.id, claimed.identity.id);
    assert_eq!(claimed.identity, first.identity, "its identity does not depend on who connects");
    assert_eq!(setup.clusters.identity_conflicts(), 1);
    for state in setup.clusters.states() {
        assert!(state.warnings.iter().any(|warning| warning.contains("claims the same UID")), "{state:?}");
        assert_eq!(
            state.server.as_deref() == Some(&*proxy.url()),
            state.secret.contains("tenant"),
            "{state:?}"
        );
    }
    genuine.client.fetch("/version").await.unwrap();
    claimed.client.fetch("/version").await.unwrap();

    // Both are probed on, and nothing else happens: neither reconnects, and nobody is notified again.
    for proxy in [&setup.proxy, &proxy] {
        let before = proxy.count(&probes());
        wait::until_true("probes", || proxy.count(&probes()) >= before + 4).await;
    }
    let attempts: Vec<u64> = setup.clusters.states().iter().map(|state| state.attempts).collect();
    assert_eq!(attempts, [1, 1]);
    let mut conflicts = 0;
    while let Ok(event) = events.try_recv() {
        conflicts += usize::from(event.change == ClusterChange::IdentityConflict);
    }
    assert_eq!(conflicts, 2, "one event for each Secret");
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_lists_of_a_server_that_claims_a_uid_delay_no_list_of_the_cluster() {
    let caches = CacheOptions { max_concurrent_lists: 2, ..CacheOptions::default() };
    let setup = Setup::with_caches(caches, ClusterOptions::default()).await;
    let (proxy, kubeconfig) = liar(&setup).await;
    let tenant = setup.hold("tenant-kubeconfig", &kubeconfig).await;
    let claimed = setup.connected(&tenant).await;
    let kind = claimed.client.kind("", Some("v1"), "ConfigMap").await.unwrap();
    let selection =
        |number: usize| Selection::Labels { namespace: None, selector: format!("number={number}").into() };
    let lists = Requests::any().verb(Verb::List).resource("configmaps");
    proxy.on(lists.clone(), Action::Hang);
    let hanging: Vec<_> =
        (0..4).map(|number| setup.caches.watch(&claimed.client, &kind, selection(number))).collect();
    wait::until_true("lists that hang", || proxy.count(&lists) == 2).await;

    let production = setup.hold("eu-kubeconfig", &setup.admin()).await;
    let genuine = setup.connected(&production).await;
    let kind = genuine.client.kind("", Some("v1"), "ConfigMap").await.unwrap();
    let cache = setup.caches.watch(&genuine.client, &kind, selection(0));
    cache.wait_for_sync().await;
    assert!(hanging.iter().all(|cache| !cache.has_synced()));
    assert_ne!(cache.key().cluster, hanging[0].key().cluster);
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_of_a_secret_are_one_cluster_and_warn_of_nothing_while_their_authority_is_rotated() {
    let setup = Setup::new().await;
    let first = setup.hold("first-kubeconfig", &setup.admin()).await;
    let second = setup.hold("second-kubeconfig", &setup.admin()).await;
    let before = [setup.connected(&first).await, setup.connected(&second).await];
    assert_eq!(before[0].identity, before[1].identity);
    let mut events = setup.clusters.subscribe();

    let (_proxy, kubeconfig) = rotated(&setup);
    setup.put("first-kubeconfig", &kubeconfig).await;
    let rotated = until_rotated(&setup, &first, &before[0]).await;
    assert_eq!(rotated.identity.uid, before[0].identity.uid);
    assert_eq!(setup.clusters.identity_conflicts(), 0);
    // The copy that was not replaced yet works as before.
    let waiting = setup.connected(&second).await;
    assert_eq!(waiting.identity, before[1].identity);
    waiting.client.fetch("/version").await.unwrap();
    // What began with the former authority is written, but nothing that it reads is mixed with the rest.
    let error = before[0].client.fetch("/version").await.unwrap_err();
    assert!(error.message().contains("certificate authority in the Secret was replaced"), "{error}");

    setup.put("second-kubeconfig", &kubeconfig).await;
    let after = until_rotated(&setup, &second, &before[1]).await;
    assert_eq!(after.identity, rotated.identity);
    assert!(after.warnings.is_empty() && setup.connected(&first).await.warnings.is_empty());
    while let Ok(event) = events.try_recv() {
        assert_ne!(event.change, ClusterChange::IdentityConflict, "{event:?}");
        assert_ne!(event.change, ClusterChange::Lost, "{event:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn warns_of_a_copy_that_keeps_its_former_authority_until_it_is_replaced() {
    let options = ClusterOptions {
        identity_grace: Duration::from_secs(2),
        idle_timeout: Duration::from_millis(100),
        ..ClusterOptions::default()
    };
    let setup = Setup::with(options).await;
    let first = setup.hold("first-kubeconfig", &setup.admin()).await;
    let second = setup.hold("second-kubeconfig", &setup.admin()).await;
    let before = [setup.connected(&first).await, setup.connected(&second).await];
    let (_proxy, kubeconfig) = rotated(&setup);
    setup.put("first-kubeconfig", &kubeconfig).await;
    until_rotated(&setup, &first, &before[0]).await;
    until_warned(&setup, &first, true).await;
    until_warned(&setup, &second, true).await;
    setup.put("second-kubeconfig", &kubeconfig).await;
    until_rotated(&setup, &second, &before[1]).await;
    until_warned(&setup, &second, false).await;
    until_warned(&setup, &first, false).await;
    assert_eq!(setup.clusters.identity_conflicts(), 0);

    // A Secret that nobody uses any more claims nothing.
    setup.put("second-kubeconfig", &setup.admin()).await;
    until_warned(&setup, &first, true).await;
    drop(second);
    until_warned(&setup, &first, false).await;
}
