//! The next actions of the controller for one instance, with the reasons: what it would write, delete or wait for now.

use anyhow::{Context, bail};
use clap::ValueEnum;
use jiff::Timestamp;
use kross_graph::Options;
use serde_json::json;

use super::change::{Change, Effect, changes};
use super::preview::{Preview, preview};
use super::{old_graph, report};
use crate::hub::{ConnectionFlags, InstanceView, ObjectReference, text};
use crate::input::{Input, SchemaArguments, UnknownKinds};
use crate::output::{Outcome, Output};
use crate::state::StateSource;

const EXAMPLES: &str = "\
Examples:
  # What would the controller do next for an instance, and what does it wait for?
  kross plan shop/web -n team

Exit codes: 0 nothing to do, 1 something to do, or a resource fails or waits, 2 it could not be found out.";

/// Arguments of `kross plan`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Instance, such as `shop/web`
    #[arg(value_name = "KIND/NAME", required = true, num_args = 1..=2)]
    object: Vec<String>,

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
    /// All actions and waits as JSON
    Json,
}

/// Plans.
///
/// # Errors
/// The instance or its definition cannot be read.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    let reference = ObjectReference::parse(&arguments.object)?;
    let mut input = Input::default();
    let schemas = input.schemas(&arguments.schemas)?;
    if input.diagnostics.has_errors() {
        output.note(output.note_format().render(&input.diagnostics, &input.sources).trim_end());
        bail!("the CustomResourceDefinitions of `--crds` are invalid");
    }
    let options = Options { unknown_kinds: arguments.unknown_kinds.report_as(), ..Options::default() };
    crate::hub::block_on(async {
        let hub = arguments.connection.hub().await?;
        let kind = hub.kind(&reference.kind)?;
        let instance = hub.get(&kind, None, &reference.name).await?;
        let view = InstanceView(&instance);
        if view.is_deleting() {
            bail!("{} is being deleted: run `kross delete {} --explain`", view.title(), view.argument());
        }
        let version = text(&instance, "/apiVersion").unwrap_or_default();
        let definitions = hub.definitions().await.context("the definitions cannot be listed")?;
        let definition = definitions
            .iter()
            .find(|definition| definition.serves(version, view.kind()))
            .with_context(|| format!("no definition serves {}", view.title()))?;
        let graph = old_graph(&definition.0, &schemas, &options)?;
        let source = StateSource::live(&hub);
        let hub_uid = source.hub_uid().await?;
        let state = source.instance(instance.clone()).await;
        let found = preview(&graph, &state, &source, &hub_uid, Timestamp::now()).await;
        let changes = changes(&found, None);
        match arguments.output {
            OutputFormat::Text => output.data(drawn(&view.title(), &changes, &found).trim_end())?,
            OutputFormat::Json => {
                let nodes = found
                    .nodes
                    .iter()
                    .map(|(id, state, why)| json!({"resource": id, "state": state, "message": why}));
                let all = json!({
                    "instance": view.title(),
                    "suspended": view.is_suspended(),
                    "actions": changes,
                    "resources": nodes.collect::<Vec<_>>(),
                    "unknown": found.unknown,
                });
                output.data(serde_json::to_string_pretty(&all)?)?;
            }
        }
        if view.is_suspended() {
            output.note("the instance is suspended: nothing of this happens before `kross resume`");
        }
        found.unknown.iter().for_each(|unknown| output.note(format_args!("not known: {unknown}")));
        let is_done = changes.is_empty() && found.open.is_empty();
        Ok(if is_done { Outcome::Success } else { Outcome::No })
    })
}

fn drawn(title: &str, changes: &[Change], found: &Preview) -> String {
    let mut text = String::new();
    if changes.is_empty() && found.open.is_empty() {
        return format!("{title}: everything is as desired");
    }
    text.push_str(title);
    text.push('\n');
    for change in changes {
        let why = change.why.clone().or_else(|| reason(change, found));
        report::draw_change(&Change { why, ..change.clone() }, false, &mut text);
    }
    for (_, message, failed) in &found.open {
        text.push_str(if *failed { "  ! fails: " } else { "  … waits: " });
        text.push_str(message);
        text.push('\n');
    }
    text
}

/// Why an object is written or deleted.
fn reason(change: &Change, found: &Preview) -> Option<String> {
    let node = found.nodes.iter().find(|(id, ..)| *id == change.resource);
    Some(match (change.effect, node) {
        (Effect::Create, _) => "it does not exist".to_owned(),
        (Effect::Change, _) if change.fields.is_empty() => "what kross keeps on it differs".to_owned(),
        (Effect::Change, _) => "it differs from what is desired".to_owned(),
        (Effect::Prune | Effect::Release, None) => {
            "its resource is not in the definition any more".to_owned()
        }
        (Effect::Prune | Effect::Release, Some((_, _, Some(why)))) => why.clone(),
        (Effect::Prune | Effect::Release, Some(_)) => "it is not desired any more".to_owned(),
        _ => return None,
    })
}
