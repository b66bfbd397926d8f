//! Draws definitions: each resource in the lane of its cluster, and the expressions by which one reads another.

mod draw;
mod svg;
mod view;

use std::path::PathBuf;

use anyhow::bail;
use clap::ValueEnum;
use jiff::Timestamp;
use kross_api::yaml::Document;
use kross_graph::{Graph, Options, is_definition, validate};
use kross_plan::simulate::admitted;
use kross_plan::{Settings, simulate};
use kross_value::Value;

use super::render::{pair, report, validation_errors};
use crate::input::{Input, SchemaArguments};
use crate::output::{Outcome, Output};
use view::View;

const EXAMPLES: &str = "\
Examples:
  # Show the resources of a definition by cluster, and what they read from each other
  kross graph shop.yaml

  # Draw it as an image, or for a Markdown page
  kross graph shop.yaml -o svg > shop.svg
  kross graph shop.yaml -o mermaid

  # Draw the objects of an instance, in the clusters that its values choose
  kross graph shop.yaml --instance web.yaml";

/// Arguments of `kross graph`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Definitions: files, folders, or `-` for standard input
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Draw only the definition with this name
    #[arg(long, value_name = "NAME")]
    definition: Option<String>,
    /// Draw the objects of this instance, with its values
    #[arg(long, value_name = "FILE")]
    instance: Option<PathBuf>,
    /// Observed objects: those of external references, and objects of the graph with their status
    #[arg(long, value_name = "FILE", requires = "instance")]
    observed: Vec<PathBuf>,
    #[command(flatten)]
    schemas: SchemaArguments,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// Lines of text
    Text,
    /// A Mermaid flowchart, which GitHub and GitLab draw in Markdown
    Mermaid,
    /// A graph for Graphviz
    Dot,
    /// An image
    Svg,
}

/// Draws the definitions.
///
/// # Errors
/// A path cannot be read, there is no definition, or several where one image is asked for.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    let mut input = Input::documents(&arguments.paths)?;
    let schemas = input.schemas(&arguments.schemas)?;
    let instances = match &arguments.instance {
        Some(instance) => input.read(std::slice::from_ref(instance))?,
        None => Vec::new(),
    };
    let observed = input.read(&arguments.observed)?;
    let Input { sources, documents, mut diagnostics, empty: _ } = input;
    if diagnostics.has_errors() {
        return report(&diagnostics, &sources, output);
    }
    let chosen = choose(arguments, &documents, &instances)?;
    let mut views = Vec::new();
    for (definition, instance) in chosen {
        let validation = validate(definition, &schemas, &Options::default());
        diagnostics.extend(validation.diagnostics);
        let Some(graph) = validation.graph else { continue };
        let graph = schemas.with_known_kinds(graph);
        match instance {
            None => views.push(View::of_definition(&graph)),
            Some(instance) => {
                let problems = validation_errors(&graph, &admitted(&graph, instance.value()), &schemas);
                diagnostics.extend(problems.iter().map(|problem| problem.diagnostic(Some(instance))));
                if problems.is_empty() {
                    views.push(of_instance(&graph, instance, &observed));
                }
            }
        }
    }
    if diagnostics.has_errors() {
        return report(&diagnostics, &sources, output);
    }
    let drawn: Vec<String> = views.iter().map(|view| arguments.output.draw(view)).collect();
    output.data(drawn.join("\n").trim_end())?;
    Ok(Outcome::Success)
}

/// The definitions to draw, each with its instance.
fn choose<'d>(
    arguments: &Arguments,
    documents: &'d [Document],
    instances: &'d [Document],
) -> anyhow::Result<Vec<(&'d Document, Option<&'d Document>)>> {
    let name = |document: &Document| {
        document.value().at(&["metadata", "name"]).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    if arguments.instance.is_some() {
        let (definition, instance) = pair(documents, instances)?;
        return Ok(vec![(definition, Some(instance))]);
    }
    let mut found: Vec<&Document> = documents.iter().filter(|document| is_definition(document)).collect();
    if found.is_empty() {
        bail!("no ResourceGraphDefinition found");
    }
    let names: Vec<String> = found.iter().map(|document| name(document)).collect();
    if let Some(wanted) = &arguments.definition {
        found.retain(|document| name(document) == *wanted);
        if found.is_empty() {
            bail!("no ResourceGraphDefinition `{wanted}` found, only {}", names.join(", "));
        }
    }
    if found.len() > 1 && matches!(arguments.output, Format::Svg | Format::Dot) {
        bail!("an image shows one definition; choose one with `--definition`: {}", names.join(", "));
    }
    Ok(found.into_iter().map(|document| (document, None)).collect())
}

fn of_instance(graph: &Graph, instance: &Document, observed: &[Document]) -> View {
    let stored = admitted(graph, instance.value());
    let observed: Vec<Value> = observed.iter().map(|document| document.value().clone()).collect();
    let simulation = simulate(graph, &stored, &observed, &Settings::default(), Timestamp::UNIX_EPOCH);
    View::of_instance(graph, &stored, &simulation)
}

impl Format {
    fn draw(self, view: &View) -> String {
        match self {
            Self::Text => draw::text(view),
            Self::Mermaid => draw::mermaid(view),
            Self::Dot => draw::dot(view),
            Self::Svg => svg::svg(view),
        }
    }
}
