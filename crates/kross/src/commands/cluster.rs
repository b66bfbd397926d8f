//! Registers remote clusters on the hub, and looks after them. Each subcommand is a module with its `Arguments` and one `run`.

use clap::Subcommand;

use crate::output::{Outcome, Output};

mod add;
mod affected;
mod check;
mod controller_access;
mod credential;
mod grants;
mod list;
mod registration;
mod remote;
mod remove;
mod rotate;
mod users;

const EXAMPLES: &str = "\
Examples:
  # Register the cluster of the context `eu`, with what the graphs of a folder need there
  kross cluster add eu -n team --from-definitions definitions/

  # List the registered clusters, and when their credentials expire
  kross cluster list -A

  # Find out why a cluster is not connected
  kross cluster check eu -n team

  # Replace the token of a cluster now
  kross cluster rotate eu -n team

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
    /// Register the cluster of a kubeconfig context, or update its registration
    Add(Box<add::Arguments>),
    /// Show what an outage of a cluster touches
    Affected(affected::Arguments),
    /// Check the connection to a cluster step by step
    Check(check::Arguments),
    /// List the registered clusters, and when their credentials expire
    List(list::Arguments),
    /// Remove a cluster: its Secret on the hub and, with `--cleanup`, its ServiceAccount
    Remove(remove::Arguments),
    /// Replace the token of a cluster now
    Rotate(rotate::Arguments),
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    match &arguments.command {
        ClusterCommand::Affected(arguments) => affected::run(arguments, output),
        ClusterCommand::Add(arguments) => add::run(arguments, output),
        ClusterCommand::Check(arguments) => check::run(arguments, output),
        ClusterCommand::List(arguments) => list::run(arguments, output),
        ClusterCommand::Remove(arguments) => remove::run(arguments, output),
        ClusterCommand::Rotate(arguments) => rotate::run(arguments, output),
    }
}
