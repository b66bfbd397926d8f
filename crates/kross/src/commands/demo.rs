//! Runs a hub and two remote clusters on this machine, a controller, the dashboard, and one graph with objects in all three. Draws
//! the tree of the instance as it converges, and cleans up after Ctrl-C.

use std::time::Instant;

use anyhow::Context;
use kross_local::{Assets, ControlPlane, KubernetesVersion, Progress};
use tokio::signal::unix::{SignalKind, signal};

use super::dashboard;
use crate::hub::Hub;
use crate::output::{Outcome, Output};

mod graph;
mod guide;
mod view;

/// The hub comes first.
const CLUSTERS: [&str; 3] = ["hub", "eu", "us"];

const EXAMPLES: &str = "\
Examples:
  # Start three clusters and the dashboard, and watch one graph in all of them
  kross demo

  # Print the tree once it is ready, and clean up
  kross demo --once";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Print the final tree, clean up and exit
    #[arg(long)]
    once: bool,

    /// Kubernetes version to run
    #[arg(long, value_name = "VERSION", default_value = KubernetesVersion::DEFAULT.minor())]
    kubernetes: KubernetesVersion,
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    let Arguments { once, kubernetes } = arguments;
    let assets = Assets::resolve(*kubernetes, &Progress::stderr())?;
    let runtime = tokio::runtime::Runtime::new().context("cannot start a runtime")?;
    let ended = runtime.block_on(async {
        // Install the handlers first, so that an early Ctrl-C cleans up as well.
        let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
        let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
        tokio::select! {
            ended = show(*once, *kubernetes, &assets, output) => ended?,
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        Ok(Outcome::Success)
    });
    // Do not wait for the controller: its clusters are stopped.
    runtime.shutdown_background();
    ended
}

async fn show(
    once: bool,
    version: KubernetesVersion,
    assets: &Assets,
    output: &mut Output,
) -> anyhow::Result<()> {
    let planes = start(assets, version, output).await?;
    let hub = graph::connect(&planes).await?;
    graph::install(&hub).await?;
    graph::run_controller(&hub);
    output.note("creating one graph in three clusters");
    let started = Instant::now();
    let definition = graph::define(&hub, &planes).await?;
    view::converge(&definition, once, output).await?;
    output.note(format_args!("the graph is ready after {:.1}s", started.elapsed().as_secs_f32()));
    if !once {
        let hub = Hub::discover(hub, graph::NAMESPACE.to_owned()).await?;
        let (address, served) = dashboard::open(hub, None, std::future::pending()).await?;
        guide::print(&planes, assets, &address, output)?;
        let create_again = guide::create_again(&planes);
        let shown = async {
            view::watch(&definition, &create_again, output).await?;
            std::future::pending().await
        };
        // Until Ctrl-C.
        tokio::select! {
            ended = served => ended?,
            ended = shown => return ended,
        }
    }
    for plane in planes {
        plane.stop().await;
    }
    Ok(())
}

async fn start(
    assets: &Assets,
    version: KubernetesVersion,
    output: &mut Output,
) -> anyhow::Result<[ControlPlane; 3]> {
    output.note(format_args!("starting {} with Kubernetes {version}", CLUSTERS.join(", ")));
    let started = Instant::now();
    let [hub, eu, us] = CLUSTERS.map(|name| ControlPlane::named(name).assets(assets.clone()).start());
    let (hub, eu, us) = tokio::try_join!(hub, eu, us)?;
    output.note(format_args!("three clusters are ready after {:.1}s", started.elapsed().as_secs_f32()));
    Ok([hub, eu, us])
}
