//! Compares changed definitions with what runs: the changes of their APIs, and what would happen to the objects of every instance,
//! in every cluster. Changes nothing.

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::ValueEnum;
use jiff::Timestamp;
use kross_api::yaml::Document;
use kross_api::{ResourceGraphDefinition, annotations};
use kross_graph::{Graph, Options, compile, is_definition, validate};
use kross_schema::compatibility::{Report, compare_crds};
use serde_json::Value as Json;

use crate::hub::{ConnectionFlags, Definition, Hub, InstanceView};
use crate::input::{Input, SchemaArguments, Schemas, UnknownKinds};
use crate::output::{Outcome, Output};
use crate::state::{InstanceState, ReadObject, SavedState, StateSource, secret_of};
use change::changes;
use preview::{Preview, preview};
use report::{DefinitionDiff, InstanceDiff};

mod change;
mod immutable;
pub(crate) mod plan;
mod preview;
mod report;

const EXAMPLES: &str = "\
Examples:
  # What would these definitions change, if they were applied?
  kross diff definitions/

  # The same with the old and the new value of every field
  kross diff shop.yaml --full

  # Save the state of the clusters, and compare with it later, without them
  kross diff shop.yaml --save-state state/
  kross diff shop.yaml --state state/

Exit codes: 0 nothing would change, 1 something would, 2 it could not be found out.";

/// Arguments of `kross diff`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Changed definitions: files, folders, or `-` for standard input
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,

    /// Compare with a saved state, without any cluster
    #[arg(long, value_name = "DIR", conflicts_with = "save_state")]
    state: Option<PathBuf>,

    /// Also save the state that was compared with. The file has the objects as they are: keep it as safe as the clusters
    #[arg(long, value_name = "DIR")]
    save_state: Option<PathBuf>,

    /// Show the old and the new value of every field
    #[arg(long)]
    full: bool,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,

    #[command(flatten)]
    schemas: SchemaArguments,
    #[command(flatten)]
    unknown_kinds: UnknownKinds,
    #[command(flatten)]
    connection: ConnectionFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OutputFormat {
    /// For people
    Text,
    /// All changes as JSON
    Json,
}

/// Compares.
///
/// # Errors
/// A definition is invalid, or a cluster cannot be read.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    let mut input = Input::documents(&arguments.paths)?;
    let schemas = input.schemas(&arguments.schemas)?;
    let options = Options { unknown_kinds: arguments.unknown_kinds.report_as(), ..Options::default() };
    let mut changed = Vec::new();
    for document in input.documents.iter().filter(|document| is_definition(document)) {
        let validation = validate(document, &schemas, &options);
        input.diagnostics.extend(validation.diagnostics);
        changed.extend(validation.graph.map(|graph| (document.clone(), schemas.with_known_kinds(graph))));
    }
    if input.diagnostics.has_errors() {
        output.note(output.note_format().render(&input.diagnostics, &input.sources).trim_end());
        bail!("the definitions are invalid: nothing was compared");
    }
    if changed.is_empty() {
        bail!("no ResourceGraphDefinition found");
    }
    let found = match &arguments.state {
        Some(folder) => {
            let saved = SavedState::load(folder)?;
            let source = StateSource::Saved(&saved);
            crate::hub::block_on(compare_all(&changed, &source, (&schemas, &options), None))?
        }
        None => crate::hub::block_on(live(arguments, &changed, (&schemas, &options)))?,
    };
    match arguments.output {
        OutputFormat::Text => output.data(report::text(&found, arguments.full).trim_end())?,
        OutputFormat::Json => output.data(serde_json::to_string_pretty(&found)?)?,
    }
    for unknown in found.iter().flat_map(|diff| &diff.instances).flat_map(|instance| &instance.unknown) {
        output.note(format_args!("not compared: {unknown}"));
    }
    let unchanged = found.iter().all(DefinitionDiff::is_empty);
    Ok(if unchanged { Outcome::Success } else { Outcome::No })
}

/// Compares with the clusters, and saves what was read if that is asked for.
async fn live(
    arguments: &Arguments,
    changed: &[(Document, Graph)],
    compiled_with: (&Schemas, &Options),
) -> anyhow::Result<Vec<DefinitionDiff>> {
    let hub: Hub = arguments.connection.hub().await?;
    let source = StateSource::live(&hub);
    let mut saved = arguments.save_state.as_ref().map(|_| SavedState::default());
    let found = compare_all(changed, &source, compiled_with, saved.as_mut()).await?;
    if let (Some(folder), Some(saved)) = (&arguments.save_state, &mut saved) {
        saved.save(folder)?;
    }
    Ok(found)
}

async fn compare_all(
    changed: &[(Document, Graph)],
    source: &StateSource<'_>,
    compiled_with: (&Schemas, &Options),
    mut saved: Option<&mut SavedState>,
) -> anyhow::Result<Vec<DefinitionDiff>> {
    let hub_uid = source.hub_uid().await?;
    if let Some(saved) = saved.as_deref_mut() {
        saved.hub_uid.clone_from(&hub_uid);
    }
    let mut found = Vec::new();
    for (document, graph) in changed {
        found.push(compare(document, graph, (source, &hub_uid), compiled_with, saved.as_deref_mut()).await?);
    }
    Ok(found)
}

/// Compares one definition.
async fn compare(
    document: &Document,
    graph: &Graph,
    (source, hub_uid): (&StateSource<'_>, &str),
    (schemas, options): (&Schemas, &Options),
    mut saved: Option<&mut SavedState>,
) -> anyhow::Result<DefinitionDiff> {
    let mut diff = DefinitionDiff::new(&graph.name);
    let Some(current) = source.definition(&graph.name).await? else {
        diff.is_new = true;
        return Ok(diff);
    };
    if let Some(saved) = saved.as_deref_mut() {
        saved.definitions.push(current.clone());
    }
    let old = old_graph(&current, schemas, options)?;
    if let (Some(old), Some(new)) = (&old.crd, &graph.crd) {
        let is_allowed = document.value().at(&["metadata", "annotations"]).is_some_and(|annotations| {
            annotations.get(annotations::ALLOW_BREAKING_CHANGES).and_then(kross_value::Value::as_str)
                == Some("true")
        });
        api_changes(&compare_crds(old, new), is_allowed, &mut diff);
    }
    diff.is_changed = old.hash != graph.hash;
    let now = Timestamp::now();
    for state in source.instances(&Definition::new(current)).await? {
        if let Some(saved) = saved.as_deref_mut() {
            saved.instances.push(state.clone());
        }
        if !diff.is_changed {
            diff.instances.push(InstanceDiff::unchanged(&state));
            continue;
        }
        let before = preview(&old, &state, source, hub_uid, now).await;
        let after = preview(graph, &state, source, hub_uid, now).await;
        if let Some(saved) = saved.as_deref_mut() {
            save_read(&after, saved);
        }
        diff.instances.push(instance_diff(&state, &before, &after));
    }
    Ok(diff)
}

/// Keeps what a preview has read, for a later one without the clusters.
fn save_read(preview: &Preview, saved: &mut SavedState) {
    for (cluster, object) in &preview.read {
        let read = ReadObject { secret: cluster.as_ref().and_then(secret_of), object: object.clone() };
        let is_known = |known: &ReadObject| known.secret == read.secret && known.object == read.object;
        if !saved.read.iter().any(is_known) {
            saved.read.push(read);
        }
    }
}

fn instance_diff(state: &InstanceState, before: &Preview, after: &Preview) -> InstanceDiff {
    let mut diff = InstanceDiff::unchanged(state);
    diff.changes = changes(after, Some(before));
    let known =
        |id: &str, message: &str| before.open.iter().any(|(own, text, _)| **own == *id && **text == *message);
    let new = after.open.iter().filter(|(id, message, _)| !known(id, message));
    for (id, message, failed) in new {
        let text = format!("`{id}`: {message}");
        if *failed {
            diff.failures.push(text);
        } else {
            diff.pending.push(text);
        }
    }
    diff.unknown = before.unknown.union(&after.unknown).cloned().collect();
    diff
}

/// The graph of the definition that the cluster has.
fn old_graph(current: &Json, schemas: &Schemas, options: &Options) -> anyhow::Result<Graph> {
    let definition: ResourceGraphDefinition =
        serde_json::from_value(current.clone()).context("cannot read the definition in the cluster")?;
    let name = definition.metadata.name.clone().unwrap_or_default();
    let own = kross_graph::Definition { name: &name, spec: &definition.spec, document: None };
    match compile(own, schemas, options) {
        Ok(graph) => Ok(schemas.with_known_kinds(graph)),
        Err(diagnostics) => {
            let first = diagnostics.iter().next().map(|it| it.message.clone()).unwrap_or_default();
            bail!(
                "the definition `{name}` in the cluster does not compile with these schemas: {first}; pass those of the cluster with `--from-cluster`"
            )
        }
    }
}

fn api_changes(report: &Report, is_allowed: bool, diff: &mut DefinitionDiff) {
    diff.breaking = report.breaking().map(ToString::to_string).collect();
    diff.harmless = report.harmless().map(ToString::to_string).collect();
    if !diff.breaking.is_empty() {
        diff.consequence = Some(match is_allowed {
            true => format!(
                "the annotation `{}` allows them: instances that use what was removed lose it, and the API server refuses \
                 those that are not valid any more",
                annotations::ALLOW_BREAKING_CHANGES
            ),
            false => format!(
                "the controller refuses the definition, and instances stay on their revision; what follows would happen with \
                 the annotation `{}: \"true\"`",
                annotations::ALLOW_BREAKING_CHANGES
            ),
        });
    }
}

impl InstanceDiff {
    fn unchanged(state: &InstanceState) -> Self {
        Self {
            instance: InstanceView(&state.instance).title(),
            changes: Vec::new(),
            failures: Vec::new(),
            pending: Vec::new(),
            unknown: state.unknown.clone(),
        }
    }
}
