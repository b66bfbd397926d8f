//! Downloads or builds the programs of a control plane and kro's controller. Prints the path of kro's controller and, on the
//! last line, the directory of the programs; everything else goes to standard error.

use std::io::Write;

use anyhow::Context;
use kross_local::{Assets, Kro, KubernetesVersion, Progress};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Kubernetes version of the programs
    #[arg(long, value_name = "VERSION", default_value = KubernetesVersion::DEFAULT.minor())]
    kubernetes: KubernetesVersion,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let Arguments { kubernetes } = arguments;
    let assets = Assets::resolve(*kubernetes, &Progress::stderr())?;
    let kro = Kro::find_or_build(&Progress::stderr())?;
    writeln!(std::io::stdout().lock(), "{}\n{}", kro.program().display(), assets.directory().display())
        .context("cannot write to standard output")
}
