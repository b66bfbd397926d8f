//! Turns `cargo xtask assets` into a directory with the control plane's programs, whose path is the last line on standard
//! output; everything else goes to standard error.

use std::io::Write;

use anyhow::Context;
use kross_local::{Assets, KubernetesVersion, Progress};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The Kubernetes version to get
    #[arg(long, value_name = "VERSION", default_value = KubernetesVersion::DEFAULT.minor())]
    kubernetes: KubernetesVersion,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let Arguments { kubernetes } = arguments;
    let assets = Assets::resolve(*kubernetes, &Progress::stderr())?;
    writeln!(std::io::stdout().lock(), "{}", assets.directory().display())
        .context("cannot print the directory")
}
