//! Turns manifests (plain ones, or what `helm template` and `kustomize build` print) into a definition.

use std::path::PathBuf;

use anyhow::bail;
use kross_graph::{Options as CompileOptions, validate};
use serde_json::Value as Json;

use crate::input::{Input, SchemaArguments};
use crate::output::{Outcome, Output};
use crate::scaffold::{self, Options};

const EXAMPLES: &str = "\
Examples:
  # Turn a folder of manifests into a definition
  kross convert manifests/ > web.yaml

  # Turn a Helm chart into a definition
  helm template web ./chart | kross convert -

  # Choose the names
  kustomize build overlays/production | kross convert - --name web-shop --kind WebShop";

/// Arguments of `kross convert`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Manifests: files, folders, or `-` for standard input
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    names: Names,
    #[command(flatten)]
    schemas: SchemaArguments,
}

/// What the definition is called.
#[derive(Debug, Default, clap::Args)]
pub(super) struct Names {
    /// Name of the definition (default: what the names of the objects have in common)
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Kind of the instances (default: from the name)
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// API group of the instances (default: kro.run)
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
}

/// Converts the manifests.
///
/// # Errors
/// A path cannot be read, or there is no object.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    let input = Input::documents(&arguments.paths)?;
    if input.diagnostics.has_errors() {
        return super::render::report(&input.diagnostics, &input.sources, output);
    }
    let objects: Vec<Json> = input.documents.iter().map(|document| Json::from(document.value())).collect();
    if objects.is_empty() {
        bail!("there is no object in the input");
    }
    print(objects, input, &arguments.names, &arguments.schemas, false, output)
}

/// Prints the definition of objects, and what is wrong with it.
pub(super) fn print(
    objects: Vec<Json>,
    mut input: Input,
    names: &Names,
    schemas: &SchemaArguments,
    live: bool,
    output: &mut Output,
) -> anyhow::Result<Outcome> {
    let Names { name, kind, group } = names;
    let options = Options { name: name.as_deref(), kind: kind.as_deref(), group: group.as_deref(), live };
    let made = scaffold::definition(objects, &options)?;
    output.data(made.text.trim_end())?;
    for note in &made.notes {
        output.note(format_args!("note: {note}"));
    }
    let schemas = input.schemas(schemas)?;
    let mut checked = Input::default();
    checked.add_text("definition", &made.text);
    let mut diagnostics = std::mem::take(&mut checked.diagnostics);
    for document in &checked.documents {
        diagnostics.extend(validate(document, &schemas, &CompileOptions::default()).diagnostics);
    }
    if diagnostics.has_errors() {
        output.note("the definition was printed, but needs a change before it is valid:");
        return super::render::report(&diagnostics, &checked.sources, output);
    }
    Ok(Outcome::Success)
}
