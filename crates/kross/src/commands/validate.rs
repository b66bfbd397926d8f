//! Turns definitions into diagnostics: compiles them offline, as the controller does, and reports every error at once.

use std::path::PathBuf;

use kross_diagnostics::render::{self, Format};
use kross_graph::{Options, is_definition, validate};

use crate::input::{Input, SchemaArguments};
use crate::output::{Outcome, Output};

/// Arguments of `kross validate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Definitions: files, folders, or `-` for standard input
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    schemas: SchemaArguments,
    /// Output format: full, short, json, jsonl or github (default: full)
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
}

/// Compiles every definition among the documents.
///
/// # Errors
/// A path cannot be read, or no document is a definition.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    let Arguments { paths, schemas, format } = arguments;
    let mut input = Input::documents(paths)?;
    let schemas = input.schemas(schemas)?;
    let Input { sources, documents, mut diagnostics } = input;
    let definitions: Vec<_> = documents.iter().filter(|document| is_definition(document)).collect();
    for document in &definitions {
        diagnostics.extend(validate(document, &schemas, &Options::default()).diagnostics);
    }
    if definitions.is_empty() && !diagnostics.has_errors() {
        anyhow::bail!("no ResourceGraphDefinition found");
    }
    diagnostics.sort();
    let format = format.unwrap_or_else(|| output.format());
    let text = format.render(&diagnostics, &sources);
    if !text.is_empty() {
        output.data(text.trim_end())?;
    }
    if diagnostics.has_errors() {
        output.note(render::summary(&diagnostics));
        if let Some(hint) = render::explain_hint(&diagnostics) {
            output.note(hint);
        }
        return Ok(Outcome::No);
    }
    let count = definitions.len();
    output.note(format_args!("{count} definition{} valid", if count == 1 { " is" } else { "s are" }));
    Ok(Outcome::Success)
}
