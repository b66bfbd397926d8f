//! Turns an instance, an application, a claim or a target into the tree of its objects: the cluster, state and reason of
//! each. With `--watch`, draws the tree again on every change.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use clap::ValueEnum;
use kross_cluster::{
    ApiKind, CacheOptions, Caches, Change, ClientOptions, ClusterClient, LocalCluster, Selection,
};
use kross_diagnostics::render::Format;
use serde_json::Value as Json;

use crate::output::{Outcome, Output};

mod draw;
mod find;
mod load;
mod row;
mod workload;

pub(super) use draw::draw;

/// Arguments of `kross tree`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Instance, application, claim or target to show, such as `WebApplication/shop` or `kubernetestargets/dev`
    #[arg(value_name = "KIND/NAME")]
    instance: String,

    /// Namespace of the instance (default: the context's namespace)
    #[arg(short, long)]
    namespace: Option<String>,

    /// Draw the tree again on every change, until Ctrl-C
    #[arg(short, long)]
    watch: bool,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,

    /// Kubeconfig file (default: `$KUBECONFIG`, `~/.kube/config`, in-cluster)
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig (default: the current context)
    #[arg(long)]
    context: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OutputFormat {
    /// A tree
    Text,
    /// The state, conditions, resources and clusters as JSON
    Json,
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    let Some((kind, name)) =
        arguments.instance.split_once('/').filter(|(kind, name)| !kind.is_empty() && !name.is_empty())
    else {
        bail!("`{}` is not an instance: use `KIND/NAME`, such as `WebApplication/shop`", arguments.instance);
    };
    let runtime = tokio::runtime::Runtime::new().context("cannot start a runtime")?;
    runtime.block_on(show(arguments, kind, name, output))
}

async fn show(arguments: &Arguments, kind: &str, name: &str, output: &mut Output) -> anyhow::Result<Outcome> {
    let cluster =
        LocalCluster {
            kubeconfig: arguments.kubeconfig.clone(),
            context: arguments.context.clone(),
            ..LocalCluster::default()
        };
    let client = ClusterClient::local(&cluster, ClientOptions::default()).await?;
    client.refresh_discovery().await.context("cannot discover the kinds that the cluster serves")?;
    let kind = find::kind(&client.discovery().kinds(), kind)?;
    let namespace = arguments.namespace.as_deref().unwrap_or_else(|| client.default_namespace());
    let namespace = kind.namespaced.then_some(namespace);
    let found = client.get(&kind, namespace, name).await?;
    let found = serde_json::to_value(found.value())?;
    if load::is_workload(&kind) {
        return show_workload(arguments, &client, &kind, found, output).await;
    }
    if let Some(problem) = find::not_an_instance(&found, definitions(&client).await.as_deref()) {
        bail!(problem);
    }
    print(&found, arguments, output)?;
    if arguments.watch {
        watch(arguments, &client, &kind, namespace, name, output).await?;
    }
    Ok(Outcome::Success)
}

/// Shows an application, a claim or a target.
async fn show_workload(
    arguments: &Arguments,
    client: &ClusterClient,
    kind: &Arc<ApiKind>,
    object: Json,
    output: &mut Output,
) -> anyhow::Result<Outcome> {
    let text = |path: &str| object.pointer(path).and_then(Json::as_str).unwrap_or_default().to_owned();
    let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
    let mut shown = load::load(client, kind, object).await;
    print_workload(&shown, arguments, output)?;
    if !arguments.watch {
        return Ok(Outcome::Success);
    }
    let caches = Caches::new(CacheOptions::default());
    let mut events = caches.subscribe();
    let mut watched = load::related_kinds(client, kind);
    watched.push(Arc::clone(kind));
    let selection = Selection::Labels { namespace: Some(namespace.as_str().into()), selector: "".into() };
    let _caches: Vec<_> = watched.iter().map(|kind| caches.watch(client, kind, selection.clone())).collect();
    loop {
        tokio::select! {
            event = events.recv() => event.ok_or_else(|| anyhow!("the watch ended"))?,
            ended = tokio::signal::ctrl_c() => return Ok(ended.map(|()| Outcome::Success)?),
        };
        // Everything that has come since is shown at once.
        while events.try_recv().is_ok() {}
        let found = match client.get(kind, Some(&namespace), &name).await {
            Err(error) if error.is_object_not_found() => {
                output.note(format_args!("{}/{name} was deleted", kind.kind));
                return Ok(Outcome::Success);
            }
            found => serde_json::to_value(found?.value())?,
        };
        let next = load::load(client, kind, found).await;
        let (before, after) = (workload::draw(&shown, false), workload::draw(&next, false));
        shown = next;
        if before != after {
            output.redraw();
            print_workload(&shown, arguments, output)?;
        }
    }
}

fn print_workload(
    workload: &workload::Workload,
    arguments: &Arguments,
    output: &mut Output,
) -> anyhow::Result<()> {
    match arguments.output {
        OutputFormat::Text => {
            let drawn = workload::draw(workload, output.format() == Format::Coloured);
            output.data(drawn.trim_end())?;
        }
        OutputFormat::Json => output.data(serde_json::to_string_pretty(&workload.summary())?)?,
    }
    Ok(())
}

/// The definitions of the cluster. None if they cannot be listed: users of instances may not read definitions.
async fn definitions(client: &ClusterClient) -> Option<Vec<Json>> {
    let kind = find::kind(&client.discovery().kinds(), "resourcegraphdefinitions.kro.run").ok()?;
    let listed = client.list(&kind, None, None).await.ok()?;
    listed.iter().map(|object| serde_json::to_value(object.value()).ok()).collect()
}

/// Prints the instance on every change, until it is deleted or Ctrl-C.
async fn watch(
    arguments: &Arguments,
    client: &ClusterClient,
    kind: &Arc<ApiKind>,
    namespace: Option<&str>,
    name: &str,
    output: &mut Output,
) -> anyhow::Result<()> {
    let caches = Caches::new(CacheOptions::default());
    let selection = Selection::Name { namespace: namespace.map(Into::into), name: name.into() };
    let cache = caches.watch(client, kind, selection);
    let mut events = cache.subscribe();
    let mut last = None;
    loop {
        let event = tokio::select! {
            event = events.recv() => event.ok_or_else(|| anyhow!("the watch ended"))?,
            ended = tokio::signal::ctrl_c() => return Ok(ended?),
        };
        match event.change {
            Change::Applied { new, .. } => {
                let instance = serde_json::to_value(new.value())?;
                // Most changes of an object do not change what is shown.
                let shown = summary(&instance);
                if last.as_ref() != Some(&shown) {
                    output.redraw();
                    print(&instance, arguments, output)?;
                    last = Some(shown);
                }
            }
            Change::Deleted { .. } => {
                output.note(format_args!("{}/{name} was deleted", kind.kind));
                return Ok(());
            }
            Change::Failed { error } => {
                output.note(format_args!("cannot watch {}/{name}: {error}", kind.kind));
            }
            Change::Synced | Change::Resumed | Change::Relisted => {}
        }
    }
}

fn print(instance: &Json, arguments: &Arguments, output: &mut Output) -> anyhow::Result<()> {
    match arguments.output {
        OutputFormat::Text => output.data(draw(instance, output.format() == Format::Coloured).trim_end())?,
        OutputFormat::Json => output.data(serde_json::to_string_pretty(&summary(instance))?)?,
    }
    Ok(())
}

/// The parts of an instance that are shown.
fn summary(instance: &Json) -> Json {
    let at = |path: &str| instance.pointer(path).cloned().unwrap_or_default();
    serde_json::json!({
        "kind": at("/kind"),
        "namespace": at("/metadata/namespace"),
        "name": at("/metadata/name"),
        "state": at("/status/state"),
        "conditions": at("/status/conditions"),
        "managedResources": at("/status/managedResources"),
        "clusters": at("/status/clusters"),
    })
}
