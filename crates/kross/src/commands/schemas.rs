//! Writes the schemas of a cluster to a folder, so that definitions can be checked against them without the cluster.

use std::path::PathBuf;

use clap::Subcommand;

use crate::hub::block_on;
use crate::output::{Outcome, Output};
use crate::schemas::{Pulled, pull};

const EXAMPLES: &str = "\
Examples:
  # Write the schemas of the cluster of a kubeconfig context to a folder
  kross schemas pull production schemas/production

  # Validate against them, without the cluster
  kross validate --schemas schemas/production definitions/";

const PULL_EXAMPLES: &str = "\
Examples:
  # Write the schemas of two clusters
  kross schemas pull hub schemas/hub
  kross schemas pull eu schemas/eu

  # Validate against both: those of the hub, and those of the cluster `eu` for resources in it
  kross validate --schemas schemas/hub --schemas eu=schemas/eu definitions/";

/// Arguments of `kross schemas`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: SchemasCommand,
}

#[derive(Debug, Subcommand)]
enum SchemasCommand {
    /// Write the schemas of a cluster to a folder; only what changed is fetched again
    #[command(after_help = PULL_EXAMPLES)]
    Pull(PullArguments),
}

/// Arguments of `kross schemas pull`.
#[derive(Debug, clap::Args)]
struct PullArguments {
    /// Context of the kubeconfig
    #[arg(value_name = "CONTEXT")]
    context: String,
    /// Folder to write to
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    let SchemasCommand::Pull(PullArguments { context, folder }) = &arguments.command;
    let (index, Pulled { written, kept, removed }) = block_on(pull(context, folder))?;
    output.note(format_args!(
        "{}: the schemas of Kubernetes {} in the context `{}`: {written} written, {kept} unchanged, {removed} removed",
        folder.display(),
        index.kubernetes,
        index.context
    ));
    Ok(Outcome::Success)
}
