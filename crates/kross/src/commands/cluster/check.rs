//! Checks a registered cluster step by step, as the controller connects to it, with the credential of its Secret.

use std::path::PathBuf;

use clap::ValueEnum;
use kross_diagnostics::render::Format;
use serde_json::{Value as Json, json};

use super::registration::{Registration, address};
use crate::hub::{ConnectionFlags, Tone};
use crate::input::SchemaArguments;
use crate::output::{Outcome, Output};

mod needed;
mod steps;

const EXAMPLES: &str = "\
Examples:
  # Find out which step fails, and how long each takes; exits 1 if one fails
  kross cluster check eu -n team

  # Also check the permissions that definitions need which are not on the hub yet
  kross cluster check eu -n team --from-definitions definitions/";

/// Arguments of `kross cluster check`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Cluster: the name of its Secret, or `NAMESPACE/NAME`
    #[arg(value_name = "NAME")]
    name: String,

    /// Check what the graphs of the definitions in this file or folder need, in place of those on the hub; repeat the flag for
    /// several
    #[arg(long, value_name = "DIR")]
    from_definitions: Vec<PathBuf>,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Table)]
    output: OutputFormat,

    #[command(flatten)]
    schemas: SchemaArguments,

    #[command(flatten)]
    connection: ConnectionFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OutputFormat {
    /// One line for each step
    Table,
    /// JSON
    Json,
}

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    crate::hub::block_on(async {
        let hub = arguments.connection.hub().await?;
        let (namespace, name) = address(&hub, &arguments.name)?;
        let began = std::time::Instant::now();
        let found = match Registration::find(&hub, namespace, name).await {
            Ok(found) => found,
            Err(error) => {
                output.note("`kross get clusters` shows what the controller reports of the clusters of your instances");
                return Err(error);
            }
        };
        let took = began.elapsed();
        let Some(registration) = found else {
            anyhow::bail!(
                "cluster `{name}` is not registered in namespace `{namespace}`: there is no such Secret; see `kross cluster list -A`"
            );
        };
        let needed = needed::rules(&hub, arguments.source(), &registration, output).await?;
        let checks = steps::run(&registration, took, &needed).await;
        print(&registration, &checks, arguments.output, output)
    })
}

impl Arguments {
    /// Where the definitions are whose permissions are checked.
    fn source(&self) -> needed::Source<'_> {
        match self.from_definitions.as_slice() {
            [] => needed::Source::Hub,
            paths => needed::Source::Files(paths, &self.schemas),
        }
    }
}

fn print(
    registration: &Registration,
    checks: &[steps::Check],
    format: OutputFormat,
    output: &mut Output,
) -> anyhow::Result<Outcome> {
    let failed = checks.iter().any(|check| check.state == steps::State::Failed);
    match format {
        OutputFormat::Json => {
            let steps: Vec<Json> = checks.iter().map(steps::Check::json).collect();
            let report = json!({"cluster": registration.title(), "ok": !failed, "steps": steps});
            output.data(serde_json::to_string_pretty(&report)?)?;
        }
        OutputFormat::Table => {
            let coloured = output.format() == Format::Coloured;
            for check in checks {
                let (word, tone) = match check.state {
                    steps::State::Ok => ("ok", Tone::Good),
                    steps::State::Warning => ("warning", Tone::Busy),
                    steps::State::Failed => ("failed", Tone::Bad),
                };
                let took = check.took.map(|took| format!("{}ms", took.as_millis())).unwrap_or_default();
                let word = tone.paint(&format!("{word:7}"), coloured);
                output.data(
                    format_args!("{:12}  {word}  {took:>7}  {}", check.name, check.text)
                        .to_string()
                        .trim_end(),
                )?;
                for line in &check.more {
                    output.data(format_args!("{:32}{line}", ""))?;
                }
            }
        }
    }
    Ok(if failed { Outcome::No } else { Outcome::Success })
}
