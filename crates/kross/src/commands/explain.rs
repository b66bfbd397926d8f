//! Turns diagnostic codes into their explanations, and no code into the list of all codes.

use anyhow::bail;
use kross_diagnostics::{Code, suggest};

use crate::output::{Outcome, Output};

const EXAMPLES: &str = "\
Examples:
  # Explain a diagnostic code
  kross explain K0201

  # List all codes
  kross explain";

/// Arguments of `kross explain`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Diagnostic codes, such as K0201 (default: list all codes)
    #[arg(value_name = "CODE")]
    codes: Vec<String>,
}

/// Prints the explanations, or the list of codes.
///
/// # Errors
/// A code is unknown, or standard output is closed.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    if arguments.codes.is_empty() {
        for code in Code::ALL {
            output.data(format_args!("{code}  {:<7}  {}", code.severity().as_str(), code.title()))?;
        }
        return Ok(Outcome::Success);
    }
    // Look up every code before printing: an unknown one fails the command without partial output.
    let codes = arguments.codes.iter().map(|typed| find(typed)).collect::<anyhow::Result<Vec<Code>>>()?;
    for (position, code) in codes.into_iter().enumerate() {
        if position > 0 {
            output.data("")?;
        }
        output.data(code.explanation().trim_end())?;
    }
    Ok(Outcome::Success)
}

/// Finds a code, also as diagnostics show it: `error[K0201]`.
fn find(typed: &str) -> anyhow::Result<Code> {
    let id = typed.rsplit_once('[').map_or(typed, |(_, id)| id).trim_end_matches([']', ':']);
    if let Some(code) = Code::find(id) {
        return Ok(code);
    }
    match suggest(id, Code::ALL.iter().map(|code| code.id())) {
        Some(meant) => bail!("unknown code `{id}`; did you mean `{meant}`?"),
        None => bail!("unknown code `{id}`; run `kross explain` to list all codes"),
    }
}
