//! Tasks for developers: `cargo xtask <task>`. Each task is a module with its arguments and one `run`.

#![allow(clippy::print_stderr, reason = "tasks print to the developer's terminal")]

use clap::{Parser, Subcommand};

mod assets;
mod bench;
mod bundle;
mod chart;
mod deny;
mod docs;
mod generate;
mod image;
mod process;
mod release;
mod screenshots;
mod test;
mod tool;

/// Tasks for developers of kross
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Download or build the programs of a control plane, kro's controller, Helm and axe-core, and print their paths
    Assets(assets::Arguments),
    /// Run benchmarks, next to kro and cel-go where there is something to compare
    Bench(bench::Arguments),
    /// Check licences, bans, sources and (if the network allows) advisories of dependencies
    Deny(deny::Arguments),
    /// Build the pages of docs/ as a site, into target/book
    Docs(docs::Arguments),
    /// Write the files that are generated from the code, or check that they are up to date
    Generate(generate::Arguments),
    /// Build a static binary and write the container image, as an OCI archive
    Image(image::Arguments),
    /// Build the files of a release: binaries, images, chart, manifest, bill of materials, notes and checksums
    Release(release::Arguments),
    /// Take the pictures of the dashboard in docs/screenshots
    Screenshots(screenshots::Arguments),
    /// Set up what the tests need and run all tests; retries failed tests once and reports flaky ones
    Test(test::Arguments),
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().task {
        Task::Assets(arguments) => assets::run(&arguments),
        Task::Bench(arguments) => bench::run(&arguments),
        Task::Deny(arguments) => deny::run(&arguments),
        Task::Docs(arguments) => docs::run(&arguments),
        Task::Generate(arguments) => generate::run(&arguments),
        Task::Image(arguments) => image::run(&arguments),
        Task::Release(arguments) => release::run(&arguments),
        Task::Screenshots(arguments) => screenshots::run(&arguments),
        Task::Test(arguments) => test::run(&arguments),
    }
}
