//! Servers that serve more kinds than anybody needs, or that do not list all that they serve.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kross_api::FailureReason;
use serde_json::{Value as Json, json};
use tokio::time::Instant;

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

/// An aggregated discovery document with these kinds of one group.
fn aggregated(group: &str, version: &Json) -> String {
    json!({"kind": "APIGroupDiscoveryList", "items": [{"metadata": {"name": group}, "versions": [version]}]})
        .to_string()
}

fn version_with(kinds: &[&str]) -> Json {
    let resource = |kind: &&str| json!({"resource": kind.to_lowercase(), "scope": "Namespaced", "responseKind": {"kind": kind}});
    json!({"version": "v1", "freshness": "Current", "resources": kinds.iter().map(resource).collect::<Vec<_>>()})
}

/// What `served_kind` says about kind `Ox` of `example.com`, if the n-th answer is that of the handler.
async fn is_served(
    handler: impl Fn(&str, usize) -> (u16, String) + Send + Sync + 'static,
) -> Result<bool, String> {
    let count = AtomicUsize::new(0);
    let server = Server::plain(move |path| {
        let (code, text) = handler(path, count.fetch_add(1, Ordering::Relaxed));
        response(code, &text)
    })
    .await;
    let served = server.connect().await.served_kind("example.com", "Ox", Instant::now()).await;
    served.map(|found| found.is_some()).map_err(|error| error.message().to_owned())
}

#[tokio::test]
async fn a_kind_that_a_starting_api_server_does_not_list_yet_is_not_taken_for_unserved() {
    // It answers discovery with its built-in kinds before it has read its CustomResourceDefinitions.
    let starting = |path: &str, _: usize| match path {
        "/readyz" => (500, "[-]poststarthook/crd-informer-synced failed".to_owned()),
        _ => (200, aggregated("apps", &version_with(&["Deployment"]))),
    };
    let error = is_served(starting).await.unwrap_err();
    assert!(error.contains("the API server is not ready (`/readyz` answers 500)"), "{error}");
    // One that became ready after it was asked is asked again.
    let becomes_ready = |path: &str, number: usize| match path {
        "/readyz" => (200, "ok".to_owned()),
        _ if number < 2 => (200, aggregated("apps", &version_with(&["Deployment"]))),
        _ => (200, aggregated("example.com", &version_with(&["Ox"]))),
    };
    assert_eq!(is_served(becomes_ready).await, Ok(true));
    for code in [200, 403, 404] {
        let ready = move |path: &str, _: usize| match path {
            "/readyz" => (code, String::new()),
            _ => (200, aggregated("apps", &version_with(&["Deployment"]))),
        };
        assert_eq!(is_served(ready).await, Ok(false), "{code}");
    }
}

#[tokio::test]
async fn a_group_that_is_listed_without_kinds_proves_nothing() {
    let hollow = |path: &str, _: usize| match path {
        "/readyz" => (200, "ok".to_owned()),
        _ => (200, aggregated("example.com", &version_with(&[]))),
    };
    let error = is_served(hollow).await.unwrap_err();
    assert!(error.contains("discovery lists group `example.com` without its kinds"), "{error}");
    let legacy = |path: &str, _: usize| match path {
        "/readyz" => (200, "ok".to_owned()),
        "/api" => (200, json!({"kind": "APIVersions", "versions": ["v1"]}).to_string()),
        "/apis" => {
            let groups = json!([{"name": "example.com", "versions": [{"version": "v1"}]}]);
            (200, json!({"kind": "APIGroupList", "groups": groups}).to_string())
        }
        _ => (200, json!({"kind": "APIResourceList", "resources": []}).to_string()),
    };
    let error = is_served(legacy).await.unwrap_err();
    assert!(error.contains("without its kinds"), "{error}");
    assert_eq!(
        is_served(|path, _| match path {
            "/readyz" => (200, "ok".to_owned()),
            _ => (200, aggregated("example.com", &version_with(&["Cow"]))),
        })
        .await,
        Ok(false)
    );
}
