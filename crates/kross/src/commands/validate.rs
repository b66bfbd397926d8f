//! Turns definitions into diagnostics: compiles them offline, as the controller does, and reports every error at once.

use std::path::PathBuf;

use kross_api::yaml::Document;
use kross_diagnostics::SourceId;
use kross_diagnostics::render::{self, Format};
use kross_graph::{Options, is_crd, is_definition, near_miss, validate};
use kross_value::Value;

use crate::input::{Input, Level, SchemaArguments, UnknownKinds};
use crate::output::{Outcome, Output};

const EXAMPLES: &str = "\
Examples:
  # Validate all definitions in a folder
  kross validate deploy/

  # Validate a definition that a cluster has
  kubectl get rgd/shop -o yaml | kross validate -";

/// Arguments of `kross validate`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Definitions: files, folders, or `-` for standard input
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    schemas: SchemaArguments,
    /// Output format: full, short, json, jsonl, github or sarif (default: full)
    #[arg(long, short = 'o', visible_alias = "output", value_name = "FORMAT")]
    format: Option<Format>,
    /// How to report resources that do not match these schemas, if their cluster depends on the instance
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t = Level::Error)]
    deferred_checks: Level,
    #[command(flatten)]
    unknown_kinds: UnknownKinds,
    /// Succeed if there is no definition, for hooks that get the changed files
    #[arg(long)]
    allow_empty: bool,
}

/// Compiles every definition among the documents.
///
/// # Errors
/// A path cannot be read, or no document is a definition.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    let Arguments { paths, schemas, format, deferred_checks, unknown_kinds, allow_empty } = arguments;
    let options = Options {
        deferred: (*deferred_checks).into(),
        unknown_kinds: unknown_kinds.report_as(),
        ..Options::default()
    };
    let mut input = Input::documents(paths)?;
    let schemas = input.schemas(schemas)?;
    let Input { sources, documents, mut diagnostics, empty } = input;
    let definitions: Vec<_> = documents.iter().filter(|document| is_definition(document)).collect();
    diagnostics.extend(documents.iter().filter_map(near_miss));
    for document in &definitions {
        diagnostics.extend(validate(document, &schemas, &options).diagnostics);
    }
    if definitions.is_empty() && !diagnostics.has_errors() && !allow_empty {
        anyhow::bail!("no ResourceGraphDefinition found");
    }
    for file in &empty {
        output.note(format_args!("skipped {file}: it has no document"));
    }
    for (source, kinds) in without_definition(&documents) {
        output
            .note(format_args!("skipped {}: no ResourceGraphDefinition, only {kinds}", sources.name(source)));
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

/// The sources that have neither a definition nor a CRD, which is a schema, with the kinds that they have.
fn without_definition(documents: &[Document]) -> Vec<(SourceId, String)> {
    let used =
        |document: &Document| is_definition(document) || is_crd(document) || near_miss(document).is_some();
    let mut skipped: Vec<(SourceId, Vec<String>)> = Vec::new();
    for document in documents {
        let source = document.source();
        if documents.iter().any(|other| other.source() == source && used(other)) {
            continue;
        }
        let kind = document.value().get("kind").and_then(Value::as_str);
        let kind = kind.map_or_else(|| "a document without a kind".to_owned(), |kind| format!("`{kind}`"));
        match skipped.iter_mut().find(|(known, _)| *known == source) {
            Some((_, kinds)) if !kinds.contains(&kind) => kinds.push(kind),
            Some(_) => {}
            None => skipped.push((source, vec![kind])),
        }
    }
    skipped.into_iter().map(|(source, kinds)| (source, kinds.join(", "))).collect()
}
