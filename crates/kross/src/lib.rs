//! Turns arguments into calls: the controller and the command line in one binary.

use std::process::ExitCode;

mod commands;
mod hub;
mod input;
mod output;
mod scaffold;
mod schemas;
mod state;

/// Runs the command of this process.
#[must_use]
pub fn main() -> ExitCode {
    commands::main()
}

/// The reference of every command, with its flags and examples, as Markdown.
#[must_use]
pub fn reference_markdown() -> String {
    commands::reference_markdown()
}

/// The reference of the flags of `kross controller`, as Markdown.
#[must_use]
pub fn flags_markdown() -> String {
    commands::flags_markdown()
}
