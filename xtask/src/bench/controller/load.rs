//! Measures one controller with many instances of one graph: create, repair, delete.

use std::collections::HashSet;
use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kross_local::Program;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value as Json, json};

use super::traffic::Traffic;
use super::usage::Usage;

/// Concurrent requests of the benchmark itself.
const CONCURRENCY: usize = 16;
/// The timeout for one step.
const STEP_TIMEOUT: Duration = Duration::from_secs(300);
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

/// Installs the CRDs, which are the same for every contender.
pub(super) async fn install(client: &Client) -> anyhow::Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for crd in kross_api::graph_crds() {
        api.create(&PostParams::default(), &crd).await.context("cannot install a CRD")?;
    }
    Ok(())
}

/// One graph on one controller.
pub(super) struct Run<'a> {
    pub(super) client: &'a Client,
    pub(super) controller: &'a Program,
    pub(super) load: Load,
}

impl Run<'_> {
    pub(super) async fn measure(&self, instances: usize, repairs: usize) -> anyhow::Result<Measured> {
        self.define().await?;
        self.idle_traffic().await?;
        let names: Vec<String> =
            (0..instances).map(|number| format!("{}-{number}", self.load.kind().to_lowercase())).collect();
        let (usage, traffic) = (Usage::of(self.controller)?, self.idle_traffic().await?);
        let ready = self.create(&names).await?;
        let (sent, used) = (self.idle_traffic().await?.since(traffic), Usage::of(self.controller)?);
        let repair = self.repair(&names, repairs).await?;
        let deletion = self.delete(&names).await?;
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

    fn api(&self, kind: &str, namespace: Option<&str>) -> Api<DynamicObject> {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("kro.run", "v1alpha1", kind));
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &kind),
            None => Api::all_with(self.client.clone(), &kind),
        }
    }

    fn instances(&self) -> Api<DynamicObject> {
        self.api(self.load.kind(), Some(NAMESPACE))
    }

    /// Creates the definition and waits until it is active.
    async fn define(&self) -> anyhow::Result<()> {
        let definitions = self.api("ResourceGraphDefinition", None);
        let definition = serde_json::from_value(self.load.definition())?;
        let started = Instant::now();
        while let Err(error) = definitions.create(&PostParams::default(), &definition).await {
            if started.elapsed() > STEP_TIMEOUT {
                return Err(error).context("cannot create the definition");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let name = self.load.kind().to_lowercase();
        while state(&definitions.get(&name).await?) != Some("Active") {
            if started.elapsed() > STEP_TIMEOUT {
                bail!("the definition `{name}` is not active");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
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

    /// Creates all instances. Returns the time until the last one is ready.
    async fn create(&self, names: &[String]) -> anyhow::Result<Duration> {
        let api = self.instances();
        let started = Instant::now();
        let creates = async {
            let creates = stream::iter(names).map(|name| {
                let api = &api;
                async move {
                    let instance = json!({"apiVersion": "kro.run/v1alpha1", "kind": self.load.kind(),
                        "metadata": {"name": name}, "spec": {"text": name}});
                    let instance = serde_json::from_value(instance)?;
                    api.create(&PostParams::default(), &instance).await.context("cannot create an instance")
                }
            });
            creates.buffer_unordered(CONCURRENCY).try_for_each(|_| async { Ok(()) }).await
        };
        let mut waiting: HashSet<&str> = names.iter().map(String::as_str).collect();
        let all_ready = watch_until(&api, |event| {
            if let WatchEvent::Added(object) | WatchEvent::Modified(object) = event
                && is_ready(&object)
            {
                waiting.remove(object.metadata.name.as_deref().unwrap_or_default());
            }
            waiting.is_empty()
        });
        futures::try_join!(creates, all_ready)?;
        Ok(started.elapsed())
    }

    /// Deletes all instances. Returns the time until the last one is deleted.
    async fn delete(&self, names: &[String]) -> anyhow::Result<Duration> {
        let api = self.instances();
        let started = Instant::now();
        let deletes = async {
            let deletes = stream::iter(names).map(|name| {
                let api = &api;
                async move { api.delete(name, &DeleteParams::default()).await.context("cannot delete") }
            });
            deletes.buffer_unordered(CONCURRENCY).try_for_each(|_| async { Ok(()) }).await
        };
        let mut waiting: HashSet<&str> = names.iter().map(String::as_str).collect();
        let all_deleted = watch_until(&api, |event| {
            if let WatchEvent::Deleted(object) = event {
                waiting.remove(object.metadata.name.as_deref().unwrap_or_default());
            }
            waiting.is_empty()
        });
        futures::try_join!(deletes, all_deleted)?;
        Ok(started.elapsed())
    }

    /// Edits a child of one instance after the other. Returns the median time until the controller reverts the edit.
    async fn repair(&self, names: &[String], repairs: usize) -> anyhow::Result<Duration> {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), NAMESPACE);
        let first = format!("{}-a", names.first().context("there are no instances")?);
        let from = api.get(&first).await?.metadata.resource_version.unwrap_or_default();
        // One watch for all repairs: opening a watch takes longer than a repair.
        let mut events = pin!(api.watch(&WatchParams::default(), &from).await?);
        let mut times = Vec::new();
        for name in names.iter().cycle().take(repairs) {
            let child = format!("{name}-a");
            let started = Instant::now();
            let patch = Patch::Merge(json!({"data": {"x": "edited"}}));
            api.patch(&child, &PatchParams::default(), &patch).await?;
            let mut edited = false;
            loop {
                let event = tokio::time::timeout(STEP_TIMEOUT, events.try_next()).await;
                let event =
                    event.context("drift was not repaired in time")??.context("the watch ended too early")?;
                let WatchEvent::Modified(object) = event else { continue };
                let text = object.data.as_ref().and_then(|data| data.get("x"));
                if object.metadata.name.as_ref() == Some(&child) {
                    edited |= text.is_some_and(|text| text == "edited");
                    if edited && text == Some(name) {
                        break;
                    }
                }
            }
            times.push(started.elapsed());
        }
        times.sort();
        times.get(times.len() / 2).copied().context("nothing was repaired")
    }
}

/// Watches all objects until `done` returns true.
async fn watch_until(
    api: &Api<DynamicObject>,
    mut done: impl FnMut(WatchEvent<DynamicObject>) -> bool,
) -> anyhow::Result<()> {
    let watch = async {
        let mut events = pin!(api.watch(&WatchParams::default(), "0").await?);
        while let Some(event) = events.try_next().await? {
            if done(event) {
                return Ok(());
            }
        }
        bail!("the watch ended too early")
    };
    tokio::time::timeout(STEP_TIMEOUT, watch).await.context("the step timed out")?
}

fn state(object: &DynamicObject) -> Option<&str> {
    object.data.get("status")?.get("state")?.as_str()
}

fn is_ready(object: &DynamicObject) -> bool {
    let conditions = object.data.get("status").and_then(|status| status.get("conditions")?.as_array());
    conditions.into_iter().flatten().any(|condition| {
        condition.get("type").is_some_and(|kind| kind == "Ready")
            && condition.get("status").is_some_and(|status| status == "True")
    })
}
