//! Creates, deletes and observes instances, and measures how long it takes a controller to follow.

use std::collections::HashSet;
use std::path::PathBuf;
use std::pin::pin;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value as Json, json};

use crate::process::run_command;

/// Concurrent requests of the benchmark itself.
const CONCURRENCY: usize = 16;
/// The timeout for one step.
const STEP_TIMEOUT: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(50);

/// Installs the CRDs, which are the same for every contender.
pub(super) async fn install(client: &Client) -> anyhow::Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for crd in kross_api::graph_crds() {
        api.create(&PostParams::default(), &crd).await.context("cannot install a CRD")?;
    }
    Ok(())
}

/// The objects of a kind of kro's group.
pub(super) fn api(client: &Client, kind: &str, namespace: Option<&str>) -> Api<DynamicObject> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("kro.run", "v1alpha1", kind));
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &kind),
        None => Api::all_with(client.clone(), &kind),
    }
}

/// Creates a definition and waits until it is active.
pub(super) async fn define(client: &Client, definition: Json) -> anyhow::Result<()> {
    let definitions = api(client, "ResourceGraphDefinition", None);
    let definition: DynamicObject = serde_json::from_value(definition)?;
    let name = definition.metadata.name.clone().unwrap_or_default();
    let started = Instant::now();
    while let Err(error) = definitions.create(&PostParams::default(), &definition).await {
        if started.elapsed() > STEP_TIMEOUT {
            return Err(error).context("cannot create the definition");
        }
        tokio::time::sleep(POLL).await;
    }
    while state(&definitions.get(&name).await?) != Some("Active") {
        if started.elapsed() > STEP_TIMEOUT {
            bail!("the definition `{name}` is not active");
        }
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}

/// Creates objects.
pub(super) async fn create(api: &Api<DynamicObject>, objects: Vec<Json>) -> anyhow::Result<()> {
    let creates = stream::iter(objects).map(|object| async {
        let object = serde_json::from_value(object)?;
        api.create(&PostParams::default(), &object).await.context("cannot create an instance")
    });
    creates.buffer_unordered(CONCURRENCY).try_for_each(|_| async { Ok(()) }).await
}

/// Creates instances. Returns the time until the last one is ready.
pub(super) async fn create_all(api: &Api<DynamicObject>, instances: Vec<Json>) -> anyhow::Result<Duration> {
    let started = Instant::now();
    let name = |instance: &Json| instance.pointer("/metadata/name").and_then(Json::as_str).map(str::to_owned);
    let mut waiting: HashSet<String> = instances.iter().filter_map(name).collect();
    let all_ready = watch_until(api, |event| {
        if let WatchEvent::Added(object) | WatchEvent::Modified(object) = event
            && is_ready(&object)
        {
            waiting.remove(object.metadata.name.as_deref().unwrap_or_default());
        }
        waiting.is_empty()
    });
    futures::try_join!(create(api, instances), all_ready)?;
    Ok(started.elapsed())
}

/// Deletes instances. Returns the time until the last one is deleted.
pub(super) async fn delete_all(api: &Api<DynamicObject>, names: &[String]) -> anyhow::Result<Duration> {
    let started = Instant::now();
    let deletes = async {
        let deletes = stream::iter(names).map(|name| async move {
            api.delete(name, &DeleteParams::default()).await.context("cannot delete")
        });
        deletes.buffer_unordered(CONCURRENCY).try_for_each(|_| async { Ok(()) }).await
    };
    let mut waiting: HashSet<&str> = names.iter().map(String::as_str).collect();
    let all_deleted = watch_until(api, |event| {
        if let WatchEvent::Deleted(object) = event {
            waiting.remove(object.metadata.name.as_deref().unwrap_or_default());
        }
        waiting.is_empty()
    });
    futures::try_join!(deletes, all_deleted)?;
    Ok(started.elapsed())
}

/// Edits one child after the other, each of which is given with its text. Returns the median time until the controller reverts the
/// edit.
pub(super) async fn repair(
    api: &Api<ConfigMap>,
    children: &[(String, String)],
    repairs: usize,
) -> anyhow::Result<Duration> {
    let (first, _) = children.first().context("there are no instances")?;
    let from = api.get(first).await?.metadata.resource_version.unwrap_or_default();
    // One watch for all repairs: opening a watch takes longer than a repair.
    let mut events = pin!(api.watch(&WatchParams::default(), &from).await?);
    let mut times = Vec::new();
    for (child, expected) in children.iter().cycle().take(repairs) {
        let started = Instant::now();
        let patch = Patch::Merge(json!({"data": {"x": "edited"}}));
        api.patch(child, &PatchParams::default(), &patch).await?;
        let mut edited = false;
        loop {
            let event = tokio::time::timeout(STEP_TIMEOUT, events.try_next()).await;
            let event =
                event.context("drift was not repaired in time")??.context("the watch ended too early")?;
            let WatchEvent::Modified(object) = event else { continue };
            let text = object.data.as_ref().and_then(|data| data.get("x"));
            if object.metadata.name.as_ref() == Some(child) {
                edited |= text.is_some_and(|text| text == "edited");
                if edited && text == Some(expected) {
                    break;
                }
            }
        }
        times.push(started.elapsed());
    }
    times.sort();
    times.get(times.len() / 2).copied().context("nothing was repaired")
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

/// Builds kross with optimisations. Returns the path of the binary.
pub(super) fn release_build() -> anyhow::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    run_command(Command::new(&cargo).args(["build", "--release", "--package", "kross"]))?;
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--no-deps"])
        .output()
        .context("cannot start `cargo metadata`")?;
    let metadata: Json =
        serde_json::from_slice(&output.stdout).context("`cargo metadata` printed no JSON")?;
    let target = metadata.get("target_directory").and_then(Json::as_str);
    let target = target.context("`cargo metadata` names no target directory")?;
    Ok([target, "release", "kross"].iter().collect())
}
