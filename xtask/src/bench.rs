//! Runs benchmarks and prints the results next to their targets: the controller compared with kro, a healthy cluster beside hostile
//! ones, expressions compared with cel-go, and the compiler.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use clap::{Subcommand, ValueEnum};

mod controller;
mod hostile;
mod instances;
mod usage;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// What to measure (default: controller)
    #[command(subcommand)]
    suite: Option<Suite>,
}

#[derive(Subcommand)]
enum Suite {
    /// The controller: create, repair and delete many instances; compared with kro, with its defaults and tuned
    Controller(controller::Arguments),
    /// Hostile servers: instances of a healthy cluster, beside one server of each kind that lies, floods or never answers
    Hostile(hostile::Arguments),
    /// Expressions: parse, check and evaluate; compared with cel-go (needs Go and its module proxy)
    Cel {
        /// Implementations to measure
        #[arg(long, value_enum, default_value_t = Side::Both)]
        side: Side,
    },
    /// The compiler: a definition of 100 resources
    Compile,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Side {
    /// kross and cel-go, with the ratio
    Both,
    /// Only kross
    Kross,
}

/// The measurements of the suite, and how many times faster than cel-go each should be.
const TARGETS: &[(&str, f64)] =
    &[("field", 3.0), ("map", 3.0), ("filter_map_size", 3.0), ("all", 3.0), ("parse_check", 5.0)];

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    match &arguments.suite {
        None => controller::run(&controller::Arguments::default()),
        Some(Suite::Controller(arguments)) => controller::run(arguments),
        Some(Suite::Hostile(arguments)) => hostile::run(arguments),
        Some(Suite::Cel { side }) => cel(*side),
        Some(Suite::Compile) => compile(),
    }
}

fn cel(side: Side) -> anyhow::Result<()> {
    let kross = measured(Command::new("cargo").args([
        "bench",
        "--quiet",
        "--package",
        "kross-cel",
        "--bench",
        "cel",
    ]))?;
    let cel_go = match side {
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
        let Some(time) = kross.get(*name) else { bail!("the benchmark did not measure `{name}`") };
        match cel_go.get(*name) {
            Some(other) => {
                eprintln!("{name:<16} {time:>9.0} ns {other:>9.0} ns {:>7.1}x {target:>7.1}x", other / time);
            }
            None => eprintln!("{name:<16} {time:>9.0} ns"),
        }
    }
    Ok(())
}

/// The target for compiling a definition of 100 resources, in milliseconds.
const COMPILE_TARGET: f64 = 5.0;

fn compile() -> anyhow::Result<()> {
    let mut command = Command::new("cargo");
    let kross =
        measured(command.args(["bench", "--quiet", "--package", "kross-graph", "--bench", "compile"]))?;
    let Some(time) = kross.get("compile_100") else { bail!("the benchmark did not measure `compile_100`") };
    eprintln!("100 resources: {:.2} ms, target {COMPILE_TARGET} ms", time / 1e6);
    Ok(())
}

/// Runs a program that prints lines with a name and a number of nanoseconds.
fn measured(command: &mut Command) -> anyhow::Result<HashMap<String, f64>> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output =
        command.stderr(Stdio::inherit()).output().with_context(|| format!("cannot start `{name}`"))?;
    if !output.status.success() {
        bail!("`{name}` failed: {}", output.status);
    }
    let text = String::from_utf8(output.stdout).with_context(|| format!("`{name}` printed invalid UTF-8"))?;
    Ok(text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(name, number)| Some((name.to_owned(), number.trim().parse().ok()?)))
        .collect())
}
