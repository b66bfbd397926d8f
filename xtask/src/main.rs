//! The one index of tasks: `cargo xtask <task>`. Each task is a module with its arguments and one `run`.

use clap::{Parser, Subcommand};

mod assets;

/// Everything a developer runs that is not plain cargo.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Get the control plane's programs and print the directory they are in
    Assets(assets::Arguments),
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().task {
        Task::Assets(arguments) => assets::run(&arguments),
    }
}
