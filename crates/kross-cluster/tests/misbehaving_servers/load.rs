//! Servers that send more than others should pay for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::Response;
use http_body::Frame;
use http_body_util::StreamBody;
use http_body_util::combinators::UnsyncBoxBody;
use kross_cluster::{CacheOptions, Caches, Change, Lookup, Retry, Selection, SyncPolicy};
use kross_testing::wait::WAIT_LIMIT;
use serde_json::json;

use crate::server::{Body, Server, config_map, event, object, response, scripted, unfinished};

fn large(name: &str, version: u64) -> serde_json::Value {
    let mut object = object(name, version);
    object["data"] = json!({"text": "x".repeat(1 << 16)});
    object
}

fn options() -> CacheOptions {
    CacheOptions { max_cluster_bytes: Some(1 << 20), ..CacheOptions::default() }
}

#[tokio::test]
async fn a_cluster_with_more_objects_than_may_be_cached_is_reported_and_not_live() {
    let items = (0..40).map(|n| large(&format!("item-{n}"), 5)).collect();
    let (handler, _) = scripted(vec![(10, items)], vec![]);
    let server = Server::plain(handler).await;
    let poll = SyncPolicy::Poll { interval: Duration::from_millis(50), jitter: Duration::ZERO };
    for sync in [SyncPolicy::Watch, poll] {
        let caches = Caches::new(options());
        let cache = caches.cache_with(&server.connect().await, &Arc::new(config_map()), Selection::All, sync);
        kross_testing::wait::until_true("the failure to be reported", || cache.failure().is_some()).await;
        let error = cache.failure().unwrap();
        assert!(error.message().contains("exceed the 1 MiB that may be cached"), "{error}");
        assert_eq!(error.retry(), Retry::WhenChanged);
        assert!(!cache.is_live() && !cache.has_synced() && !cache.is_authoritative());
        assert_eq!(cache.get(Some("shop"), "item-1"), Lookup::Unknown);
        let state = &caches.states()[0];
        assert!(state.bytes == 0 && state.over_limit && !state.is_over_watch_budget(), "{state:?}");
    }
}

#[tokio::test]
async fn a_cache_that_grows_beyond_the_limit_is_dropped_without_deletions_and_recovers() {
    let few = || vec![large("a", 5), large("b", 6)];
    let flood = (0..40).map(|n| event("ADDED", &large(&format!("item-{n}"), 11 + n))).collect();
    let (handler, _) = scripted(vec![(10, few()), (90, few())], vec![flood]);
    let server = Server::plain(handler).await;
    let caches = Caches::new(options());
    let cache = caches.watch(&server.connect().await, &Arc::new(config_map()), Selection::All);
    let mut events = cache.subscribe();
    let mut seen = Vec::new();
    loop {
        let event =
            tokio::time::timeout(WAIT_LIMIT, events.recv()).await.expect("the list after the failure");
        match event.unwrap().change {
            Change::Applied { .. } => {}
            Change::Deleted { old } => panic!("{} was not deleted", old.name()),
            Change::Failed { error } => {
                assert!(error.message().contains("may be cached"), "{error}");
                seen.push("failed");
            }
            Change::Synced => seen.push("synced"),
            Change::Resumed => seen.push("resumed"),
            Change::Relisted => {
                seen.push("relisted");
                break;
            }
        }
    }
    assert_eq!(seen, ["synced", "failed", "synced", "relisted"]);
    assert_eq!(cache.list().unwrap().len(), 2);
    let state = &caches.states()[0];
    assert!(state.bytes < 1 << 20 && !state.over_limit, "{state:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_events_is_read_only_as_fast_as_it_is_received() {
    let counter = Arc::new(AtomicU64::new(0));
    let server = Server::plain(move |path| {
        if !path.contains("watch=true") {
            return response(200, &json!({"metadata": {"resourceVersion": "10"}, "items": []}).to_string());
        }
        let counter = Arc::clone(&counter);
        let flood = stream::repeat(()).map(move |()| {
            let web = object("web", counter.fetch_add(1, Ordering::Relaxed) + 11);
            Ok(Frame::data(Bytes::from(format!("{}\n", event("MODIFIED", &web)))))
        });
        Response::new(UnsyncBoxBody::new(StreamBody::new(flood)))
    })
    .await;
    let caches = Caches::new(CacheOptions::default());
    // Receives nothing.
    let mut events = caches.subscribe();
    let cache = caches.watch(&server.connect().await, &Arc::new(config_map()), Selection::All);
    let version = || match cache.get(Some("shop"), "web") {
        Lookup::Found(web) => web.version().unwrap(),
        Lookup::Absent | Lookup::Unknown => 0,
    };
    kross_testing::wait::until_true("many events", || version() >= 9_900).await;
    // Another cluster is not affected.
    let (handler, _) = scripted(vec![(10, vec![object("healthy", 5)])], vec![]);
    let healthy = Server::plain(handler).await.connect_as("healthy").await;
    let other = caches.watch(&healthy, &Arc::new(config_map()), Selection::All);
    other.wait_for_sync().await;
    kross_testing::wait::until_true("the healthy cluster", || other.is_live()).await;
    assert!(version() <= 10_100, "{} events wait", version());
    // It goes on as soon as they are received.
    while version() < 10_200 {
        events.recv().await.unwrap();
    }
}

/// A line of this many MiB that does not end.
fn endless_line(mebibytes: usize) -> Body {
    let chunks = stream::repeat(Bytes::from(vec![b'x'; 1 << 20])).take(mebibytes);
    UnsyncBoxBody::new(StreamBody::new(chunks.map(|chunk| Ok(Frame::data(chunk))).chain(stream::pending())))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_with_a_line_that_does_not_end_is_given_up_and_reported() {
    let server = Server::plain(|path| {
        if path.contains("watch=true") {
            return Response::new(endless_line(100));
        }
        response(200, &json!({"metadata": {"resourceVersion": "10"}, "items": []}).to_string())
    })
    .await;
    let caches = Caches::new(CacheOptions::default());
    let cache = caches.watch(&server.connect().await, &Arc::new(config_map()), Selection::All);
    kross_testing::wait::until_true("the failure to be reported", || cache.failure().is_some()).await;
    let error = cache.failure().unwrap();
    assert_eq!(error.message(), "an event of the watch is too long");
    assert_eq!(error.retry(), Retry::Backoff);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_about_the_past_with_a_line_that_does_not_end_is_given_up() {
    let server = Server::plain(|_| Response::new(endless_line(100))).await;
    let client = server.connect().await;
    let error = client.existed_since(&config_map(), (Some("shop"), "web"), "5", |_| true).await.unwrap_err();
    assert_eq!(error.message(), "an event of the watch is too long");
}

/// Counts the warnings of this thread.
#[derive(Clone, Default)]
struct Warnings(Arc<AtomicU64>);

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test]
async fn lines_that_are_no_events_do_not_flood_the_log() {
    let warnings = Warnings::default();
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    let _guard = tracing::subscriber::set_default(warnings.clone());
    let unreadable = "{\"type\":\"ADDED\",\"object\":[]}\n";
    let lines = format!("{}{}", "<html>\n".repeat(2500), unreadable.repeat(1000));
    let last = format!("{}\n", event("ADDED", &object("last", 12)));
    let server = Server::plain(move |path| {
        if path.contains("watch=true") {
            return Response::new(unfinished(vec![lines.clone(), last.clone()]));
        }
        response(200, &json!({"metadata": {"resourceVersion": "10"}, "items": []}).to_string())
    })
    .await;
    let caches = Caches::new(CacheOptions::default());
    let cache = caches.watch(&server.connect().await, &Arc::new(config_map()), Selection::All);
    kross_testing::wait::until_true("what follows them", || {
        matches!(cache.get(Some("shop"), "last"), Lookup::Found(_))
    })
    .await;
    // The first, and each thousandth.
    assert_eq!(warnings.0.load(Ordering::Relaxed), 4);
}
