//! Caches that are kept in sync by polls, and watches that poll while the budget is used up.

use std::time::{Duration, Instant};

use kross_api::SyncMode;
use kross_cluster::{
    Cache, CacheOptions, CachePhase, Caches, ClientOptions, ClusterClient, ClusterId, Lookup, Selection,
    SyncPolicy,
};
use kross_testing::{Action, Answer, Fault, Requests, Stopwatch, Verb, wait};

use crate::cache::{OURS, Scene, next, until, until_woken};

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
    let cache = scene.caches.cache_with(&scene.client, &scene.setup.config_map, of_test(scene), sync);
    cache.wait_for_sync().await;
    cache
}

fn reading() -> Requests {
    Requests::any().verb(Verb::Get).resource("configmaps")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poll_emits_the_events_of_a_watch_without_opening_one() {
    let scene = Scene::new().await;
    scene.apply("early", "1").await;
    let cache = poll(&scene).await;
    let mut events = cache.subscribe();
    assert_eq!(until(&mut events, "synced").await, ["+early=1", "synced"]);
    scene.apply("late", "1").await;
    assert_eq!(next(&mut events).await, "+late=1");
    scene.apply("early", "2").await;
    assert_eq!(next(&mut events).await, "~early=2");
    scene.delete("late").await;
    assert_eq!(next(&mut events).await, "-late");
    let namespace = scene.setup.namespace();
    assert!(matches!(cache.get(namespace, "early"), Lookup::Found(_)));
    assert_eq!(cache.get(namespace, "late"), Lookup::Absent);
    assert_eq!(until(&mut cache.subscribe(), "synced").await, ["+early=2", "synced"]);

    let state = &scene.caches.states()[0];
    assert_eq!((state.mode, state.phase, state.opened), (SyncMode::Poll, CachePhase::Live, 0));
    assert_eq!(cache.mode(), SyncMode::Poll);
    assert_eq!(scene.proxy.count(&Requests::any().verb(Verb::Watch)), 0);
    assert_eq!(scene.client.stats().watches.connections, 0);
    assert_eq!(scene.proxy.count(&reading()), 2, "only changed objects are read");
}

#[tokio::test(flavor = "multi_thread")]
async fn polls_respect_their_interval_and_jitter() {
    let scene = Scene::new().await;
    let (begun, wall) = (Stopwatch::start(), Instant::now());
    let _cache = poll(&scene).await;
    wait::until_true("ten polls", || scene.proxy.count(&scene.listing()) >= 10).await;
    begun.assert_within(9 * (INTERVAL + JITTER) + Duration::from_secs(5));
    let times: Vec<_> = scene.proxy.requests(&scene.listing()).iter().map(|record| record.at).collect();
    // All of them together: a busy machine can delay single requests to the proxy by any time.
    assert!(times[9] - wall >= 9 * INTERVAL, "{:?}", times[9] - wall);
    let mut gaps: Vec<Duration> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort();
    assert!(gaps[gaps.len() - 1] - gaps[0] > Duration::from_millis(5), "{gaps:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poll_reads_changed_objects_one_by_one_unless_most_have_changed() {
    let scene = Scene::new().await;
    for n in 0..24 {
        scene.apply(&format!("item-{n}"), "1").await;
    }
    let cache = poll(&scene).await;
    let mut events = cache.subscribe();
    until(&mut events, "synced").await;
    wait::until_true("more polls", || scene.proxy.count(&scene.listing()) > 3).await;
    assert_eq!(scene.proxy.count(&reading()), 0, "nothing has changed");

    // Many objects change while lists fail.
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
async fn retry_cluster_wakes_a_poll_that_backs_off_and_events_for_missed_changes_follow() {
    let scene = Scene::backing_off().await;
    scene.apply("kept", "1").await;
    scene.apply("deleted", "1").await;
    let cache = poll(&scene).await;
    let mut events = cache.subscribe();
    until(&mut events, "synced").await;
    scene.proxy.set(Fault::Refuse);
    assert_eq!(next(&mut events).await, "failed Unreachable");
    scene.delete("deleted").await;
    scene.apply("kept", "2").await;
    scene.proxy.set(Fault::Pass);
    scene.caches.retry_cluster(&ClusterId::local());
    assert_eq!(until_woken(&mut events, "-deleted").await, ["resumed", "~kept=2", "-deleted"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn polls_with_full_lists_if_objects_may_be_listed_but_not_read() {
    let scene = Scene::new().await;
    scene.apply("web", "1").await;
    scene.proxy.on(reading(), Action::Answer(Answer::status(403)));
    let cache = poll(&scene).await;
    let mut events = cache.subscribe();
    until(&mut events, "synced").await;
    scene.apply("web", "2").await;
    assert_eq!(next(&mut events).await, "~web=2");
    scene.apply("web", "3").await;
    assert_eq!(next(&mut events).await, "~web=3");
    assert_eq!(scene.proxy.count(&reading()), 1, "it does not try to get objects again");
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_and_deletes_of_ours_are_cached_before_the_next_poll() {
    let scene = Scene::new().await;
    let sync = SyncPolicy::Poll { interval: Duration::from_secs(600), jitter: Duration::ZERO };
    let namespace = scene.setup.fixture.namespace.as_str();
    let selection = Selection::Name { namespace: Some(namespace.into()), name: "web".into() };
    let cache = scene.caches.cache_with(&scene.client, &scene.setup.config_map, selection, sync);
    cache.wait_for_sync().await;
    let object = scene.setup.object("web", &[("a", "1")]);
    let written = scene.setup.client.apply(&scene.setup.config_map, &object, OURS).await.unwrap();
    cache.observe(&written);
    assert!(matches!(cache.get(Some(namespace), "web"), Lookup::Found(_)));
    scene.delete("web").await;
    cache.observe_deleted(&written);
    assert_eq!(cache.get(Some(namespace), "web"), Lookup::Absent);
    assert_eq!(scene.proxy.count(&scene.listing()), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_beyond_the_budget_polls_until_a_permit_is_available() {
    let scene = Scene::new().await;
    let admin = scene.setup.fixture.hub.plane.admin();
    let config = scene.proxy.kubeconfig(admin).unwrap().config().await.unwrap();
    let remote =
        ClusterClient::trusted(ClusterId::new("eu"), config, ClientOptions::default()).await.unwrap();
    let caches = Caches::new(CacheOptions {
        grace: Duration::from_millis(50),
        budget: 1,
        fallback_interval: INTERVAL,
        fallback_jitter: JITTER,
        ..CacheOptions::default()
    });
    let secret = remote.kind("", Some("v1"), "Secret").await.unwrap();
    let first = caches.watch(&remote, &secret, Selection::Managed);
    let second = caches.watch(&remote, &scene.setup.config_map, of_test(&scene));
    let local = caches.watch(&scene.client, &scene.setup.config_map, of_test(&scene));
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
    wait::until_true("the watch to be open", || {
        caches.states().iter().any(|state| state.key == *second.key() && state.opened > 0)
    })
    .await;
    scene.apply("web", "3").await;
    assert_eq!(next(&mut events).await, "~web=3");
    let third = caches.watch(&remote, &secret, Selection::Managed);
    assert_eq!(third.mode(), SyncMode::Poll, "the budget allows one watch");
}
