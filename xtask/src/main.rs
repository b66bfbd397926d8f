//! The one index of tasks: `cargo xtask <task>`. Each task is a module with its arguments and one `run`.

#![allow(clippy::print_stderr, reason = "tasks talk to the developer's terminal")]

use clap::{Parser, Subcommand};

mod assets;
mod bench;
mod bundle;
mod deny;
mod generate;
mod process;
mod test;

/// Everything a developer runs that is not plain cargo.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Get the control plane's programs and kro's controller, and print where they are
    Assets(assets::Arguments),
    /// Measure, beside the others where there are others
    Bench(bench::Arguments),
    /// Check licences, bans and sources of dependencies, and advisories where the network allows
    Deny,
    /// Write the files that are generated from the code, or check that they are up to date
    Generate(generate::Arguments),
    /// Set up what the tests need and run all of them
    Test(test::Arguments),
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().task {
        Task::Assets(arguments) => assets::run(&arguments),
        Task::Bench(arguments) => bench::run(&arguments),
        Task::Deny => deny::run(),
        Task::Generate(arguments) => generate::run(&arguments),
        Task::Test(arguments) => test::run(&arguments),
    }
}
