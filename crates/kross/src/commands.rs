//! Turns the command line into one command with its arguments. A command is a module with its `Arguments` and one `run`.

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::output::Output;

mod adopt;
mod check;
mod cluster;
mod completion;
mod controller;
mod convert;
mod crds;
mod dashboard;
mod delete;
mod demo;
mod diff;
#[cfg(test)]
mod documentation;
mod eval;
mod events;
mod explain;
mod fmt;
mod generate;
mod get;
mod graph;
mod lsp;
mod managed;
mod new;
mod rbac;
mod reference;
mod render;
mod schemas;
mod suspend;
mod test;
mod trace;
mod tree;
mod validate;
mod version;
mod why;
mod wrap;

pub(crate) use controller::flags_markdown;
pub(crate) use reference::reference_markdown;
use suspend::Action;
pub(crate) use test::is_fixture;

/// The name of the program as a plugin of kubectl: `kubectl kross`.
const PLUGIN: &str = "kubectl-kross";

/// One graph of Kubernetes objects over many clusters
#[derive(Debug, Parser)]
#[command(name = "kross", version, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Take over objects in remote clusters from a hub that does not exist any more
    Adopt(adopt::Arguments),
    /// Check the installation, or whether the hub can have one
    Check(check::Arguments),
    /// Register, check and remove remote clusters
    Cluster(cluster::Arguments),
    /// Print the completion script of a shell
    Completion(completion::Arguments),
    /// Run the controller (accepts kro's flags)
    Controller(controller::Arguments),
    /// Turn manifests, Helm or kustomize output into a definition
    Convert(convert::Arguments),
    /// Print kross's CustomResourceDefinitions as YAML
    Crds(crds::Arguments),
    /// Serve pages that show clusters, definitions and instances, on this machine
    Dashboard(dashboard::Arguments),
    /// Delete an instance, or explain what its deletion would do
    Delete(delete::Arguments),
    /// Run a demo on this machine: a hub, two remote clusters and one graph
    Demo(demo::Arguments),
    /// Show what changed definitions would do to what runs, in every cluster
    Diff(Box<diff::Arguments>),
    /// Evaluate a CEL expression against documents
    Eval(eval::Arguments),
    /// Show the Events of an instance and its objects, of all clusters, in order
    Events(events::Arguments),
    /// Explain diagnostic codes, or list all of them
    Explain(explain::Arguments),
    /// Format definitions and other YAML files
    Fmt(fmt::Arguments),
    /// Print an instance of a definition, a JSON schema for editors, or documentation
    Generate(generate::Arguments),
    /// List instances, definitions or clusters, with their state
    Get(get::Arguments),
    /// Draw a definition: resources by cluster, and what they read from each other
    Graph(graph::Arguments),
    /// Serve an editor: diagnostics, completion and navigation for definitions and instances
    Lsp(lsp::Arguments),
    /// Make a definition from running objects, files or a template
    New(new::Arguments),
    /// Show what the controller does next for an instance, and why
    Plan(Box<diff::plan::Arguments>),
    /// Print the RBAC rules that definitions need, on the hub or in remote clusters
    Rbac(rbac::Arguments),
    /// Reconcile an instance or a definition now
    #[command(after_help = suspend::RECONCILE_EXAMPLES)]
    Reconcile(suspend::Arguments),
    /// Render an instance's objects offline, in the order in which they are applied
    Render(render::Arguments),
    /// Resume the reconciliation of a suspended instance
    #[command(after_help = suspend::RESUME_EXAMPLES)]
    Resume(suspend::Arguments),
    /// Keep the schemas of clusters in folders, for commands without a cluster
    Schemas(schemas::Arguments),
    /// Suspend the reconciliation of an instance
    #[command(after_help = suspend::SUSPEND_EXAMPLES)]
    Suspend(suspend::Arguments),
    /// Test definitions against fixtures, without a cluster
    Test(test::Arguments),
    /// Trace an object, in any cluster, to its instance, definition and revision
    Trace(trace::Arguments),
    /// Show an instance's objects by cluster, with their state and reason
    Tree(tree::Arguments),
    /// Validate definitions offline and report every error
    Validate(validate::Arguments),
    /// Print the versions of this program, the controller and the hub
    Version(version::Arguments),
    /// Say why an object is not ready, and which command helps
    Why(why::Arguments),
}

/// Runs the command of this process.
pub(crate) fn main() -> ExitCode {
    match completion::answer(|| command(None)) {
        Ok(false) => {}
        Ok(true) => return ExitCode::SUCCESS,
        Err(error) => error.exit(),
    }
    let matches = command(std::env::args_os().next().as_deref()).get_matches();
    match Arguments::from_arg_matches(&matches) {
        Ok(arguments) => arguments.run(&mut Output::new()),
        Err(error) => error.exit(),
    }
}

/// The command line of the program under this name. As a plugin, its help names it as it is called.
fn command(program: Option<&OsStr>) -> clap::Command {
    let is_plugin = program.and_then(|path| Path::new(path).file_stem()).is_some_and(|it| it == PLUGIN);
    let command = Arguments::command();
    if is_plugin {
        command.name(PLUGIN).bin_name("kubectl kross").display_name("kubectl kross")
    } else {
        command
    }
}

impl Arguments {
    /// Runs the command. Exit codes: 0 for yes or done, 1 for no (invalid, differs, not ready), 2 for an error.
    pub(crate) fn run(self, output: &mut Output) -> ExitCode {
        let outcome = match self.command {
            Command::Adopt(arguments) => adopt::run(&arguments, output),
            Command::Check(arguments) => check::run(&arguments, output),
            Command::Cluster(arguments) => cluster::run(&arguments, output),
            Command::Completion(arguments) => completion::run(&arguments, output),
            Command::Controller(arguments) => controller::run(&arguments, output),
            Command::Convert(arguments) => convert::run(&arguments, output),
            Command::Crds(arguments) => crds::run(&arguments, output),
            Command::Dashboard(arguments) => dashboard::run(&arguments, output),
            Command::Delete(arguments) => delete::run(&arguments, output),
            Command::Demo(arguments) => demo::run(&arguments, output),
            Command::Diff(arguments) => diff::run(&arguments, output),
            Command::Eval(arguments) => eval::run(&arguments, output),
            Command::Events(arguments) => events::run(&arguments, output),
            Command::Explain(arguments) => explain::run(&arguments, output),
            Command::Fmt(arguments) => fmt::run(&arguments, output),
            Command::Generate(arguments) => generate::run(&arguments, output),
            Command::Get(arguments) => get::run(&arguments, output),
            Command::Graph(arguments) => graph::run(&arguments, output),
            Command::Lsp(arguments) => lsp::run(&arguments, output),
            Command::New(arguments) => new::run(&arguments, output),
            Command::Plan(arguments) => diff::plan::run(&arguments, output),
            Command::Rbac(arguments) => rbac::run(&arguments, output),
            Command::Reconcile(arguments) => suspend::run(Action::Reconcile, &arguments, output),
            Command::Render(arguments) => render::run(&arguments, output),
            Command::Resume(arguments) => suspend::run(Action::Resume, &arguments, output),
            Command::Schemas(arguments) => schemas::run(&arguments, output),
            Command::Suspend(arguments) => suspend::run(Action::Suspend, &arguments, output),
            Command::Test(arguments) => test::run(&arguments, output),
            Command::Trace(arguments) => trace::run(&arguments, output),
            Command::Tree(arguments) => tree::run(&arguments, output),
            Command::Validate(arguments) => validate::run(&arguments, output),
            Command::Version(arguments) => version::run(&arguments, output),
            Command::Why(arguments) => why::run(&arguments, output),
        };
        ExitCode::from(match outcome {
            Ok(outcome) => outcome.exit_code(),
            Err(error) => output.error(&error),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_command_has_an_example_in_its_help() {
        fn check(command: &clap::Command, parent: &str) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let name = format!("{parent} {}", command.get_name());
            assert!(
                help.starts_with("Examples:\n") && help.contains(name.as_str()),
                "`{name}` has no example"
            );
            command.get_subcommands().for_each(|subcommand| check(subcommand, &name));
        }
        Arguments::command().get_subcommands().for_each(|command| check(command, "kross"));
    }

    #[test]
    fn as_a_plugin_of_kubectl_the_help_names_kubectl() {
        let mut command = command(Some("/usr/local/bin/kubectl-kross".as_ref()));
        command.build();
        let why = command.find_subcommand_mut("why").unwrap().render_help().to_string();
        assert!(why.contains("Usage: kubectl kross why"), "{why}");
    }
}
