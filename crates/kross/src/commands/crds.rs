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
    let crds = if arguments.without_targets { kross_api::graph_crds() } else { kross_api::crds() };
    output.data(kross_api::crds_yaml(&crds).trim_end())?;
    Ok(Outcome::Success)
}
