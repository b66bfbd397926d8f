//! Measures one controller with many instances of one graph: create, repair, delete.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kross_local::Program;
use kube::api::DynamicObject;
use kube::{Api, Client};
use serde_json::{Value as Json, json};

use super::traffic::Traffic;
use crate::bench::instances;
use crate::bench::usage::Usage;

/// Time without new requests after which the controller counts as idle.
const IDLE: Duration = Duration::from_secs(2);
const NAMESPACE: &str = "default";

/// The graph of the instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    Chain,
    Web,
}

/// The results of one controller with one graph.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Measured {
    pub(super) ready: Duration,
    pub(super) requests: f64,
    pub(super) events: f64,
    pub(super) cpu: Duration,
    pub(super) resident: u64,
    pub(super) repair: Duration,
    pub(super) deletion: Duration,
}

impl Load {
    pub(super) const ALL: [Self; 2] = [Self::Chain, Self::Web];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Chain => "five ConfigMaps in a chain",
            Self::Web => "ConfigMap, Deployment and Service",
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::Chain => "Chain",
            Self::Web => "Web",
        }
    }

    fn resources(self) -> Json {
        let config_map = |id: &str, text: &str| {
            json!({"id": id, "template": {"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": format!("${{schema.metadata.name}}-{id}")}, "data": {"x": text}}})
        };
        match self {
            Self::Chain => json!([
                config_map("a", "${schema.spec.text}"),
                config_map("b", "${a.data.x}b"),
                config_map("c", "${b.data.x}c"),
                config_map("d", "${c.data.x}d"),
                config_map("e", "${d.data.x}e"),
            ]),
            Self::Web => json!([config_map("a", "${schema.spec.text}"), deployment(), service()]),
        }
    }

    fn definition(self) -> Json {
        json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
            "metadata": {"name": self.kind().to_lowercase()}, "spec": {
                "schema": {"apiVersion": "v1alpha1", "kind": self.kind(), "spec": {"text": "string"}},
                "resources": self.resources()}})
    }
}

fn deployment() -> Json {
    json!({"id": "deployment", "template": {"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "${schema.metadata.name}"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "${schema.metadata.name}"}},
            "template": {"metadata": {"labels": {"app": "${schema.metadata.name}"}},
                "spec": {"containers": [{"name": "web", "image": "nginx",
                    "envFrom": [{"configMapRef": {"name": "${a.metadata.name}"}}],
                    "ports": [{"containerPort": 80}]}]}}}}})
}

/// A headless Service: the control plane has few cluster IPs.
fn service() -> Json {
    json!({"id": "service", "template": {"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "${schema.metadata.name}"},
        "spec": {"clusterIP": "None", "selector": {"app": "${deployment.spec.selector.matchLabels.app}"},
            "ports": [{"port": 80}]}}})
}

/// One graph on one controller.
pub(super) struct Run<'a> {
    pub(super) client: &'a Client,
    pub(super) controller: &'a Program,
    pub(super) load: Load,
}

impl Run<'_> {
    pub(super) async fn measure(&self, instances: usize, repairs: usize) -> anyhow::Result<Measured> {
        instances::define(self.client, self.load.definition()).await?;
        self.idle_traffic().await?;
        let names: Vec<String> =
            (0..instances).map(|number| format!("{}-{number}", self.load.kind().to_lowercase())).collect();
        let (usage, traffic) = (Usage::of(self.controller)?, self.idle_traffic().await?);
        let instance = |name: &String| {
            json!({"apiVersion": "kro.run/v1alpha1", "kind": self.load.kind(),
                "metadata": {"name": name}, "spec": {"text": name}})
        };
        let ready = instances::create_all(&self.instances(), names.iter().map(instance).collect()).await?;
        let (sent, used) = (self.idle_traffic().await?.since(traffic), Usage::of(self.controller)?);
        let config_maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), NAMESPACE);
        let children: Vec<_> = names.iter().map(|name| (format!("{name}-a"), name.clone())).collect();
        let repair = instances::repair(&config_maps, &children, repairs).await?;
        let deletion = instances::delete_all(&self.instances(), &names).await?;
        let each = |count: u64| count as f64 / instances.max(1) as f64;
        Ok(Measured {
            ready,
            // One request per instance is the benchmark's own create.
            requests: each(sent.requests) - 1.0,
            events: each(sent.events),
            cpu: used.cpu.saturating_sub(usage.cpu),
            resident: used.resident,
            repair,
            deletion,
        })
    }

    fn instances(&self) -> Api<DynamicObject> {
        instances::api(self.client, self.load.kind(), Some(NAMESPACE))
    }

    /// Waits until the controller is idle. Returns the counters of the API server.
    async fn idle_traffic(&self) -> anyhow::Result<Traffic> {
        let started = Instant::now();
        let (mut last, mut since) = (Traffic::of(self.client).await?, Instant::now());
        while since.elapsed() < IDLE && started.elapsed() < IDLE * 5 {
            tokio::time::sleep(IDLE / 10).await;
            let now = Traffic::of(self.client).await?;
            if now != last {
                (last, since) = (now, Instant::now());
            }
        }
        Ok(last)
    }
}
