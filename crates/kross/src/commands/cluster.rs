//! Registers remote clusters on the hub, and looks after them. Each subcommand is a module with its `Arguments` and one `run`.

use clap::Subcommand;

use crate::output::{Outcome, Output};

mod affected;
mod registration;
mod remove;
mod users;

const EXAMPLES: &str = "\
Examples:
  # What an outage of a cluster touches
  kross cluster affected eu -n team

  # Remove a cluster that no instance uses any more
  kross cluster remove eu -n team";

/// Arguments of `kross cluster`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: ClusterCommand,
}

#[derive(Debug, Subcommand)]
enum ClusterCommand {
    /// Show what an outage of a cluster touches
    Affected(affected::Arguments),
    /// Remove a cluster: its Secret on the hub
    Remove(remove::Arguments),
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    match &arguments.command {
        ClusterCommand::Affected(arguments) => affected::run(arguments, output),
        ClusterCommand::Remove(arguments) => remove::run(arguments, output),
    }
}
