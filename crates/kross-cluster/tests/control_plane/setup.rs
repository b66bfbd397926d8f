//! A client of the test's hub, and the objects that tests apply.

use std::sync::Arc;

use kross_cluster::{ApiKind, ClientOptions, ClusterClient, ClusterId};
use kross_testing::Fixture;
use kross_value::Value;
use serde_json::json;

pub struct Setup {
    pub fixture: Fixture,
    pub client: ClusterClient,
    pub config_map: Arc<ApiKind>,
}

impl Setup {
    pub async fn new() -> Self {
        let fixture = Fixture::hub().await;
        let client = connect(&fixture).await;
        let config_map = client.kind("", Some("v1"), "ConfigMap").await.unwrap();
        Self { fixture, client, config_map }
    }

    pub fn namespace(&self) -> Option<&str> {
        Some(&self.fixture.namespace)
    }

    /// A managed ConfigMap in the test's namespace.
    pub fn object(&self, name: &str, data: &[(&str, &str)]) -> Value {
        self.labelled(name, &[("kro.run/owned", "true")], data)
    }

    pub fn labelled(&self, name: &str, labels: &[(&str, &str)], data: &[(&str, &str)]) -> Value {
        let map = |pairs: &[(&str, &str)]| {
            pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), json!(value)))
                .collect::<serde_json::Map<_, _>>()
        };
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": self.fixture.namespace, "labels": map(labels)},
            "data": map(data),
        })
        .into()
    }
}

pub async fn connect(fixture: &Fixture) -> ClusterClient {
    let config = fixture.hub.plane.admin().config().await.unwrap();
    ClusterClient::trusted(ClusterId::local(), config, ClientOptions::for_version("devel")).await.unwrap()
}
