//! A hub with one controller for all tests, a remote cluster behind a fault proxy for each test, and definitions with
//! resources in it.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kross_cluster::{Backoff, ClusterOptions};
use kross_controller::{PreflightIntervals, Settings};
use kross_local::Kubeconfig;
use kross_testing::{FaultProxy, Fixture, objects};
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value as Json, json};
use tokio::sync::OnceCell;

use crate::setup::{Objects, Running, condition, install};

/// Settings with short intervals between attempts.
pub fn settings() -> Settings {
    let clusters = ClusterOptions {
        probe_interval: Duration::from_secs(1),
        liveness_interval: Duration::from_millis(200),
        ..ClusterOptions::default()
    };
    Settings {
        clusters,
        preflights: PreflightIntervals {
            complete: Duration::from_secs(1),
            incomplete: Duration::from_millis(500),
            backoff: Backoff { base: Duration::from_millis(200), cap: Duration::from_secs(1) },
            ..PreflightIntervals::default()
        },
        ..Settings::default()
    }
}

static SHARED: OnceCell<Running> = OnceCell::const_new();

/// The hub, the remote cluster `eu` and the proxy in front of it.
pub struct World {
    pub fixture: Fixture,
    pub hub: Objects,
    pub eu: Objects,
    pub proxy: FaultProxy,
}

impl World {
    pub async fn new() -> Self {
        let world = Self::without_controller(Fixture::with(&["eu"]).await);
        SHARED
            .get_or_init(|| async {
                install(&world.hub.client).await;
                Running::start("hub", settings()).await
            })
            .await;
        world
    }

    /// As [`World::new`], without a controller.
    pub fn without_controller(fixture: Fixture) -> Self {
        let eu = fixture.remote("eu");
        let proxy = FaultProxy::start(eu.plane.admin()).unwrap();
        let (hub, eu) =
            (Objects { client: fixture.hub.client.clone() }, Objects { client: eu.client.clone() });
        Self { fixture, hub, eu, proxy }
    }

    pub fn namespace(&self) -> &str {
        &self.fixture.namespace
    }

    /// A name that no other test uses.
    pub fn unique_name(&self, text: &str) -> String {
        format!("{text}-{}", self.namespace())
    }

    /// A kind that no other test uses.
    pub fn unique_kind(&self, text: &str) -> String {
        format!("{text}{}", self.namespace().replace(['-'], ""))
    }

    /// The admin kubeconfig of the remote cluster, through the proxy.
    pub fn admin(&self) -> Kubeconfig {
        self.proxy.kubeconfig(self.fixture.remote("eu").plane.admin()).unwrap()
    }

    pub fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.hub.client.clone(), self.namespace())
    }

    /// Creates or replaces the Secret that definitions name.
    pub async fn apply_secret(&self, kubeconfig: &Kubeconfig) {
        let secret = objects::kubeconfig_secret("eu-kubeconfig", kubeconfig);
        let params = PatchParams::apply("test").force();
        self.secrets().patch("eu-kubeconfig", &params, &Patch::Apply(&secret)).await.unwrap();
    }

    /// A definition of one resource in the remote cluster.
    pub fn definition(&self, name: &str, template: &Json) -> Json {
        json!({
            "apiVersion": "kro.run/v1alpha1",
            "kind": "ResourceGraphDefinition",
            "metadata": {"name": name},
            "spec": {
                "schema": {"apiVersion": "v1alpha1", "kind": self.unique_kind("App"), "spec": {"size": "integer | default=1"}},
                "cluster": {"name": "eu-kubeconfig", "namespace": self.namespace()},
                "resources": [{"id": "one", "template": template}],
            },
        })
    }

    pub fn config_map(&self) -> Json {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
               "metadata": {"name": "${schema.metadata.name}", "namespace": self.namespace()},
               "data": {"size": "${string(schema.spec.size)}"}})
    }

    /// Creates or updates a CRD in the remote cluster, with these properties of its spec.
    pub async fn apply_database_crd(&self, version: &str, properties: &Json) {
        let group = self.group();
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("databases.{group}")},
            "spec": {"group": group, "scope": "Namespaced",
                "names": {"kind": "Database", "plural": "databases", "singular": "database", "listKind": "DatabaseList"},
                "versions": [{"name": version, "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                        "spec": {"type": "object", "properties": properties},
                        "status": {"type": "object", "properties": {"endpoint": {"type": "string"}}}}}}}]},
        });
        let crd: DynamicObject = serde_json::from_value(crd).unwrap();
        let (crds, params) = (self.eu.crds(), PatchParams::apply("test").force());
        crds.patch(&format!("databases.{group}"), &params, &Patch::Apply(&crd)).await.unwrap();
    }

    pub fn group(&self) -> String {
        format!("{}.example.com", self.namespace())
    }

    pub fn database(&self, version: &str, spec: &Json) -> Json {
        json!({"apiVersion": format!("{}/{version}", self.group()), "kind": "Database",
               "metadata": {"name": "${schema.metadata.name}", "namespace": self.namespace()}, "spec": spec})
    }

    /// Waits until the conditions about clusters have these values, each as status and reason.
    #[track_caller]
    pub fn until_cluster_conditions(
        &self,
        name: &str,
        validated: &'static str,
        accessible: &'static str,
        analyzed: &'static str,
    ) -> impl Future<Output = Json> {
        let expected = [
            ("ClusterValidated", validated),
            ("ClusterAccessible", accessible),
            ("StaticAnalysisComplete", analyzed),
        ];
        self.hub.until(name, move |definition| {
            expected.iter().all(|(kind, expected)| {
                let found = condition(definition, kind);
                let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
                format!("{} {}", text("status"), text("reason")) == *expected
                    && found["observedGeneration"] == definition["metadata"]["generation"]
            })
        })
    }

    /// Waits until a definition is ready and its conditions about clusters are `True`.
    #[track_caller]
    pub fn until_accepted(&self, name: &str) -> impl Future<Output = Json> {
        let clusters =
            self.until_cluster_conditions(name, "True Validated", "True Accessible", "True Analyzed");
        let ready = self.hub.until_ready(name);
        async move {
            clusters.await;
            let definition = ready.await;
            assert_eq!(definition["status"]["state"], "Active");
            definition
        }
    }
}

/// The message of a condition.
pub fn message(definition: &Json, kind: &str) -> String {
    condition(definition, kind)["message"].as_str().unwrap_or_default().to_owned()
}

/// The types of a definition's conditions, sorted.
pub fn types(definition: &Json) -> Vec<String> {
    let conditions = definition["status"]["conditions"].as_array().unwrap();
    let mut types: Vec<String> =
        conditions.iter().map(|condition| condition["type"].as_str().unwrap().to_owned()).collect();
    types.sort();
    types
}
