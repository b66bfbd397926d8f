//! Turns three empty clusters into a hub that has the kubeconfigs of the other two, a running controller, and an instance of
//! the example with objects in all of them.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use kross_cluster::{ApiKind, Apply, Cache, ClientOptions, ClusterClient, ClusterId, StoredObject};
use kross_cluster::{CacheOptions, Caches, Selection};
use kross_controller::{Controller, Settings};
use kross_local::ControlPlane;
use kross_value::Value;
use serde_json::{Value as Json, json};

const EXAMPLE: &str = include_str!("../../../../../examples/three-clusters.yaml");
const FIELD_MANAGER: &str = "kross-demo";
pub(super) const NAMESPACE: &str = "default";
pub(super) const NAME: &str = "demo";
/// How long the hub may take to serve a kind on a slow machine.
const SERVE_TIMEOUT: Duration = Duration::from_secs(60);

/// Connects to the hub.
pub(super) async fn connect([hub, ..]: &[ControlPlane; 3]) -> anyhow::Result<ClusterClient> {
    let config = hub.admin().config().await?;
    Ok(ClusterClient::trusted(ClusterId::local(), config, ClientOptions::default()).await?)
}

/// Installs what `kross crds` prints.
pub(super) async fn install(hub: &ClusterClient) -> anyhow::Result<()> {
    for crd in kross_api::graph_crds().into_iter().chain([kross_api::connection_crd()]) {
        apply(hub, &serde_json::to_value(crd)?).await?;
    }
    Ok(())
}

/// Runs the controller until the demo ends.
pub(super) fn run_controller(hub: &ClusterClient) {
    let mut registry = prometheus_client::registry::Registry::default();
    let controller = Controller::new(hub.clone(), hub.clone(), Settings::default(), &mut registry);
    tokio::spawn(controller.run(std::future::pending()));
}

/// Creates the kubeconfig Secrets, the definition, and an instance once its kind is served. Watches the instance.
pub(super) async fn define(hub: &ClusterClient, planes: &[ControlPlane; 3]) -> anyhow::Result<Cache> {
    let [_, regions @ ..] = planes;
    for plane in regions {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": format!("{}-kubeconfig", plane.name()), "namespace": NAMESPACE,
                "labels": {"kro.run/cluster-credentials": "true"}},
            "stringData": {"kubeconfig": plane.admin().to_string()},
        });
        apply(hub, &secret).await?;
    }
    apply(hub, &example()?).await?;
    let created = apply(hub, &instance(planes)).await?;
    let kind = hub.kind(created.group(), None, created.kind()).await?;
    let selection = Selection::Name { namespace: Some(NAMESPACE.into()), name: NAME.into() };
    Ok(Caches::new(CacheOptions::default()).watch(hub, &kind, selection))
}

/// The instance, with objects in all remote clusters.
pub(super) fn instance([_, regions @ ..]: &[ControlPlane; 3]) -> Json {
    json!({
        "apiVersion": "kro.run/v1alpha1", "kind": "Shop", "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {"regions": regions.each_ref().map(ControlPlane::name)},
    })
}

fn example() -> anyhow::Result<Json> {
    use kross_api::yaml;
    let (mut sources, mut found) = (kross_diagnostics::Sources::new(), kross_diagnostics::Diagnostics::new());
    let limits = yaml::Limits::default();
    let documents = yaml::parse(&mut sources, "three-clusters.yaml", EXAMPLE.to_owned(), &limits, &mut found);
    let document = documents.into_iter().next().context("the demo's example has no document")?;
    Ok(serde_json::to_value(document.value())?)
}

/// Applies an object, once its kind is served.
async fn apply(hub: &ClusterClient, object: &Json) -> anyhow::Result<StoredObject> {
    let text = |path: &str| object.pointer(path).and_then(Json::as_str).unwrap_or_default();
    let (group, version) = text("/apiVersion").rsplit_once('/').unwrap_or(("", text("/apiVersion")));
    let value: Value = serde_json::from_value(object.clone())?;
    let kind = served(hub, group, version, text("/kind")).await?;
    Ok(hub.apply(&kind, &value, Apply::by(FIELD_MANAGER).force()).await?)
}

async fn served(hub: &ClusterClient, group: &str, version: &str, kind: &str) -> anyhow::Result<Arc<ApiKind>> {
    let discover = async {
        loop {
            match hub.kind(group, Some(version), kind).await {
                Err(error) if error.missing().is_some() => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                found => return found,
            };
        }
    };
    match tokio::time::timeout(SERVE_TIMEOUT, discover).await {
        Ok(found) => Ok(found?),
        Err(_) => bail!("the hub does not serve kind `{kind}` after {}s", SERVE_TIMEOUT.as_secs()),
    }
}
