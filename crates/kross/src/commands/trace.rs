//! Turns an object, in any cluster, into the chain of what it comes from: its instance, the definition and the revision.

use std::fmt::Write;

use anyhow::bail;
use clap::ValueEnum;
use kross_api::ClusterStatus;
use kross_diagnostics::render::Format;
use serde::Serialize;
use serde_json::Value as Json;

use super::managed::{self, Recorded};
use crate::hub::{
    ConnectionFlags, Hub, InstanceView, ObjectReference, Owner, RemoteClusters, Tone, read_object, text,
};
use crate::output::{Outcome, Output};

const EXAMPLES: &str = "\
Examples:
  # Which instance, definition and revision does a Deployment on the hub come from?
  kross trace deployment/web -n team

  # The same for an object in a remote cluster, found by the statuses of all instances
  kross trace configmap/web-settings -n team --in team/eu-kubeconfig";

/// How deep instances can be nested.
const MAX_DEPTH: usize = 16;

/// Arguments of `kross trace`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Object, such as `deployment/web`
    #[arg(value_name = "KIND/NAME", required = true, num_args = 1..=2)]
    object: Vec<String>,

    /// Remote cluster of the object: its kubeconfig Secret, as `kross get clusters` shows it (default: any cluster)
    #[arg(long = "in", value_name = "NAMESPACE/SECRET")]
    location: Option<String>,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,

    #[command(flatten)]
    connection: ConnectionFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OutputFormat {
    /// A chain
    Text,
    /// The chain as JSON
    Json,
}

/// One step of the chain.
#[derive(Debug, Serialize)]
struct Step {
    /// `Deployment team/web`.
    object: String,
    /// The id of the resource in the definition of the next step; empty for definitions and revisions.
    #[serde(skip_serializing_if = "String::is_empty")]
    resource: String,
    /// The cluster; none for the hub.
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<String>,
    state: String,
    #[serde(skip)]
    tone: Tone,
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    let reference = ObjectReference::parse(&arguments.object)?;
    crate::hub::block_on(async {
        let hub = arguments.connection.hub().await?;
        let steps = trace(&hub, &reference, arguments.location.as_deref(), output).await?;
        match arguments.output {
            OutputFormat::Text => {
                output.data(draw(&steps, output.format() == Format::Coloured).trim_end())?;
            }
            OutputFormat::Json => output.data(serde_json::to_string_pretty(&steps)?)?,
        }
        Ok(Outcome::Success)
    })
}

async fn trace(
    hub: &Hub,
    reference: &ObjectReference,
    cluster: Option<&str>,
    output: &mut Output,
) -> anyhow::Result<Vec<Step>> {
    let Recorded { title, cluster, mut owner, .. } = find(hub, reference, cluster, output).await?;
    let mut steps = vec![Step {
        object: title,
        resource: owner.node.clone(),
        cluster,
        state: String::new(),
        tone: Tone::Plain,
    }];
    for _ in 0..MAX_DEPTH {
        let Some(kind) = hub.kind_of(&owner.api_version(), &owner.kind) else {
            bail!("it belongs to {} `{}`, a kind that the hub does not serve", owner.kind, owner.name);
        };
        let instance = match hub.get(&kind, owner.namespace.as_deref(), &owner.name).await {
            Ok(instance) => instance,
            Err(error) if error.is_object_not_found() => bail!(
                "it belongs to {} `{}`, which does not exist on this hub: it may belong to another hub, or be orphaned",
                owner.kind,
                owner.name
            ),
            Err(error) => return Err(error.into()),
        };
        if owner.uid.is_some() && owner.uid.as_deref() != text(&instance, "/metadata/uid") {
            output.note("note: an instance of this name exists, with another UID: the object belongs to an earlier one or to another hub");
        }
        let view = InstanceView(&instance);
        let next = Owner::of(&instance);
        steps.push(Step {
            object: view.title(),
            resource: next.as_ref().map(|next| next.node.clone()).unwrap_or_default(),
            cluster: None,
            state: view.state().to_owned(),
            tone: if view.is_ready() { Tone::Good } else { Tone::Busy },
        });
        match next {
            Some(next) => owner = next,
            None => {
                steps.extend(definition_steps(hub, &instance, output).await);
                return Ok(steps);
            }
        }
    }
    bail!("instances own each other in a circle")
}

/// The definition of an instance and its newest revision.
async fn definition_steps(hub: &Hub, instance: &Json, output: &mut Output) -> Vec<Step> {
    let Some(definitions) = hub.definitions().await else {
        output.note("note: you may not list definitions");
        return Vec::new();
    };
    let version = text(instance, "/apiVersion").unwrap_or_default();
    let kind = InstanceView(instance).kind();
    let served = definitions.iter().find(|definition| definition.serves(version, kind));
    let Some(definition) = served else {
        output.note(format_args!("note: no ResourceGraphDefinition serves `{kind}` any more"));
        return Vec::new();
    };
    let step = |object: String, state: &str, ready: bool| Step {
        object,
        resource: String::new(),
        cluster: None,
        state: state.to_owned(),
        tone: if ready { Tone::Good } else { Tone::Bad },
    };
    let mut steps = vec![step(
        format!("ResourceGraphDefinition {}", definition.name()),
        definition.state(),
        definition.is_ready(),
    )];
    if let Some(revision) = definition.revision() {
        let name = kross_api::revision_name(definition.name(), revision);
        let state = revision_state(hub, &name).await;
        steps.push(step(format!("GraphRevision {name} (revision {revision})"), &state, state == "Verified"));
    }
    steps
}

async fn revision_state(hub: &Hub, name: &str) -> String {
    let Ok(kind) = hub.kind("graphrevisions.internal.kro.run") else { return String::new() };
    let Ok(revision) = hub.get(&kind, None, name).await else { return String::new() };
    let verified = crate::hub::condition(&revision, "GraphVerified");
    verified.and_then(|verified| verified["reason"].as_str()).unwrap_or_default().to_owned()
}

/// Finds an object: on the hub by its labels, or in any cluster by the statuses of instances.
async fn find(
    hub: &Hub,
    reference: &ObjectReference,
    cluster: Option<&str>,
    output: &mut Output,
) -> anyhow::Result<Recorded> {
    if let Some(secret) = cluster {
        return find_in(hub, reference, secret, output).await;
    }
    let kind = hub.kind(&reference.kind).ok();
    if let Some(kind) = &kind
        && let Ok(object) = hub.get(kind, None, &reference.name).await
        && let Some(owner) = Owner::of(&object)
    {
        return Ok(Recorded { title: InstanceView(&object).title(), cluster: None, secret: None, owner });
    }
    let name = kind.map_or_else(|| reference.kind.clone(), |kind| kind.kind.to_string());
    let (mut found, problems) = managed::recorded(hub, &name, &reference.name).await?;
    problems.iter().for_each(|problem| output.note(format_args!("note: {problem}")));
    match (found.pop(), found.as_slice()) {
        (Some(only), []) => Ok(only),
        (None, _) => bail!(
            "no instance has {name} `{}` in namespace `{}`: if it is one of a large collection, name its cluster with `--in`",
            reference.name,
            hub.namespace
        ),
        (Some(last), others) => {
            let clusters: Vec<String> = others
                .iter()
                .chain([&last])
                .map(|found| found.cluster.clone().unwrap_or_else(|| "the hub".to_owned()))
                .collect();
            bail!(
                "{name} `{}` exists in several clusters ({}): choose one with `--in`",
                reference.name,
                clusters.join(", ")
            )
        }
    }
}

/// Finds an object in a remote cluster: by its labels if the caller may read the Secret, else by the statuses of instances.
async fn find_in(
    hub: &Hub,
    reference: &ObjectReference,
    secret: &str,
    output: &mut Output,
) -> anyhow::Result<Recorded> {
    let cluster: ClusterStatus = serde_json::from_value(serde_json::json!({
        "name": secret, "secret": secret, "mode": "Watch", "connected": true, "ready": 0, "total": 0,
    }))?;
    let remotes = RemoteClusters::new(hub);
    match remotes.client(&cluster).await {
        Ok(client) => {
            client.refresh_discovery().await?;
            let kind = crate::hub::find_kind(&client.discovery().kinds(), &reference.kind)?;
            let found =
                read_object(&client, &kind.api_version(), &kind.kind, Some(&hub.namespace), &reference.name)
                    .await?;
            let Some(object) = found else {
                bail!("{} `{}` does not exist in cluster `{secret}`", kind.kind, reference.name);
            };
            let title = InstanceView(&object).title();
            match Owner::of(&object) {
                Some(owner) => {
                    let cluster = Some(secret.to_owned());
                    Ok(Recorded { title, secret: cluster.clone(), cluster, owner })
                }
                None => {
                    bail!("{title} in cluster `{secret}` belongs to no instance: it has no labels of kross")
                }
            }
        }
        Err(error) => {
            output.note(format_args!("note: {error}; searching the statuses of instances"));
            let kind = hub
                .kind(&reference.kind)
                .map_or_else(|_| reference.kind.clone(), |kind| kind.kind.to_string());
            let (found, problems) = managed::recorded(hub, &kind, &reference.name).await?;
            problems.iter().for_each(|problem| output.note(format_args!("note: {problem}")));
            match found.into_iter().find(|found| found.secret.as_deref() == Some(secret)) {
                Some(found) => Ok(found),
                None => bail!("no instance has {kind} `{}` in cluster `{secret}`", reference.name),
            }
        }
    }
}

fn draw(steps: &[Step], coloured: bool) -> String {
    let mut drawn = String::new();
    for (depth, Step { object, resource, cluster, state, tone }) in steps.iter().enumerate() {
        let indent = match depth {
            0 => String::new(),
            depth => format!("{}└─ ", "   ".repeat(depth - 1)),
        };
        let cluster = cluster.as_deref().map(|cluster| format!(" in cluster {cluster}")).unwrap_or_default();
        let resource =
            if resource.is_empty() { String::new() } else { format!(", which is resource `{resource}` of") };
        let state =
            if state.is_empty() { String::new() } else { format!("  {}", tone.paint(state, coloured)) };
        // Writing to a string cannot fail.
        let _ = writeln!(drawn, "{indent}{object}{cluster}{state}{resource}");
    }
    drawn
}
