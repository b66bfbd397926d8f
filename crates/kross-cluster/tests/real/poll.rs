//! Copies that are kept by polls, and watches that poll while there is no room for them.

use std::time::{Duration, Instant};

use kross_api::SyncMode;
use kross_cluster::{
    Cache, CacheOptions, CachePhase, Caches, ClientOptions, ClusterClient, ClusterId, Lookup, Selection,
    SyncPolicy,
};
use kross_testing::{Action, Answer, Fault, Requests, Stopwatch, Verb, wait};

use crate::watch::{OURS, Scene, next, until};

const INTERVAL: Duration = Duration::from_millis(250);
const JITTER: Duration = Duration::from_millis(100);

fn of_test(scene: &Scene) -> Selection {
    Selection::Labels {
        namespace: Some(scene.setup.fixture.namespace.as_str().into()),
        selector: "kro.run/owned=true".into(),
    }
}

async fn poll(scene: &Scene) -> Cache {
    let sync = SyncPolicy::Poll { interval: INTERVAL, jitter: JITTER };
    let watch = scene.watches.cache_with(&scene.client, &scene.setup.config_map, of_test(scene), sync);
    watch.wait_for_sync().await;
    watch
}

fn reading() -> Requests {
    Requests::any().verb(Verb::Get).resource("configmaps")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poll_tells_what_a_watch_would_and_never_opens_one() {
    let scene = Scene::new().await;
    scene.apply("early", "1").await;
    let watch = poll(&scene).await;
    let mut events = watch.subscribe();
    assert_eq!(until(&mut events, "synced").await, ["+early=1", "synced"]);
    scene.apply("late", "1").await;
    assert_eq!(next(&mut events).await, "+late=1");
    scene.apply("early", "2").await;
    assert_eq!(next(&mut events).await, "~early=2");
    scene.delete("late").await;
    assert_eq!(next(&mut events).await, "-late");
    let namespace = scene.setup.namespace();
    assert!(matches!(watch.get(namespace, "early"), Lookup::Found(_)));
    assert_eq!(watch.get(namespace, "late"), Lookup::Absent);
    assert_eq!(until(&mut watch.subscribe(), "synced").await, ["+early=2", "synced"]);

    let state = &scene.watches.states()[0];
    assert_eq!((state.mode, state.phase, state.opened), (SyncMode::Poll, CachePhase::Live, 0));
    assert_eq!(watch.mode(), SyncMode::Poll);
    assert_eq!(scene.proxy.count(&Requests::any().verb(Verb::Watch)), 0);
    assert_eq!(scene.client.stats().watches.connections, 0);
    assert_eq!(scene.proxy.count(&reading()), 2, "only what changed is read");
}

#[tokio::test(flavor = "multi_thread")]
async fn polls_keep_to_their_interval_and_are_spread() {
    let scene = Scene::new().await;
    let (begun, wall) = (Stopwatch::start(), Instant::now());
    let _watch = poll(&scene).await;
    wait::until_true("ten polls", || scene.proxy.count(&scene.listing()) >= 10).await;
    begun.assert_within(9 * (INTERVAL + JITTER) + Duration::from_secs(5));
    let times: Vec<_> = scene.proxy.requests(&scene.listing()).iter().map(|record| record.at).collect();
    // All of them together: a busy machine keeps single requests on their way to the proxy for as long as it likes.
    assert!(times[9] - wall >= 9 * INTERVAL, "{:?}", times[9] - wall);
    let mut gaps: Vec<Duration> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort();
    assert!(gaps[gaps.len() - 1] - gaps[0] > Duration::from_millis(5), "{gaps:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_changed_is_read_unless_most_has() {
    let scene = Scene::new().await;
    for n in 0..24 {
        scene.apply(&format!("item-{n}"), "1").await;
    }
    let watch = poll(&scene).await;
    let mut events = watch.subscribe();
    until(&mut events, "synced").await;
    wait::until_true("some more polls", || scene.proxy.count(&scene.listing()) > 3).await;
    assert_eq!(scene.proxy.count(&reading()), 0, "nothing has changed");

    // While no list comes through, many change.
    let rule = scene.proxy.on(scene.listing(), Action::Answer(Answer::status(503)));
    assert!(next(&mut events).await.starts_with("failed"));
    for n in 0..20 {
        scene.apply(&format!("item-{n}"), "2").await;
    }
    scene.proxy.remove(rule);
    assert_eq!(next(&mut events).await, "resumed");
    for n in 0..20 {
        let seen = next(&mut events).await;
        assert!(seen.starts_with("~item-") && seen.ends_with("=2"), "{n}: {seen}");
    }
    assert_eq!(scene.proxy.count(&reading()), 0, "a list is cheaper than twenty reads");
    scene.apply("item-23", "2").await;
    assert_eq!(next(&mut events).await, "~item-23=2");
    assert_eq!(scene.proxy.count(&reading()), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happens_while_polls_fail_is_told_afterwards() {
    let scene = Scene::new().await;
    scene.apply("kept", "1").await;
    scene.apply("gone", "1").await;
    let watch = poll(&scene).await;
    let mut events = watch.subscribe();
    until(&mut events, "synced").await;
    scene.proxy.set(Fault::Refuse);
    assert_eq!(next(&mut events).await, "failed Unreachable");
    scene.delete("gone").await;
    scene.apply("kept", "2").await;
    scene.proxy.set(Fault::Pass);
    scene.watches.retry_cluster(&ClusterId::local());
    assert_eq!(until(&mut events, "-gone").await, ["resumed", "~kept=2", "-gone"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_may_list_but_not_get_is_given_whole_lists() {
    let scene = Scene::new().await;
    scene.apply("web", "1").await;
    scene.proxy.on(reading(), Action::Answer(Answer::status(403)));
    let watch = poll(&scene).await;
    let mut events = watch.subscribe();
    until(&mut events, "synced").await;
    scene.apply("web", "2").await;
    assert_eq!(next(&mut events).await, "~web=2");
    scene.apply("web", "3").await;
    assert_eq!(next(&mut events).await, "~web=3");
    assert_eq!(scene.proxy.count(&reading()), 1, "it is not asked again");
}

#[tokio::test(flavor = "multi_thread")]
async fn our_own_writes_and_deletes_are_known_before_the_next_poll() {
    let scene = Scene::new().await;
    let sync = SyncPolicy::Poll { interval: Duration::from_secs(600), jitter: Duration::ZERO };
    let namespace = scene.setup.fixture.namespace.as_str();
    let selection = Selection::Name { namespace: Some(namespace.into()), name: "web".into() };
    let watch = scene.watches.cache_with(&scene.client, &scene.setup.config_map, selection, sync);
    watch.wait_for_sync().await;
    let object = scene.setup.object("web", &[("a", "1")]);
    let written = scene.setup.client.apply(&scene.setup.config_map, &object, OURS).await.unwrap();
    watch.observe(&written);
    assert!(matches!(watch.get(Some(namespace), "web"), Lookup::Found(_)));
    scene.delete("web").await;
    watch.observe_deleted(&written);
    assert_eq!(watch.get(Some(namespace), "web"), Lookup::Absent);
    assert_eq!(scene.proxy.count(&scene.listing()), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_without_room_polls_until_there_is_some() {
    let scene = Scene::new().await;
    let admin = scene.setup.fixture.hub.plane.admin();
    let config = scene.proxy.kubeconfig(admin).unwrap().config().await.unwrap();
    let remote =
        ClusterClient::trusted(ClusterId::new("eu"), config, ClientOptions::default()).await.unwrap();
    let watches = Caches::new(CacheOptions {
        grace: Duration::from_millis(50),
        budget: 1,
        fallback_interval: INTERVAL,
        fallback_jitter: JITTER,
        ..CacheOptions::default()
    });
    let secret = remote.kind("", Some("v1"), "Secret").await.unwrap();
    let first = watches.watch(&remote, &secret, Selection::Managed);
    let second = watches.watch(&remote, &scene.setup.config_map, of_test(&scene));
    let local = watches.watch(&scene.client, &scene.setup.config_map, of_test(&scene));
    assert_eq!(
        [first.mode(), second.mode(), local.mode()],
        [SyncMode::Watch, SyncMode::Poll, SyncMode::Watch]
    );
    let mut events = second.subscribe();
    until(&mut events, "synced").await;
    scene.apply("web", "1").await;
    assert_eq!(next(&mut events).await, "+web=1");

    drop(first);
    scene.apply("web", "2").await;
    assert_eq!(next(&mut events).await, "~web=2");
    wait::until_true("the poll to become a watch", || second.mode() == SyncMode::Watch).await;
    wait::until_true("it to be open", || {
        watches.states().iter().any(|state| state.key == *second.key() && state.opened > 0)
    })
    .await;
    scene.apply("web", "3").await;
    assert_eq!(next(&mut events).await, "~web=3");
    let third = watches.watch(&remote, &secret, Selection::Managed);
    assert_eq!(third.mode(), SyncMode::Poll, "there is room for one");
}
