//! Turns what was typed into one command with its arguments. A command is a module with its `Arguments` and one `run`.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::output::{Outcome, Output};

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
    /// Run the controller, with kro's flags
    Controller(controller::Arguments),
    /// Print the CustomResourceDefinitions of kross as YAML
    Crds,
    /// Run a hub and two regions on this machine
    Demo(demo::Arguments),
    /// Evaluate one expression with documents bound to names
    Eval(eval::Arguments),
    /// Explain a mistake at length, or list all that are known
    Explain(explain::Arguments),
    /// Print the least privileges that definitions need, on the hub or in other clusters
    Rbac(rbac::Arguments),
    /// Print the objects that an instance comes to, offline, in the order they are applied
    Render(render::Arguments),
    /// Show the objects of an instance: in which cluster, how far, and why
    Tree(tree::Arguments),
    /// Compile definitions offline and report every mistake in them
    Validate(validate::Arguments),
}

impl Arguments {
    /// Runs the command. The exit code is 0 when the answer is yes, 1 when it is no, 2 when it could not be found out.
    pub(crate) fn run(self, output: &mut Output) -> ExitCode {
        let outcome = match self.command {
            Command::Controller(arguments) => controller::run(&arguments, output),
            Command::Crds => crds::run(output),
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
            Err(error) => {
                output.error(&error);
                Outcome::COULD_NOT_FIND_OUT
            }
        })
    }
}
