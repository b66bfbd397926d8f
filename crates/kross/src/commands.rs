//! Turns the command line into one command with its arguments. A command is a module with its `Arguments` and one `run`.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::output::Output;

mod controller;
mod crds;
mod demo;
mod eval;
mod explain;
mod rbac;
mod render;
mod tree;
mod validate;

/// One graph of Kubernetes objects over many clusters
#[derive(Debug, Parser)]
#[command(name = "kross", version, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the controller (accepts kro's flags)
    Controller(controller::Arguments),
    /// Print kross's CustomResourceDefinitions as YAML
    Crds(crds::Arguments),
    /// Run a demo on this machine: a hub, two remote clusters and one graph
    Demo(demo::Arguments),
    /// Evaluate a CEL expression against documents
    Eval(eval::Arguments),
    /// Explain diagnostic codes, or list all of them
    Explain(explain::Arguments),
    /// Print the RBAC rules that definitions need, on the hub or in remote clusters
    Rbac(rbac::Arguments),
    /// Render an instance's objects offline, in the order in which they are applied
    Render(render::Arguments),
    /// Show an instance's objects by cluster, with their state and reason
    Tree(tree::Arguments),
    /// Validate definitions offline and report every error
    Validate(validate::Arguments),
}

impl Arguments {
    /// Runs the command. Exit codes: 0 for yes or done, 1 for no (invalid, differs), 2 for an error.
    pub(crate) fn run(self, output: &mut Output) -> ExitCode {
        let outcome = match self.command {
            Command::Controller(arguments) => controller::run(&arguments, output),
            Command::Crds(arguments) => crds::run(&arguments, output),
            Command::Demo(arguments) => demo::run(&arguments, output),
            Command::Eval(arguments) => eval::run(&arguments, output),
            Command::Explain(arguments) => explain::run(&arguments, output),
            Command::Rbac(arguments) => rbac::run(&arguments, output),
            Command::Render(arguments) => render::run(&arguments, output),
            Command::Tree(arguments) => tree::run(&arguments, output),
            Command::Validate(arguments) => validate::run(&arguments, output),
        };
        ExitCode::from(match outcome {
            Ok(outcome) => outcome.exit_code(),
            Err(error) => output.error(&error),
        })
    }
}
