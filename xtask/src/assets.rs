//! Downloads or builds the programs of a control plane, kro's controller, Helm and axe-core. Prints the paths of kro's controller, of
//! Helm and of axe-core and, on the last line, the directory of the programs; everything else goes to standard error.

use std::io::Write;

use anyhow::Context;
use kross_local::{Assets, Axe, Helm, Kro, KubernetesVersion, Progress};

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
    let helm = Helm::find_or_build(&Progress::stderr())?;
    let axe = Axe::find_or_download(&Progress::stderr())?;
    let paths = [kro.program(), helm.program(), axe.script(), assets.directory()]
        .map(|path| path.display().to_string());
    writeln!(std::io::stdout().lock(), "{}", paths.join("\n")).context("cannot write to standard output")
}
