//! Turns an object into the reason why it is not ready: the shortest chain to what blocks it, one sentence, and the command
//! that helps. Exit code 0 if it is ready, 1 if it is not.

use clap::ValueEnum;
use jiff::Timestamp;
use kross_diagnostics::render::Format;
use kross_server::read_model::why::Investigation;

use super::managed::{self, Found};
use crate::hub::{ConnectionFlags, ObjectReference};
use crate::output::{Outcome, Output};

mod draw;

use draw::draw;

const EXAMPLES: &str = "\
Examples:
  # Why is the instance `web` of kind Shop not ready?
  kross why shop/web -n team

  # Why is a definition not accepted?
  kross why rgd/shop

  # Why is the instance not ready that this object belongs to?
  kross why deployment/web -n team

  # Wait in a script until an instance is ready
  until kross why shop/web -n team; do sleep 5; done";

/// Arguments of `kross why`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Instance, definition, application, claim or target, or an object of an instance, such as `shop/web` or `rgd/shop`
    #[arg(value_name = "KIND/NAME", required = true, num_args = 1..=2)]
    object: Vec<String>,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,

    #[command(flatten)]
    connection: ConnectionFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OutputFormat {
    /// For people
    Text,
    /// The chain, the sentence and the commands as JSON
    Json,
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    let reference = ObjectReference::parse(&arguments.object)?;
    crate::hub::block_on(async {
        let hub = arguments.connection.hub().await?;
        let Found { object, note, .. } = managed::find(&hub, &reference).await?;
        let mut answer = Investigation::new(&hub, Timestamp::now()).examine(object).await?;
        if let Some(note) = note {
            answer.notes.insert(0, note);
        }
        match arguments.output {
            OutputFormat::Text => {
                let coloured = output.format() == Format::Coloured;
                output.data(draw(&answer, coloured, output.width()).trim_end())?;
            }
            OutputFormat::Json => output.data(serde_json::to_string_pretty(&answer)?)?,
        }
        Ok(if answer.ready { Outcome::Success } else { Outcome::No })
    })
}
