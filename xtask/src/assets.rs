//! Turns `cargo xtask assets` into a directory with the control plane's programs, whose path is the last line on standard
//! output, after that of kro's controller; everything else goes to standard error.

use std::io::Write;

use anyhow::Context;
use kross_local::{Assets, Kro, KubernetesVersion, Progress};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The Kubernetes version to get
    #[arg(long, value_name = "VERSION", default_value = KubernetesVersion::DEFAULT.minor())]
    kubernetes: KubernetesVersion,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let Arguments { kubernetes } = arguments;
    let assets = Assets::resolve(*kubernetes, &Progress::stderr())?;
    let kro = Kro::find_or_build(&Progress::stderr())?;
    writeln!(std::io::stdout().lock(), "{}\n{}", kro.program().display(), assets.directory().display())
        .context("cannot print the directory")
}
