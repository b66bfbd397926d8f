//! Deletes an instance, or explains without changing anything what its deletion would do: what is deleted, in
//! which order, what is retained, and what would block.

use anyhow::bail;
use clap::ValueEnum;
use jiff::Timestamp;
use kross_cluster::Delete;
use serde_json::Value as Json;

use crate::hub::{
    ConnectionFlags, Definition, Hub, InstanceView, ObjectReference, Owner, is_definition, text,
};
use crate::output::{Outcome, Output};

mod explanation;
mod inventory;

use explanation::Explanation;

const EXAMPLES: &str = "\
Examples:
  # What would be deleted, in which order, and what would be retained? Changes nothing
  kross delete shop/web -n team --explain

  # Delete it; the controller deletes its objects in all clusters
  kross delete shop/web -n team";

/// Arguments of `kross delete`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Instance, such as `shop/web`
    #[arg(value_name = "KIND/NAME", required = true, num_args = 1..=2)]
    object: Vec<String>,

    /// Change nothing: say what would be deleted, in which order, what would be retained, and what would block; exits 1 if something would
    #[arg(long)]
    explain: bool,

    /// Output format of `--explain`
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,

    #[command(flatten)]
    connection: ConnectionFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OutputFormat {
    /// For people
    Text,
    /// The steps as JSON
    Json,
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    let reference = ObjectReference::parse(&arguments.object)?;
    crate::hub::block_on(async {
        let hub = arguments.connection.hub().await?;
        let (kind, instance) = super::managed::on_hub(&hub, &reference).await?;
        let definition = definition(&hub, &instance).await?;
        let view = InstanceView(&instance);
        if arguments.explain {
            let found = inventory::objects(&hub, &instance).await?;
            let explanation = Explanation::of(&instance, definition.as_ref(), found, Timestamp::now());
            match arguments.output {
                OutputFormat::Text => output.data(explanation.draw(output.width()).trim_end())?,
                OutputFormat::Json => output.data(serde_json::to_string_pretty(&explanation)?)?,
            }
            return Ok(if explanation.is_blocked() { Outcome::No } else { Outcome::Success });
        }
        let uid = text(&instance, "/metadata/uid");
        let namespace = hub.namespace_of(&kind, None);
        hub.client.delete(&kind, namespace, view.name(), Delete { uid, ..Delete::default() }).await?;
        output.data(format_args!("{}/{} deletion requested", kind.kind.to_lowercase(), view.name()))?;
        output.note(format_args!("follow it with `kross tree {} --watch`", view.argument()));
        Ok(Outcome::Success)
    })
}

/// The definition of an instance. None if it cannot be read or was deleted.
async fn definition(hub: &Hub, object: &Json) -> anyhow::Result<Option<Definition>> {
    let view = InstanceView(object);
    let version = text(object, "/apiVersion").unwrap_or_default();
    if is_definition(object) {
        bail!("`kross delete` is for instances; use `kubectl delete rgd/{}`", view.name());
    }
    let definitions = hub.definitions().await;
    let served = definitions.as_ref().and_then(|all| all.iter().find(|it| it.serves(version, view.kind())));
    let is_ours = view.annotation("applyset.kubernetes.io/contains-group-kinds").is_some()
        || object.pointer("/status/managedResources").is_some();
    if served.is_some() || (definitions.is_none() || is_ours) && Owner::of(object).is_none() {
        return Ok(served.cloned());
    }
    bail!("{} is not an instance: use `kubectl delete`", view.title())
}
