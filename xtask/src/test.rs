//! Downloads or builds what the tests need, runs every test of the workspace, and tells flaky tests from failures.

use anyhow::Context;
use kross_local::{Assets, Axe, Helm, Kro, KubernetesVersion, Progress, VERSION_VARIABLE};

mod runner;
mod tee;
mod transcript;

use runner::Runner;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The Kubernetes version of the control planes
    #[arg(long, value_name = "VERSION", default_value = KubernetesVersion::DEFAULT.minor())]
    kubernetes: KubernetesVersion,
    /// Arguments for `cargo test`
    #[arg(last = true)]
    rest: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let Arguments { kubernetes, rest } = arguments;
    // Download or build the programs up front with progress in view, not inside the first test that needs them.
    Assets::resolve(*kubernetes, &Progress::stderr())?;
    Kro::find_or_build(&Progress::stderr())?;
    Helm::find_or_build(&Progress::stderr())?;
    Axe::find_or_download(&Progress::stderr())?;
    let runner = Runner {
        directory: std::env::current_dir().context("cannot find the current directory")?,
        environment: vec![(VERSION_VARIABLE, kubernetes.minor().to_owned())],
    };
    // `--no-fail-fast`: one run reports every failure.
    let fixed = ["test", "--workspace", "--locked", "--no-fail-fast"].map(str::to_owned);
    let arguments: Vec<String> = fixed.into_iter().chain(rest.iter().cloned()).collect();
    runner.run(&arguments, &mut std::io::stdout())
}
