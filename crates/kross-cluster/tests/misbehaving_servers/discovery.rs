//! Servers that serve more kinds than anybody needs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kross_api::FailureReason;
use serde_json::json;

use crate::server::{Server, response};

#[tokio::test]
async fn discovery_of_a_hundred_thousand_kinds_is_refused() {
    let resources: Vec<_> = (0..100_000)
        .map(|n| {
            json!({"resource": format!("kind{n}s"), "scope": "Namespaced", "responseKind": {"kind": format!("Kind{n}")}})
        })
        .collect();
    let group =
        json!({"metadata": {"name": "example.com"}, "versions": [{"version": "v1", "resources": resources}]});
    let list = json!({"kind": "APIGroupDiscoveryList", "items": [group]}).to_string();
    let server = Server::plain(move |_| response(200, &list)).await;
    let client = server.connect().await;
    let error = client.kind("example.com", None, "Kind7").await.unwrap_err();
    assert_eq!(error.reason(), FailureReason::ServerError);
    assert!(error.message().contains("more than 50000 kinds"), "{error}");
    assert!(client.discovery().kinds().is_empty());
}

#[tokio::test]
async fn legacy_discovery_of_a_hundred_thousand_groups_is_refused_without_a_request_for_each() {
    let requests = Arc::new(AtomicUsize::new(0));
    let sent = Arc::clone(&requests);
    let groups: Vec<_> = (0..100_000)
        .map(|n| json!({"name": format!("group{n}.example.com"), "versions": [{"version": "v1"}]}))
        .collect();
    let groups = json!({"kind": "APIGroupList", "groups": groups}).to_string();
    let server = Server::plain(move |path| {
        sent.fetch_add(1, Ordering::Relaxed);
        match path {
            "/api" => response(200, &json!({"kind": "APIVersions", "versions": ["v1"]}).to_string()),
            "/apis" => response(200, &groups),
            _ => response(200, &json!({"kind": "APIResourceList", "resources": []}).to_string()),
        }
    })
    .await;
    let error = server.connect().await.kind("group7.example.com", None, "Ox").await.unwrap_err();
    assert!(error.message().contains("more than 1000 groups and versions"), "{error}");
    assert!(requests.load(Ordering::Relaxed) <= 3);
}

#[tokio::test]
async fn kinds_whose_names_are_not_those_of_kubernetes_are_left_out() {
    let resource = |plural: &str, kind: &str| json!({"resource": plural, "scope": "Namespaced", "responseKind": {"kind": kind}});
    let resources = json!([
        resource("oxen", "Ox"),
        resource("../../secrets", "Evil"),
        resource("cows?x=", "Cow"),
        resource(&"x".repeat(1000), "Long")
    ]);
    let items = json!([{"metadata": {"name": "example.com"}, "versions": [{"version": "v1", "resources": resources}]},
        {"metadata": {"name": "a/b"}, "versions": [{"version": "v1", "resources": [resource("dogs", "Dog")]}]}]);
    let list = json!({"kind": "APIGroupDiscoveryList", "items": items}).to_string();
    let server = Server::plain(move |_| response(200, &list)).await;
    let client = server.connect().await;
    client.kind("example.com", None, "Ox").await.unwrap();
    let kinds: Vec<_> = client.discovery().kinds().iter().map(|kind| kind.kind.to_string()).collect();
    assert_eq!(kinds, ["Ox"]);
}
