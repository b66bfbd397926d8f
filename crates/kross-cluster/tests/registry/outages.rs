//! Clusters that become unreachable in several ways, and reachable again.

use std::time::{Duration, Instant};

use kross_api::{FailureReason, Operation};
use kross_cluster::{ApiKind, ClusterChange, ClusterOptions, ConnectStep, Lookup, Selection};
use kross_testing::{Action, Fault, Requests, Stopwatch, objects, wait};
use kube::api::PostParams;

use crate::setup::{Setup, WOKEN_WITHIN, until_event};

/// How soon an outage must be detected, and how soon its end.
const DETECTION: Duration = Duration::from_secs(15);
const RECOVERY: Duration = Duration::from_secs(5);
/// A probe interval for tests of probes that something requests: longer than they wait.
const PROBE_INTERVAL: Duration = Duration::from_secs(90);

/// An outage of a connected cluster, with a watch and a request in flight.
async fn outage(begin: impl Fn(&Setup), end: impl Fn(&Setup)) {
    // As after a long outage: the next attempt is far away, so only a liveness check can detect the end in time.
    let setup = Setup::backing_off().await;
    let mut events = setup.clusters.subscribe();
    let hold = setup.hold("eu-kubeconfig", &setup.admin()).await;
    let live = setup.connected(&hold).await;
    let kind = live.client.kind("", Some("v1"), "ConfigMap").await.unwrap();
    let namespace = Some(setup.namespace().into());
    let selection = Selection::Labels { namespace, selector: "tier=web".into() };
    let cache = setup.caches.watch(&live.client, &kind, selection);
    cache.wait_for_sync().await;

    begin(&setup);
    let began = Stopwatch::start();
    let waiting = {
        let client = live.client.clone();
        tokio::spawn(async move { client.fetch("/version").await })
    };
    let down = setup.down(&hold, ConnectStep::Reach).await;
    assert_eq!(down.identity, Some(live.identity.clone()));
    assert_eq!(down.reason, FailureReason::Unreachable, "{}", down.message);
    assert!(down.last_contact.is_some() && down.next_attempt.is_some());
    let error = waiting.await.unwrap().unwrap_err();
    // A request in flight fails as soon as the outage is detected.
    began.assert_within(DETECTION);
    assert!(matches!(error.reason(), FailureReason::Unreachable | FailureReason::Timeout), "{error}");
    let error = live.client.fetch("/version").await.unwrap_err();
    assert_eq!(error.operation(), Operation::Connect, "nothing is sent to an unreachable cluster");

    let mut map = objects::config_map("meanwhile", &[]);
    map.metadata.labels = Some([("tier".to_owned(), "web".to_owned())].into());
    let maps = setup.fixture.remote("eu").api();
    maps.create(&PostParams::default(), &map).await.unwrap();

    end(&setup);
    let healed = Stopwatch::start();
    let back = setup.connected_within(WOKEN_WITHIN, &hold).await;
    assert_eq!(back.identity, live.identity);
    live.client.fetch("/version").await.unwrap();
    // Reconnecting wakes the reflector, whose backoff is as long.
    wait::until_within(WOKEN_WITHIN, "an object that was created meanwhile", || async {
        match cache.get(Some(setup.namespace()), "meanwhile") {
            Lookup::Found(_) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    healed.assert_within(RECOVERY);
    // Subscribers get an event for each change.
    assert_eq!(until_event(&mut events, &hold, ClusterChange::Connected).await, []);
    assert_eq!(until_event(&mut events, &hold, ClusterChange::Lost).await, []);
    let between = until_event(&mut events, &hold, ClusterChange::Connected).await;
    assert!(between.iter().all(|event| event.change == ClusterChange::Failed), "{between:?}");
}

/// It accepts connections and sends nothing; packets are dropped; it refuses connections; it accepts requests and never
/// responds.
#[tokio::test(flavor = "multi_thread")]
async fn detects_every_kind_of_outage_and_its_end() {
    let begin = |fault| move |setup: &Setup| setup.proxy.set(fault);
    let end = |setup: &Setup| setup.proxy.clear();
    let hang = |setup: &Setup| {
        setup.proxy.on(Requests::any(), Action::Hang);
    };
    tokio::join!(
        Box::pin(outage(begin(Fault::Hang), end)),
        Box::pin(outage(begin(Fault::Drop), end)),
        Box::pin(outage(begin(Fault::Refuse), end)),
        Box::pin(outage(hang, end)),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn connects_to_a_cluster_that_was_unreachable_from_the_start_as_soon_as_it_is_reachable() {
    let setup = Setup::backing_off().await;
    let mut events = setup.clusters.subscribe();
    setup.proxy.set(Fault::Refuse);
    let hold = setup.hold("eu-kubeconfig", &setup.admin()).await;
    let down = setup.down(&hold, ConnectStep::Reach).await;
    assert_eq!((down.reason, down.identity.clone()), (FailureReason::Unreachable, None));
    assert!(down.message.contains(": connection refused"), "{}", down.message);
    assert_eq!(until_event(&mut events, &hold, ClusterChange::Failed).await, []);
    let healed = Stopwatch::start();
    setup.proxy.set(Fault::Pass);
    setup.connected_within(WOKEN_WITHIN, &hold).await;
    healed.assert_within(RECOVERY);
    until_event(&mut events, &hold, ClusterChange::Connected).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replaces_broken_sockets_without_an_event() {
    let setup = Setup::new().await;
    // A credential per round: a second cut could break the probe that the first one caused.
    for round in 0..3 {
        let mut events = setup.clusters.subscribe();
        let user = setup.user(&format!("cut-{round}")).await;
        let hold = setup.hold(&format!("eu-{round}-kubeconfig"), &user).await;
        let live = setup.connected(&hold).await;
        until_event(&mut events, &hold, ClusterChange::Connected).await;
        setup.proxy.cut_connections();
        // A request in flight may have had an effect, so it is not retried automatically.
        wait::until("a response", || async {
            live.client.fetch("/version").await.map_err(|error| error.to_string())
        })
        .await;
        assert_eq!(setup.connected(&hold).await.since, live.since);
        while let Ok(event) = events.try_recv() {
            assert_ne!(event.secret, *hold.secret(), "{event:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn does_not_send_the_credential_to_a_server_with_a_certificate_of_another_authority() {
    let setup = Setup::new().await;
    let hold = setup.hold("eu-kubeconfig", &setup.user("careful").await).await;
    setup.connected(&hold).await;
    setup.proxy.clear_requests();
    setup.proxy.set(Fault::WrongCertificate);
    let down = setup.down(&hold, ConnectStep::Authenticate).await;
    assert_eq!(down.reason, FailureReason::Credentials);
    assert!(down.message.contains("certificate-authority-data"), "{}", down.message);
    assert_eq!(setup.proxy.count(&Requests::any()), 0);
    setup.proxy.set(Fault::Pass);
    setup.connected(&hold).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_responds_503_to_a_probe_stays_connected() {
    // So that only the request for a probe can cause one in time.
    let setup =
        Setup::with(ClusterOptions { probe_interval: PROBE_INTERVAL, ..ClusterOptions::default() }).await;
    let hold = setup.hold("eu-kubeconfig", &setup.admin()).await;
    let live = setup.connected(&hold).await;
    let busy = Action::Answer(kross_testing::Answer::status(503));
    let probes = Requests::any().resource("namespaces").name("kube-system");
    setup.proxy.on(probes.clone(), busy);
    let before = setup.proxy.count(&probes);
    // An unauthorized response requests a probe.
    setup.proxy.on_next(
        1,
        Requests::any().resource("/version"),
        Action::Answer(kross_testing::Answer::status(401)),
    );
    live.client.fetch("/version").await.unwrap_err();
    wait::until_within(WOKEN_WITHIN, "the cluster to be probed", || async {
        if setup.proxy.count(&probes) > before { Ok(()) } else { Err("no probe".to_owned()) }
    })
    .await;
    assert_eq!(setup.connected(&hold).await.since, live.since);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_answers_just_within_the_probe_timeout_stays_connected() {
    let options = ClusterOptions {
        probe_interval: Duration::from_millis(200),
        probe_timeout: Duration::from_secs(4),
        ..ClusterOptions::default()
    };
    let setup = Setup::with(options).await;
    let hold = setup.hold("eu-kubeconfig", &setup.admin()).await;
    let live = setup.connected(&hold).await;
    let probes = Requests::any().resource("namespaces").name("kube-system");
    setup.proxy.on(probes.clone(), Action::Delay(Duration::from_millis(2500)));
    setup.proxy.clear_requests();
    let answered = || setup.proxy.requests(&probes).iter().filter(|probe| probe.status().is_some()).count();
    wait::until_true("probes to be answered", || answered() >= 2).await;
    assert_eq!(setup.connected(&hold).await.since, live.since);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_time_out_do_not_disconnect_a_cluster_that_responds() {
    let mut options = ClusterOptions { probe_interval: PROBE_INTERVAL, ..ClusterOptions::default() };
    options.client.request_timeout = Duration::from_secs(2);
    let setup = Setup::with(options).await;
    let hold = setup.hold("eu-kubeconfig", &setup.admin()).await;
    let live = setup.connected(&hold).await;
    let kind = ApiKind::custom("", "v1", "ConfigMap", "configmaps", true);
    let hanging = Requests::any().resource("configmaps").name("hangs");
    setup.proxy.on(hanging.clone(), Action::Hang);
    let gets = (0..3).map(|_| live.client.get(&kind, Some("default"), "hangs"));
    for answer in futures::future::join_all(gets).await {
        let error = answer.unwrap_err();
        assert_eq!(error.reason(), FailureReason::Timeout, "{error}");
    }
    // They do not open the circuit breaker: the probe that they request decides.
    live.client.fetch("/version").await.unwrap();
    assert_eq!(setup.clusters.states()[0].refused, 0);
    assert_eq!(setup.connected(&hold).await.since, live.since);
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_the_requests_in_flight_and_queues_the_others() {
    let mut options = ClusterOptions::default();
    options.client.requests.max_streams = 2;
    let setup = Setup::with(options).await;
    let hold = setup.hold("eu-kubeconfig", &setup.admin()).await;
    let live = setup.connected(&hold).await;
    let delay = Duration::from_millis(200);
    setup.proxy.on(Requests::any().resource("/version"), Action::Delay(delay));
    let started = Instant::now();
    let answers = futures::future::join_all((0..6).map(|_| live.client.fetch("/version"))).await;
    for answer in answers {
        answer.unwrap();
    }
    assert!(started.elapsed() >= 3 * delay, "{:?}", started.elapsed());
}
