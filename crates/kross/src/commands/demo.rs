//! Turns `kross demo` into a hub and two regions on this machine, a controller, and one graph that lives in all three. Its
//! tree is drawn as it converges; everything is gone after Ctrl-C.

use std::time::Instant;

use anyhow::Context;
use kross_local::{Assets, ControlPlane, KubernetesVersion, Progress};
use tokio::signal::unix::{SignalKind, signal};

use crate::output::{Outcome, Output};

mod graph;
mod guide;
mod view;

/// The hub first: it is the cluster kross runs in.
const CLUSTERS: [&str; 3] = ["hub", "eu", "us"];

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Print the final tree, clean up and end
    #[arg(long)]
    once: bool,

    /// The Kubernetes version to run
    #[arg(long, value_name = "VERSION", default_value = KubernetesVersion::DEFAULT.minor())]
    kubernetes: KubernetesVersion,
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    let Arguments { once, kubernetes } = arguments;
    let assets = Assets::resolve(*kubernetes, &Progress::stderr())?;
    let runtime = tokio::runtime::Runtime::new().context("cannot start a runtime")?;
    let ended = runtime.block_on(async {
        // Listening begins before there is anything to clean up, so that an early Ctrl-C cleans up as well.
        let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
        let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
        tokio::select! {
            ended = show(*once, *kubernetes, &assets, output) => ended?,
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        Ok(Outcome::Success)
    });
    // The controller has nothing to finish: its clusters are gone.
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
    graph::control(&hub);
    output.note("making one graph in three clusters");
    let started = Instant::now();
    let definition = graph::define(&hub, &planes).await?;
    view::converge(&definition, once, output).await?;
    output.note(format_args!("ready after {:.1}s", started.elapsed().as_secs_f32()));
    if !once {
        guide::print(&planes, assets, output)?;
        view::follow(&definition, output).await?;
        std::future::pending::<()>().await;
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
    output.note(format_args!("three clusters after {:.1}s", started.elapsed().as_secs_f32()));
    Ok([hub, eu, us])
}
