//! Discovery of built-in and custom kinds.

use kross_cluster::{ApiKind, Missing};
use kross_value::Value;
use serde_json::json;

use crate::setup::Setup;

fn definition(group: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("oxen.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": "Ox", "plural": "oxen", "singular": "ox", "listKind": "OxList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]
        }
    })
    .into()
}

#[tokio::test(flavor = "multi_thread")]
async fn finds_kinds_with_their_plurals_scopes_and_versions() {
    let setup = Setup::new().await;
    let client = &setup.client;
    let ingress = client.kind("networking.k8s.io", None, "Ingress").await.unwrap();
    assert_eq!((ingress.plural.as_str(), ingress.version.as_str()), ("ingresses", "v1"));
    assert!(ingress.namespaced && ingress.has_status);
    let namespace = client.kind("", Some("v1"), "Namespace").await.unwrap();
    assert!(!namespace.namespaced);
    let endpoints = client.kind("", Some("v1"), "Endpoints").await.unwrap();
    assert_eq!(endpoints.plural, "endpoints");
    let before = client.stats().requests.answered;
    client.kind("apps", Some("v1"), "Deployment").await.unwrap();
    assert_eq!(client.stats().requests.answered, before, "a known kind takes no request");
}

#[tokio::test(flavor = "multi_thread")]
async fn finds_a_kind_that_is_added_later_and_reports_an_unknown_one_as_missing() {
    let setup = Setup::new().await;
    let client = &setup.client;
    let group = format!("{}.example.com", setup.fixture.namespace);
    let error = client.kind(&group, Some("v1"), "Ox").await.unwrap_err();
    assert_eq!(error.missing(), Some(&Missing::Kind));

    let before = client.stats().requests.answered;
    for _ in 0..50 {
        client.kind(&group, Some("v1"), "Ox").await.unwrap_err();
    }
    assert!(client.stats().requests.answered <= before + 4, "unknown kinds do not flood the cluster");

    let crd = client.kind("apiextensions.k8s.io", Some("v1"), "CustomResourceDefinition").await.unwrap();
    client.create(&crd, &definition(&group), "test").await.unwrap();
    let ox = kross_testing::wait::until("discovery to list the kind", || async {
        client.kind(&group, Some("v1"), "Ox").await.map_err(|error| error.to_string())
    })
    .await;
    assert_eq!((ox.plural.as_str(), ox.namespaced, ox.has_status), ("oxen", true, true));
    assert!(client.kind(&group, Some("v2"), "Ox").await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn learns_a_kind_from_its_definition_without_a_request() {
    let setup = Setup::new().await;
    let client = &setup.client;
    let before = client.stats().requests.answered;
    client.discovery().learn(ApiKind::custom("learned.example.com", "v1", "Ox", "oxen", true));
    let ox = client.kind("learned.example.com", Some("v1"), "Ox").await.unwrap();
    assert_eq!(ox.plural, "oxen");
    assert_eq!(client.stats().requests.answered, before);
    // Discovery shows a kind later than its CustomResourceDefinition.
    client.refresh_discovery().await.unwrap();
    assert!(client.discovery().cached("learned.example.com", None, "Ox").is_some());
    let before = client.stats().requests.answered;
    client.discovery().forget("learned.example.com", "Ox");
    assert!(client.discovery().cached("learned.example.com", None, "Ox").is_none());
    assert_eq!(client.stats().requests.answered, before);
}
