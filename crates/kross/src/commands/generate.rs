//! Writes what the users of a definition need: an instance, a JSON schema for their editor, a page about its API.

mod describe;
mod docs;
mod instance;
mod json_schema;
mod pattern;
mod rules;
mod sample;

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Subcommand;
use kross_graph::{Graph, Options, is_definition, validate};
use kross_value::Value;
use serde_json::Value as Json;

use super::render::report;
use crate::input::{Input, SchemaArguments};
use crate::output::{Outcome, Output};

const EXAMPLES: &str = "\
Examples:
  # Print an instance of a definition, with comments about its fields
  kross generate instance shop.yaml

  # Print a JSON schema for editors
  kross generate json-schema shop.yaml

  # Print a Markdown page about the API of a definition
  kross generate docs shop.yaml";

const INSTANCE_EXAMPLES: &str = "\
Examples:
  # Print an instance and create it
  kross generate instance shop.yaml --name web | kubectl apply -f -

  # With every field
  kross generate instance shop.yaml --all";

const JSON_SCHEMA_EXAMPLES: &str = "\
Examples:
  # Print the JSON schema of a definition's instances
  kross generate json-schema shop.yaml > shop.schema.json

  # Print the JSON schema of ResourceGraphDefinition itself
  kross generate json-schema > rgd.schema.json";

const DOCS_EXAMPLES: &str = "\
Examples:
  # Write a page about the API of each definition in a folder
  kross generate docs platform/ > API.md";

/// Arguments of `kross generate`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Print a valid instance, with comments about its fields
    Instance(InstanceArguments),
    /// Print a JSON schema for editors
    JsonSchema(JsonSchemaArguments),
    /// Print the API of definitions as Markdown
    Docs(DocsArguments),
}

#[derive(Debug, clap::Args)]
#[command(after_help = INSTANCE_EXAMPLES)]
struct InstanceArguments {
    /// Definition: a file, a folder, or `-` for standard input
    #[arg(value_name = "DEFINITION")]
    path: PathBuf,
    /// Generate an instance of the definition with this name
    #[arg(long, value_name = "NAME")]
    definition: Option<String>,
    /// Name of the instance
    #[arg(long, value_name = "NAME", default_value = "example")]
    name: String,
    /// Namespace of the instance (default: that of your kubeconfig context)
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Set every field, also optional ones, which are comments otherwise
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    schemas: SchemaArguments,
}

#[derive(Debug, clap::Args)]
#[command(after_help = JSON_SCHEMA_EXAMPLES)]
struct JsonSchemaArguments {
    /// Definitions: files, folders, or `-` for standard input (default: the schema of definitions themselves)
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    schemas: SchemaArguments,
}

#[derive(Debug, clap::Args)]
#[command(after_help = DOCS_EXAMPLES)]
struct DocsArguments {
    /// Definitions: files, folders, or `-` for standard input
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    schemas: SchemaArguments,
}

/// The API of a definition.
struct Api {
    graph: Graph,
    crd: Json,
}

impl Api {
    /// The schema of its instances.
    fn schema(&self) -> &Json {
        self.crd.pointer("/spec/versions/0/schema/openAPIV3Schema").unwrap_or(&Json::Null)
    }

    fn property(&self, name: &str) -> Option<&Json> {
        self.schema().get("properties")?.get(name)
    }

    fn api_version(&self) -> String {
        format!("{}/{}", self.graph.instance.group, self.graph.instance.version)
    }
}

/// Generates.
///
/// # Errors
/// A path cannot be read, there is no definition, or its kind is not its own.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    match &arguments.what {
        What::Instance(arguments) => generate_instance(arguments, output),
        What::JsonSchema(arguments) if arguments.paths.is_empty() => {
            output.data(serde_json::to_string_pretty(&json_schema::of_definitions()?)?)?;
            Ok(Outcome::Success)
        }
        What::JsonSchema(arguments) => {
            let Some(apis) = load(&arguments.paths, &arguments.schemas, None, output)? else {
                return Ok(Outcome::No);
            };
            output.data(serde_json::to_string_pretty(&json_schema::of_instances(&apis))?)?;
            Ok(Outcome::Success)
        }
        What::Docs(arguments) => {
            let Some(apis) = load(&arguments.paths, &arguments.schemas, None, output)? else {
                return Ok(Outcome::No);
            };
            let pages: Vec<String> = apis.iter().map(docs::markdown).collect();
            output.data(pages.join("\n").trim_end())?;
            Ok(Outcome::Success)
        }
    }
}

fn generate_instance(arguments: &InstanceArguments, output: &mut Output) -> anyhow::Result<Outcome> {
    let InstanceArguments { path, definition, name, namespace, all, schemas } = arguments;
    let Some(apis) = load(std::slice::from_ref(path), schemas, definition.as_deref(), output)? else {
        return Ok(Outcome::No);
    };
    let api = match apis.as_slice() {
        [api] => api,
        several => {
            let names: Vec<&str> = several.iter().map(|api| api.graph.name.as_str()).collect();
            bail!(
                "there are {} definitions; choose one with `--definition`: {}",
                names.len(),
                names.join(", ")
            );
        }
    };
    let text = instance::yaml(api, &instance::Options { name, namespace: namespace.as_deref(), all: *all });
    for broken in rules::broken(api, &text) {
        output.note(format_args!("edit the instance before you apply it: {broken}"));
    }
    output.data(text.trim_end())?;
    Ok(Outcome::Success)
}

/// The APIs of the definitions; none if one is invalid, which is reported.
fn load(
    paths: &[PathBuf],
    schemas: &SchemaArguments,
    name: Option<&str>,
    output: &mut Output,
) -> anyhow::Result<Option<Vec<Api>>> {
    let mut input = Input::documents(paths)?;
    let schemas = input.schemas(schemas)?;
    let Input { sources, documents, mut diagnostics, empty: _ } = input;
    let (mut apis, mut existing, mut names) = (Vec::new(), Vec::new(), Vec::new());
    for document in documents.iter().filter(|document| is_definition(document)) {
        let own = document.value().at(&["metadata", "name"]).and_then(Value::as_str).unwrap_or_default();
        names.push(own.to_owned());
        if name.is_some_and(|wanted| wanted != own) {
            continue;
        }
        let validation = validate(document, &schemas, &Options::default());
        diagnostics.extend(validation.diagnostics);
        let Some(graph) = validation.graph else { continue };
        match graph.crd.as_ref().map(Json::from) {
            Some(crd) => apis.push(Api { graph, crd }),
            None => existing.push(format!("`{}`", graph.instance.kind)),
        }
    }
    if diagnostics.has_errors() {
        report(&diagnostics, &sources, output)?;
        return Ok(None);
    }
    if apis.is_empty() {
        let kinds = Some(existing.join(", ")).filter(|kinds| !kinds.is_empty());
        let kinds =
            kinds.map(|kinds| format!("the kind {kinds} exists already; its own project documents its API"));
        let missing = match name {
            Some(name) if !names.is_empty() => {
                format!("no ResourceGraphDefinition `{name}` found, only {}", names.join(", "))
            }
            _ => "no ResourceGraphDefinition found".to_owned(),
        };
        return Err(kinds.map_or_else(|| anyhow::anyhow!(missing), anyhow::Error::msg));
    }
    Ok(Some(apis))
}

/// A value as YAML on one line.
fn inline(value: &Json) -> String {
    match value {
        Json::Object(_) | Json::Array(_) => value.to_string(),
        scalar => kross_api::to_yaml(scalar).trim_end().to_owned(),
    }
}

/// The schema of definitions, from the CRD that ships with kross.
fn definition_schema() -> anyhow::Result<Json> {
    let crds = kross_api::graph_crds();
    let crd =
        crds.iter().find(|crd| crd.spec.names.kind == kross_graph::KIND).context("there is no such CRD")?;
    let version = crd.spec.versions.first().context("the CRD has no version")?;
    let schema = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
    Ok(serde_json::to_value(schema)?)
}
