//! Makes a definition from objects that run in a cluster, from files, or from a template.

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::ValueEnum;
use serde_json::Value as Json;

use super::convert::{Names, print};
use crate::hub::{ConnectionFlags, ObjectReference};
use crate::input::{Input, SchemaArguments};
use crate::output::{Outcome, Output};

const EXAMPLES: &str = "\
Examples:
  # Make a definition from objects that exist
  kross new deployment/web service/web configmap/web-config -n team > web.yaml

  # From all objects with a label
  kross new -l app.kubernetes.io/instance=web -n team > web.yaml

  # From files with objects
  kross new -f web.yaml

  # Start from a template
  kross new --template web-application > web.yaml";

/// Arguments of `kross new`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Objects in the cluster, such as `deployment/web`
    #[arg(value_name = "KIND/NAME")]
    objects: Vec<String>,

    /// All objects with these labels, such as `app=web`
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<String>,

    /// Objects in files: files, folders, or `-` for standard input
    #[arg(short, long, value_name = "PATH", conflicts_with_all = ["objects", "selector"])]
    filename: Vec<PathBuf>,

    /// Print this template
    #[arg(long, value_enum, value_name = "TEMPLATE", conflicts_with_all = ["objects", "selector", "filename"])]
    template: Option<Template>,

    #[command(flatten)]
    names: Names,

    #[command(flatten)]
    schemas: SchemaArguments,

    #[command(flatten)]
    connection: ConnectionFlags,
}

/// A definition to start from.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Template {
    /// A web application with a Service and an optional Ingress
    WebApplication,
    /// A database with a backup when it is deleted
    DatabaseWithBackup,
    /// A Deployment in each of several regions
    MultiRegion,
    /// One graph over three clusters
    ThreeClusters,
    /// A standby that takes over when a region fails
    RegionalFailover,
    /// The same objects in every cluster of a fleet
    EdgeFleet,
    /// A cluster-scoped kind
    ClusterPolicy,
}

impl Template {
    fn text(self) -> &'static str {
        match self {
            Self::WebApplication => include_str!("../../../../examples/web-application.yaml"),
            Self::DatabaseWithBackup => include_str!("../../../../examples/database-with-backup.yaml"),
            Self::MultiRegion => include_str!("../../../../examples/multi-region.yaml"),
            Self::ThreeClusters => include_str!("../../../../examples/three-clusters.yaml"),
            Self::RegionalFailover => include_str!("../../../../examples/regional-failover.yaml"),
            Self::EdgeFleet => include_str!("../../../../examples/edge-fleet.yaml"),
            Self::ClusterPolicy => include_str!("../../../../examples/cluster-policy.yaml"),
        }
    }
}

/// Makes the definition.
///
/// # Errors
/// An object or a file cannot be read, or nothing was asked for.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    if let Some(template) = arguments.template {
        output.data(template.text().trim_end())?;
        return Ok(Outcome::Success);
    }
    let input = Input::documents(&arguments.filename)?;
    if input.diagnostics.has_errors() {
        return super::render::report(&input.diagnostics, &input.sources, output);
    }
    let objects = if arguments.filename.is_empty() {
        if arguments.objects.is_empty() && arguments.selector.is_none() {
            bail!(
                "name objects (`deployment/web`), a selector (`-l app=web`), files (`-f`) or a template (`--template`)"
            );
        }
        crate::hub::block_on(read(arguments))?
    } else {
        input.documents.iter().map(|document| Json::from(document.value())).collect()
    };
    if objects.is_empty() {
        bail!("no object was found");
    }
    print(objects, input, &arguments.names, &arguments.schemas, true, output)
}

/// Kinds that other objects stand for, or that belong to the cluster.
const SKIPPED: &[&str] = &[
    "Pod",
    "ReplicaSet",
    "Event",
    "Endpoints",
    "EndpointSlice",
    "Lease",
    "ControllerRevision",
    "PodMetrics",
    "NodeMetrics",
    "Node",
];

/// Reads the objects from the cluster.
async fn read(arguments: &Arguments) -> anyhow::Result<Vec<Json>> {
    let hub = arguments.connection.hub().await?;
    let mut objects = Vec::new();
    for typed in &arguments.objects {
        let reference = ObjectReference::parse(std::slice::from_ref(typed))?;
        let kind = hub.kind(&reference.kind)?;
        let object = hub.get(&kind, None, &reference.name).await;
        objects.push(object.with_context(|| format!("cannot read {typed}"))?);
    }
    let Some(selector) = &arguments.selector else { return Ok(objects) };
    let mut kinds = hub.client.discovery().kinds();
    kinds.retain(|kind| kind.namespaced && !SKIPPED.contains(&kind.kind.as_str()));
    kinds.sort_by(|a, b| (&a.group, &a.kind).cmp(&(&b.group, &b.kind)));
    for kind in kinds {
        // Some kinds cannot be listed, such as reviews; others the caller may not list.
        let Ok(found) = hub.list(&kind, Some(&hub.namespace), Some(selector)).await else { continue };
        let known = |object: &Json| {
            objects
                .iter()
                .any(|known: &Json| known.pointer("/metadata/uid") == object.pointer("/metadata/uid"))
        };
        let found: Vec<Json> = found.into_iter().filter(|object| !known(object)).collect();
        objects.extend(found);
    }
    Ok(objects)
}
