//! Renders the objects of an instance offline, in the order in which the controller applies them. Names each resource that
//! waits for data that only a cluster has, with the reason.

use std::path::PathBuf;

use anyhow::bail;
use clap::ValueEnum;
use jiff::Timestamp;
use kross_api::yaml::Document;
use kross_diagnostics::{Diagnostics, Problem, Sources};
use kross_graph::{Graph, InstanceKind, Options, Resolvers, check_instance, is_definition, validate};
use kross_plan::simulate::{Applied, admitted};
use kross_plan::{Progress, Settings, Simulation, simulate};
use kross_schema::{CrdSchemas, GroupVersionKind};
use kross_value::Value;

use crate::input::{Input, SchemaArguments, UnknownKinds};
use crate::output::{Outcome, Output};

const EXAMPLES: &str = "\
Examples:
  # Render the objects of an instance, without a cluster
  kross render shop.yaml --instance web.yaml";

/// Arguments of `kross render`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Definition: a file, a folder, or `-` for standard input
    #[arg(value_name = "DEFINITION")]
    definition: PathBuf,
    /// Instance to render
    #[arg(long, value_name = "FILE")]
    instance: PathBuf,
    /// Observed objects: those of external references, and objects of the graph with their status
    #[arg(long, value_name = "FILE")]
    observed: Vec<PathBuf>,
    #[command(flatten)]
    schemas: SchemaArguments,
    #[command(flatten)]
    unknown_kinds: UnknownKinds,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "yaml")]
    output: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// A stream of YAML documents
    Yaml,
    /// One `List` object; `resources` has the id and the cluster of each item
    Json,
}

/// Renders the instance.
///
/// # Errors
/// A path cannot be read, or there is no definition with an instance.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    let Arguments { definition, instance, observed, schemas, unknown_kinds, output: format } = arguments;
    let options = Options { unknown_kinds: unknown_kinds.report_as(), ..Options::default() };
    let mut input = Input::documents(std::slice::from_ref(definition))?;
    let schemas = input.schemas(schemas)?;
    let instances = input.read(std::slice::from_ref(instance))?;
    let observed = input.read(observed)?;
    let Input { sources, documents, mut diagnostics, empty: _ } = input;
    if diagnostics.has_errors() {
        return report(&diagnostics, &sources, output);
    }
    let (definition, instance) = pair(&documents, &instances)?;
    let validation = validate(definition, &schemas, &options);
    diagnostics.extend(validation.diagnostics);
    let Some(graph) = validation.graph else {
        return report(&diagnostics, &sources, output);
    };
    let graph = schemas.with_known_kinds(graph);
    let stored = admitted(&graph, instance.value());
    let problems = validation_errors(&graph, &stored, &schemas);
    diagnostics.extend(problems.iter().map(|problem| problem.diagnostic(Some(instance))));
    if diagnostics.has_errors() {
        return report(&diagnostics, &sources, output);
    }
    let observed: Vec<Value> = observed.iter().map(|document| document.value().clone()).collect();
    let simulation = simulate(&graph, &stored, &observed, &Settings::default(), Timestamp::UNIX_EPOCH);
    print(&simulation, *format, output)?;
    Ok(notes(&simulation, output))
}

/// The first instance whose kind a definition serves, with that definition.
pub(super) fn pair<'d>(
    documents: &'d [Document],
    instances: &'d [Document],
) -> anyhow::Result<(&'d Document, &'d Document)> {
    let definitions: Vec<&Document> = documents.iter().filter(|document| is_definition(document)).collect();
    if definitions.is_empty() {
        bail!("no ResourceGraphDefinition found");
    }
    let text = |document: &Document, path: &[&str]| {
        document.value().at(path).and_then(Value::as_str).map(str::to_owned)
    };
    for instance in instances {
        let kind = text(instance, &["kind"]);
        let serves = |definition: &&&Document| {
            let existing = ["spec", "schema", "externalRef", "kind"];
            kind.is_some()
                && [text(definition, &["spec", "schema", "kind"]), text(definition, &existing)]
                    .contains(&kind)
        };
        if let Some(definition) = definitions.iter().find(serves) {
            return Ok((definition, instance));
        }
    }
    let kinds = definitions.iter().filter_map(|definition| text(definition, &["spec", "schema", "kind"]));
    let kinds: Vec<String> = kinds.map(|kind| format!("`{kind}`")).collect();
    bail!("no instance of {} in the file of `--instance`", kinds.join(" or "));
}

/// The reasons for which an API server would reject the instance.
pub(crate) fn validation_errors(graph: &Graph, instance: &Value, schemas: &dyn Resolvers) -> Vec<Problem> {
    let InstanceKind { group, version, kind, .. } = graph.instance.clone();
    let expected = GroupVersionKind { group, version, kind };
    let Some(crd) = &graph.crd else {
        return check_instance(instance, &expected, schemas.local());
    };
    let own = CrdSchemas::new();
    // The compiler generated this CRD, so it is valid.
    let _ = own.insert(crd);
    check_instance(instance, &expected, &own)
}

fn print(simulation: &Simulation, format: Format, output: &mut Output) -> anyhow::Result<()> {
    match format {
        Format::Yaml => {
            for (at, applied) in simulation.applied.iter().enumerate() {
                if at > 0 {
                    output.data("---")?;
                }
                output.data(format_args!("# {}", heading(simulation, applied)))?;
                output.data(kross_api::to_yaml(&serde_json::Value::from(&applied.desired)).trim_end())?;
            }
        }
        Format::Json => {
            let applied = simulation.applied.iter();
            let list = Value::object([
                ("apiVersion", Value::from("v1")),
                ("kind", Value::from("List")),
                ("items", Value::list(applied.clone().map(|applied| applied.desired.clone()))),
                ("resources", Value::list(applied.map(|applied| resource(simulation, applied)))),
            ]);
            output.data(serde_json::to_string_pretty(&list)?)?;
        }
    }
    Ok(())
}

/// The id of the resource, and the cluster that its object is applied to.
fn heading(simulation: &Simulation, applied: &Applied) -> String {
    match cluster(simulation, applied) {
        Some(cluster) => format!("{} in cluster {cluster}", applied.node),
        None => applied.node.to_string(),
    }
}

/// The same as JSON, beside the objects: an object itself has no field for it that an API server accepts.
fn resource(simulation: &Simulation, applied: &Applied) -> Value {
    let id = ("id", Value::from(applied.node.as_str()));
    let cluster = cluster(simulation, applied).map(|cluster| ("cluster", Value::from(cluster)));
    Value::object([id].into_iter().chain(cluster))
}

fn cluster<'s>(simulation: &'s Simulation, applied: &Applied) -> Option<&'s str> {
    let used = simulation.plan.clusters.iter().find(|used| used.id == applied.key.cluster)?;
    Some(used.reference.display.as_str())
}

/// Names each resource without an object, and why.
fn notes(simulation: &Simulation, output: &mut Output) -> Outcome {
    let mut outcome = Outcome::Success;
    for node in &simulation.plan.nodes {
        let why = node.progress.message().map_or_else(String::new, |why| why.to_string());
        match &node.progress {
            Progress::Ready | Progress::Applying => {}
            Progress::Skipped(_) => output.note(format_args!("skipped `{}`: {why}", node.id)),
            Progress::Failed(_) => {
                outcome = Outcome::No;
                output.note(format_args!("error: `{}`: {why}", node.id));
            }
            _ => output.note(format_args!("pending `{}`: {why}", node.id)),
        }
    }
    outcome
}

pub(super) fn report(
    diagnostics: &Diagnostics,
    sources: &Sources,
    output: &mut Output,
) -> anyhow::Result<Outcome> {
    let format = output.note_format();
    output.note(format.render(diagnostics, sources).trim_end());
    Ok(Outcome::No)
}
