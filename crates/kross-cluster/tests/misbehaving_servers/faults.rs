//! Servers that are old, slow or broken.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http::Response;
use kross_api::{FailureReason, Operation};
use kross_cluster::{
    Apply, CacheOptions, Caches, Change, ClientOptions, ClusterClient, ClusterId, Delete, Lookup, Missing,
    Selection,
};
use kross_testing::Stopwatch;
use kross_value::Value;
use serde_json::json;
use tokio::net::TcpListener;

use crate::server::{Log, Server, body, config_map, event, object, response, scripted, status, unfinished};

#[tokio::test]
async fn opens_and_reuses_several_connections_to_a_server_without_http2() {
    let server = Server::secure(|_| response(200, &object("web", 1).to_string())).await;
    let client = server.connect().await;
    let kind = config_map();
    for _ in 0..5 {
        let reads = (0..10).map(|_| client.get(&kind, Some("shop"), "web"));
        for read in futures::future::join_all(reads).await {
            assert_eq!(read.unwrap().name().as_str(), "web");
        }
    }
    assert!(server.connections.load(Ordering::Relaxed) <= 10);
    assert_eq!(client.stats().requests.streams, 0);
}

#[tokio::test]
async fn opens_more_connections_to_a_server_that_allows_few_streams() {
    let (handler, _) = scripted(vec![(10, vec![])], vec![]);
    let server = Server::with_few_streams(handler).await;
    let client = server.connect().await;
    let caches = Caches::new(CacheOptions::default());
    let kind = Arc::new(config_map());
    let all: Vec<_> = (0..35)
        .map(|n| {
            let selection =
                Selection::Name { namespace: Some("shop".into()), name: format!("item-{n}").into() };
            caches.watch(&client, &kind, selection)
        })
        .collect();
    for cache in &all {
        cache.wait_for_sync().await;
    }
    kross_testing::wait::until_true("all watches to be open", || {
        caches.states().iter().all(|state| state.opened == 1)
    })
    .await;
    let stats = client.stats();
    assert_eq!((stats.watches.streams, stats.watches.connections), (35, 4), "{stats:?}");
}

#[tokio::test]
async fn a_request_to_a_server_that_never_responds_times_out() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let config = kube::Config::new(format!("http://{address}").parse().unwrap());
    let options = ClientOptions { request_timeout: Duration::from_millis(300), ..ClientOptions::default() };
    let client = ClusterClient::trusted(ClusterId::new("silent"), config, options).await.unwrap();
    let started = Stopwatch::start();
    let error = client.get(&config_map(), Some("shop"), "web").await.unwrap_err();
    assert_eq!(error.reason(), FailureReason::Timeout);
    started.assert_within(Duration::from_secs(5));
    assert_eq!(client.stats().requests.streams, 0);
}

#[tokio::test]
async fn a_response_body_that_never_ends_times_out() {
    let server = Server::plain(|_| Response::new(unfinished(vec!["{\"kind\":".to_owned()]))).await;
    let options = ClientOptions { request_timeout: Duration::from_millis(300), ..ClientOptions::default() };
    let client = server.connect_with(options).await;
    let error = client.get(&config_map(), Some("shop"), "web").await.unwrap_err();
    assert_eq!(error.reason(), FailureReason::Timeout);
}

#[tokio::test]
async fn a_response_that_is_too_large_is_rejected() {
    let server = Server::plain(|_| Response::new(body(vec!["x".repeat(1 << 16); 64]))).await;
    let options = ClientOptions { max_response: 1 << 20, ..ClientOptions::default() };
    let client = server.connect_with(options).await;
    let error = client.get(&config_map(), Some("shop"), "web").await.unwrap_err();
    assert_eq!(error.reason(), FailureReason::ServerError);
    assert!(error.to_string().contains("larger than"), "{error}");
}

#[tokio::test]
async fn a_compressed_response_that_is_too_large_is_rejected() {
    let compressed = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    let small = compressed(object("small", 1).to_string().as_bytes());
    let bomb = compressed(&vec![b' '; 64 << 20]);
    assert!(bomb.len() < 1 << 17);
    let server = Server::plain(move |path| {
        let bytes = if path.ends_with("small") { small.clone() } else { bomb.clone() };
        let frames = futures::stream::iter([Ok(http_body::Frame::data(bytes.into()))]);
        let body = http_body_util::combinators::UnsyncBoxBody::new(http_body_util::StreamBody::new(frames));
        Response::builder().header("content-encoding", "gzip").body(body).unwrap()
    })
    .await;
    let options = ClientOptions { max_response: 1 << 20, ..ClientOptions::default() };
    let client = server.connect_with(options).await;
    assert_eq!(client.get(&config_map(), Some("shop"), "small").await.unwrap().name().as_str(), "small");
    let error = client.get(&config_map(), Some("shop"), "web").await.unwrap_err();
    assert!(
        error.to_string().contains("larger than 1 MiB") || error.to_string().contains("larger than"),
        "{error}"
    );
}

#[tokio::test]
async fn a_page_that_is_too_large_is_requested_again_in_smaller_pages() {
    let log = Log::default();
    let seen = Arc::clone(&log);
    // A list of 40 objects of 64 KiB.
    let server = Server::plain(move |path| {
        seen.lock().unwrap().push(path.to_owned());
        let parameter = |name: &str| -> Option<usize> {
            let value = path.split(name).nth(1)?;
            value.split('&').next()?.parse().ok()
        };
        let (limit, from) = (parameter("limit=").unwrap(), parameter("continue=").unwrap_or(0));
        let to = (from + limit).min(40);
        let mut items: Vec<serde_json::Value> = Vec::new();
        for at in from..to {
            let mut item = object(&format!("item-{at}"), 5);
            item["data"] = json!({"text": "x".repeat(1 << 16)});
            items.push(item);
        }
        let next = if to < 40 { to.to_string() } else { String::new() };
        let list = json!({"metadata": {"resourceVersion": "9", "continue": next}, "items": items});
        response(200, &list.to_string())
    })
    .await;
    let options = ClientOptions { max_response: 1 << 20, ..ClientOptions::default() };
    let client = server.connect_with(options).await;
    let listed = client.list(&config_map(), None, None).await.unwrap();
    assert_eq!(listed.len(), 40);
    let limits: Vec<String> = log
        .lock()
        .unwrap()
        .iter()
        .map(|path| path.split("limit=").nth(1).unwrap().split('&').next().unwrap().to_owned())
        .collect();
    // The size that fits is kept for the pages that follow.
    assert_eq!(limits, ["500", "250", "125", "62", "31", "15", "15", "15"]);
    // A single object that is too large is an error.
    let options = ClientOptions { max_response: 1 << 12, ..ClientOptions::default() };
    let error = server.connect_with(options).await.list(&config_map(), None, None).await.unwrap_err();
    assert!(error.to_string().contains("larger than"), "{error}");
}

#[tokio::test]
async fn polls_go_on_beside_an_unreadable_object() {
    let deep = format!("{}1{}", r#"{"a":"#.repeat(140), "}".repeat(140));
    let object = move |name: &str, version: usize| {
        let data = if name == "deep" { deep.as_str() } else { "{}" };
        format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","data":{data},"metadata":{{"name":"{name}","namespace":"shop",
            "uid":"{name}","resourceVersion":"{version}"}}}}"#
        )
    };
    let requests = Arc::new(AtomicUsize::new(1));
    let (sent, log) = (Arc::clone(&requests), Log::default());
    let seen = Arc::clone(&log);
    let server = Server::plain(move |path| {
        seen.lock().unwrap().push(path.to_owned());
        let version = sent.fetch_add(1, Ordering::Relaxed);
        if let Some((_, name)) = path.split_once("/configmaps/") {
            return response(200, &object(name, if name == "deep" { 1 } else { version }));
        }
        let items = [object("web", version), object("deep", 1)].join(",");
        let list = format!(r#"{{"metadata":{{"resourceVersion":"{version}"}},"items":[{items}]}}"#);
        response(200, &list)
    })
    .await;
    let caches = Caches::new(CacheOptions::default());
    let sync =
        kross_cluster::SyncPolicy::Poll { interval: Duration::from_millis(50), jitter: Duration::ZERO };
    let cache = caches.cache_with(&server.connect().await, &Arc::new(config_map()), Selection::All, sync);
    kross_testing::wait::until_true(
        "the readable object to be updated by polls",
        || matches!(cache.get(Some("shop"), "web"), Lookup::Found(web) if web.version() > Some(6)),
    )
    .await;
    assert_eq!(cache.get(Some("shop"), "deep"), Lookup::Unknown);
    let state = &caches.states()[0];
    assert!(state.failure.is_none() && state.unreadable == 1 && state.synced);
    // It is not read again as long as it does not change.
    assert!(!log.lock().unwrap().iter().any(|path| path.contains("configmaps/deep")));
}

#[tokio::test]
async fn a_list_with_a_nameless_object_feeds_a_cache_and_proves_nothing() {
    let log = Log::default();
    let seen = Arc::clone(&log);
    let server = Server::plain(move |path| {
        seen.lock().unwrap().push(path.to_owned());
        let object = |name: &str| {
            format!(
                r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{{name}"namespace":"shop","uid":"u","resourceVersion":"1"}}}}"#
            )
        };
        let items = [object(r#""name":"web","#), object("")].join(",");
        response(200, &format!(r#"{{"metadata":{{"resourceVersion":"9"}},"items":[{items}]}}"#))
    })
    .await;
    let client = server.connect().await;
    let error = client.list(&config_map(), None, None).await.unwrap_err();
    assert!(error.message().contains("not even their names"), "{error}");
    let caches = Caches::new(CacheOptions::default());
    let sync =
        kross_cluster::SyncPolicy::Poll { interval: Duration::from_millis(50), jitter: Duration::ZERO };
    let cache = caches.cache_with(&client, &Arc::new(config_map()), Selection::All, sync);
    kross_testing::wait::until_true("the other object", || {
        matches!(cache.get(Some("shop"), "web"), Lookup::Found(_))
    })
    .await;
    assert!(!cache.is_complete());
    assert_eq!(caches.states().iter().map(|state| state.unreadable).sum::<usize>(), 1);
    // The next polls list metadata only.
    let polls = || log.lock().unwrap().iter().filter(|path| path.starts_with("metadata ")).count();
    kross_testing::wait::until_true("the next polls", || polls() > 1).await;
    assert!(matches!(cache.get(Some("shop"), "web"), Lookup::Found(_)) && cache.is_authoritative());
    let state = &caches.states()[0];
    assert!(state.failure.is_none() && state.unreadable == 1, "{state:?}");
    assert!(!log.lock().unwrap().iter().any(|path| path.contains("/configmaps/")), "nothing has changed");
}

#[tokio::test]
async fn waiting_requests_share_one_failed_dial() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    // The backlog accepts the connection, but the TLS handshake never begins.
    let config = kube::Config::new(format!("https://{address}").parse().unwrap());
    let mut options = ClientOptions::default();
    options.requests.tls_timeout = Duration::from_secs(1);
    let client = ClusterClient::trusted(ClusterId::new("dead"), config, options).await.unwrap();
    let kind = config_map();
    let started = Stopwatch::start();
    let reads = (0..200).map(|_| client.get(&kind, Some("shop"), "web"));
    for read in futures::future::join_all(reads).await {
        let error = read.unwrap_err();
        assert_eq!((error.reason(), error.operation()), (FailureReason::Unreachable, Operation::Connect));
    }
    started.assert_within(Duration::from_secs(5));
    assert_eq!(client.stats().requests.failed_dials, 1);
}

#[tokio::test]
async fn a_response_about_another_object_and_a_redirect_are_errors() {
    let server = Server::plain(|path| match path {
        "/api/v1/namespaces/shop/configmaps/moved" => Response::builder()
            .status(302)
            .header("location", "http://169.254.169.254/")
            .body(body(vec![]))
            .unwrap(),
        _ => response(200, &object("other", 1).to_string()),
    })
    .await;
    let client = server.connect().await;
    for name in ["web", "moved"] {
        let error = client.get(&config_map(), Some("shop"), name).await.unwrap_err();
        assert_eq!(error.reason(), FailureReason::ServerError, "{error}");
    }
}

#[tokio::test]
async fn a_response_to_a_write_that_is_about_another_object_is_an_error() {
    let answer = Arc::new(Mutex::new(object("web", 1)));
    let sent = Arc::clone(&answer);
    let server = Server::plain(move |_| response(200, &sent.lock().unwrap().to_string())).await;
    let (client, kind) = (server.connect().await, config_map());
    let web: Value = serde_json::from_value(object("web", 1)).unwrap();
    let write = async || {
        let patch = client.merge_patch(&kind, Some("shop"), "web", None, "test", &web).await;
        let deleted = client.delete(&kind, Some("shop"), "web", Delete::default()).await;
        [
            client.apply(&kind, &web, Apply::by("test")).await.err(),
            client.create(&kind, &web, "test").await.err(),
            client.replace(&kind, &web, None, "test").await.err(),
            patch.err(),
            deleted.err(),
        ]
    };
    assert!(write().await.iter().all(Option::is_none), "the object that was written");
    let changed = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut other = object("web", 1);
        change(&mut other);
        other
    };
    for other in [
        object("other", 1),
        changed(&|other| other["kind"] = json!("Secret")),
        changed(&|other| other["apiVersion"] = json!("v2")),
        changed(&|other| other["metadata"]["namespace"] = json!("bank")),
    ] {
        *answer.lock().unwrap() = other.clone();
        for error in write().await {
            let error = error.unwrap_or_else(|| panic!("{other} is accepted")).to_string();
            assert!(error.contains("the response is about another object"), "{other}: {error}");
        }
    }
}

#[tokio::test]
async fn legacy_discovery_reads_each_group_and_kinds_of_unavailable_groups_are_not_missing() {
    let server = Server::plain(|path| {
        let responses = json!({
            "/api": {"kind": "APIVersions", "versions": ["v1"]},
            "/apis": {"kind": "APIGroupList", "groups": [
                {"name": "apps", "versions": [{"groupVersion": "apps/v1beta1", "version": "v1beta1"},
                    {"groupVersion": "apps/v1", "version": "v1"}], "preferredVersion": {"groupVersion": "apps/v1", "version": "v1"}},
                {"name": "broken.example.com", "versions": [{"groupVersion": "broken.example.com/v1", "version": "v1"}]}]},
            "/api/v1": {"kind": "APIResourceList", "resources": [
                {"name": "configmaps", "kind": "ConfigMap", "namespaced": true, "verbs": ["get"]},
                {"name": "nodes", "kind": "Node", "namespaced": false, "verbs": ["get"]},
                {"name": "nodes/status", "kind": "Node", "namespaced": false, "verbs": ["get"]}]},
            "/apis/apps/v1": {"kind": "APIResourceList", "resources": [
                {"name": "deployments", "kind": "Deployment", "namespaced": true, "verbs": ["get"]}]},
            "/apis/apps/v1beta1": {"kind": "APIResourceList", "resources": [
                {"name": "deployments", "kind": "Deployment", "namespaced": true, "verbs": ["get"]}]},
        });
        responses.get(path).map_or_else(|| response(503, "down"), |found| response(200, &found.to_string()))
    })
    .await;
    let client = server.connect().await;
    let deployment = client.kind("apps", None, "Deployment").await.unwrap();
    assert_eq!((deployment.version.as_str(), deployment.plural.as_str()), ("v1", "deployments"));
    assert!(client.kind("apps", Some("v1beta1"), "Deployment").await.is_ok());
    let node = client.kind("", None, "Node").await.unwrap();
    assert!(node.has_status && !node.namespaced);
    assert!(!client.kind("", None, "ConfigMap").await.unwrap().has_status);

    let unavailable = client.kind("broken.example.com", Some("v1"), "Ox").await.unwrap_err();
    assert_eq!(unavailable.reason(), FailureReason::ServerError);
    let missing = client.kind("apps", Some("v1"), "Nothing").await.unwrap_err();
    assert_eq!(missing.missing(), Some(&Missing::Kind));
}

#[tokio::test(flavor = "multi_thread")]
async fn served_kind_reports_a_missing_kind_only_from_a_refresh_that_began_after_the_call() {
    let (served, requested) = (Arc::new(AtomicUsize::new(0)), Arc::new(tokio::sync::Notify::new()));
    let (state, notify) = (Arc::clone(&served), Arc::clone(&requested));
    let server = Server::plain(move |path| {
        let kinds = match path {
            // This response was generated some time before it arrives.
            "/apis" if state.load(Ordering::SeqCst) == 0 => json!([{"metadata": {"name": "apps"}, "versions": []}]),
            "/apis" => json!([{"metadata": {"name": "late.example.com"}, "versions": [{"version": "v1", "resources": [
                {"resource": "oxen", "responseKind": {"kind": "Ox"}, "scope": "Namespaced", "verbs": []}]}]}]),
            _ => json!([{"metadata": {"name": ""}, "versions": []}]),
        };
        if path == "/apis" {
            notify.notify_one();
        }
        response(200, &json!({"kind": "APIGroupDiscoveryList", "items": kinds}).to_string())
    })
    .await;
    let client = server.connect().await;
    let first = tokio::spawn({
        let client = client.clone();
        async move { client.kind("late.example.com", Some("v1"), "Ox").await.map(drop) }
    });
    requested.notified().await;
    served.store(1, Ordering::SeqCst);
    let found = client.served_kind("late.example.com", "Ox", tokio::time::Instant::now()).await;
    assert_eq!(
        first.await.unwrap().unwrap_err().missing(),
        Some(&Missing::Kind),
        "its request was sent before"
    );
    assert_eq!(found.unwrap().unwrap().plural, "oxen");
}

#[tokio::test]
async fn relists_when_a_watch_reports_an_expired_resource_version() {
    let (handler, log) = scripted(
        vec![(10, vec![object("a", 5), object("b", 6)]), (30, vec![object("b", 6), object("c", 25)])],
        vec![vec![event("ERROR", &status(410, "Expired"))]],
    );
    let server = Server::plain(handler).await;
    let caches = Caches::new(CacheOptions::default());
    let cache = caches.watch(&server.connect().await, &Arc::new(config_map()), Selection::All);
    kross_testing::wait::until_true("the second list to be cached", || {
        cache.get(Some("shop"), "a") == Lookup::Absent && cache.get(Some("shop"), "c") != Lookup::Absent
    })
    .await;
    assert_eq!(cache.list().unwrap().len(), 2);
    kross_testing::wait::until_true("the watch to continue from the second list", || {
        log.lock().unwrap().last().is_some_and(|path| path.contains("resourceVersion=30"))
    })
    .await;
}

#[tokio::test]
async fn resumes_a_watch_from_the_last_bookmark() {
    let bookmark = json!({"kind": "ConfigMap", "metadata": {"resourceVersion": "77"}});
    let (handler, log) = scripted(
        vec![(10, vec![object("a", 5)])],
        vec![
            vec![
                event("ADDED", &object("b", 12)),
                json!({"type": "NEW", "object": {}}),
                event("BOOKMARK", &bookmark),
            ],
            vec![event("DELETED", &object("a", 80))],
        ],
    );
    let server = Server::plain(handler).await;
    let caches = Caches::new(CacheOptions::default());
    let cache = caches.watch(&server.connect().await, &Arc::new(config_map()), Selection::All);
    let mut events = cache.subscribe();
    let mut names = Vec::new();
    while names.len() < 4 {
        match events.recv().await.unwrap().change {
            Change::Applied { new, .. } => names.push(format!("+{}", new.name())),
            Change::Deleted { old } => names.push(format!("-{}", old.name())),
            Change::Synced => names.push("synced".to_owned()),
            Change::Failed { error } => panic!("{error}"),
            Change::Resumed | Change::Relisted => {}
        }
    }
    assert_eq!(names, ["+a", "synced", "+b", "-a"]);
    kross_testing::wait::until_true("a third watch to be opened", || {
        log.lock().unwrap().iter().filter(|path| path.contains("watch=true")).count() >= 3
    })
    .await;
    let log = log.lock().unwrap();
    let versions: Vec<&str> = log
        .iter()
        .filter(|path| path.contains("watch=true"))
        .filter_map(|path| path.split("resourceVersion=").nth(1))
        .collect();
    assert_eq!(versions, ["10", "77", "80"]);
    assert_eq!(log.iter().filter(|path| path.contains("limit=")).count(), 1);
}

#[tokio::test]
async fn pauses_between_watches_that_the_server_closes_at_once() {
    let (handler, log) = scripted(vec![(10, vec![])], vec![vec![]; 1000]);
    let server = Server::plain(handler).await;
    let caches = Caches::new(CacheOptions::default());
    let _cache = caches.watch(&server.connect().await, &Arc::new(config_map()), Selection::All);
    let started = Instant::now();
    kross_testing::wait::until_true("twelve requests to be sent", || log.lock().unwrap().len() >= 12).await;
    assert!(started.elapsed() > Duration::from_millis(500), "twelve requests in {:?}", started.elapsed());
}

#[tokio::test]
async fn polls_with_full_lists_if_the_server_has_no_metadata_lists() {
    let log = Log::default();
    let seen = Arc::clone(&log);
    let server = Server::plain(move |path| {
        seen.lock().unwrap().push(path.split(['?', '/']).next().unwrap().trim().to_owned());
        if path.starts_with("metadata") {
            return response(406, &status(406, "NotAcceptable").to_string());
        }
        let version = seen.lock().unwrap().len() as u64;
        let list = json!({"kind": "ConfigMapList", "metadata": {"resourceVersion": version.to_string()},
                          "items": [object("web", version)]});
        response(200, &list.to_string())
    })
    .await;
    let client = server.connect().await;
    let caches = Caches::new(CacheOptions::default());
    let sync =
        kross_cluster::SyncPolicy::Poll { interval: Duration::from_millis(50), jitter: Duration::ZERO };
    let cache = caches.cache_with(&client, &Arc::new(config_map()), Selection::All, sync);
    kross_testing::wait::until_true("the cache to be updated by polls", || {
        match cache.get(Some("shop"), "web") {
            Lookup::Found(web) => web.version() > Some(4),
            Lookup::Absent | Lookup::Unknown => false,
        }
    })
    .await;
    assert_eq!(log.lock().unwrap()[..4], ["", "metadata", "", ""]);
    assert!(caches.states()[0].failure.is_none());
}

#[tokio::test]
async fn adds_an_explanation_to_a_forbidden_error_without_one() {
    let refusal = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403,
        "reason": "Forbidden", "message": "configmaps \"web\" is forbidden: "});
    let review = json!({"kind": "SelfSubjectReview", "status": {"userInfo": {"username": "agent"}}});
    let server = Server::plain(move |path| match path {
        "/apis/authentication.k8s.io/v1/selfsubjectreviews" => response(201, &review.to_string()),
        _ => response(403, &refusal.to_string()),
    })
    .await;
    let client = server.connect().await;
    let error = client.get(&config_map(), Some("shop"), "web").await.unwrap_err();
    let reason = r#"User "agent" cannot get resource "configmaps" in API group "" in the namespace "shop""#;
    assert_eq!(error.message(), format!(r#"configmaps "web" is forbidden: {reason}"#));
}
