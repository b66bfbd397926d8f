//! Turns an instance into the tree of its objects: which cluster each is in, how far it is, and why. With `--watch` the tree
//! is drawn again whenever it changes.

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
mod row;

pub(super) use draw::draw;

/// What to show.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The instance, such as `WebApplication/shop` or `webapplications.kro.run/shop`
    #[arg(value_name = "KIND/NAME")]
    instance: String,

    /// Its namespace; left out: that of the context
    #[arg(short, long)]
    namespace: Option<String>,

    /// Draw it again whenever it changes, until Ctrl-C
    #[arg(short, long)]
    watch: bool,

    /// How to print it
    #[arg(short, long, value_enum, default_value_t = Form::Text)]
    output: Form,

    /// A kubeconfig file; left out: `KUBECONFIG`, the user's own, the pod's
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig; left out: the current one
    #[arg(long)]
    context: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// A tree for people
    Text,
    /// The state, conditions, resources and clusters as JSON
    Json,
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    let Some((kind, name)) =
        arguments.instance.split_once('/').filter(|(kind, name)| !kind.is_empty() && !name.is_empty())
    else {
        bail!("`{}` names no instance: write `KIND/NAME`, such as `WebApplication/shop`", arguments.instance);
    };
    let runtime = tokio::runtime::Runtime::new().context("cannot start a runtime")?;
    runtime.block_on(show(arguments, kind, name, output))
}

async fn show(arguments: &Arguments, kind: &str, name: &str, output: &mut Output) -> anyhow::Result<Outcome> {
    let cluster =
        LocalCluster { kubeconfig: arguments.kubeconfig.clone(), context: arguments.context.clone() };
    let client = ClusterClient::local(&cluster, ClientOptions::default()).await?;
    client.refresh_discovery().await.context("cannot ask the cluster what it serves")?;
    let kind = find::kind(&client.discovery().kinds(), kind)?;
    let namespace = arguments.namespace.as_deref().unwrap_or_else(|| client.default_namespace());
    let namespace = kind.namespaced.then_some(namespace);
    let found = client.get(&kind, namespace, name).await?;
    print(&serde_json::to_value(found.value())?, arguments, output)?;
    if arguments.watch {
        follow(arguments, &client, &kind, namespace, name, output).await?;
    }
    Ok(Outcome::Success)
}

/// Prints the instance whenever it changes, until it is gone or Ctrl-C.
async fn follow(
    arguments: &Arguments,
    client: &ClusterClient,
    kind: &Arc<ApiKind>,
    namespace: Option<&str>,
    name: &str,
    output: &mut Output,
) -> anyhow::Result<()> {
    let watches = Caches::new(CacheOptions::default());
    let selection = Selection::Name { namespace: namespace.map(Into::into), name: name.into() };
    let watch = watches.watch(client, kind, selection);
    let mut events = watch.subscribe();
    let mut last = None;
    loop {
        let event = tokio::select! {
            event = events.recv() => event.ok_or_else(|| anyhow!("the watch ended"))?,
            ended = tokio::signal::ctrl_c() => return Ok(ended?),
        };
        match event.change {
            Change::Applied { new, .. } => {
                let instance = serde_json::to_value(new.value())?;
                // Only what is shown counts.
                let shown = summary(&instance);
                if last.as_ref() != Some(&shown) {
                    output.redraw();
                    print(&instance, arguments, output)?;
                    last = Some(shown);
                }
            }
            Change::Deleted { .. } => {
                output.note(format_args!("{}/{name} is gone", kind.kind));
                return Ok(());
            }
            Change::Failed { error } => output.note(format_args!("cannot watch: {error}")),
            Change::Synced | Change::Resumed => {}
        }
    }
}

fn print(instance: &Json, arguments: &Arguments, output: &mut Output) -> anyhow::Result<()> {
    match arguments.output {
        Form::Text => output.data(draw(instance, output.format() == Format::Coloured).trim_end())?,
        Form::Json => output.data(serde_json::to_string_pretty(&summary(instance))?)?,
    }
    Ok(())
}

/// What the tree is made of.
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
