//! Turns `cargo xtask bench <suite>` into numbers beside their targets: the controller next to kro and expressions next to
//! cel-go on the same machine, and the compiler.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use clap::{Subcommand, ValueEnum};

mod controller;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// What to measure; the controller when left out
    #[command(subcommand)]
    suite: Option<Suite>,
}

#[derive(Subcommand)]
enum Suite {
    /// The controller: many instances made, repaired and deleted, beside kro with its defaults and tuned
    Controller(controller::Arguments),
    /// Expressions: parse, check and evaluate, beside cel-go (needs Go and its module proxy)
    Cel {
        /// Whose numbers to take
        #[arg(long, value_enum, default_value_t = Side::Both)]
        side: Side,
    },
    /// The compiler: a definition of 100 resources
    Compile,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Side {
    /// Ours and cel-go's, with the ratio
    Both,
    /// Ours alone
    Kross,
}

/// What is measured, with how many times faster than cel-go it is meant to be.
const TARGETS: &[(&str, f64)] =
    &[("field", 3.0), ("map", 3.0), ("filter_map_size", 3.0), ("all", 3.0), ("parse_check", 5.0)];

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    match &arguments.suite {
        None => controller::run(&controller::Arguments::default()),
        Some(Suite::Controller(arguments)) => controller::run(arguments),
        Some(Suite::Cel { side }) => cel(*side),
        Some(Suite::Compile) => compile(),
    }
}

fn cel(side: Side) -> anyhow::Result<()> {
    let ours = measured(Command::new("cargo").args([
        "bench",
        "--quiet",
        "--package",
        "kross-cel",
        "--bench",
        "cel",
    ]))?;
    let theirs = match side {
        Side::Kross => HashMap::new(),
        Side::Both => {
            let folder: PathBuf =
                [env!("CARGO_MANIFEST_DIR"), "..", "crates", "kross-cel", "benches", "cel-go"]
                    .iter()
                    .collect();
            measured(Command::new("go").args(["run", "."]).current_dir(folder))?
        }
    };
    eprintln!("{:<16} {:>12} {:>12} {:>8} {:>8}", "", "kross", "cel-go", "ratio", "target");
    for (name, target) in TARGETS {
        let Some(mine) = ours.get(*name) else { bail!("the benchmark did not measure `{name}`") };
        match theirs.get(*name) {
            Some(other) => {
                eprintln!("{name:<16} {mine:>9.0} ns {other:>9.0} ns {:>7.1}x {target:>7.1}x", other / mine);
            }
            None => eprintln!("{name:<16} {mine:>9.0} ns"),
        }
    }
    Ok(())
}

/// What a definition of 100 resources may take to compile.
const COMPILE_TARGET: f64 = 5.0;

fn compile() -> anyhow::Result<()> {
    let mut command = Command::new("cargo");
    let ours =
        measured(command.args(["bench", "--quiet", "--package", "kross-graph", "--bench", "compile"]))?;
    let Some(time) = ours.get("compile_100") else { bail!("the benchmark did not measure `compile_100`") };
    eprintln!("100 resources: {:.2} ms, target {COMPILE_TARGET} ms", time / 1e6);
    Ok(())
}

/// Runs a program that prints lines of a name and a number of nanoseconds.
fn measured(command: &mut Command) -> anyhow::Result<HashMap<String, f64>> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output =
        command.stderr(Stdio::inherit()).output().with_context(|| format!("cannot start `{name}`"))?;
    if !output.status.success() {
        bail!("`{name}` failed: {}", output.status);
    }
    let text = String::from_utf8(output.stdout).with_context(|| format!("`{name}` printed no text"))?;
    Ok(text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(name, number)| Some((name.to_owned(), number.trim().parse().ok()?)))
        .collect())
}
