//! Turns `cargo xtask test` into a run of every test in the workspace, with the control plane's programs at hand.

use std::process::Command;

use kross_local::{Assets, Kro, KubernetesVersion, Progress, VERSION_VARIABLE};

use crate::process::run_command;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The Kubernetes version of the control planes
    #[arg(long, value_name = "VERSION", default_value = KubernetesVersion::DEFAULT.minor())]
    kubernetes: KubernetesVersion,
    /// Passed on to `cargo test`
    #[arg(last = true)]
    rest: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let Arguments { kubernetes, rest } = arguments;
    // Fetched or built once up front, with progress in view, instead of by whichever test comes first.
    Assets::resolve(*kubernetes, &Progress::stderr())?;
    Kro::find_or_build(&Progress::stderr())?;
    run_command(
        Command::new("cargo")
            // One run tells of everything that fails.
            .args(["test", "--workspace", "--locked", "--no-fail-fast"])
            .args(rest)
            .env(VERSION_VARIABLE, kubernetes.minor()),
    )
}
