//! Turns arguments into calls: the controller and the command line in one binary.

use std::process::ExitCode;

use clap::Parser;

mod commands;
mod input;
mod output;

fn main() -> ExitCode {
    commands::Arguments::parse().run(&mut output::Output::new())
}
