//! Turns `kross demo` into a hub and two regions that run on this machine until Ctrl-C.

use std::time::Instant;

use anyhow::Context;
use kross_local::{Assets, Binary, ControlPlane, KubernetesVersion, Progress};
use tokio::signal::unix::{SignalKind, signal};

use crate::output::{Outcome, Output};

/// The hub first: it is the cluster kross runs in.
const CLUSTERS: [&str; 3] = ["hub", "eu", "us"];

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Print the kubeconfigs, clean up and end
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
    runtime.block_on(async {
        // Listening begins before there is anything to clean up, so that an early Ctrl-C cleans up as well.
        let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
        let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
        let shown = async {
            let planes = start(&assets, *kubernetes, output).await?;
            show(&planes, &assets, output)?;
            if !*once {
                output.note("press Ctrl-C to stop and clean up");
                std::future::pending::<()>().await;
            }
            anyhow::Ok(planes)
        };
        tokio::select! {
            planes = shown => stop(planes?).await,
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        Ok(Outcome::Success)
    })
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
    output.note(format_args!("ready after {:.1}s", started.elapsed().as_secs_f32()));
    Ok([hub, eu, us])
}

fn show(planes: &[ControlPlane; 3], assets: &Assets, output: &mut Output) -> anyhow::Result<()> {
    for plane in planes {
        output.data(format_args!("{}\t{}", plane.name(), plane.admin_path().display()))?;
    }
    let [hub, ..] = planes;
    output.note(format_args!(
        "try: {} --kubeconfig {} get namespaces",
        assets.path(Binary::Kubectl)?.display(),
        hub.admin_path().display()
    ));
    Ok(())
}

async fn stop(planes: [ControlPlane; 3]) {
    for plane in planes {
        plane.stop().await;
    }
}
