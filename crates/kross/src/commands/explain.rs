//! Turns the code of a mistake into its long explanation, and no code into the list of all of them.

use anyhow::bail;
use kross_diagnostics::{Code, suggest};

use crate::output::{Outcome, Output};

/// What to explain.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Codes as messages show them, such as K0201; all codes are listed when left out
    #[arg(value_name = "CODE")]
    codes: Vec<String>,
}

/// Prints explanations or the list of codes.
///
/// # Errors
/// There is no such code, or standard output is closed.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    if arguments.codes.is_empty() {
        for code in Code::ALL {
            output.data(format_args!("{code}  {:<7}  {}", code.severity().as_str(), code.title()))?;
        }
        return Ok(Outcome::Success);
    }
    // Every code is looked up first, so that a misspelt one leaves nothing half printed.
    let codes = arguments.codes.iter().map(|typed| find(typed)).collect::<anyhow::Result<Vec<Code>>>()?;
    for (position, code) in codes.into_iter().enumerate() {
        if position > 0 {
            output.data("")?;
        }
        output.data(code.explanation().trim_end())?;
    }
    Ok(Outcome::Success)
}

/// Finds a code, also as it stands in a message: `error[K0201]`.
fn find(typed: &str) -> anyhow::Result<Code> {
    let id = typed.rsplit_once('[').map_or(typed, |(_, id)| id).trim_end_matches([']', ':']);
    if let Some(code) = Code::find(id) {
        return Ok(code);
    }
    match suggest(id, Code::ALL.iter().map(|code| code.id())) {
        Some(meant) => bail!("there is no code `{id}`; did you mean `{meant}`?"),
        None => bail!("there is no code `{id}`; `kross explain` lists all of them"),
    }
}
