//! Requests that wait for a permit: waiting is not an outage, and no instance holds up another one.

use std::time::Duration;

use futures::future::join_all;
use kross_cluster::{ApiKind, ClusterId, ClusterOptions, ObjectKey};
use kross_testing::{Action, Answer, Requests, wait};

use crate::setup::Setup;

fn instance(name: &str) -> ObjectKey {
    ObjectKey {
        cluster: ClusterId::local(),
        group: "kro.run".into(),
        kind: "App".into(),
        namespace: Some("default".into()),
        name: name.into(),
    }
}

fn config_map() -> ApiKind {
    ApiKind::custom("", "v1", "ConfigMap", "configmaps", true)
}

/// The requests that identify the cluster.
fn probes() -> Requests {
    Requests::any().resource("namespaces").name("kube-system")
}

/// Options with this many requests in flight at most.
fn with_requests(count: usize) -> ClusterOptions {
    let mut options = ClusterOptions::default();
    options.client.requests.max_streams = count;
    options
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_for_a_permit_does_not_count_as_silence_of_the_cluster() {
    let mut options = with_requests(2);
    options.client.read_timeout = Duration::from_secs(1);
    options.client.request_timeout = Duration::from_secs(1);
    options.client.list_timeout = Duration::from_secs(1);
    options.probe_interval = Duration::from_millis(500);
    options.probe_timeout = Duration::from_secs(1);
    let setup = Setup::with(options).await;
    let hold = setup.hold("eu-kubeconfig", &setup.admin()).await;
    let live = setup.connected(&hold).await;
    setup.proxy.on(Requests::any().resource("/version"), Action::Delay(Duration::from_millis(200)));
    let mut events = setup.clusters.subscribe();
    // They take three seconds altogether.
    for answer in join_all((0..30).map(|_| live.client.fetch("/version"))).await {
        answer.unwrap();
    }
    assert_eq!(setup.connected(&hold).await.since, live.since);
    assert!(events.try_recv().is_err(), "the connection never changed");
    assert_eq!(setup.clusters.states()[0].failed, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_does_not_wait_for_a_permit() {
    let options = ClusterOptions { probe_interval: Duration::from_millis(200), ..with_requests(1) };
    let setup = Setup::with(options).await;
    let hold = setup.hold("eu-kubeconfig", &setup.admin()).await;
    let live = setup.connected(&hold).await;
    let held = Requests::any().resource("configmaps").name("held");
    let rule = setup.proxy.on(held.clone(), Action::Hold);
    let (client, kind) = (live.client.clone(), config_map());
    let waiting = tokio::spawn(async move { client.get(&kind, Some("default"), "held").await });
    wait::until_true("the only permit to be in use", || setup.proxy.count(&held) == 1).await;
    let before = setup.proxy.count(&probes());
    wait::until_true("the cluster to be probed", || setup.proxy.count(&probes()) >= before + 3).await;
    assert_eq!(setup.clusters.states()[0].attempts, 1, "no probe failed");
    setup.proxy.remove(rule);
    assert!(waiting.await.unwrap().unwrap_err().is_object_not_found());
    assert_eq!(setup.connected(&hold).await.since, live.since);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_with_one_request_does_not_wait_for_all_requests_of_another_one() {
    let setup = Setup::with(with_requests(2)).await;
    let hold = setup.hold("eu-kubeconfig", &setup.admin()).await;
    let live = setup.connected(&hold).await;
    let (large, small) =
        (live.client.on_behalf_of(&instance("large")), live.client.on_behalf_of(&instance("small")));
    let held = Requests::any().resource("configmaps").namespace(setup.namespace());
    let rule = setup.proxy.on(held.clone(), Action::Hold);
    let (kind, namespace) = (config_map(), Some(setup.namespace()));
    let names: Vec<String> = (0..300).map(|number| format!("large-{number}")).collect();
    let mut requests: Vec<_> = names.iter().map(|name| Box::pin(large.get(&kind, namespace, name))).collect();
    // Each of them is queued when it is polled for the first time.
    for request in &mut requests {
        assert!(futures::poll!(request).is_pending());
    }
    let mut last = Box::pin(small.get(&kind, namespace, "small"));
    assert!(futures::poll!(&mut last).is_pending());
    let state = &setup.clusters.states()[0];
    assert_eq!((state.limit, state.in_flight, state.waiting), (2, 2, 299));
    setup.proxy.remove(rule);
    let (last, _) = tokio::join!(last, join_all(requests));
    assert!(last.unwrap_err().is_object_not_found());
    let sent = setup.proxy.requests(&held);
    let position = sent.iter().position(|record| record.request.name.as_deref() == Some("small")).unwrap();
    assert!(position < 10, "{position} requests of the other instance were sent first");
    assert_eq!(sent.len(), 301);
}

#[tokio::test(flavor = "multi_thread")]
async fn reconnecting_adds_no_permits() {
    let options = ClusterOptions { probe_interval: Duration::from_millis(500), ..with_requests(2) };
    let setup = Setup::with(options).await;
    let hold = setup.hold("eu-kubeconfig", &setup.admin()).await;
    let live = setup.connected(&hold).await;
    let held = Requests::any().resource("configmaps");
    let rule = setup.proxy.on(held.clone(), Action::Hold);
    let get = |name: String| {
        let (client, kind) = (live.client.clone(), config_map());
        tokio::spawn(async move { client.get(&kind, Some("default"), &name).await })
    };
    let mut requests: Vec<_> = (0..2).map(|number| get(format!("before-{number}"))).collect();
    wait::until_true("both permits to be in use", || setup.proxy.count(&held) == 2).await;
    // The next probe is not authorized, so the registry connects again.
    setup.proxy.on_next(1, probes(), Action::Answer(Answer::status(401)));
    wait::until_true("the cluster to be connected again", || setup.clusters.states()[0].attempts == 2).await;
    assert_eq!(setup.connected(&hold).await.since, live.since);
    requests.extend((0..4).map(|number| get(format!("after-{number}"))));
    for _ in 0..50 {
        // Meanwhile the others would have been sent.
        setup.uid().await;
    }
    assert_eq!(setup.proxy.count(&held), 2, "all permits are in use");
    setup.proxy.remove(rule);
    for answer in join_all(requests).await {
        assert!(answer.unwrap().unwrap_err().is_object_not_found());
    }
}
