//! Servers whose lists and watches never end, or never last.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::Response;
use http_body::Frame;
use http_body_util::StreamBody;
use http_body_util::combinators::UnsyncBoxBody;
use kross_api::FailureReason;
use kross_cluster::{CacheOptions, Caches, ClientOptions, Selection, SyncPolicy};
use serde_json::json;

use crate::server::{Log, Server, config_map, event, object, response, scripted, status};

/// An endless list ends after this page, so that a client which reads on fails its test.
const LAST_PAGE: usize = 1000;

/// A server whose list has one page after the other. The first number of the handler is that of the page.
async fn endless(
    page: impl Fn(usize) -> (String, Vec<serde_json::Value>) + Send + Sync + 'static,
) -> (Server, Arc<AtomicUsize>) {
    let pages = Arc::new(AtomicUsize::new(0));
    let sent = Arc::clone(&pages);
    let server = Server::plain(move |_| {
        let number = sent.fetch_add(1, Ordering::Relaxed);
        let (next, items) = page(number);
        let next = if number < LAST_PAGE { next } else { String::new() };
        let list = json!({"metadata": {"resourceVersion": "9", "continue": next}, "items": items});
        response(200, &list.to_string())
    })
    .await;
    (server, pages)
}

#[tokio::test]
async fn a_list_that_repeats_a_continue_token_is_given_up() {
    let (server, pages) = endless(|page| (format!("token-{}", page % 3), vec![object("web", 1)])).await;
    let error = server.connect().await.list(&config_map(), None, None).await.unwrap_err();
    assert_eq!(error.reason(), FailureReason::ServerError);
    assert!(error.message().contains("repeats a `continue` token"), "{error}");
    assert_eq!(pages.load(Ordering::Relaxed), 4);
}

#[tokio::test]
async fn a_list_of_pages_without_objects_is_given_up() {
    let (server, pages) = endless(|page| (page.to_string(), vec![])).await;
    let error = server.connect().await.list(&config_map(), None, None).await.unwrap_err();
    assert!(error.message().contains("pages without objects"), "{error}");
    assert_eq!(pages.load(Ordering::Relaxed), 101);
}

#[tokio::test]
async fn an_endless_list_is_given_up_when_it_exceeds_its_bytes() {
    let (server, pages) = endless(|page| {
        let mut item = object(&format!("item-{page}"), 1);
        item["data"] = json!({"text": "x".repeat(1 << 16)});
        (page.to_string(), vec![item])
    })
    .await;
    let options = ClientOptions { max_list: 1 << 20, ..ClientOptions::default() };
    let client = server.connect_with(options).await;
    let error = client.list(&config_map(), None, None).await.unwrap_err();
    assert!(error.message().contains("the list is larger than 1048576 bytes"), "{error}");
    assert!(pages.load(Ordering::Relaxed) <= 17);
    // The same for caches, which report it.
    for sync in
        [SyncPolicy::Watch, SyncPolicy::Poll { interval: Duration::from_millis(50), jitter: Duration::ZERO }]
    {
        let caches = Caches::new(CacheOptions::default());
        let cache = caches.cache_with(&client, &Arc::new(config_map()), Selection::All, sync);
        kross_testing::wait::until_true("the failure to be reported", || {
            cache.failure().is_some_and(|error| error.message().contains("the list is larger than"))
        })
        .await;
        assert!(!cache.has_synced() && !cache.is_live());
    }
}

#[tokio::test]
async fn a_long_page_of_a_server_that_ignores_the_limit_is_accepted() {
    let (server, _) =
        endless(|_| (String::new(), (0..3000).map(|n| object(&format!("item-{n}"), 1)).collect())).await;
    assert_eq!(server.connect().await.list(&config_map(), None, None).await.unwrap().len(), 3000);
}

#[tokio::test]
async fn versions_that_expire_at_once_are_listed_again_after_growing_pauses() {
    let (handler, log) =
        scripted(vec![(10, vec![])], vec![vec![event("ERROR", &status(410, "Expired"))]; 1000]);
    let server = Server::plain(handler).await;
    let caches = Caches::new(CacheOptions::default());
    let _cache = caches.watch(&server.connect().await, &Arc::new(config_map()), Selection::All);
    let started = Instant::now();
    let lists = || log.lock().unwrap().iter().filter(|path| path.contains("limit=")).count();
    kross_testing::wait::until_true("seven lists", || lists() >= 7).await;
    assert!(started.elapsed() > Duration::from_secs(2), "seven lists in {:?}", started.elapsed());
}

#[tokio::test]
async fn pages_that_expire_at_once_are_requested_again_after_growing_pauses() {
    let log = Log::default();
    let seen = Arc::clone(&log);
    let server = Server::plain(move |path| {
        seen.lock().unwrap().push(path.to_owned());
        response(410, &status(410, "Expired").to_string())
    })
    .await;
    let client = server.connect().await;
    let started = Instant::now();
    assert!(client.list(&config_map(), None, None).await.unwrap_err().is_expired());
    assert_eq!(log.lock().unwrap().len(), 3);
    assert!(started.elapsed() > Duration::from_millis(200), "{:?}", started.elapsed());
    let caches = Caches::new(CacheOptions::default());
    let _cache = caches.watch(&client, &Arc::new(config_map()), Selection::All);
    let started = Instant::now();
    kross_testing::wait::until_true("seven lists", || log.lock().unwrap().len() >= 10).await;
    assert!(started.elapsed() > Duration::from_secs(2), "seven lists in {:?}", started.elapsed());
}

#[tokio::test]
async fn a_response_that_arrives_byte_by_byte_times_out_although_it_never_stops() {
    let server = Server::plain(|_| {
        let drip = stream::repeat(()).then(|()| async {
            tokio::time::sleep(Duration::from_millis(10)).await;
            Ok(Frame::data(Bytes::from_static(b" ")))
        });
        Response::new(UnsyncBoxBody::new(StreamBody::new(drip)))
    })
    .await;
    let options = ClientOptions { request_timeout: Duration::from_millis(500), ..ClientOptions::default() };
    let client = server.connect_with(options).await;
    let error = client.get(&config_map(), Some("shop"), "web").await.unwrap_err();
    assert_eq!(error.reason(), FailureReason::Timeout);
    assert_eq!(client.stats().requests.streams, 0);
}

#[tokio::test]
async fn a_server_that_rejects_the_credential_now_and_then_is_asked_again_with_pauses() {
    let (requests, log) = (AtomicUsize::new(0), Log::default());
    let seen = Arc::clone(&log);
    let server = Server::plain(move |path| {
        seen.lock().unwrap().push(path.to_owned());
        if requests.fetch_add(1, Ordering::Relaxed) % 2 == 0 {
            return response(401, &status(401, "Unauthorized").to_string());
        }
        let list = json!({"metadata": {"resourceVersion": "9"}, "items": [object("web", 1)]});
        response(200, &list.to_string())
    })
    .await;
    let client = server.connect().await;
    let error = client.get(&config_map(), Some("shop"), "web").await.unwrap_err();
    assert_eq!(error.reason(), FailureReason::Unauthorized);
    assert!(client.list(&config_map(), None, None).await.is_ok());
    let caches = Caches::new(CacheOptions::default());
    let cache = caches.watch(&client, &Arc::new(config_map()), Selection::All);
    let started = Instant::now();
    kross_testing::wait::until_true("twelve requests", || log.lock().unwrap().len() >= 12).await;
    assert!(started.elapsed() > Duration::from_secs(1), "{:?}", started.elapsed());
    assert!(cache.has_synced());
}
