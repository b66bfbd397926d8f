//! Servers that send objects which nobody asked for.

use std::sync::Arc;

use kross_cluster::{CacheOptions, Caches, Lookup, Selection, SyncPolicy, unexpected_objects};
use serde_json::{Value, json};

use crate::server::{Server, config_map, event, object, response, scripted};

fn labelled(name: &str, version: u64, tier: &str) -> Value {
    let mut object = object(name, version);
    object["metadata"]["labels"] = json!({"tier": tier});
    object
}

fn elsewhere(name: &str, version: u64) -> Value {
    let mut object = labelled(name, version, "web");
    object["metadata"]["namespace"] = json!("bank");
    object
}

fn secret(name: &str, version: u64) -> Value {
    let mut object = labelled(name, version, "web");
    object["kind"] = json!("Secret");
    object
}

/// The kind of items is left out by API servers.
fn without_kind(mut object: Value) -> Value {
    object.as_object_mut().unwrap().retain(|name, _| name == "metadata");
    object
}

#[tokio::test]
async fn objects_of_a_list_that_do_not_match_the_request_are_dropped_and_counted() {
    let items = json!([
        without_kind(labelled("web", 1, "web")),
        labelled("db", 2, "db"),
        elsewhere("web", 3),
        secret("web", 4)
    ]);
    let list = json!({"metadata": {"resourceVersion": "9"}, "items": items}).to_string();
    let server = Server::plain(move |_| response(200, &list)).await;
    let before = unexpected_objects();
    let client = server.connect().await;
    let listed = client.list(&config_map(), Some("shop"), Some("tier in (web)")).await.unwrap();
    let seen: Vec<_> =
        listed.iter().map(|object| (object.kind(), object.resource_version().as_str())).collect();
    assert_eq!(seen, [("ConfigMap", "1")]);
    assert!(unexpected_objects() >= before + 3);
}

#[tokio::test]
async fn events_that_do_not_match_the_request_are_dropped_but_deletions_are_not_compared_by_labels() {
    let (handler, _) = scripted(
        vec![(10, vec![labelled("a", 5, "web"), labelled("b", 6, "web"), secret("c", 7)])],
        vec![vec![
            event("ADDED", &labelled("d", 11, "db")),
            event("MODIFIED", &elsewhere("a", 12)),
            event("MODIFIED", &secret("a", 13)),
            // In another namespace.
            event("DELETED", &elsewhere("a", 14)),
            // Its labels do not match any more.
            event("DELETED", &labelled("b", 15, "db")),
            event("ADDED", &labelled("last", 16, "web")),
        ]],
    );
    let server = Server::plain(handler).await;
    let caches = Caches::new(CacheOptions::default());
    let selection = Selection::Labels { namespace: Some("shop".into()), selector: "tier=web".into() };
    let cache = caches.watch(&server.connect().await, &Arc::new(config_map()), selection);
    kross_testing::wait::until_true("the last event", || {
        matches!(cache.get(Some("shop"), "last"), Lookup::Found(_))
    })
    .await;
    let mut names: Vec<_> = cache
        .list()
        .unwrap()
        .iter()
        .map(|object| format!("{}@{}", object.name(), object.resource_version()))
        .collect();
    names.sort();
    assert_eq!(names, ["a@5", "last@16"]);
    assert_eq!(cache.get(Some("bank"), "a"), Lookup::Absent);
}

#[tokio::test]
async fn polls_drop_what_does_not_match_the_request() {
    let list = json!({"metadata": {"resourceVersion": "9"},
        "items": [labelled("web", 1, "web"), labelled("db", 2, "db"), elsewhere("web", 3)]});
    let list = list.to_string();
    let server = Server::plain(move |_| response(200, &list)).await;
    let caches = Caches::new(CacheOptions::default());
    let sync = SyncPolicy::Poll {
        interval: std::time::Duration::from_millis(50),
        jitter: std::time::Duration::ZERO,
    };
    let selection = Selection::Labels { namespace: None, selector: "tier=web".into() };
    let client = server.connect().await;
    let cache = caches.cache_with(&client, &Arc::new(config_map()), selection, sync);
    kross_testing::wait::until_true("several polls", || caches.states().iter().any(|state| state.lists > 2))
        .await;
    // Without a namespace in the request, each namespace is right.
    assert_eq!(cache.list().unwrap().len(), 2);
    assert_eq!(cache.get(Some("shop"), "db"), Lookup::Absent);
}

#[tokio::test]
async fn a_response_in_another_version_of_the_kind_is_an_error() {
    let server = Server::plain(|_| {
        let mut other = object("web", 1);
        other["apiVersion"] = json!("example.com/v1");
        response(200, &other.to_string())
    })
    .await;
    let error = server.connect().await.get(&config_map(), Some("shop"), "web").await.unwrap_err();
    assert!(error.message().contains("another object"), "{error}");
}
