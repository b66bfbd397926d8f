//! Checks an installation, or whether one can be made: what is wrong, and which page of the documentation helps.

use std::time::Duration;

use anyhow::bail;
use clap::ValueEnum;
use tokio::time::{Instant, sleep};

use crate::hub::ConnectionFlags;
use crate::output::{Outcome, Output};

mod access;
mod installation;
mod kubernetes;
mod preparation;
mod report;

pub(super) use access::{Permission, account_may};
pub(super) use installation::deployed;

use report::Report;

const EXAMPLES: &str = "\
Examples:
  # Check the installation, the clusters and the instances; exits 1 if something is wrong
  kross check

  # Before an installation: whether the hub can have one, and whether you may install it
  kross check --pre

  # Wait up to five minutes until everything is right, and print only what is not
  kross check --wait 5m -o short";

/// The pause between two attempts of `--wait`.
const PAUSE: Duration = Duration::from_secs(2);

/// Arguments of `kross check`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Check the hub before an installation
    #[arg(long)]
    pre: bool,

    /// How long to wait until nothing is wrong, such as `5m`
    #[arg(long, value_name = "DURATION")]
    wait: Option<String>,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,

    #[command(flatten)]
    connection: ConnectionFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OutputFormat {
    /// Every check
    Text,
    /// Only what is wrong or not known
    Short,
    /// Every check as JSON
    Json,
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    let wait = match arguments.wait.as_deref() {
        None => Duration::ZERO,
        Some(text) => kross_api::parse_duration(text).ok_or_else(|| {
            anyhow::anyhow!("invalid `--wait` `{text}`: use a duration such as `90s` or `5m`")
        })?,
    };
    let report = crate::hub::block_on(async {
        let until = Instant::now() + wait;
        loop {
            let report = check(arguments).await;
            let is_final = !matches!(&report, Ok(report) if report.has_failed()) && report.is_ok();
            if is_final || Instant::now() >= until {
                return report;
            }
            sleep(PAUSE).await;
        }
    })?;
    match arguments.output {
        OutputFormat::Json => output.data(serde_json::to_string_pretty(&report)?)?,
        OutputFormat::Text => output.data(report.draw(output.format(), true).trim_end())?,
        OutputFormat::Short => {
            let drawn = report.draw(output.format(), false);
            output.data(drawn.trim_end())?;
        }
    }
    if report.knows_nothing() {
        bail!("you may read nothing of what would be checked: run it as an administrator of the hub");
    }
    Ok(if report.has_failed() { Outcome::No } else { Outcome::Success })
}

/// # Errors
/// The hub cannot be reached: nothing can be found out.
async fn check(arguments: &Arguments) -> anyhow::Result<Report> {
    let hub = arguments.connection.hub().await?;
    let mut report = Report::default();
    kubernetes::check(&hub, &mut report).await?;
    if arguments.pre {
        preparation::check(&hub, arguments.connection.namespace(), &mut report).await;
    } else {
        installation::check(&hub, &mut report).await;
    }
    Ok(report)
}
