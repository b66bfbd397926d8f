//! Turns the wire types into YAML for `kubectl apply -f -`.

use crate::output::{Outcome, Output};

const EXAMPLES: &str = "\
Examples:
  # Install or update the CustomResourceDefinitions
  kross crds | kubectl apply --server-side -f -";

/// The arguments of `kross crds`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Leave out the kinds of published and claimed clusters and of applications; the controller runs without them
    #[arg(long)]
    without_targets: bool,
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    let mut crds = kross_api::crds();
    if arguments.without_targets {
        let targets = kross_api::target_crds();
        crds.retain(|crd| !targets.contains(crd));
    }
    output.data(kross_api::crds_yaml(&crds).trim_end())?;
    Ok(Outcome::Success)
}
