//! Clusters that go dark in every way there is, and come back.

use std::time::{Duration, Instant};

use kross_api::{FailureReason, Operation};
use kross_cluster::{ApiKind, Backoff, ClusterChange, ClusterOptions, ConnectStep, Lookup, Selection};
use kross_testing::{Action, Fault, Requests, Stopwatch, objects, wait};
use kube::api::PostParams;

use crate::setup::{Setup, told};

/// How soon a loss must be noticed, and how soon that it is over.
const DETECTION: Duration = Duration::from_secs(15);
const RECOVERY: Duration = Duration::from_secs(5);

/// From connected through an outage and back, with a watch and with somebody who waits.
async fn outage(begin: impl Fn(&Setup), end: impl Fn(&Setup)) {
    // As if it had been dark for long: the next attempt is far away, and yet its end is noticed.
    let backoff = Backoff { base: Duration::from_secs(20), cap: Duration::from_secs(30) };
    let setup = Setup::with(ClusterOptions { backoff, ..ClusterOptions::default() }).await;
    let mut events = setup.clusters.subscribe();
    let hold = setup.hold("eu-kubeconfig", &setup.admin()).await;
    let live = setup.connected(&hold).await;
    let kind = live.client.kind("", Some("v1"), "ConfigMap").await.unwrap();
    let namespace = Some(setup.namespace().into());
    let selection = Selection::Labels { namespace, selector: "tier=web".into() };
    let watch = setup.watches.watch(&live.client, &kind, selection);
    watch.complete().await;

    begin(&setup);
    let dark = Stopwatch::start();
    let waiting = {
        let client = live.client.clone();
        tokio::spawn(async move { client.fetch("/version").await })
    };
    let down = setup.down(&hold, ConnectStep::Reach).await;
    assert_eq!(down.identity, Some(live.identity.clone()));
    assert_eq!(down.reason, FailureReason::Unreachable, "whatever the darkness: {}", down.message);
    assert!(down.last_contact.is_some() && down.next_attempt.is_some());
    let error = waiting.await.unwrap().unwrap_err();
    // Nobody waits longer than it takes to notice.
    dark.assert_within(DETECTION);
    assert!(matches!(error.reason(), FailureReason::Unreachable | FailureReason::Timeout), "{error}");
    let error = live.client.fetch("/version").await.unwrap_err();
    assert_eq!(error.operation(), Operation::Connect, "nothing is sent to a lost cluster");

    let mut map = objects::config_map("meanwhile", &[]);
    map.metadata.labels = Some([("tier".to_owned(), "web".to_owned())].into());
    let maps = setup.fixture.remote("eu").api();
    maps.create(&PostParams::default(), &map).await.unwrap();

    end(&setup);
    let healed = Stopwatch::start();
    let back = setup.connected(&hold).await;
    assert_eq!(back.identity, live.identity);
    live.client.fetch("/version").await.unwrap();
    wait::until("what happened meanwhile", || async {
        match watch.get(Some(setup.namespace()), "meanwhile") {
            Lookup::Found(_) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    healed.assert_within(RECOVERY);
    // Those who wait are woken.
    assert_eq!(told(&mut events, &hold, ClusterChange::Connected).await, []);
    assert_eq!(told(&mut events, &hold, ClusterChange::Lost).await, []);
    let between = told(&mut events, &hold, ClusterChange::Connected).await;
    assert!(between.iter().all(|event| event.change == ClusterChange::Failed), "{between:?}");
}

/// It accepts connections and never answers; its network drops packets; it refuses connections; it takes requests and never
/// answers them.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_goes_dark_is_noticed_and_comes_back_whatever_the_darkness() {
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
async fn a_cluster_that_was_dark_from_the_beginning_is_connected_when_it_comes_up() {
    let setup = Setup::new().await;
    let mut events = setup.clusters.subscribe();
    setup.proxy.set(Fault::Refuse);
    let hold = setup.hold("eu-kubeconfig", &setup.admin()).await;
    let down = setup.down(&hold, ConnectStep::Reach).await;
    assert_eq!((down.reason, down.identity.clone()), (FailureReason::Unreachable, None));
    assert!(down.message.contains("Connection refused"), "{}", down.message);
    assert_eq!(told(&mut events, &hold, ClusterChange::Failed).await, []);
    let healed = Stopwatch::start();
    setup.proxy.set(Fault::Pass);
    setup.connected(&hold).await;
    healed.assert_within(RECOVERY);
    told(&mut events, &hold, ClusterChange::Connected).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sockets_that_break_are_replaced_without_a_word() {
    let setup = Setup::new().await;
    // A credential for each round: a second cut could break the look that the first one caused.
    for round in 0..3 {
        let mut events = setup.clusters.subscribe();
        let user = setup.user(&format!("cut-{round}")).await;
        let hold = setup.hold(&format!("eu-{round}-kubeconfig"), &user).await;
        let live = setup.connected(&hold).await;
        told(&mut events, &hold, ClusterChange::Connected).await;
        setup.proxy.cut_connections();
        // A request that was under way may have been done, so it is not repeated by itself.
        wait::until("an answer", || async {
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
async fn a_server_with_the_certificate_of_another_authority_is_not_given_the_credential() {
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
async fn a_busy_cluster_is_still_a_connected_one() {
    let setup = Setup::new().await;
    let hold = setup.hold("eu-kubeconfig", &setup.admin()).await;
    let live = setup.connected(&hold).await;
    let busy = Action::Answer(kross_testing::Answer::status(503));
    let probes = Requests::any().resource("namespaces").name("kube-system");
    setup.proxy.on(probes.clone(), busy);
    let before = setup.proxy.count(&probes);
    // Somebody doubts, and the cluster is asked.
    setup.proxy.on_next(
        1,
        Requests::any().resource("/version"),
        Action::Answer(kross_testing::Answer::status(401)),
    );
    live.client.fetch("/version").await.unwrap_err();
    wait::until_true("the cluster to be asked", || setup.proxy.count(&probes) > before).await;
    assert_eq!(setup.connected(&hold).await.since, live.since);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_hang_end_in_time_and_do_not_take_the_cluster_with_them() {
    let mut options = ClusterOptions::default();
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
    // So many in a row make the controller ask before anything else is sent; the cluster is there, so it goes on.
    wait::until("the cluster to be used again", || async {
        live.client.fetch("/version").await.map_err(|error| error.to_string())
    })
    .await;
    assert_eq!(setup.connected(&hold).await.since, live.since);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_gets_only_so_many_requests_at_once_and_the_others_wait_in_line() {
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
